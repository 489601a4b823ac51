# Compiled kernels on disk, what EXPLAIN says of kernels, and ranges for profilers: with a GPU that is made up (test/fake_cuda).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $fake = $ENV{GPUSCAN_FAKE_CUDA};
plan skip_all => 'run by test/check, which makes the GPUs' if !defined $fake;

$ENV{LD_LIBRARY_PATH} = $fake;
$ENV{NVTX_INJECTION64_PATH} = 'any';
my $node = start_node('kernels', 'gpuscan.device' => 'cuda:0');
my $folder = $node->data_dir . '/gpuscan_kernels';
my $query = 'SELECT id FROM t WHERE id < 0';
fill($node, 60_000);
# so that every run is one over pages
$node->safe_psql('postgres', q{SECURITY LABEL FOR gpuscan ON TABLE t IS 'never cache'});

sub plan_text
{
	my ($options) = @_;

	return $node->safe_psql('postgres', "SET gpuscan.force = on; EXPLAIN (ANALYZE, COSTS OFF, $options) $query");
}

# Where the kernel of the query comes from.
sub origin { return plan_text('SUMMARY OFF') =~ /Kernel: (.*)/ ? $1 : undef }

sub kernels
{
	my @files = glob("$folder/*.kernel");

	return @files;
}

sub restart
{
	$node->restart;
	wait_until_offloaded($node);
}

my %before = map { $_ => 1 } kernels();
like(origin(), qr/^compiled in \d+\.\d ms$/, 'the first run compiles');
my ($file, @more) = grep { !$before{$_} } kernels();
ok(defined $file && !@more, 'and keeps a file');
is((stat $folder)[2] & 0777, 0700, 'the folder is the server\'s alone');
is((stat $file)[2] & 0777, 0600, 'and so is the file');
is(origin(), 'reused', 'the second run compiles nothing');
same_answer($node, $query, 'its answer is right');

# The counters
my $text = plan_text('SUMMARY OFF');
like($text, qr/Bus Traffic: \d{3,} kB/, 'bytes over the bus');
like($text, qr/Kernel Time: \d+\.\d{3} ms/, 'the time of kernels');
$text = plan_text('TIMING OFF, SUMMARY OFF');
unlike($text, qr/Kernel Time|Kernel: .* ms/, 'no times without TIMING');
like(plan_text('FORMAT JSON'), qr/"Kernel": "reused".*"Bus Traffic": \d+.*"Kernel Time": \d+\.\d+/s, 'JSON has them too');

# After a restart
restart();
append_to_file("$fake/no-compiler", '');
like(origin(), qr/^read from disk in \d+\.\d ms$/, 'a restart compiles nothing');
same_answer($node, $query, 'its answer is right too');
unlink "$fake/no-compiler";

# A file that is damaged
restart();
my $content = slurp_file($file);
open my $out, '>', $file or die;
print $out substr($content, 0, -1);
close $out;
like(origin(), qr/^compiled in/, 'half a file is not used');
is(slurp_file($file), $content, 'and is written again');

# An image that this driver does not load
append_to_file("$fake/other-driver", '');
restart();
like(origin(), qr/^compiled in/, 'an image that cannot be loaded is compiled again');
isnt(slurp_file($file), $content, 'and kept in its place');
same_answer($node, $query, 'the answer is right');
unlink "$fake/other-driver";

# None are kept.
$node->append_conf('postgresql.conf', 'gpuscan.kernel_cache_size = 0');
unlink kernels();
restart();
like(origin(), qr/^compiled in/, 'without the setting every start compiles');
is(scalar(kernels()), 0, 'and keeps nothing');

# What a profiler sees
$node->safe_psql('postgres', 'SET gpuscan.force = on; SELECT count(*) FROM t WHERE id < 0');
$node->stop('fast');
my $ranges = slurp_file("$fake/ranges");
like($ranges, qr/^begin gpuscan $_$/m, "a range for $_") foreach qw(compile launch finish fetch);
is(scalar(() = $ranges =~ /^begin/mg), scalar(() = $ranges =~ /^end/mg), 'every range ends');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal (?!9|15)|TRAP:/, 'nothing crashed');

done_testing();
