# The cache in the background: after a restart, after VACUUM; and labels.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $query = 'SELECT a, count(*), sum(n), max(id) FROM t GROUP BY a ORDER BY a';

# Blocks of the query that came from the cache, or were read.
sub blocks
{
	my ($node, $kind, $of, $database) = @_;
	my $plan = $node->safe_psql($database // 'postgres',
		"SET gpuscan.force = on; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) @{[ $of // $query ]}");

	return $plan =~ /Blocks $kind: (\d+)/ ? $1 : 0;
}

# Pages of all cached columns, without touching a table.
sub cached_blocks
{
	my ($node, $relid) = @_;

	return $node->safe_psql('postgres', "SELECT coalesce(sum(blocks), 0) FROM gpuscan_cache() WHERE relid = $relid");
}

# Waits until a relation has that many cached pages in its columns together.
sub wait_for_blocks
{
	my ($node, $relid, $blocks, $name) = @_;

	ok($node->poll_query_until('postgres',
			"SELECT coalesce(sum(blocks), 0) = $blocks FROM gpuscan_cache() WHERE relid = $relid"), $name);
}

# Nothing is loaded in the background any more, and all processes know.
sub set_interval
{
	my ($node, $interval) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET gpuscan.cache_refresh_interval = $interval");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '$interval' FROM pg_settings WHERE name = 'gpuscan.cache_refresh_interval'");
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'gpuscan cache worker'}),
		'no worker is at work') if $interval == 0;
}

my $node = start_node('warm', 'gpuscan.device' => 'cpu', 'gpuscan.cache_refresh_interval' => '1s',
	autovacuum => 'off', streaming => 1);
fill($node, 60_000);
$node->safe_psql('postgres', q{
	CREATE DATABASE other;
	CREATE TABLE cold AS SELECT i AS id FROM generate_series(1, 20000) i;
	VACUUM cold});
$node->safe_psql('other', q{
	CREATE TABLE u AS SELECT i AS id, 'key ' || i % 10 AS s FROM generate_series(1, 20000) i;
	VACUUM u});
my $t = $node->safe_psql('postgres', q{SELECT 't'::regclass::oid});
my $u = $node->safe_psql('other', q{SELECT 'u'::regclass::oid});
my $other = 'SELECT s, count(*), sum(id) FROM u GROUP BY s';
my $cold = $node->safe_psql('postgres', q{SELECT 'cold'::regclass::oid});
my $file = $node->data_dir . '/gpuscan_columns';

same_answer($node, $query, 'loading');
$node->safe_psql('other', "SET gpuscan.force = on; $other");
my $blocks = cached_blocks($node, $t);
my $other_blocks = cached_blocks($node, $u);
cmp_ok($blocks, '>', 0, 'columns are cached');
cmp_ok($other_blocks, '>', 0, 'columns of another database are cached');
$node->safe_psql('other', "SET gpuscan.force = on; SELECT count(*) FROM u WHERE s || id ~ '7'");
cmp_ok(cached_blocks($node, $u), '>', $other_blocks, 'and an expression');
$other_blocks = cached_blocks($node, $u);

# What was cached comes back, and nothing else, with no query.
$node->restart;
wait_for_blocks($node, $t, $blocks, 'after a restart the columns are loaded again');
wait_for_blocks($node, $u, $other_blocks, 'so are those of another database, an expression too');
is(cached_blocks($node, $cold), 0, 'others are not');
is(blocks($node, 'Read'), 0, 'a query reads nothing');
same_answer($node, $query, 'from columns loaded in the background');
is(blocks($node, 'Read', $other, 'other'), 0, 'nor does one of the other database');

# The launcher writes the file too, so that a crash loses little.
unlink $file or die;
$node->safe_psql('postgres', 'SET gpuscan.force = on; SELECT count(id) FROM cold');
ok($node->poll_query_until('postgres', q{SELECT pg_read_file('gpuscan_columns', 0, 1000000, true) LIKE '%,' || 'cold'::regclass::oid || ',1,cpu%'}),
	'the file is written while the server runs');
my $cold_blocks = cached_blocks($node, $cold);
$node->stop('immediate');
$node->start;
wait_for_blocks($node, $t, $blocks, 'after a crash the columns are loaded again');
wait_for_blocks($node, $cold, $cold_blocks, 'as the file says');

# The service alone exits
$node->psql('postgres', "SET gpuscan.force = on; SET gpuscan.inject_fault = 'service-exit:begin'; SELECT count(*) FROM probe");
wait_for_blocks($node, $t, $blocks, 'after the service exited the columns are loaded again');

# Two restarts in a row lose nothing.
$node->restart;
$node->restart;
wait_for_blocks($node, $t, $blocks, 'after two restarts');
wait_for_blocks($node, $u, $other_blocks, 'after two restarts, in another database');

# What changed is loaded again after VACUUM, with no query.
$node->safe_psql('postgres', 'UPDATE t SET a = 3 WHERE id % 500 = 0; INSERT INTO t SELECT * FROM t WHERE id <= 30000');
$node->safe_psql('postgres', 'VACUUM t');
my $pages = $node->safe_psql('postgres', q{SELECT relallvisible FROM pg_class WHERE relname = 't'});
my $columns = $node->safe_psql('postgres', "SELECT count(*) FROM gpuscan_cache() WHERE relid = $t");
wait_for_blocks($node, $t, $pages * $columns, 'after VACUUM what changed is loaded again');
is(blocks($node, 'Read'), 0, 'a query reads nothing');
same_answer($node, $query, 'after VACUUM');

# Nothing to do: no worker is started, no page is read.
set_interval($node, 0);
set_interval($node, 1);
sleep 2;
my $scans = q{SELECT sum(seq_scan), sum(seq_tup_read) FROM pg_stat_user_tables};
my $before = $node->safe_psql('postgres', $scans);
sleep 3;
is($node->safe_psql('postgres', $scans), $before, 'with nothing to load nothing is scanned');

# It waits for nobody, and nobody waits for it: a table that is locked is left out.
my $session = $node->background_psql('postgres', on_error_stop => 1);
$node->safe_psql('postgres', 'INSERT INTO cold SELECT generate_series(1, 10000)');
$session->query_safe('BEGIN; LOCK TABLE t');
$node->safe_psql('postgres', 'VACUUM cold');
$pages = $node->safe_psql('postgres', q{SELECT relallvisible FROM pg_class WHERE relname = 'cold'});
wait_for_blocks($node, $cold, $pages, 'beside a locked table');
$session->query_safe('COMMIT');
$session->quit;

# A database that is gone is forgotten.
$node->safe_psql('postgres', 'DROP DATABASE other');
wait_for_blocks($node, $u, 0, 'columns of a dropped database are dropped');

# Files that are not ours
set_interval($node, 0);
foreach my $bad (
	[ 'nonsense', "\x00\xffnonsense\n" ],
	[ 'empty', '' ],
	[ 'cut off', substr(slurp_file($file), 0, -5) ],
	[ 'longer', slurp_file($file) . "1,2,3,cpu\n" ],
	[ 'of another server', slurp_file($file) =~ s/of system \d+/of system 17/r ],
	[ 'of too many columns', slurp_file($file) =~ s/\n\d+ columns/\n4000000000 columns/r ])
{
	my ($name, $content) = @$bad;
	my $offset;

	$node->safe_psql('postgres', q{ALTER SYSTEM SET gpuscan.cache_refresh_interval = 1});
	$node->stop('fast');
	open(my $out, '>', $file) or die;
	print $out $content;
	close $out;
	$offset = -s $node->logfile;
	$node->start;
	wait_until_offloaded($node);
	$node->wait_for_log(qr/ignoring file "gpuscan_columns"/, $offset);
	is(scalar(() = slurp_file($node->logfile, $offset) =~ /ignoring file/g), 1, "$name: one line in the log");
	is(cached_blocks($node, $t), 0, "$name: nothing is loaded");
	same_answer($node, $query, "$name: an answer");
}

# A relation, or an attribute, that is no more
my $database = $node->safe_psql('postgres', q{SELECT oid FROM pg_database WHERE datname = 'postgres'});
my $content = slurp_file($file);
$node->stop('fast');
$content = slurp_file($file);
$content =~ s/\n(\d+) columns\n/"\n@{[ $1 + 4 ]} columns\n$database,4294967295,1,cpu\n$database,1259,1,cpu\n$database,$cold,99,cpu\n$database,$cold,-7,cuda:3\n"/e or die;
open(my $out, '>', $file) or die;
print $out $content;
close $out;
$node->start;
$pages = $node->safe_psql('postgres', q{SELECT relallvisible FROM pg_class WHERE relname = 't'});
wait_for_blocks($node, $t, $pages * $columns, 'what is no more is left out');

# Off: neither written nor loaded
$node->safe_psql('postgres', 'ALTER SYSTEM SET gpuscan.cache_refresh_interval = 0');
$node->restart;
wait_until_offloaded($node);
sleep 1;
is(cached_blocks($node, $t), 0, 'off: nothing is loaded');
set_interval($node, 1);
wait_for_blocks($node, $t, $pages * $columns, 'on again: what was remembered is loaded');

# On a standby
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
wait_for_blocks($standby, $t, $pages * $columns, 'a standby loads what the primary had cached');
is(blocks($standby, 'Read'), 0, 'standby: a query reads nothing');
$node->safe_psql('postgres', 'UPDATE t SET a = 5 WHERE id % 700 = 0; INSERT INTO t SELECT * FROM t WHERE id <= 3000');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
cmp_ok(blocks($standby, 'Loose'), '>', 0, 'standby: changed blocks are loose');
$node->safe_psql('postgres', 'VACUUM t');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$pages = $node->safe_psql('postgres', q{SELECT relallvisible FROM pg_class WHERE relname = 't'});
wait_for_blocks($standby, $t, $pages * $columns, 'standby: changed blocks are loaded again');
same_answer($standby, $query, 'standby: an answer');

# Writers there; readers here, and workers that load
my @dsn = map { 'host=' . $_->host . ' port=' . $_->port . ' dbname=postgres' } ($node, $standby);
command_ok([ 'python3', 'test/fuzz/cache.py', '--dsn', $dsn[0], '--reader-dsn', $dsn[1],
		'--seconds', $ENV{CACHE_SECONDS} // 10, '--writers', 2, '--readers', 2, '--rows', 10000 ],
	'a standby that loads in the background answers as PostgreSQL does');
$standby->stop('fast');

# Labels survive a dump.
$node->safe_psql('postgres', q{
	CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (5000);
	CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (5000) TO (100000);
	INSERT INTO p SELECT i, i % 100 FROM generate_series(1, 20000) i;
	SECURITY LABEL FOR gpuscan ON TABLE p IS 'never cache';
	SECURITY LABEL FOR gpuscan ON TABLE p2 IS 'always cache';
	CREATE DATABASE copy});
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
$node->command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('copy') ], 'its script runs');
is($node->safe_psql('copy', q{SELECT objname, label FROM pg_seclabels WHERE provider = 'gpuscan' ORDER BY 1}),
	"p|never cache\np2|always cache", 'labels are there');
$node->safe_psql('copy', 'VACUUM');
$node->safe_psql('copy', 'SET gpuscan.force = on; SELECT count(*), sum(v) FROM p') for 1 .. 2;
is($node->safe_psql('copy', q{SELECT DISTINCT relation FROM gpuscan_cache WHERE database = 'copy' AND relation IS NOT NULL}),
	'p2', 'and hold: the parent keeps its partition out, a partition has its own');

# Where there is no room, what is always cached stays.
$node->append_conf('postgresql.conf', 'gpuscan.cpu_cache_size = 1');
$node->restart;
wait_until_offloaded($node);
$node->safe_psql('copy', 'SET gpuscan.force = on; SELECT count(*), sum(v) FROM p');
$node->safe_psql('postgres', q{
	CREATE TABLE big AS SELECT i AS id, (i::bigint * 2654435761) % 4294967296 AS v FROM generate_series(1, 400000) i;
	VACUUM big;
	SET gpuscan.force = on;
	SELECT count(*), sum(v) FROM big;
	SELECT count(*), sum(id) FROM big;
	SELECT count(*), sum(v) FROM big});
is(blocks($node, 'Read', 'SELECT count(*), sum(v) FROM p2', 'copy'), 0, 'what is always cached stays');
$node->stop('fast');

done_testing();
