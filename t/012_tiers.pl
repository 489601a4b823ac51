# Columns in two tiers, on GPUs that are made up (test/fake_cuda): they run no kernel, so it is the views that are looked at.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $fake = $ENV{GPUSCAN_FAKE_CUDA};
plan skip_all => 'run by test/check, which makes the GPUs' if !defined $fake;
$ENV{LD_LIBRARY_PATH} = $fake;

my $mb = 1024 * 1024;
my $node;

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Has a column v be read, and shows the plan.
sub read_v { return sql("SET gpuscan.force = on; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT sum(v) FROM $_[0]") }

# What the cache has of a table
sub cached { return sql("SELECT coalesce(sum($_[1]), 0) FROM gpuscan_cache WHERE relation = '$_[0]'::regclass" . (defined $_[2] ? " AND device = '$_[2]'" : '')) }

sub set
{
	my %settings = @_;

	sql("ALTER SYSTEM SET $_ = '$settings{$_}'") foreach sort keys %settings;
	$node->reload;
}

sub poll { ok($node->poll_query_until('postgres', "SELECT $_[0]"), $_[1]) }

# Bytes of a table's columns without those of dictionaries, which are next to nothing here
sub poll_bytes { poll("coalesce(sum($_[1]), 0) $_[2] FROM gpuscan_cache WHERE relation = '$_[0]'::regclass", $_[3]) }

# No tier has more than its limit, ever.
sub within_limits
{
	my ($name) = @_;

	is(sql(q{
		SELECT bool_and(cache_used <= cache_limit + 1000 /* dictionaries */), sum(host_cache_used) <= pg_size_bytes(current_setting('gpuscan.cpu_cache_size'))
		FROM gpuscan_devices WHERE state = 'running'}), 't|t', "$name: within the limits");
}

sub make_tables
{
	my (@names) = @_;

	sql("CREATE TABLE $_ AS SELECT (i::bigint * 2654435761) % 4294967296 AS v FROM generate_series(1, 300000) i; VACUUM $_") foreach @names;
}

$node = start_node('tiers', 'gpuscan.device' => 'cuda:0', autovacuum => 'off',
	'gpuscan.device_cache_size' => '2MB', 'gpuscan.cpu_cache_size' => '4MB');
make_tables('a', 'b', 'c');
is(sql('SELECT cache_limit, cache_used, host_cache_used FROM gpuscan_devices'), 2 * $mb . '|0|0', 'the cache is empty');

# There is room for one.
like(read_v('a'), qr/Blocks Loaded/, 'a is loaded');
my $bytes = cached('a', 'device_bytes');
cmp_ok($bytes, '>', $mb, 'into device memory');
cmp_ok(cached('a', 'host_bytes'), '<', 1000, 'all of it');
like(read_v('a'), qr/Blocks Cached: (\d+)\n\s+Blocks from Device Memory: \1\n/, 'that is what EXPLAIN says');
unlike(read_v('a'), qr/Host Memory/, 'and no more');

# A second takes its place.
like(read_v('b'), qr/Blocks Loaded/, 'b is loaded');
is(cached('b', 'device_bytes'), $bytes, 'into device memory');
cmp_ok(cached('a', 'host_bytes'), '>', 50_000, 'a part of the first goes to host memory');
within_limits('two tables');

# Used again, it comes back.
like(read_v('a'), qr/Blocks from Device Memory: \d+\n\s+Blocks from Host Memory: \d+\n/, 'EXPLAIN shows both parts');
poll_bytes('a', 'host_bytes', '< 1000', 'what is used again is promoted');
is(cached('a', 'device_bytes'), $bytes, 'all of it');
cmp_ok(cached('b', 'host_bytes'), '>', 50_000, 'a part of the other makes room');
within_limits('promoted');

# The one used least recently goes first.
read_v('b');
poll_bytes('b', 'host_bytes', '< 1000', 'the other is promoted');
read_v('c');
cmp_ok(cached('a', 'device_bytes'), '<', $bytes / 20, 'nothing is left there of the one used least recently');
is(cached('c', 'device_bytes'), $bytes, 'the newest is there');
within_limits('three tables');

# A relation that is always cached does not leave for others.
sql(q{SECURITY LABEL FOR gpuscan ON TABLE a IS 'always cache'});
read_v('a');
poll_bytes('a', 'host_bytes', '< 1000', 'always cached: promoted');
is(cached('a', 'device_bytes'), $bytes, 'always cached: in device memory');
foreach my $table (qw(b c b c))
{
	read_v($table);
	is(cached('a', 'device_bytes'), $bytes, "always cached: it stays there beside $table");
}
within_limits('always cached');

# The host's memory is full too.
set('gpuscan.cpu_cache_size' => '1MB');
poll("host_cache_used <= $mb FROM gpuscan_devices", 'a lower limit of host memory is kept');
read_v($_) foreach qw(b c);
within_limits('less host memory');
is(cached('a', 'device_bytes'), $bytes, 'what is always cached is still there');
sql('SECURITY LABEL FOR gpuscan ON TABLE a IS NULL');
read_v('a');

# Limits change.
set('gpuscan.device_cache_size' => '1MB', 'gpuscan.cpu_cache_size' => '4MB');
poll("cache_used <= $mb FROM gpuscan_devices", 'a lower limit of device memory is kept');
set('gpuscan.device_cache_size' => 0);
poll('cache_used < 10000 FROM gpuscan_devices', 'none is in device memory where none may be');
within_limits('host memory alone');
read_v('b');
cmp_ok(cached('b', 'host_bytes'), '>', $mb, 'columns are loaded into host memory alone');
like(read_v('b'), qr/Blocks Cached: (\d+)\n\s+Blocks from Host Memory: \1\n/, 'and read there');
set('gpuscan.device_cache_size' => '10MB');
poll('cache_limit = 10 * 1024 * 1024 FROM gpuscan_devices', 'there is more device memory');
read_v('b');
poll_bytes('b', 'host_bytes', '< 1000', 'they are promoted as soon as there is room');
read_v($_) foreach qw(a b c a b c);
poll('sum(host_bytes) < 1000 FROM gpuscan_cache', 'so are all others');
is(cached($_, 'device_bytes'), $bytes, "$_ is in device memory") foreach qw(a b c);

# Device memory alone
set('gpuscan.cpu_cache_size' => 0, 'gpuscan.device_cache_size' => '2MB');
poll('cache_used <= cache_limit FROM gpuscan_devices', 'there is less room');
read_v('a');
is(cached('a', 'device_bytes'), $bytes, 'columns are cached where host memory has none');
is(sql('SELECT cache_used <= cache_limit, host_cache_used < 100000 FROM gpuscan_devices'), 't|t', 'and no more in host memory than what is known of them');
sql("SELECT gpuscan_evict('$_')") foreach qw(a b c);
is(sql('SELECT cache_used, host_cache_used FROM gpuscan_devices'), '0|0', 'nothing is left');
$node->stop('fast');

# Two GPUs: each has its own.
$node = start_node('both', 'gpuscan.device' => 'cuda:0, cuda:1', autovacuum => 'off',
	'gpuscan.kernel_cache_size' => 0, 'gpuscan.cache_refresh_interval' => 1);
make_tables('a', 'b');
like(read_v('a'), qr/Device: cuda:0/, 'the first one serves');
my $blocks = cached('a', 'blocks_cached', 'cuda:0');
cmp_ok($blocks, '>', 0, 'it has columns');
my $file = $node->data_dir . '/gpuscan_columns';
poll(q{count(*) = 1 FROM pg_stat_file('gpuscan_columns', true) WHERE size > 0}, 'which are remembered');
$node->stop('fast');
my $content = slurp_file($file);
$content =~ s/\n1 columns\n(.*),cuda:0\n/\n2 columns\n$1,cuda:0\n$1,cuda:1\n/ or die $content;
open(my $out, '>', $file) or die;
print $out $content;
close $out;
append_to_file("$fake/no-compiler", '');
$node->start;

# What is loaded in the background goes where it was; and needs no kernel.
my $expected = sub {
	"string_agg(device || ' ' || blocks_cached, ', ' ORDER BY device) = 'cuda:0 $_[0], cuda:1 $_[0]' FROM gpuscan_cache WHERE relation = 'a'::regclass";
};
poll($expected->($blocks), 'each loads its own columns');
sql('INSERT INTO a SELECT * FROM a; VACUUM a');
my $pages = sql(q{SELECT relallvisible FROM pg_class WHERE relname = 'a'});
poll($expected->($pages), 'after VACUUM both load what has changed');
$node->restart;
poll($expected->($pages), 'after a restart both load what they had');
is(sql(q{SELECT string_agg(state || ' ' || failures, ', ') FROM gpuscan_devices}), 'running 0, running 0', 'no device failed');
unlike(slurp_file($node->logfile), qr/does not compile/, 'no kernel was compiled');
unlink "$fake/no-compiler";

# Evicting is for all.
set('gpuscan.cache_refresh_interval' => 0);
my $all = sql('SELECT sum(cache_used + host_cache_used) FROM gpuscan_devices');
cmp_ok($all, '>', 0, 'both have columns');
is(sql(q{SELECT gpuscan_evict('a')}), $all, 'evicting drops those of both');
is(sql('SELECT sum(cache_used + host_cache_used) FROM gpuscan_devices'), 0, 'nothing is left');

# One that does not serve any more
$node->append_conf('postgresql.conf', q{gpuscan.device = 'cuda:1'});
$node->stop('fast');
open($out, '>', $file) or die;
print $out $content;
close $out;
$node->append_conf('postgresql.auto.conf', 'gpuscan.cache_refresh_interval = 1');
$node->start;
poll("count(*) = 1 AND min(device) = 'cuda:1' AND min(blocks_cached) = $pages FROM gpuscan_cache WHERE relation = 'a'::regclass",
	'what a GPU had that does not serve any more is loaded on another one');
$node->stop('fast');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal (?!9|15)|TRAP:/, 'nothing crashed');

done_testing();
