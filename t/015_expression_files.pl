# Cached expressions: after a restart, after VACUUM, and files that say what they are.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $joined = q{SELECT count(*), sum(id) FROM t WHERE pad || id ~ '7'};
my $upper = q{SELECT upper(b || a), count(*), min(n) FROM t GROUP BY 1 ORDER BY 1};
my $part = q{SELECT sum(split_part(n || 'x.' || id, 'x.', 1)::numeric(10,2)) FROM t};

# Blocks of each cached expression, in the order of their texts; columns that decode it in two ways count once.
sub cached
{
	my ($node, $table) = @_;

	return $node->safe_psql('postgres', qq{
		SELECT coalesce(string_agg("column" || ': ' || blocks, E'\\n' ORDER BY "column" COLLATE "C"), 'none')
		FROM (SELECT "column", max(blocks_cached) AS blocks FROM gpuscan_cache WHERE relation = '$table'::regclass AND "column" ~ '[(]'
			GROUP BY 1) c});
}

# Waits until so many expressions of the table have all of its settled blocks.
sub wait_for_expressions
{
	my ($node, $table, $n, $name) = @_;

	ok($node->poll_query_until('postgres', qq{
		SELECT count(DISTINCT "column") = $n FROM gpuscan_cache
		WHERE relation = '$table'::regclass AND "column" ~ '[(]' AND blocks_cached = blocks_settled}), $name)
	  or diag(cached($node, $table));
}

# The answer is PostgreSQL's, the plan ours, and nothing is read or evaluated for it.
sub from_cache
{
	my ($node, $query, $name) = @_;
	my $plan = $node->safe_psql('postgres',
		"SET gpuscan.force = on; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query");

	like($plan, qr/GpuAgg.*Blocks Cached: \d/s, "$name: from the cache");
	unlike($plan, qr/Tuples Evaluated|Blocks Read|Replaced Plan/, "$name: and nothing else");
	same_answer($node, $query, "$name: an answer");
}

my $node = start_node('expressions', 'gpuscan.device' => 'cpu', 'gpuscan.cache_refresh_interval' => '1s',
	autovacuum => 'off', streaming => 1);
my $folder = $node->data_dir . '/gpuscan_expressions';
my $list = $node->data_dir . '/gpuscan_columns';

sub files { return grep { /^[0-9a-f]{64}$/ } slurp_dir($folder); }

sub write_file
{
	my ($name, $content) = @_;

	open(my $out, '>', $name) or die "$name: $!";
	binmode $out;
	print $out $content;
	close $out or die;
}

# Whether anything is loaded in the background
sub set_interval
{
	my ($interval) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET gpuscan.cache_refresh_interval = $interval");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '$interval' FROM pg_settings WHERE name = 'gpuscan.cache_refresh_interval'");
}

fill($node, 20_000);
$node->safe_psql('postgres', "SET gpuscan.force = on; $_") foreach ($joined, $upper, $part);
is(scalar(files()), 3, 'each expression has a file');
$node->safe_psql('postgres', "SET gpuscan.force = on; $joined");
is(scalar(files()), 3, 'and but one');

# What was cached comes back, with no query.
$node->restart;
wait_for_expressions($node, 't', 3, 'after a restart expressions are loaded again');
from_cache($node, $_, 'after a restart') foreach ($joined, $upper, $part);

# So does what has changed, after VACUUM.
$node->safe_psql('postgres', 'UPDATE t SET b = b || 7 WHERE id % 50 = 0; INSERT INTO t SELECT * FROM t WHERE id <= 10000');
$node->safe_psql('postgres', 'VACUUM t');
wait_for_expressions($node, 't', 3, 'after VACUUM what has changed is loaded again');
from_cache($node, $_, 'after VACUUM') foreach ($joined, $upper, $part);

# On a standby, made when the primary had cached them
$node->restart;
wait_for_expressions($node, 't', 3, 'after another restart');
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
wait_for_expressions($standby, 't', 3, 'a standby loads what the primary had cached');
from_cache($standby, $_, 'standby') foreach ($joined, $upper, $part);
$node->safe_psql('postgres', 'UPDATE t SET b = b || 8 WHERE id % 70 = 0; INSERT INTO t SELECT * FROM t WHERE id <= 1000');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
same_answer($standby, $upper, 'standby: beside loose blocks');
$node->safe_psql('postgres', 'VACUUM t');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
wait_for_expressions($standby, 't', 3, 'standby: after VACUUM what has changed is loaded again');
from_cache($standby, $_, 'standby, after VACUUM') foreach ($joined, $upper, $part);
my $lower = q{SELECT count(*) FROM t WHERE lower(b || id) ~ 'x1'};
same_answer($standby, $lower, 'standby: another expression');
$standby->restart;
wait_for_expressions($standby, 't', 4, 'standby: after a restart it is loaded too');
from_cache($standby, $lower, 'standby, after a restart');
$standby->stop('fast');

# A file of no cached expression goes after a while, one of a cached expression stays.
my @files = files();
my $stale = "$folder/" . ('0123456789abcdef' x 4);
write_file($_, 'x') foreach ($stale, "$stale.17", "$folder/new");
utime(1, 1, $stale, "$stale.17", map { "$folder/$_" } @files) or die;
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_ls_dir('gpuscan_expressions') f WHERE f LIKE '0123456789abcdef%'");
ok(!-e $stale && !-e "$stale.17", 'files of no cached expression are removed');
ok(-e "$folder/new", 'but not one that is new');
is_deeply([ sort(files()) ], [ sort @files ], 'nor those of cached expressions');

# What a session may not have cached: nothing remembered, nothing written
set_interval(0);
$node->safe_psql('postgres', "SET gpuscan.force = on; $lower");
set_interval(1);
$node->safe_psql('postgres', "CREATE UNLOGGED TABLE un AS SELECT id, b FROM t; SET gpuscan.force = on; SELECT count(*) FROM un WHERE lower(b || id) ~ 'x1'");
is(scalar(files()), 3, 'no file where nothing is remembered, or nothing cached');

# Files that are not what they were: the expression is left out, the next one loaded.
$node->safe_psql('postgres', qq{
	CREATE FUNCTION foreign_upper(text) RETURNS text LANGUAGE plpgsql AS \$\$ BEGIN RAISE LOG 'foreign_upper was called'; RETURN \$1; END \$\$});
my $foreign = $node->safe_psql('postgres', q{SELECT 'foreign_upper'::regproc::oid});
my $upper_oid = $node->safe_psql('postgres', q{SELECT 'upper(text)'::regprocedure::oid});
my ($upper_file) = grep { slurp_file("$folder/$_") =~ /:funcid $upper_oid / } files();
my $good = slurp_file("$folder/$upper_file");
my ($other_file) = grep { $_ ne $upper_file } files();
my $catalogs = $good =~ /^(\d+)\n/ ? $1 : die;
my $listed;
foreach my $bad (
	[ 'empty', '', 1 ],
	[ 'cut off', substr($good, 0, -1), 1 ],
	[ 'longer', "${good}x", 1 ],
	[ 'too long', $good x 100, 1 ],
	[ 'one byte is another', $good =~ s/:funcid $upper_oid /:funcid @{[ $upper_oid + 1 ]} /r, 1 ],
	[ 'of another expression', slurp_file("$folder/$other_file"), 1 ],
	[ 'missing', undef, 0 ],
	[ 'of another version', $good =~ s/^\d+/@{[ $catalogs + 1 ]}/r, 0 ],
	[ 'of another column', $good =~ s/:varattno 3 /:varattno 300 /r, 0 ],
	[ 'of a column of another type', $good =~ s/:varattno 3 :vartype 25 /:varattno 3 :vartype 1042 /r, 0 ],
	[ 'of no columns', $good =~ s/\n.*?\0/\n{CONST :consttype 16 :consttypmod -1 :constcollid 0 :constlen 1 :constbyval true :constisnull true :location 0 :constvalue <>}\0/sr, 0 ],
	[ 'of nothing', $good =~ s/\n.*?\0/\n<>\0/sr, 0 ],
	[ 'with a function of a user', $good =~ s/:funcid $upper_oid /:funcid $foreign /r, 0 ])
{
	my ($name, $content, $is_damaged) = @$bad;
	my $as = $is_damaged || !defined $content ? $upper_file : sha256_hex($content);
	my $offset = -s $node->logfile;
	my ($head, $count, @lines);

	isnt($content // '', $good, "$name: it is another");
	$node->stop('fast');

	# the first to be loaded
	$listed //= slurp_file($list);
	($head, $count, @lines) = split /^/m, $listed;
	write_file($list, join('', $head, $count, (map { s/$upper_file/$as/r } grep { /$upper_file/ } @lines),
			grep { !/$upper_file/ } @lines));
	defined $content ? write_file("$folder/$as", $content) : unlink "$folder/$as";
	$node->start;
	wait_until_offloaded($node);
	wait_for_expressions($node, 't', 2, "$name: the others are loaded");
	unlike(cached($node, 't'), qr/upper/, "$name: it is left out");
	if ($is_damaged)
	{
		$node->wait_for_log(qr/removing file "gpuscan_expressions\/$as"/, $offset);
		ok(!-e "$folder/$as", "$name: its file is removed");
	}
	unlike(slurp_file($node->logfile, $offset), qr/ERROR|PANIC|terminated by signal|foreign_upper was called/,
		"$name: no harm is done");
	same_answer($node, $upper, "$name: an answer");
	ok(-e "$folder/$upper_file", "$name: and a file again");
}

# What no server writes ends the loading of the relation with an error, and that is all.
my $nonsense = $good =~ s/\n.*?\0/\n{NONSENSE :x 1}\0/sr;
my $start = -s $node->logfile;
$node->stop('fast');
write_file($list, $listed =~ s/$upper_file/sha256_hex($nonsense)/er);
write_file("$folder/" . sha256_hex($nonsense), $nonsense);
$node->start;
wait_until_offloaded($node);
$node->wait_for_log(qr/badly formatted node string "NONSENSE/, $start);
unlike(slurp_file($node->logfile, $start), qr/PANIC|terminated by signal/, 'nonsense: an error');
same_answer($node, $upper, 'nonsense: an answer');

# Columns and collations that change between shutdown and loading
my $zone = q{SELECT max(ts AT TIME ZONE 'IST') FROM e};
my $date = q{SELECT max(make_date(y, m, d)) FROM e};
my $narrow = q{SELECT count(*) FROM e WHERE a || b ~ '7'};
my $dropped = q{SELECT count(*) FROM e WHERE lower(b || c) ~ 'c1'};
my $collated = q{SELECT count(*) FROM e WHERE lower(b || id) ~ ('[78]' COLLATE mine)};
my $same = q{SELECT count(*) FROM e WHERE lower(b || id) ~ '7'};
$node->safe_psql('postgres', q{
	CREATE COLLATION mine FROM "C";
	CREATE TABLE e AS SELECT i AS id, timestamp '2020-01-01' + i * interval '1 hour' AS ts, 2000 AS y, 1 + i % 12 AS m, 1 + i % 28 AS d,
		('a' || i)::varchar(10) AS a, 'b' || i AS b, 'c' || i AS c FROM generate_series(1, 10000) i;
	CREATE TABLE f AS SELECT i AS id FROM generate_series(1, 10000) i;
	VACUUM ANALYZE e;
	VACUUM ANALYZE f});

# Restarts; nothing is loaded before set_interval(1).
sub restart_cold
{
	$node->poll_query_until('postgres', q{SELECT pg_read_file('gpuscan_columns') ~ (',' || 'e'::regclass::oid || ',[0-9a-f]{64},')});
	$node->stop('fast');
	$node->append_conf('postgresql.auto.conf', 'gpuscan.cache_refresh_interval = 0');
	$node->start;
	wait_until_offloaded($node);
}

# those used last are loaded first
$node->safe_psql('postgres', "SET gpuscan.force = on; $_")
  foreach ('SELECT count(id) FROM f', $date, $same, $zone, $narrow, $dropped, $collated);
is(scalar(() = cached($node, 'e') =~ /: /g), 6, 'six expressions are cached');
restart_cold();
$start = -s $node->logfile;
$node->safe_psql('postgres', 'ALTER TABLE e ALTER a TYPE varchar(20), DROP COLUMN c; DROP COLLATION mine');
set_interval(1);
wait_for_expressions($node, 'e', 3, 'expressions whose columns are the same are loaded');
unlike(cached($node, 'e'), qr/a\)?::text|c\)|COLLATE/, 'the others are left out');
unlike(slurp_file($node->logfile, $start), qr/ERROR/, 'without a word');
from_cache($node, $_, 'columns are the same') foreach ($date, $same, $zone);
same_answer($node, $narrow, 'a column is another');
$node->safe_psql('postgres', q{ALTER TABLE e ADD c text DEFAULT 'c123'});
same_answer($node, $dropped, 'a column was dropped, and added');

# Under a setting that makes others of all expressions none is loaded.
restart_cold();
$node->safe_psql('postgres', q{ALTER SYSTEM SET timezone_abbreviations = 'India'});
set_interval(1);
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM gpuscan_cache WHERE relation = 'f'::regclass});
is(cached($node, 'e'), 'none', 'under another setting no expression is loaded');
same_answer($node, $_, 'under another setting') foreach ($zone, $date, $same);

# A range with a row for which an expression raises an error is left out, of that expression alone, and not evaluated again.
my $day = q{SELECT id FROM e WHERE id < 1000 AND make_date(y, m, d) = '2000-03-15' ORDER BY 1};

sub all_but_one_range
{
	my ($name) = @_;

	ok($node->poll_query_until('postgres', q{
		SELECT count(*) = 1 FROM gpuscan_cache c WHERE relation = 'e'::regclass AND "column" ~ 'make_date'
			AND blocks_cached = 64 AND blocks_settled > 64 AND NOT EXISTS (
				SELECT FROM gpuscan_cache o WHERE o.relation = c.relation AND o."column" <> c."column" AND o.blocks_cached < o.blocks_settled)
			AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'gpuscan cache worker')}),
		"$name: all is loaded but for one range")
	  or diag(cached($node, 'e'));
	my $plan = $node->safe_psql('postgres', "SET gpuscan.force = on; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $day");
	like($plan, qr/GpuScan.*Blocks Cached: 64\b/s, "$name: a scan finds it in the cache");
	unlike($plan, qr/Tuples Evaluated|Blocks Loaded/, "$name: and loads nothing");
	same_answer($node, $day, "$name: an answer");
}

same_answer($node, 'SELECT sum(id) FROM e', 'the other column of the filter');
$start = -s $node->logfile;
$node->safe_psql('postgres', 'UPDATE e SET m = 2, d = 30 WHERE id = 9999');
$node->safe_psql('postgres', 'VACUUM e');
all_but_one_range('a row fails');
$node->restart;
wait_until_offloaded($node);
all_but_one_range('a row fails, after a restart');
unlike(slurp_file($node->logfile, $start), qr/ERROR/, 'a row fails: without a word');
my ($status, $out, $error) = $node->psql('postgres', "SET gpuscan.force = on; $date");
like($error, qr/date field value out of range: 2000-02-30/, 'a query has its error');
$node->safe_psql('postgres', 'UPDATE e SET d = 28 WHERE id = 9999');
$node->safe_psql('postgres', 'VACUUM e');
wait_for_expressions($node, 'e', 3, 'without the row all is loaded');
from_cache($node, $date, 'without the row');
$node->stop('fast');

done_testing();
