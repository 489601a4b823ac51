# Limits: memory of a query, number of requests.  Beyond them the replaced plan runs.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('limits', 'gpuscan.max_requests' => 1, 'gpuscan.query_memory_limit' => '1MB');
fill($node, 300_000);
my $small = 'SELECT a, count(*), sum(n) FROM t GROUP BY a ORDER BY a';
my $large = 'SELECT a, count(DISTINCT f) FROM t GROUP BY a ORDER BY a';
my $many = 'SELECT count(*), sum(c), sum(s) FROM (SELECT id, b, count(*) AS c, sum(n) AS s FROM t GROUP BY id, b) q';
my $distinct = 'SELECT count(DISTINCT f) FROM t';

is(replaced($node, $small), undef, 'few groups fit');
same_answer($node, $small, 'with the right answer');
foreach my $query ($large, $distinct)
{
	ok(ours($node, $query), 'the plan is ours');
	like(replaced($node, $query), qr/memory/, 'too many values of one group: the reason is memory');
	same_answer($node, $query, 'the answer is right');
}
is(replaced($node, $many, "SET gpuscan.query_memory_limit = '8MB'"), undef, 'many groups fit in passes');
same_answer($node, $many, 'with the right answer', "SET gpuscan.query_memory_limit = '8MB'");
same_answer($node, $many, 'as under a lower limit');
no_requests_left($node, 'no request is left');
is(replaced($node, $small), undef, 'few groups still fit');

# One request at a time: a second runs its replaced plan.
my ($one, $two) = map { $node->background_psql('postgres') } 1 .. 2;
my $scan = 'SELECT id FROM t WHERE a = 3';
my $all = $node->safe_psql('postgres', "SET gpuscan.enabled = off; $scan");
foreach my $session ($one, $two)
{
	$session->query_safe('SET gpuscan.force = on');
	$session->query_safe('BEGIN');
	$session->query_safe("DECLARE c CURSOR FOR $scan");
}
my @first = map { $_->query_safe('FETCH 3 FROM c') } $one, $two;
is($node->safe_psql('postgres', 'SELECT count(*) FROM gpuscan_activity'), '1', 'one request is at work');
like(replaced($node, $small), qr/request/, 'there is no other: the reason is shown');
my @rest = map { $_->query_safe('FETCH ALL FROM c') } $one, $two;
is("$first[$_]\n$rest[$_]", $all, 'both cursors give all rows') foreach 0, 1;
$_->query_safe('COMMIT') foreach $one, $two;
$_->quit foreach $one, $two;
no_requests_left($node, 'no request is left by the cursors');
is(replaced($node, $small), undef, 'the request is free again');

# Requests within one query.
same_answer($node, 'SELECT x.a, count(*) FROM t x JOIN (SELECT a, max(id) AS id FROM t GROUP BY a) y ON x.id = y.id WHERE x.n >= 0 GROUP BY x.a ORDER BY 1', 'two nodes in one plan');
same_answer($node, 'SELECT count(*) FROM (SELECT id FROM t WHERE a = 3 UNION ALL SELECT id FROM t WHERE a = 4 UNION ALL SELECT count(*) FROM t) q', 'three');

# A limit raised for one session.
like(replaced($node, $distinct), qr/memory/, 'the limit stands');
is(replaced($node, $distinct, "SET gpuscan.query_memory_limit = '256MB'"), undef, 'a session with a higher limit stays on the device');
$node->stop('fast');

# The device's own limit, and one thread.
$node = start_node('device_limit', 'gpuscan.cpu_memory_limit' => '64MB', 'gpuscan.cpu_threads' => 1);
fill($node, 400_000);
my $wide = 'SELECT count(*), sum(c) FROM (SELECT id, b, n, f, count(*) AS c, sum(n) AS s, avg(f) AS g FROM t GROUP BY id, b, n, f) q';
same_answer($node, $wide, 'the answer is right whether it fits or not');
same_answer($node, $small, 'with one thread');
$node->stop('fast');

done_testing();
