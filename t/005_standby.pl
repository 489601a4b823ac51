# A streaming hot standby offloads its queries too, while changes arrive.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuScanNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = start_node('primary', streaming => 1);
fill($primary, 20_000);
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

my @queries = (
	'SELECT a, count(*), sum(n), max(id) FROM t GROUP BY a ORDER BY a',
	'SELECT count(*), sum(id) FROM t WHERE a = 3',
	'SELECT id, pad FROM t WHERE a = 4 AND id % 500 = 4 ORDER BY id',
	'SELECT count(DISTINCT b), avg(f) FROM t');

sub compare
{
	my ($name) = @_;

	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	foreach my $query (@queries)
	{
		my $on = $standby->safe_psql('postgres', "SET gpuscan.force = on; $query");
		is($on, $standby->safe_psql('postgres', "SET gpuscan.enabled = off; $query"), "$name: off and on: $query");
		is($on, $primary->safe_psql('postgres', "SET gpuscan.enabled = off; $query"), "$name: as on the primary");
	}
}

compare('at first');
wait_until_offloaded($standby);
ok(ours($standby, $_), "ours: $_") foreach @queries;
is(replaced($standby, $_), undef, "on the device: $_") foreach @queries;

my @changes = (
	[ 'updated', 'UPDATE t SET a = 3 WHERE id % 7 = 0' ],
	[ 'deleted', 'DELETE FROM t WHERE id % 11 = 0' ],
	[ 'vacuumed', 'VACUUM t' ],
	[ 'inserted', "INSERT INTO t SELECT i, i % 10, 'new', 1, 1, 'pad' FROM generate_series(30001, 31000) i" ],
	[ 'aborted', 'BEGIN; DELETE FROM t; ROLLBACK' ],
	[ 'column added', 'ALTER TABLE t ADD COLUMN extra int DEFAULT 4' ],
	[ 'frozen', 'VACUUM FREEZE t' ],
	[ 'rewritten', 'VACUUM FULL t' ],
	[ 'truncated', 'TRUNCATE t' ]);
foreach my $change (@changes)
{
	$primary->safe_psql('postgres', $change->[1]);
	compare($change->[0]);
}

# Promoted, it goes on.
$primary->safe_psql('postgres', 'INSERT INTO t (id, a, n) SELECT i, i % 10, i FROM generate_series(1, 5000) i');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$primary->stop('fast');
$standby->promote;
same_answer($standby, $queries[0], 'promoted');
is(replaced($standby, $queries[0]), undef, 'on the device');
no_requests_left($standby, 'no request is left');
$standby->stop('fast');

done_testing();
