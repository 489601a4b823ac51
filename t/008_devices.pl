# Which devices serve, and what becomes of those that fail: with two GPUs that are made up (test/fake_cuda).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $fake = $ENV{GPUSCAN_FAKE_CUDA};
plan skip_all => 'run by test/check, which makes the GPUs' if !defined $fake;

my $node;
my $none = 'SELECT id FROM t WHERE id < 0';
my $grouped = 'SELECT a, count(*), sum(n) FROM t GROUP BY a ORDER BY a';

# What goes wrong: files in the folder of the fake.
sub set { append_to_file("$fake/$_[0]", '') }
sub clear { unlink "$fake/$_[0]" }

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub state_of { return sql("SELECT state || ' ' || failures FROM gpuscan_devices WHERE device = '$_[0]'") }

sub device_of
{
	my ($query) = @_;

	return sql("SET gpuscan.force = on; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $query") =~ /Device: (.*)/ ? $1 : undef;
}

# What the planner estimates for it
sub cost_of
{
	return sql("SET gpuscan.force = on; EXPLAIN $_[0]") =~ /GpuAgg\)\s+\(cost=[\d.]+?\.\.([\d.]+)/ ? $1 : undef;
}

# A query meets a failure: its answer is right; then the service starts once more.
sub fails
{
	my ($query, $name, $settings) = @_;
	my $starts = sql('SELECT starts FROM gpuscan_service');

	same_answer($node, $query, $name, $settings);
	ok($node->poll_query_until('postgres', "SELECT pid IS NOT NULL AND starts = $starts + 1 FROM gpuscan_service"), 'the service is back');
}

# The cpu device: it fails and serves again, however often.
$node = start_node('cpu', 'gpuscan.device' => 'cpu', 'gpuscan.max_device_failures' => 1);
fill($node, 60_000);
is(sql('SELECT device, name IS NULL, state, failures FROM gpuscan_devices'), 'cpu|t|running|0', 'the cpu device runs');
my $failures = 0;
foreach my $point (qw(begin push finish fetch))
{
	my $fault = "SET gpuscan.inject_fault = 'device-lost:$point'";
	fails($grouped, "$point: the answer is right though the device was lost", $fault);
	is(state_of('cpu'), 'running ' . ++$failures, "$point: the failure is counted");
	like(replaced($node, $grouped, $fault), qr/the device failed|service exited/, "$point: the reason is shown");
	$failures++;
	wait_until_offloaded($node);
}
is(device_of($grouped), 'cpu', 'it serves as before');
no_requests_left($node, 'no request is left');
my $log = slurp_file($node->logfile);
like($log, qr/FATAL:  gpuscan device "cpu" failed/, 'the log says that it failed');
unlike($log, qr/alone/, 'it is not left alone');
sql("SELECT gpuscan_evict('t')");
my $cost = cost_of($grouped);
$node->stop('fast');

# Every GPU, by default.
$ENV{LD_LIBRARY_PATH} = $fake;
$node = start_node('auto', 'gpuscan.max_device_failures' => 2);
fill($node, 60_000);
like(slurp_file($node->logfile), qr/gpuscan runs on cuda:0 \(Fake GPU 0\), cuda:1 \(Fake GPU 1\)\n/, 'both GPUs serve');
unlike(slurp_file($node->logfile), qr/cannot be registered/, 'shared buffers are registered once for both');
is(sql('SELECT device, name, state, memory_total, memory_limit, memory_used, running, failures FROM gpuscan_devices'),
	join("\n", map { "cuda:$_|Fake GPU $_|running|10737418240|8589934592|0|0|0" } 0, 1), 'the view shows both');
is(device_of($none), 'cuda:0 (Fake GPU 0)', 'the first serves where none has a request');
cmp_ok(cost_of($grouped), '<', $cost, 'a plan costs less on GPUs');
same_answer($node, $none, 'a scan without rows');

# The device's memory as a whole
sql("ALTER SYSTEM SET gpuscan.device_memory_limit = '1MB'");
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT min(memory_limit) = 1048576 FROM gpuscan_devices}), 'a lower limit');
sleep 1;
like(replaced($node, $grouped), qr/memory/, 'a grouping does not fit');
same_answer($node, $grouped, 'its answer is right');
sql('ALTER SYSTEM RESET gpuscan.device_memory_limit');
$node->reload;

# A kernel that does not compile
set('no-compiler');
same_answer($node, 'SELECT a, count(*), max(f) FROM t GROUP BY a ORDER BY a', 'the answer is right without a kernel');
clear('no-compiler');
ok($node->wait_for_log(qr/LOG:  gpuscan device "cuda:0": a kernel does not compile: the fake compiler compiles nothing/), 'the log says why');

# One fails until it is left alone.
set('broken-0');
fails($grouped, 'the answer is right on a broken GPU');
is(state_of('cuda:0'), 'running 1', 'it is tried again');
fails($grouped, 'the answer is right again');
is(state_of('cuda:0'), 'left alone 2', 'it is left alone');
is(state_of('cuda:1'), 'running 0', 'the other runs');
is(device_of($none), 'cuda:1 (Fake GPU 1)', 'and serves');
clear('broken-0');
$log = slurp_file($node->logfile);
like($log, qr/LOG:  gpuscan device "cuda:0": a call of the CUDA driver failed: FAKE_ERROR_LAUNCH_FAILED/, 'the log has the reason');
is(scalar(() = $log =~ /gpuscan leaves device "cuda:0" alone after 2 failures in a row/g), 1, 'the log says once that it is left alone');
like($log, qr/gpuscan runs on cuda:1 \(Fake GPU 1\)\n.*Left out: cuda:0 \(it failed too often\)/, 'and who serves');

# A request that ends well starts the count anew.
foreach my $n (1 .. 3)
{
	set('broken-1');
	fails($grouped, "failure $n: the answer is right");
	clear('broken-1');
	is(state_of('cuda:1'), "running $n", "failure $n: it serves on");
	same_answer($node, $none, "failure $n: a request ends well");
}

# The last one: the cpu device takes their place, until the server's restart.
set('broken-1');
fails($grouped, 'the answer is right when the last GPU breaks');
fails($grouped, 'and when it breaks again');
clear('broken-1');
is(device_of($grouped), 'cpu', 'the cpu device serves');
is(replaced($node, $grouped), undef, 'and answers');
same_answer($node, $grouped, 'rightly');
is(sql(q{SELECT string_agg(device || ' ' || state, ', ' ORDER BY device) FROM gpuscan_devices}), 'cpu running, cuda:0 left alone, cuda:1 left alone', 'the view shows it');
no_requests_left($node, 'no request is left');
$node->restart;
wait_until_offloaded($node);
is(sql(q{SELECT string_agg(device || ' ' || state || failures, ', ' ORDER BY device) FROM gpuscan_devices}), 'cuda:0 running0, cuda:1 running0', 'a restart forgets');

# A list: what is not there is left out; a request goes to the device that has fewest.
$node->append_conf('postgresql.conf', q{gpuscan.device = 'cuda:7, cpu, cuda:1'});
$node->restart;
wait_until_offloaded($node);
like(slurp_file($node->logfile), qr/gpuscan runs on cpu, cuda:1 \(Fake GPU 1\)\n.*Left out: cuda:7 \(there is no CUDA device of this number\)/, 'a list with a device that is not there');
my $session = $node->background_psql('postgres');
$session->query_safe('SET gpuscan.force = on');
$session->query_safe('BEGIN');
$session->query_safe('DECLARE c CURSOR FOR SELECT id FROM t WHERE a = 3');
$session->query_safe('FETCH 3 FROM c');
is(sql('SELECT device FROM gpuscan_activity'), 'cpu', 'a cursor holds the first device');
is(sql('SELECT device, running FROM gpuscan_devices ORDER BY 1'), "cpu|1\ncuda:1|0", 'which has one request');
is(device_of($none), 'cuda:1 (Fake GPU 1)', 'so the next goes to the second');
$session->query_safe('COMMIT');
$session->quit;
no_requests_left($node, 'no request is left by the cursor');

$node->append_conf('postgresql.conf', q{gpuscan.device = 'cuda:7'});
$node->restart;
wait_until_offloaded($node);
same_answer($node, $grouped, 'the cpu device takes the place of one that is not there');
like(slurp_file($node->logfile), qr/gpuscan runs on cpu\n.*Left out: cuda:7/, 'the log says so');
$node->stop('fast');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal (?!9|15)|TRAP:/, 'nothing crashed');

done_testing();
