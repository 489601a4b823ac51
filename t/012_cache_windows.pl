# The cache in windows that nothing but a stopped process opens: a backend that aborts while a device reads its pages,
# and a standby that gets a page's flag with no record that says so.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# A backend aborts, and its pins with it, while the device makes columns of its pages; other pages come into the buffers.
my $columns = 20;
my $node = start_node('aborted', 'gpuscan.device' => 'cpu', autovacuum => 'off', shared_buffers => '64MB', max_connections => 10,
	max_wal_senders => 0, max_worker_processes => 4, autovacuum_max_workers => 1);
foreach my $table ([ 'a', 1, 60_000 ], [ 'b', 1000, 600_000 ])
{
	my ($name, $factor, $rows) = @$table;

	$node->safe_psql('postgres', "CREATE TABLE $name AS SELECT "
		  . join(', ', map { "i * $factor + $_ AS c$_" } 1 .. $columns) . " FROM generate_series(1, $rows) i; VACUUM $name");
}
$node->safe_psql('postgres', 'CREATE EXTENSION pg_prewarm');
# the filter costs little, so that most of the time goes into the columns
my $load = 'SELECT ' . join(', ', map { "sum(c$_)" } 1 .. $columns) . ' FROM a WHERE c1 < 0';
my $all = $load =~ s/ WHERE.*//r;
my $victim = $node->background_psql('postgres', on_error_stop => 0);
my $admin = $node->background_psql('postgres', on_error_stop => 1);
my $aborted = 0;
my $expected = $node->safe_psql('postgres', "SET gpuscan.enabled = off; $all");
my $wrong = 0;

$victim->query_safe('SET gpuscan.force = on; SET gpuscan.cpu_threads = 1; SET max_parallel_workers_per_gather = 0');
$admin->query_safe('SET gpuscan.enabled = off');
for my $i (1 .. 25)
{
	$node->safe_psql('postgres', "SELECT gpuscan_evict('a'), pg_prewarm('a')");
	$aborted += cancel_behind_service($node, $victim, $load, 0.002 * ($i % 12), $admin, q{SELECT pg_prewarm('b')});
	$wrong += $node->safe_psql('postgres', "SET gpuscan.force = on; $all") ne $expected;
}
$victim->quit;
$admin->quit;
cmp_ok($aborted, '>', 5, "queries were cancelled while the service stood still ($aborted)");
is($wrong, 0, 'what was made of pages that nobody had pinned is not taken over');
$node->stop('fast');

# The flag of a page says that all see its tuples, with no record of that: a primary that crashed after it
# had written the page, before the record, may give it to a standby in the copy of a whole page.
my $primary = start_node('primary', 'gpuscan.device' => 'cpu', streaming => 1, autovacuum => 'off');
$primary->safe_psql('postgres', q{
	CREATE TABLE t AS SELECT i AS id, i % 10 AS v FROM generate_series(1, 20000) i;
	DELETE FROM t WHERE id BETWEEN 1000 AND 1010;
	VACUUM t});
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nwal_retrieve_retry_interval = '100ms'");
$standby->start;
wait_until_offloaded($standby);

my $query = 'SELECT count(*), sum(v) FROM t';
my $holder = $standby->background_psql('postgres', on_error_stop => 1);
my $reader = $standby->background_psql('postgres', on_error_stop => 1);
$holder->query_safe('SELECT pg_advisory_lock(1)');
$reader->query_safe('SET gpuscan.force = on; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT id FROM t LIMIT 1');
start_query($reader, "SET gpuscan.inject_fault = 'wait:load';\n$query");
ok($standby->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}),
	'a query on the standby waits, the first page read');

my $ctid = $primary->safe_psql('postgres', 'INSERT INTO t VALUES (30000, 1000000) RETURNING ctid');
my ($block) = $ctid =~ /\((\d+),/;
cmp_ok($block, '>', 0, 'a row is inserted into another page');
cmp_ok($block, '<', 64, 'of the range that is being read');
my $file = $primary->data_dir . '/' . $primary->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});
$primary->stop('fast');
open(my $out, '+<:raw', $file) or die;
my $flags;
seek($out, $block * 8192 + 10, 0);
read($out, $flags, 2);
seek($out, $block * 8192 + 10, 0);
print $out pack('S', unpack('S', $flags) | 4);
close $out;
$primary->start;
$primary->safe_psql('postgres', "SELECT id FROM t WHERE ctid = '($block,1)' FOR UPDATE");
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$holder->query_safe('SELECT pg_advisory_unlock(1)');
like(end_query($reader), qr/^19989\|89955$/m, 'it does not see the row');
$reader->query_safe('COMMIT');
$_->quit foreach ($holder, $reader);
same_answer($standby, $query, 'a later one does') for 1 .. 2;
$standby->stop('fast');
$primary->stop('fast');

done_testing();
