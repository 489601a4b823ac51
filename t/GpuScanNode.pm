# Clusters with gpuscan preloaded, and what the tests ask of them.
package GpuScanNode;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(start_node fill same_answer ours replaced wait_until_offloaded no_requests_left start_query end_query cancel_behind_service);

# A running cluster with the extension.  Settings are NAME => VALUE.
sub start_node
{
	my ($name, %settings) = @_;
	my $streaming = delete $settings{streaming};
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(extra => [ '--encoding=UTF8', '--no-locale' ], $streaming ? (allows_streaming => 1) : ());
	%settings = (
		shared_preload_libraries => 'gpuscan',
		restart_after_crash => 'on',
		max_parallel_workers_per_gather => 0,
		'gpuscan.cache_refresh_interval' => 0,
		%settings);
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'") foreach sort keys %settings;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION gpuscan');
	wait_until_offloaded($node);
	return $node;
}

# A table t of so many rows.
sub fill
{
	my ($node, $rows) = @_;

	$node->safe_psql('postgres', qq{
		CREATE TABLE t AS SELECT i AS id, i % 10 AS a, 'x' || i % 100 AS b, (i % 1000 / 10.0)::numeric(8,2) AS n,
			i * 0.5::float8 AS f, repeat('p', i % 50) AS pad FROM generate_series(1, $rows) i;
		VACUUM ANALYZE t;});
}

# The plan's text with gpuscan forced; the settings come first in the session.
sub explained
{
	my ($node, $query, $options, $settings) = @_;

	return $node->safe_psql('postgres',
		"SET gpuscan.force = on; @{[ $settings // '' ]}; EXPLAIN ($options COSTS OFF) $query");
}

# Does the plan have a node of ours?
sub ours
{
	my ($node, $query) = @_;

	return explained($node, $query, '') =~ /Custom Scan \(Gpu(Agg|Scan)\)/;
}

# Why the replaced plan ran, or undef.
sub replaced
{
	my ($node, $query, $settings) = @_;

	return explained($node, $query, 'ANALYZE, TIMING OFF, SUMMARY OFF,', $settings) =~ /Replaced Plan: (.*)/ ? $1 : undef;
}

# The service may be starting, or coming back.
sub wait_until_offloaded
{
	my ($node) = @_;
	my $query = 'SELECT count(*) FROM probe';
	my $reason;

	$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS probe AS SELECT 1 AS x')
	  if $node->safe_psql('postgres', 'SELECT pg_is_in_recovery()') eq 'f';
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$reason = replaced($node, $query);
		return 1 if !defined $reason;
		select undef, undef, undef, 0.1;
	}
	BAIL_OUT("queries are not offloaded: $reason");
}

# The query gives what it gives without us, and its plan is ours.
sub same_answer
{
	my ($node, $query, $name, $settings) = @_;
	my $off = $node->safe_psql('postgres', "SET gpuscan.enabled = off; $query");
	my $on = $node->safe_psql('postgres', "SET gpuscan.force = on; @{[ $settings // '' ]}; $query");

	is($on, $off, $name);
}

# Polls, for a killed backend takes a moment to end.
sub no_requests_left
{
	my ($node, $name) = @_;

	ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM gpuscan_activity'), $name);
}

# Starts a query in a background session, and waits for its end: returns what it printed.
sub start_query
{
	my ($session, $query) = @_;

	$session->{printed} = $session->query_until(qr/begun/, "\\echo begun\n$query;\n\\echo ended\n");
}

sub end_query
{
	my ($session) = @_;

	# all of it may have come at once
	$session->{printed} .= $session->query_until(qr/ended/, "\\echo\n") if $session->{printed} !~ /ended/;
	return $session->{printed};
}

# Starts a query in a background session, and stops the service so many seconds later.  If the query is still there
# it is cancelled, then another session runs `meanwhile`; true if so.  Then the service goes on.
sub cancel_behind_service
{
	my ($node, $session, $query, $delay, $admin, $meanwhile) = @_;
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $service = $admin->query_safe('SELECT pid FROM gpuscan_service');
	my $cancelled;

	# else the service ends the request before the device has got much further
	$session->query_safe(q{SET gpuscan.inject_fault = 'wait:close'});
	start_query($session, $query);
	select undef, undef, undef, $delay;
	kill 'STOP', $service;
	$cancelled = $admin->query_safe("SELECT state FROM pg_stat_activity WHERE pid = $pid") eq 'active';
	if ($cancelled)
	{
		$admin->query_safe("SELECT pg_cancel_backend($pid)");
		end_query($session);
		$admin->query_safe($meanwhile);
	}
	kill 'CONT', $service;

	# else it has ended, or not yet begun, and needs the service
	end_query($session) if !$cancelled;
	$session->query('SELECT 1');
	$session->{stderr} = '';
	$session->query_safe('RESET gpuscan.inject_fault');
	$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM gpuscan_activity');
	return $cancelled;
}

1;
