# A service that exits, at any point of a query: sessions live, answers are right by the replaced plan, the service comes back.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('service_exit');
fill($node, 60_000);

my %queries = (
	'ungrouped' => 'SELECT count(*), sum(n), avg(f) FROM t WHERE a <> 3',
	'grouped' => 'SELECT b, count(*), sum(n), count(DISTINCT id) FROM t GROUP BY b ORDER BY b',
	'chunks' => 'SELECT count(*), sum(c), sum(n) FROM (SELECT id, count(*) AS c, sum(n) AS n FROM t GROUP BY id) q',
	'scan' => 'SELECT count(*), sum(id), min(pad) FROM (SELECT id, pad FROM t WHERE a = 3 OFFSET 0) q',
	'workers' => 'SELECT id % 1000, count(*), sum(n), count(DISTINCT b), pg_backend_pid() > 0 FROM t GROUP BY 1 ORDER BY 1',
	'rescan' => 'SELECT sum(n) FROM generate_series(1, 4) k, LATERAL (SELECT count(*) AS n FROM t WHERE a = k) q');
# PostgreSQL's own way of asking for a worker where one is possible; without pg_backend_pid() it would run the whole query in one
my %settings = map { $_ => '' } keys %queries;
$settings{'workers'} = 'SET force_parallel_mode = on; SET max_parallel_workers_per_gather = 2;';
like($node->safe_psql('postgres', "SET gpuscan.force = on; $settings{'workers'} EXPLAIN (ANALYZE) $queries{'workers'}"),
	qr/Workers Launched: 1/, 'a worker helps');
my %off;
foreach my $name (sort keys %queries)
{
	ok(ours($node, $queries{$name}), "$name: the plan is ours");
	$off{$name} = $node->safe_psql('postgres', "SET gpuscan.enabled = off; $queries{$name}");
}

# Points that every aggregation passes: there the reason must be shown.
my %certain = map { $_ => 1 } qw(begin push batch-done finish fetch);
foreach my $point (qw(begin push batch-done finish fetch close))
{
	foreach my $n (1, 2, 3)
	{
		my $fault = "SET gpuscan.inject_fault = 'service-exit:$point:$n'";
		foreach my $name (sort keys %queries)
		{
			my ($status, $stdout, $stderr) = $node->psql('postgres',
				"SET gpuscan.force = on; $settings{$name} $fault; $queries{$name}; RESET gpuscan.inject_fault; SELECT 'alive'");
			is($status, 0, "$point:$n, $name: no error") or diag($stderr);
			is($stdout, "$off{$name}\nalive", "$point:$n, $name: the answer is right and the session lives");
			wait_until_offloaded($node);
		}
		next unless $n == 1 && $certain{$point};
		like(replaced($node, $queries{'grouped'}, $fault), qr/\w/, "$point: the reason is shown");
		wait_until_offloaded($node);
	}
	is(replaced($node, $queries{'grouped'}), undef, "$point: afterwards queries are offloaded");
}
no_requests_left($node, 'no request is left');

# Another session's cursor, half read, when the service exits under it.
my $session = $node->background_psql('postgres');
$session->query_safe('SET gpuscan.force = on');
my $all = $node->safe_psql('postgres', 'SET gpuscan.enabled = off; SELECT id FROM t WHERE a = 3');
$session->query_safe('BEGIN');
$session->query_safe('DECLARE c CURSOR FOR SELECT id FROM t WHERE a = 3');
my $first = $session->query_safe('FETCH 10 FROM c');
$node->safe_psql('postgres', "SET gpuscan.force = on; SET gpuscan.inject_fault = 'service-exit:begin'; $queries{'grouped'}");
my $rest = $session->query_safe('FETCH ALL FROM c');
is("$first\n$rest", $all, 'a cursor goes on without its service');
$session->query_safe('COMMIT');
$session->quit;
wait_until_offloaded($node);
no_requests_left($node, 'no request is left by the cursor');

# Many sessions at work while the service keeps exiting.
my $script = "SELECT CASE WHEN (SELECT count(*) FROM t WHERE a = 3) <> 6000 THEN 1 / (random() * 0)::int ELSE 1 END;\n";
my @clients = map {
	my ($out, $err) = ('', '');
	my $sql = "SET gpuscan.force = on;\n" . $script x 100;
	{ err => \$err, run => IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', '-' ],
			'<', \$sql, '>', \$out, '2>', \$err) }
} 1 .. 4;
for (1 .. 5)
{
	$node->psql('postgres', "SET gpuscan.force = on; SET gpuscan.inject_fault = 'service-exit:push'; $queries{'grouped'}");
	select undef, undef, undef, 0.3;
}
foreach my $client (@clients)
{
	ok($client->{run}->finish, 'a session at work sees no error') or diag(${ $client->{err} });
}
wait_until_offloaded($node);
no_requests_left($node, 'no request is left by them');

# An administrator may stop the service with a signal.
my $service = $node->safe_psql('postgres', 'SELECT pid FROM gpuscan_service');
is(kill('TERM', $service), 1, 'the service can be terminated');
same_answer($node, $queries{'grouped'}, 'the answer is right without it');
wait_until_offloaded($node);
isnt($node->safe_psql('postgres', 'SELECT pid FROM gpuscan_service'), $service, 'another takes its place');
$node->stop('fast');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal (?!9|15)|TRAP:/, 'nothing crashed');

done_testing();
