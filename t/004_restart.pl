# Crashes and restarts: afterwards queries are offloaded again.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('restart');
fill($node, 30_000);
my $query = 'SELECT a, count(*), sum(n) FROM t GROUP BY a ORDER BY a';

sub check
{
	my ($name) = @_;

	wait_until_offloaded($node);
	ok(ours($node, $query), "$name: the plan is ours");
	is(replaced($node, $query), undef, "$name: on the device");
	same_answer($node, $query, "$name: the answer is right");
	no_requests_left($node, "$name: no request is left");
}

# Waits until the postmaster has noticed: a new session, in a new incarnation.
sub crash
{
	my ($pid) = @_;
	my $before = $node->safe_psql('postgres', "SELECT min(backend_start) FROM pg_stat_activity WHERE backend_type = 'checkpointer'");

	kill 'KILL', $pid;
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'checkpointer' AND backend_start > '$before'");
}

check('at first');

my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe('SET gpuscan.force = on');
$session->query_safe('BEGIN');
$session->query_safe('DECLARE c CURSOR FOR SELECT id FROM t WHERE a = 3');
$session->query_safe('FETCH 5 FROM c');
crash($session->query_safe('SELECT pg_backend_pid()'));
$session->{run}->kill_kill;
check('after the crash of a backend with a request');

crash($node->safe_psql('postgres', "SELECT pid FROM gpuscan_service"));
check('after a killed service');

$node->stop('immediate');
$node->start;
check('after an immediate shutdown');
$node->restart;
check('after a restart');
$node->reload;
check('after a reload');

# A postmaster that is gone takes the service with it.
my $service = $node->safe_psql('postgres', "SELECT pid FROM gpuscan_service");
$node->kill9;
my $gone = 0;
for (1 .. 100)
{
	$gone = !kill(0, $service);
	last if $gone;
	select undef, undef, undef, 0.1;
}
ok($gone, 'the service ends with its postmaster');
$node->start;
check('after a killed postmaster');

# Without the extension's objects, in another database, offloading goes on.
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE TABLE t AS SELECT i AS id FROM generate_series(1, 1000) i');
is($node->safe_psql('other', 'SET gpuscan.force = on; SELECT count(*), sum(id) FROM t'), '1000|500500', 'another database');
$node->safe_psql('postgres', 'DROP EXTENSION gpuscan');
is(replaced($node, $query), undef, 'the views are gone, the offloading is not');
$node->stop('fast');

done_testing();
