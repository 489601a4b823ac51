# Loose pages that a GPU keeps, on one that the processor makes up (test/emulated_cuda).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $emulated = $ENV{GPUSCAN_EMULATED_CUDA};
plan skip_all => 'run by test/check, which makes the GPU' if !defined $emulated;

$ENV{LD_LIBRARY_PATH} = $emulated;
my $node = start_node('kept', 'gpuscan.device' => 'cuda:0', 'gpuscan.device_cache_size' => '32MB', autovacuum => 'off', shared_buffers => '16MB', max_connections => 10,
	max_wal_senders => 0, max_worker_processes => 4, autovacuum_max_workers => 1);
my $query = q{SELECT count(*), sum(id), sum(v) FROM t WHERE s <> 'x5'};
my ($reader, $other) = map { session() } 1 .. 2;

sub session
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query_safe('SET gpuscan.force = on; SET enable_indexscan = off; SET enable_bitmapscan = off');
	return $session;
}

# Asks in a session; says whether the answer is right, and how many loose pages were the device's, of how many.
sub ask
{
	my ($session) = @_;
	my $ours = $session->query_safe($query);
	my $plan = $session->query_safe("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) $query");
	my $theirs = $session->query_safe("SET gpuscan.enabled = off; $query; RESET gpuscan.enabled");
	my ($loose) = $plan =~ /"Blocks Loose": (\d+)/;
	my ($kept) = $plan =~ /"Blocks Loose on Device": (\d+)/;
	my ($detoasted) = $plan =~ /"Tuples Detoasted": (\d+)/;
	my ($device) = $plan =~ /"Device": "(cuda:\d)/;

	return { right => $ours eq $theirs && $plan =~ /GpuAgg/ && $plan !~ /Replaced Plan/, loose => $loose, kept => $kept,
		detoasted => $detoasted, device => $device };
}

# Asks in a session, that many times before it counts; `kept` is all, some or none of the loose pages.
sub asks
{
	my ($session, $times, $kept, $name) = @_;
	my $asked;

	ask($session) for 1 .. $times;
	$asked = ask($session);
	ok($asked->{right}, "$name: the answer");
	is($asked->{kept} == 0 ? 'none' : $asked->{kept} == $asked->{loose} ? 'all' : 'some', $kept, "$name: pages from the device")
	  or diag("$asked->{kept} of $asked->{loose}");
	return $asked;
}

# Pages with a toasted text in some tuples
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v int, s text) WITH (fillfactor = 90);
	ALTER TABLE t ALTER s SET STORAGE EXTERNAL;
	INSERT INTO t SELECT i, i % 10, CASE WHEN i % 1000 = 7 THEN repeat('long', 1000) ELSE 'x' || i % 77 END FROM generate_series(1, 100000) i;
	VACUUM t;
	UPDATE t SET v = v + 1 WHERE id % 500 = 7;
	VACUUM (FREEZE) pg_class});

my $asked = asks($reader, 2, 'all', 'after some times');
cmp_ok($asked->{loose}, '>', 50, 'there are loose pages');
cmp_ok($asked->{detoasted}, '>', 20, 'with values that it cannot decode');
asks($other, 1, 'all', 'another session, sooner');

# What changes is read, until it has been seen twice
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id % 5000 = 7');
asks($reader, 0, 'some', 'behind an update');
asks($reader, 2, 'all', 'and later');
asks($other, 2, 'all', 'in the other session too');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 3000 = 7');
asks($other, 0, 'some', 'behind a delete');

# A snapshot that does not see a change
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
ok(ask($reader)->{right}, 'a snapshot: the answer');
$node->safe_psql('postgres', 'UPDATE t SET v = v + 100 WHERE id % 2500 = 8');
asks($other, 3, 'all', 'the others see a change, and the device keeps it');
ok(ask($reader)->{right}, 'the snapshot that does not see it: the answer');
$reader->query_safe('COMMIT');
asks($reader, 3, 'all', 'and when it does');

# A number that is not a page's any more
$node->safe_psql('postgres', q{SELECT gpuscan_evict('t')});
ok(ask($reader)->{right}, 'evicted: the answer');
asks($reader, 2, 'all', 'and kept again');
for (1 .. 8)
{
	$node->safe_psql('postgres', q{SELECT gpuscan_evict('t')});
	ask($other);
}
ok(ask($reader)->{right}, 'evicted, and the number another\'s: the answer');
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM gpuscan_service');
wait_until_offloaded($node);
ok(ask($reader)->{right}, 'another service: the answer');
asks($reader, 3, 'all', 'and kept there');
$node->safe_psql('postgres', 'VACUUM FULL t; VACUUM t; UPDATE t SET v = v + 1 WHERE id % 500 = 9');
asks($reader, 3, 'all', 'another file');

# More pages than there is room for, then more than a batch names
$node->safe_psql('postgres', q{
	CREATE TABLE large AS SELECT i AS id, i % 10 AS v, 'x' || i % 77 AS s FROM generate_series(1, 1000000) i;
	VACUUM large;
	UPDATE large SET v = v + 1 WHERE id % 300 = 0});
$query =~ s/\bt\b/large/;
$asked = asks($reader, 3, 'some', 'more than there is room for');
cmp_ok($asked->{kept}, '<=', 256, 'as many as there is room for');
$node->safe_psql('postgres', q{ALTER SYSTEM SET gpuscan.device_cache_size = '4GB'});
$node->reload;
$asked = asks($reader, 3, 'all', 'with room');
cmp_ok($asked->{kept}, '>', 2048, 'more than a batch names');

# Several relations
$node->safe_psql('postgres', q{
	CREATE TABLE parts (id int, v int, s text) PARTITION BY RANGE (id);
	CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10000);
	CREATE TABLE part2 (s text, dropped text, v int, id int);
	ALTER TABLE part2 DROP dropped;
	ALTER TABLE parts ATTACH PARTITION part2 FOR VALUES FROM (10000) TO (20000);
	INSERT INTO parts SELECT i, i % 10, 'x' || i % 77 FROM generate_series(1, 19999) i;
	VACUUM part1, part2;
	UPDATE parts SET v = v + 1 WHERE id % 500 = 0});
$query =~ s/large/parts/;
asks($reader, 1, 'all', 'partitions');
$query =~ s/parts/t/;

# A backend that is cancelled, and its pins with it, while the device copies its pages; others come into the buffers.
my $admin = $node->background_psql('postgres', on_error_stop => 1);
my $aborted = 0;
my $wrong = 0;

$admin->query_safe('SET gpuscan.enabled = off; CREATE EXTENSION pg_prewarm');
for my $i (1 .. 20)
{
	# most pages change, and are seen once
	$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id % 100 = 0 AND id < 90000');
	$other->query_safe($query);
	$aborted += cancel_behind_service($node, $other, $query, 0.001 * ($i % 10), $admin, q{SELECT pg_prewarm('large')});
	$wrong += !ask($other)->{right} for 1 .. 3;
}
cmp_ok($aborted, '>', 2, "queries were cancelled while the service stood still ($aborted)");
is($wrong, 0, 'copies of pages that nobody had pinned are not taken over');

# A device keeps what it has been given
$node->append_conf('postgresql.conf', "gpuscan.device = 'cuda:0,cuda:1'");
$_->quit foreach ($reader, $other, $admin);
$node->restart;
wait_until_offloaded($node);
($reader, $other) = map { session() } 1 .. 2;
$node->safe_psql('postgres', 'VACUUM t; UPDATE t SET v = v + 1 WHERE id % 500 = 9');
asks($reader, 1, 'all', 'the first of two devices');
$other->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM t WHERE v >= 0; FETCH 10 FROM c');
$asked = ask($reader);
ok($asked->{right} && $asked->{device} eq 'cuda:1', 'the second, while the other is in use: the answer');
asks($reader, 1, 'all', 'the second');
$other->query_safe('COMMIT');
asks($reader, 0, 'all', 'the first again');

$_->quit foreach ($reader, $other);
no_requests_left($node, 'no request is left');
$node->stop('fast');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal (?!9|15)|TRAP:/, 'nothing crashed');

done_testing();
