# Timeouts, cancelled and terminated sessions, in the middle of scans, many times: nothing is left in the service.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = start_node('cancel', 'gpuscan.max_requests' => 16);
fill($node, 400_000);
# All columns are read, lest the planner leave their making out: count(q) is not count(*).
my @queries = (
	'SELECT id, count(*), sum(n), avg(f) FROM t GROUP BY id',
	'SELECT count(DISTINCT b), count(DISTINCT id), sum(n * n) FROM t',
	'SELECT id, pad FROM t WHERE n * 2 + id > 0',
	'SELECT sum(q.n) FROM generate_series(1, 50) k, LATERAL (SELECT count(*) AS n FROM t WHERE a = k) q');
ok(ours($node, $_), 'the plan is ours') foreach @queries;

my $psql = sub {
	my ($sql, $out, $err) = @_;
	my $file = $node->basedir . '/script.sql';
	unlink $file;
	append_to_file($file, $sql);
	return IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . ' application_name=victim', '-f', $file ],
		'<', \'', '>', $out, '2>', $err);
};

# statement_timeout, from before the first batch to the last
my $sql = "SET gpuscan.force = on;\nSET force_parallel_mode = on;\nSET max_parallel_workers_per_gather = 2;\n";
# without pg_backend_pid() a forced worker would run the whole query, instead of helping it
$sql .= sprintf("SET statement_timeout = %d;\nSELECT count(q) + 0 * pg_backend_pid() FROM (%s) q;\n", 1 + $_ * 7 % 150, $queries[ $_ % @queries ]) foreach 1 .. 100;
my ($out, $err) = ('', '');
$psql->($sql . "SET statement_timeout = 0;\nSELECT 'alive';\n", \$out, \$err)->finish;
like($out, qr/alive/, 'the session lives after 100 timeouts');
my $timeouts = () = $err =~ /statement timeout/g;
cmp_ok($timeouts, '>', 20, "statements timed out ($timeouts)");
unlike($err, qr/(ERROR|FATAL|PANIC):  (?!canceling statement due to statement timeout)/, 'with no other error');
no_requests_left($node, 'timeouts leave no request');

# A savepoint that a cancelled statement rolls back to; the service needs a moment to close a request.
($out, $err) = ('', '');
$psql->("SET gpuscan.force = on;\nBEGIN;\n" . join('', map { "SAVEPOINT s;\nSET LOCAL statement_timeout = 5;\nSELECT count(q) FROM ($queries[0]) q;\nROLLBACK TO s;\n" } 1 .. 20)
	  . "SELECT pg_sleep(1);\nSELECT 'alive', count(*) FROM gpuscan_activity;\nCOMMIT;\n", \$out, \$err)->finish;
like($out, qr/alive\|0/, 'rolled back to a savepoint 20 times, nothing is held in the transaction');

# pg_cancel_backend
$sql = "SET gpuscan.force = on;\nSET force_parallel_mode = on;\nSET max_parallel_workers_per_gather = 2;\n" . join('', map { "SELECT count(q) + 0 * pg_backend_pid() FROM ($queries[ $_ % @queries ]) q;\n" } 1 .. 100) . "SELECT 'alive';\n";
($out, $err) = ('', '');
my $run = $psql->($sql, \$out, \$err);
my $canceller = $node->background_psql('postgres', on_error_stop => 0);
while ($run->pumpable)
{
	$run->pump_nb;
	$canceller->query("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = 'victim' AND state = 'active'");
	sleep 0.03;
}
$run->finish;
$canceller->quit;
my $cancels = () = $err =~ /user request/g;
cmp_ok($cancels, '>', 20, "statements were cancelled ($cancels)");
unlike($err, qr/(ERROR|FATAL|PANIC):  (?!canceling statement due to user request)/, 'with no other error');
no_requests_left($node, 'cancelled statements leave no request');

# pg_terminate_backend, after the session has begun to work
for my $i (1 .. 100)
{
	($out, $err) = ('', '');
	$run = $psql->("SET gpuscan.force = on;\n" . "SELECT count(q) FROM ($queries[ $i % @queries ]) q;\n" x 100, \$out, \$err);
	sleep 0.01 * ($i % 7);
	$node->poll_query_until('postgres', "SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity WHERE application_name = 'victim' AND state = 'active'");
	$run->finish;
}
no_requests_left($node, 'terminated sessions leave no request');

# A client that goes away with a cursor open.
($out, $err) = ('', '');
$psql->("SET gpuscan.force = on;\nBEGIN;\nDECLARE c CURSOR FOR $queries[2];\nFETCH 5 FROM c;\n", \$out, \$err)->finish foreach 1 .. 20;
no_requests_left($node, 'nor do sessions that ended in a transaction');

# How long a cancelled query takes to end.
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe('SET gpuscan.force = on');
$session->query_until(qr/start/, "\\echo start\nSELECT count(*) FROM t x, LATERAL (SELECT count(*) AS n FROM t y WHERE y.id > x.id) q;\n");
sleep 0.5;
my $started = time;
$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT count(*) FROM t x, LATERAL%'");
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE 'SELECT count(*) FROM t x, LATERAL%' AND state = 'active'"), 'a nested query ends');
cmp_ok(time - $started, '<', 5, 'soon');
$session->quit;

is(replaced($node, $queries[0]), undef, 'afterwards queries are offloaded');
same_answer($node, "SELECT count(*), sum(s) FROM (SELECT id, sum(n) AS s FROM t GROUP BY id) q", 'with the right answer');
$node->stop('fast');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal|TRAP:|WARNING:  (?:buffer|resource)/, 'nothing crashed or leaked');

done_testing();
