# The column cache where a server is needed that is not like the others: a standby, a crash, settings, WAL left out.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $query = 'SELECT a, count(*), sum(n), max(id), count(DISTINCT b) FROM t GROUP BY a ORDER BY a';

# Blocks of the query that came from the cache, or were read.
sub blocks
{
	my ($node, $kind, $of) = @_;
	my $plan = $node->safe_psql('postgres',
		"SET gpuscan.force = on; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) @{[ $of // $query ]}");

	return $plan =~ /Blocks $kind: (\d+)/ ? $1 : 0;
}

# Loads, and says whether everything is cached then.
sub all_cached
{
	my ($node, $name) = @_;

	same_answer($node, $query, "$name, loading");
	cmp_ok(blocks($node, 'Cached'), '>', 0, "$name: cached");
	is(blocks($node, 'Read'), 0, "$name: nothing is read");
	same_answer($node, $query, "$name, cached");
}

my $primary = start_node('primary', 'gpuscan.device' => 'cpu', streaming => 1, autovacuum => 'off');
fill($primary, 60_000);
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = -1');
$standby->start;
wait_until_offloaded($standby);

sub catch_up { $primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert')) }

# On a standby the map alone says what is settled.
catch_up();
all_cached($standby, 'standby');
foreach my $change (
	[ 'updated', 'UPDATE t SET a = 3 WHERE id % 700 = 0' ],
	[ 'deleted', 'DELETE FROM t WHERE id BETWEEN 1000 AND 1500' ],
	[ 'inserted', "INSERT INTO t SELECT i, i % 10, 'new', 1, 1, 'pad' FROM generate_series(70001, 70100) i" ],
	[ 'column added', 'ALTER TABLE t ADD COLUMN extra int DEFAULT 4' ])
{
	my ($name, $sql) = @$change;

	$primary->safe_psql('postgres', $sql);
	catch_up();
	same_answer($standby, $query, "standby, $name");
	same_answer($standby, $query, "standby, $name, again");
	$primary->safe_psql('postgres', 'VACUUM t');
	catch_up();
	all_cached($standby, "standby, $name, vacuumed");
}
$primary->safe_psql('postgres', 'VACUUM FREEZE t');
catch_up();
all_cached($standby, 'standby, frozen');

# Writers there, readers here
my @dsn = map { 'host=' . $_->host . ' port=' . $_->port . ' dbname=postgres' } ($primary, $standby);
command_ok([ 'python3', 'test/fuzz/cache.py', '--dsn', $dsn[0], '--reader-dsn', $dsn[1],
		'--seconds', $ENV{CACHE_SECONDS} // 15, '--writers', 2, '--readers', 2, '--rows', 10000 ],
	'a standby answers as PostgreSQL does while changes arrive');
catch_up();
$standby->promote;
all_cached($standby, 'promoted');
$standby->safe_psql('postgres', 'UPDATE t SET a = 4 WHERE id % 900 = 0');
same_answer($standby, $query, 'promoted, updated');
$standby->safe_psql('postgres', 'VACUUM t');
all_cached($standby, 'promoted, vacuumed');
$standby->stop('fast');

# After a crash LSNs may come again, and nothing is cached.
all_cached($primary, 'primary');
$primary->safe_psql('postgres', 'UPDATE t SET a = 5 WHERE id % 800 = 0; VACUUM t');
$primary->stop('immediate');
$primary->start;
wait_until_offloaded($primary);
is(blocks($primary, 'Cached'), 0, 'nothing is cached after a crash');
$primary->safe_psql('postgres', 'VACUUM t');
all_cached($primary, 'after a crash');

# The service alone exits
$primary->psql('postgres', "SET gpuscan.force = on; SET gpuscan.inject_fault = 'service-exit:push'; $query");
wait_until_offloaded($primary);
is(blocks($primary, 'Cached'), 0, 'nothing is cached after the service exited');
all_cached($primary, 'after the service exited');

# Less memory than the columns need: what fits stays, the rest is read.
$primary->append_conf('postgresql.conf', 'gpuscan.cpu_cache_size = 1');
$primary->reload;
$primary->safe_psql('postgres', q{
	CREATE TABLE big AS SELECT i AS id, (i::bigint * 2654435761) % 4294967296 AS v, md5(i::text) AS s FROM generate_series(1, 200000) i;
	VACUUM big;
	SELECT gpuscan_evict('t')});
my $large = 'SELECT count(*), sum(id), sum(v) FROM big';
same_answer($primary, $large, 'a column that does not fit, loading');
cmp_ok(blocks($primary, 'Cached', $large), '>', 0, 'a part is cached');
cmp_ok(blocks($primary, 'Read', $large), '>', 0, 'a part is read');
my $part = blocks($primary, 'Cached', $large);
same_answer($primary, $large, 'a column that does not fit') for 1 .. 3;
is(blocks($primary, 'Cached', $large), $part, 'the same part stays');
is(blocks($primary, 'Loaded', $large), 0, 'and the rest is not loaded again in vain');
cmp_ok($primary->safe_psql('postgres', 'SELECT sum(bytes) FROM gpuscan_cache'), '<=', 1024 * 1024, 'within the limit');

# Other columns drive it out.
all_cached($primary, 'the columns of another table');
same_answer($primary, $large, 'what was driven out');
$primary->append_conf('postgresql.conf', 'gpuscan.cpu_cache_size = 0');
$primary->reload;
$primary->poll_query_until('postgres', q{SELECT current_setting('gpuscan.cpu_cache_size') = '0'});
is(blocks($primary, 'Cached'), 0, 'nothing comes from a cache that is off');
same_answer($primary, $query, 'without the cache');
$primary->stop('fast');

# WAL left out: the file is cached after the commit, when WAL is written again.
my $minimal = start_node('minimal', 'gpuscan.device' => 'cpu', wal_level => 'minimal', max_wal_senders => 0, autovacuum => 'off', wal_skip_threshold => '1GB');
my $path = PostgreSQL::Test::Utils::tempdir() . '/rows';
$minimal->safe_psql('postgres', qq{
	CREATE TABLE t (id int, a int, b text, n numeric(8,2));
	INSERT INTO t SELECT i, i % 10, 'x' || i % 9, i FROM generate_series(1, 30000) i;
	COPY t TO '$path';
	BEGIN; TRUNCATE t; COPY t FROM '$path' (FREEZE); COMMIT});
all_cached($minimal, 'frozen without WAL');
$minimal->safe_psql('postgres', 'UPDATE t SET a = 3 WHERE id % 700 = 0');
same_answer($minimal, $query, 'frozen without WAL, updated');
$minimal->safe_psql('postgres', 'VACUUM t');
all_cached($minimal, 'frozen without WAL, vacuumed');
is($minimal->safe_psql('postgres', qq{
	SET gpuscan.force = on;
	BEGIN; TRUNCATE t; COPY t FROM '$path' (FREEZE);
	SELECT count(*) FROM t;
	INSERT INTO t SELECT * FROM t;
	SELECT count(*) FROM t;
	COMMIT;
	SELECT count(*) FROM t}), "30000\n60000\n60000", 'in the transaction that leaves WAL out');

# Another file with the same LSNs, which are zero: those of pages that WAL has never seen
same_answer($minimal, $query, 'after that transaction');
$minimal->safe_psql('postgres', qq{
	COPY (SELECT id, a + 1, b, n * 2 FROM t LIMIT 30000) TO '$path.new';
	SET wal_skip_threshold = 0;
	BEGIN; TRUNCATE t; COPY t FROM '$path' (FREEZE); COMMIT});
all_cached($minimal, 'a file without WAL');
$minimal->safe_psql('postgres', "SET wal_skip_threshold = 0; BEGIN; TRUNCATE t; COPY t FROM '$path.new' (FREEZE); COMMIT");
all_cached($minimal, 'another file without WAL');

# A snapshot that may be too old
$minimal->append_conf('postgresql.conf', 'old_snapshot_threshold = 1h');
$minimal->restart;
wait_until_offloaded($minimal);
same_answer($minimal, $query, 'with old_snapshot_threshold') for 1 .. 2;
is(blocks($minimal, 'Cached'), 0, 'with old_snapshot_threshold nothing is cached');
$minimal->stop('fast');

done_testing();
