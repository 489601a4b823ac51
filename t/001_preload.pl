# Loading: by shared_preload_libraries alone, in any order with other libraries.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init;
$plain->start;
my ($status, $stdout, $stderr) = $plain->psql('postgres', "LOAD 'gpuscan'");
isnt($status, 0, 'LOAD without preloading fails');
like($stderr, qr/ERROR: .*gpuscan must be loaded when the server starts/, 'the message is clear');
like($stderr, qr/HINT: .*shared_preload_libraries.*restart/si, 'the hint says what to do');
is($plain->safe_psql('postgres', 'SELECT 1'), '1', 'the server lives');
($status, $stdout, $stderr) = $plain->psql('postgres', 'SELECT 1',
	extra_params => [], connstr => $plain->connstr('postgres') . " options='-c session_preload_libraries=gpuscan'");
isnt($status, 0, 'session_preload_libraries fails too');
$plain->stop;

# The library that comes first has its hooks called last.
my $query = 'SELECT a, count(*), sum(n) FROM t GROUP BY a ORDER BY a';
foreach my $libraries ('gpuscan', 'pg_stat_statements,auto_explain,gpuscan', 'gpuscan,pg_stat_statements,auto_explain')
{
	my $name = 'with_' . ($libraries =~ tr/a-z_/-/cr);
	my $node = start_node($name, shared_preload_libraries => $libraries, compute_query_id => 'on',
		$libraries =~ /auto_explain/ ? ('auto_explain.log_min_duration' => 0, 'auto_explain.log_analyze' => 'on') : ());
	fill($node, 5000);
	ok(ours($node, $query), "$libraries: the plan is ours");
	same_answer($node, $query, "$libraries: the answer is right");
	same_answer($node, 'SELECT id FROM t WHERE a = 3 ORDER BY id', "$libraries: of a scan too");
	is(replaced($node, $query), undef, "$libraries: on the device");
	$node->stop;
}

done_testing();
