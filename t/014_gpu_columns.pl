# Columns on a GPU that is made up (test/fake_cuda): loaded by its threads, in two tiers, moved, given back.
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
my $node = start_node('columns', 'gpuscan.device' => 'cuda:0');
fill($node, 200_000);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub prewarm { sql(q{SELECT gpuscan_prewarm('t')}) }

# Waits until the view of devices, which is brought up to date from time to time, agrees.
sub devices_show
{
	my ($condition, $name) = @_;

	ok($node->poll_query_until('postgres', "SELECT $condition FROM gpuscan_devices"), $name);
}

prewarm();
is(sql(q{SELECT string_agg("column", ' ' ORDER BY "column") FROM gpuscan_cache WHERE blocks_cached = blocks_settled}),
	'a b f id n pad', 'every column of every block');
is(sql('SELECT bool_and(device_bytes > 50000 AND host_bytes < 10000) FROM gpuscan_cache'), 't', 'is in device memory');
devices_show('memory_used BETWEEN 2000000 AND 4000000', 'which the device has counted');

# Less room than there are columns, then none
sql(q{ALTER SYSTEM SET gpuscan.device_cache_size = '1MB'});
$node->reload;
devices_show('memory_used BETWEEN 500000 AND 1048576 AND host_cache_used > 100000', 'with less room, some are elsewhere');
sql(q{ALTER SYSTEM SET gpuscan.device_cache_size = 0});
$node->reload;
devices_show('memory_used = 0 AND host_cache_used > 100000', 'without room all are in the host\'s memory');
prewarm();
is(sql('SELECT count(*), sum(device_bytes) < 10000, sum(host_bytes) > 2000000 FROM gpuscan_cache'), '6|t|t', 'as is what is loaded then');

# Room again; and nothing is left
sql('ALTER SYSTEM RESET gpuscan.device_cache_size');
$node->reload;
sql('SELECT gpuscan_evict(\'t\')');
devices_show('memory_used = 0 AND host_cache_used < 100000', 'what is evicted is given back');
prewarm();
is(sql('SELECT bool_and(device_bytes > 50000) FROM gpuscan_cache'), 't', 'and loaded anew');
sql('DROP TABLE t');
no_requests_left($node, 'no request is left');
$node->stop('fast');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal (?!9|15)|TRAP:/, 'nothing crashed');

done_testing();
