# Few shared buffers and many sessions: pins are scarce, and nobody runs out of them.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('small_buffers', shared_buffers => '1MB', temp_buffers => '800kB', max_connections => 60);
fill($node, 60_000);
my @queries = (
	'SELECT a, count(*), sum(n) FROM t GROUP BY a ORDER BY a',
	'SELECT count(*), sum(length(pad)) FROM (SELECT pad FROM t WHERE a = 3 OFFSET 0) q',
	'SELECT count(*), sum(x.id) FROM t x JOIN t y USING (id) WHERE x.a = 3 AND y.a = 3');
ok(ours($node, $_), "ours: $_") foreach @queries;
same_answer($node, $_, $_) foreach @queries;

# A wrong answer divides by zero.
my %files;
foreach my $i (0 .. $#queries)
{
	my $expected = $node->safe_psql('postgres', "SET gpuscan.enabled = off; SELECT md5(string_agg(q::text, ',')) FROM ($queries[$i]) q");
	$files{"007_query_$i"} =
	  "SET gpuscan.force = on;\nSELECT 1 / (md5(string_agg(q::text, ',')) = '$expected')::int FROM ($queries[$i]) q;\n";
}
$files{'007_write'} = "\\set k random(1, 1000)\nBEGIN;\nINSERT INTO t (id, a) VALUES (-:k, 3);\nUPDATE t SET pad = pad WHERE id = :k;\nROLLBACK;\n";
$node->pgbench('--no-vacuum --client=40 --jobs=2 --transactions=12', 0, [qr/processed: 480\/480/], [qr/^$/],
	'forty sessions, every answer right', \%files);
no_requests_left($node, 'no request is left');

# Cursors that hold what they read.
my @sessions = map { $node->background_psql('postgres') } 1 .. 20;
foreach my $session (@sessions)
{
	$session->query_safe('SET gpuscan.force = on');
	$session->query_safe('BEGIN');
	$session->query_safe('DECLARE c CURSOR FOR SELECT id FROM t WHERE a = 3 AND id % 1000 = 3');
	$session->query_safe('FETCH 1 FROM c');
}
same_answer($node, $queries[0], 'another session is answered beside 20 open cursors');
is(scalar(split /\n/, $_->query_safe('FETCH ALL FROM c')), 59, 'a cursor gives its other rows') foreach @sessions;
$_->quit foreach @sessions;
no_requests_left($node, 'no request is left by the cursors');

# A temporary table, in few local buffers.
is($node->safe_psql('postgres', q{
	SET gpuscan.force = on;
	CREATE TEMP TABLE tmp AS SELECT i AS id, i % 10 AS a, repeat('p', 100) AS pad FROM generate_series(1, 50000) i;
	SELECT count(*), sum(id) FROM tmp WHERE a = 3;
	SELECT count(*), sum(length(pad)) FROM (SELECT pad FROM tmp WHERE a = 4 OFFSET 0) q;}),
	"5000|124990000\n5000|500000", 'a temporary table');
$node->stop('fast');
unlike(slurp_file($node->logfile), qr/no unpinned|no empty local buffer|PANIC|terminated by signal|TRAP:/, 'no session ran out of buffers');

done_testing();
