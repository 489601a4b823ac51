# The cache and relations of more than one page of the visibility map: each is answered as a whole, or in detail.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Blocks that one page of the map speaks of
use constant PAGE => 32672;

my $query = 'SELECT s, count(*), sum(id), sum(v) FROM t GROUP BY s ORDER BY s';
my $node = start_node('main', 'gpuscan.device' => 'cpu', autovacuum => 'off', shared_buffers => '64MB', fsync => 'off',
	# VACUUM passes over a page that the background writer has just pinned
	bgwriter_lru_maxpages => 0, checkpoint_timeout => '1h');

# Blocks of a query: cached, read, loose
sub blocks
{
	my $plan = $node->safe_psql('postgres',
		"SET gpuscan.force = on; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) @{[ $_[0] // $query ]}");

	return map { $plan =~ /Blocks $_: (\d+)/ ? $1 : 0 } qw(Cached Read Loose);
}

sub relation_blocks
{
	return $node->safe_psql('postgres', q{SELECT pg_relation_size('t') / 8192});
}

# Three times: what is kept of the first answer is used by the second and the third.
sub same_answers
{
	my ($name) = @_;

	same_answer($node, $query, "$name, $_") foreach 'first', 'second', 'third';
}

# After loading all comes from the cache, however often it is asked for.
sub all_cached
{
	my ($name) = @_;

	same_answer($node, $query, "$name, loading") for 1 .. 8;
	foreach my $time ('once', 'twice')
	{
		my ($cached, $read) = blocks();

		is($read, 0, "$name: nothing is read, $time");
		is($cached, relation_blocks(), "$name: all is cached, $time");
	}
	same_answers($name);
}

# A row of a page each, so that few rows make many blocks
sub insert
{
	my ($from, $to) = @_;

	return "INSERT INTO t SELECT i, i % 5, 'key ' || i % 9, repeat('x', 1000) FROM generate_series($from, $to) i;";
}
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, v int, s text, pad text) WITH (fillfactor = 10);
	ALTER TABLE t ALTER pad SET STORAGE PLAIN;} . insert(1, PAGE - 100) . 'VACUUM t');
is(relation_blocks(), PAGE - 100, 'a row a page');
ok(ours($node, $query), 'the query is ours');
all_cached('one page');

# It grows: within the map page, to its end, beyond
$node->safe_psql('postgres', insert(PAGE - 99, PAGE - 50));
same_answers('grown');
$node->safe_psql('postgres', 'VACUUM t');
all_cached('grown and vacuumed');
$node->safe_psql('postgres', insert(PAGE - 49, PAGE));
same_answers('full');
$node->safe_psql('postgres', 'VACUUM t');
all_cached('full and vacuumed');
is(relation_blocks(), PAGE, 'a whole page of the map');
$node->safe_psql('postgres', insert(PAGE + 1, PAGE + 1));
same_answers('a block beyond');
$node->safe_psql('postgres', insert(PAGE + 2, PAGE + 300));
same_answers('two pages');
$node->safe_psql('postgres', 'VACUUM t');
all_cached('two pages, vacuumed');

# A write to one of them; the other is answered as before.
$node->safe_psql('postgres', 'UPDATE t SET v = 6 WHERE id = 20000');
same_answers('an update');
my ($cached, $read, $loose) = blocks();
cmp_ok($read, '<', 10, 'only what has changed is read');
is($cached + $read, relation_blocks(), 'the rest is cached');
my $other = $node->background_psql('postgres');
$other->query_safe('BEGIN');
$other->query_safe('DELETE FROM t WHERE id = 32700');
same_answers('a row deleted, not yet committed');
$other->query_safe('COMMIT');
$other->quit;
same_answers('committed');
$node->safe_psql('postgres', 'VACUUM t');
all_cached('updated and vacuumed');
$node->safe_psql('postgres', 'VACUUM FREEZE t');
all_cached('frozen');
# with no question in between
$node->safe_psql('postgres', 'UPDATE t SET v = 7 WHERE id = 20001; VACUUM t');
all_cached('updated and vacuumed at once');

# Changed and settled again with no query in between
$node->safe_psql('postgres', 'UPDATE t SET v = 7 WHERE id IN (100, 32700); VACUUM t');
same_answers('changed and vacuumed');
all_cached('changed and vacuumed');

# Truncated to one page of the map, and grown again
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 32000; VACUUM t');
cmp_ok(relation_blocks(), '<', PAGE, 'truncated');
same_answers('truncated');
$node->safe_psql('postgres', insert(40001, 41000));
same_answers('grown again');
$node->safe_psql('postgres', 'VACUUM t');
all_cached('grown again, vacuumed');

# Other columns, in another order; what is kept of one list is not taken for another
foreach my $columns ('sum(v), sum(id)', 'sum(id), sum(v)', 'sum(id)', 'count(*)', 'count(DISTINCT s), min(id)')
{
	my $other_query = "SELECT $columns FROM t";

	same_answer($node, $other_query, "$columns, $_") foreach 'loading', 'cached', 'kept';
	is((blocks($other_query))[1], 0, "$columns: nothing is read");
}

# Scans: they ask page by page, and read only blocks with rows of theirs, in the table's order.
$node->safe_psql('postgres', insert(41001, 42500) . 'VACUUM t');
cmp_ok(relation_blocks(), '>', PAGE + 500, 'two pages again');
my $scan = 'SELECT id, v FROM t WHERE id % 10000 = 77 OR id BETWEEN 200 AND 600 OR id = 42400 ORDER BY id';
foreach my $time ('loading', 'cached', 'kept')
{
	same_answer($node, $scan, "a scan, $time");
	is($node->safe_psql('postgres', "SET gpuscan.force = on; SELECT array_agg(id) = array_agg(id ORDER BY ctid) FROM (SELECT id, ctid FROM t WHERE v = 3 OFFSET 0) q"), 't', "in order, $time");
}
sub scanned { my ($cached, $read) = blocks($_[0] // $scan); return ($cached == relation_blocks() && $read < 1000, "$cached blocks cached, $read read"); }
ok(scanned());
$node->safe_psql('postgres', 'UPDATE t SET v = v WHERE id = 42400');
same_answer($node, $scan, 'a scan, a row of the second page of the map is updated');
$node->safe_psql('postgres', 'VACUUM t');
same_answer($node, $scan, "a scan, and vacuumed, $_") foreach 1 .. 3;
ok(scanned());
# a LIMIT that the first page of the map fulfils does not ask about the second
my ($asked) = blocks('SELECT id FROM t WHERE id > 0 LIMIT 10');
is($asked, PAGE, 'one page of the map was asked about');
# and by an expression that is a column
my $by_expression = q{SELECT id, v FROM t WHERE s || id ~ '^key [37](5|42400|.*77)$' ORDER BY id};
same_answer($node, $by_expression, "a scan by an expression, $_") foreach 'loading', 'cached', 'kept';
ok(scanned($by_expression));
($asked) = blocks(q{SELECT id FROM t WHERE s || id ~ '^key [37]' LIMIT 10});
is($asked, PAGE, 'of it too');
# whatever fails, also when rows were returned and the second page was not asked about: the rest is read
foreach my $push (1 .. 20)
{
	same_answer($node, $_, "a scan, push $push fails", "SET gpuscan.inject_fault = 'device-error:push:$push';") foreach $scan, $by_expression;
}

# Evicted while kept; then there is room for others.
cmp_ok($node->safe_psql('postgres', q{SELECT gpuscan_evict('t')}), '>', 100_000, 'evicted');
is($node->safe_psql('postgres', q{SELECT gpuscan_evict('t')}), 0, 'nothing is left of it');
ok($node->poll_query_until('postgres', 'SELECT host_cache_used = 0 FROM gpuscan_devices'), 'nor of answers');
is((blocks())[0], 0, 'nothing is cached');
all_cached('after eviction');

# So are the pieces that a page with loose blocks is cut into.
$node->safe_psql('postgres', 'UPDATE t SET v = 8 WHERE id % 1000 = 10');
same_answers('pieces');
cmp_ok((blocks())[2], '>', 10, 'blocks are loose');
cmp_ok($node->safe_psql('postgres', q{SELECT gpuscan_evict('t')}), '>', 100_000, 'evicted with pieces');
is($node->safe_psql('postgres', q{SELECT gpuscan_evict('t')}), 0, 'nothing is left of them');
ok($node->poll_query_until('postgres', 'SELECT host_cache_used = 0 FROM gpuscan_devices'), 'nor of answers from them');
same_answers('after eviction of pieces');

# Hardly room for anything: what is kept of answers goes, and chunks of columns that nobody uses.
$node->append_conf('postgresql.conf', 'gpuscan.cpu_cache_size = 1');
$node->reload;
$node->safe_psql('postgres', 'CREATE TABLE u AS SELECT i AS id, md5(i::text) AS s FROM generate_series(1, 100000) i; VACUUM u');
for my $round (1 .. 3)
{
	same_answers("small, round $round");
	foreach my $other_query ('SELECT min(id), count(DISTINCT s) FROM u', 'SELECT sum(id) FROM u', $scan, 'SELECT count(pad), sum(v) FROM t')
	{
		same_answer($node, $other_query, "$other_query, round $round");
	}
}
my $bytes = $node->safe_psql('postgres', 'SELECT sum(bytes) FROM gpuscan_cache');
cmp_ok($bytes, '<=', 1024 * 1024, 'within the limit');

# Several at once
$node->append_conf('postgresql.conf', 'gpuscan.cpu_cache_size = 100');
$node->reload;
$node->pgbench('--no-vacuum --client 4 --transactions 60', 0, [qr{processed: 240/240}], [qr{^$}], 'queries, writes and evictions at once', {
	'013_query@8' => "SET gpuscan.force = on; $query; SELECT sum(id), sum(v) FROM t; $scan;",
	'013_write@2' => "UPDATE t SET v = v + 1 WHERE id = (random() * 30000)::int;",
	'013_evict@1' => "SELECT gpuscan_evict('t') IS NULL;" });
same_answers('after that');
same_answer($node, $scan, 'a scan after that');
no_requests_left($node);
$node->stop('fast');
done_testing();
