#!/usr/bin/env python3
"""The differential fuzzer: PostgreSQL's answers against those with gpuscan.

Each case is a random table and some random queries over it, derived from the
seed and the case's number alone.  A query runs with gpuscan.enabled off, then
on with gpuscan.force; the results have to be the same multiset of rows, or an
error with the same SQLSTATE.  Float sums may differ by rounding (compare.py).

A difference, a lost connection, an internal error, a request that the service
still holds after a query, or too few plans of ours end the run with status 1
and leave a .sql file that shows the case.

    fuzz.py --dsn 'host=/tmp dbname=postgres' --seed 1 --seconds 60
    fuzz.py --dsn ... --seed 1 --one 17        one case again
"""

import argparse
import concurrent.futures
import json
import os
import random
import sys
import time
from collections import Counter

import libpq
from compare import difference
from queries import Queries
from tables import Table

INDEXES = ('enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan')
MODES = {'off': ['SET gpuscan.enabled = off'] + ['RESET ' + name for name in INDEXES],
         'on': ['SET gpuscan.enabled = on', 'SET gpuscan.force = on'] + ['RESET ' + name for name in INDEXES],
         'no index': ['SET gpuscan.enabled = off'] + ['SET %s = off' % name for name in INDEXES]}
CASE_SETTINGS = (('enable_hashagg', ('on', 'on', 'off')), ('work_mem', ("'4MB'", "'4MB'", "'64kB'")),
                 ('timezone', ("'UTC'", "'Europe/Berlin'", "'America/New_York'", "'Asia/Kolkata'")),
                 ('extra_float_digits', ('1', '1', '0')))
# Of several errors in one query the plan decides which is raised first.
SAME_CLASS = ('22',)


class Failure(Exception):
    pass


class Counts:
    def __init__(self):
        self.cases = self.queries = self.ours = self.agg = self.scan = 0
        self.errors = Counter()      # by SQLSTATE
        self.analyzed = self.spared = 0
        self.analyzed_scans = self.cached_scans = 0
        self.loading_scans = 0       # that had expressions evaluated for the cache
        self.replaced = Counter()    # of what was looked at, by reason
        self.devices = Counter()     # that ran what was looked at

    def add(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self):
        return ('%d cases, %d queries: %d ours (%d with GpuAgg, %d with GpuScan), %s; '
                '%d looked at ran on %s, replaced plan in %d%s; '
                '%d of %d scans looked at had cached columns, %d loaded expressions; an error spared by a split filter in %d'
                % (self.cases, self.queries, self.ours, self.agg, self.scan,
                   ', '.join('%d with error %s' % (n, code) for code, n in self.errors.most_common()) or 'no errors',
                   self.analyzed, ' and '.join('%s (%d)' % d for d in self.devices.most_common()) or 'no device',
                   self.replaced.total(), ''.join(' (%d: %s)' % (n, why) for why, n in self.replaced.most_common()),
                   self.cached_scans, self.analyzed_scans, self.loading_scans, self.spared))


def providers(node, found):
    """Collects what a JSON plan says of our nodes."""
    if isinstance(node, dict):
        if 'Custom Plan Provider' in node:
            found.add(node['Custom Plan Provider'])
        if 'Replaced Plan' in node:
            found.add('replaced: ' + node['Replaced Plan'])
        if 'Device' in node:
            found.add('device ' + node['Device'])
        if node.get('Custom Plan Provider') == 'GpuScan' and node.get('Blocks Cached'):
            found.add('cached scan')
        if node.get('Custom Plan Provider') == 'GpuScan' and node.get('Tuples Evaluated'):
            found.add('loading scan')
        if node.get('Node Type') == 'Aggregate':
            found.add('Aggregate')
        if 'Device Filter' in node and 'Filter' in node and node['Custom Plan Provider'] == 'GpuScan':
            found.add('split filter')
        for child in node.values():
            providers(child, found)
    elif isinstance(node, list):
        for child in node:
            providers(child, found)
    return found


class Session:
    """One connection; results as the server's text."""

    def __init__(self, dsn):
        self.connection = libpq.Connection(dsn)

    def run(self, sql):
        """The rows, or the SQLSTATE of an error."""
        try:
            return self.connection.execute(sql)
        except libpq.Error as error:
            if self.connection.is_lost() or error.sqlstate is None or error.sqlstate.startswith('57P'):
                raise Failure('connection lost: %s' % error)
            return error.sqlstate

    def must(self, sql):
        result = self.run(sql)
        if isinstance(result, str):
            raise Failure('the fuzzer\'s own statement failed with %s: %s' % (result, sql))
        return result


class Fuzzer:
    def __init__(self, options):
        self.options = options
        self.counts = Counts()
        self.schema = 'fuzz_%d' % os.getpid()      # several may run at once
        os.makedirs(options.out, exist_ok=True)

    # One query -----------------------------------------------------------------

    def execute(self, session, query, mode):
        for setting in MODES[mode]:
            session.must(setting)
        results = [session.run(statement.sql) for statement in query.statements]
        for statement in query.cleanup:
            session.run(statement)
        return results

    def look(self, session, query, analyze):
        """Which of our nodes the plan has, planned as in mode `on`."""
        for setting in MODES['on']:
            session.must(setting)
        for statement in query.statements[:query.before]:
            session.run(statement.sql)
        options = 'ANALYZE, TIMING OFF, SUMMARY OFF, ' if analyze else ''
        plan = session.run('EXPLAIN (%sFORMAT JSON) %s' % (options, query.explain))
        for statement in query.cleanup:
            session.run(statement)
        return set() if isinstance(plan, str) else providers(json.loads(plan[0][0]), set())

    def compare(self, query, off, on, rows):
        for statement, a, b in zip(query.statements, off, on):
            if isinstance(b, str) and b.startswith('XX'):
                return 'internal error %s in: %s' % (b, statement.sql)
            if isinstance(a, str) or isinstance(b, str):
                if a != b and not (isinstance(a, str) and isinstance(b, str) and a[:2] == b[:2] and a[:2] in SAME_CLASS):
                    return '%s, then %s in: %s' % (
                        *('SQLSTATE ' + r if isinstance(r, str) else '%d rows' % len(r) for r in (a, b)), statement.sql)
                continue
            what = difference(a, b, statement.outputs, rows)
            if what:
                return '%s in: %s' % (what, statement.sql)
        return None

    def changed(self, query, results, again):
        """Our own aggregates give the same digits, floats included, on every run."""
        for statement, a, b in zip(query.statements, results, again):
            if sorted(map(repr, a)) != sorted(map(repr, b)):
                return '%s, then %s in: %s' % (
                    *(sorted(set(map(repr, x)) - set(map(repr, y)))[:1] for x, y in ((a, b), (b, a))), statement.sql)
        return None

    def spared(self, off, on):
        """Did only PostgreSQL raise an error?  Where a filter is split, the device's part goes first, as an
        index condition would, and may remove the row that the rest fails on."""
        pairs = [(a, b) for a, b in zip(off, on) if a != b]
        return bool(pairs) and isinstance(pairs[0][0], str) and pairs[0][0][:2] in SAME_CLASS and not isinstance(pairs[0][1], str)

    def check(self, session, query, table, sample):
        counts = self.counts
        counts.queries += 1
        off = self.execute(session, query, 'off')
        if sample:
            counts.loading_scans += 'loading scan' in self.look(session, query, True)
        on = self.execute(session, query, 'on')
        what = self.compare(query, off, on, table.rows)
        if what and 'SQLSTATE' in what:
            # An index scan below a LIMIT stops before a row that a sequential scan fails on.
            what = self.compare(query, self.execute(session, query, 'no index'), on, table.rows)
        if what and self.spared(off, on) and 'split filter' in self.look(session, query, False):
            counts.spared += 1
            return
        if what:
            raise Failure('difference: ' + what)
        counts.errors.update([result for result in off if isinstance(result, str)][:1])
        found = self.look(session, query, False)
        if found & {'GpuAgg', 'GpuScan'}:
            counts.ours += 1
            counts.agg += 'GpuAgg' in found
            counts.scan += 'GpuScan' in found
            # a scan whose columns the first run has loaded reads other blocks
            if sample or 'GpuScan' in found:
                again = self.execute(session, query, 'on')
                what = self.compare(query, on, again, table.rows) if 'Aggregate' in found else self.changed(query, on, again)
                if what:
                    raise Failure('difference between two runs with gpuscan: ' + what)
                if sample and not any(isinstance(result, str) for result in off):
                    found = self.look(session, query, True)
                    devices = [name.partition(' ')[2] for name in found if name.startswith('device ')]
                    counts.analyzed += 1
                    counts.analyzed_scans += 'GpuScan' in found
                    counts.cached_scans += 'cached scan' in found
                    counts.replaced.update([mark.partition(': ')[2] for mark in found if mark.startswith('replaced: ')][:1])
                    counts.devices.update(devices)
                    elsewhere = [device for device in devices if not device.startswith(self.options.device)]
                    if elsewhere:
                        raise Failure('ran on device %s' % elsewhere[0])

    # One case ------------------------------------------------------------------

    def case(self, number):
        rng = random.Random('%s/%d' % (self.options.seed, number))
        settings = ['SET %s = %s' % (name, rng.choice(values)) for name, values in CASE_SETTINGS]
        table = Table(rng)
        queries = Queries(rng, table)
        session = Session(self.options.dsn)
        query = None
        fixed = ['SET client_min_messages = warning', 'SET max_parallel_workers_per_gather = 0',
                 'SET synchronize_seqscans = off', "SET statement_timeout = '120s'",
                 'DROP SCHEMA IF EXISTS %s CASCADE' % self.schema, 'CREATE SCHEMA ' + self.schema,
                 'SET search_path = %s, public' % self.schema]
        setup = fixed + settings + table.setup
        try:
            for statement in setup:
                session.must(statement)
            for i in range(self.options.queries):
                query = queries.make()
                self.check(session, query, table, i % 8 == 0)
            query = None
            self.check_released(session)
        except Failure as failure:
            self.report(number, setup, query, failure)
            raise
        finally:
            if not session.connection.is_lost():
                session.run('DROP SCHEMA IF EXISTS %s CASCADE' % self.schema)
            session.connection.close()
        self.counts.cases += 1

    def check_released(self, session):
        if session.must("SELECT to_regclass('gpuscan_activity') IS NOT NULL") == [('t',)]:
            # an aborted query does not wait for the device to let go
            deadline = time.monotonic() + 5
            while True:
                left = session.must('SELECT count(*) FROM gpuscan_activity WHERE pid = pg_backend_pid()')[0][0]
                if left == '0':
                    return
                if time.monotonic() > deadline:
                    raise Failure('%s requests left in the service after the last query' % left)
                time.sleep(0.01)

    def report(self, number, setup, query, failure):
        path = os.path.join(self.options.out, 'seed-%s-case-%d.sql' % (self.options.seed, number))
        with open(path, 'w') as out:
            out.write('-- fuzz.py --seed %s --one %d\n-- %s\n' % (self.options.seed, number, str(failure).replace('\n', ' ')))
            out.writelines(statement + ';\n' for statement in setup)
            for mode in ('off', 'on') if query else ():
                out.writelines(statement + ';\n' for statement in MODES[mode])
                if mode == 'on' and query.explain:
                    out.writelines(s.sql + ';\n' for s in query.statements[:query.before])
                    out.write('EXPLAIN (VERBOSE, COSTS OFF) %s;\n' % query.explain)
                    out.writelines(s + ';\n' for s in query.cleanup)
                out.writelines(s.sql + ';\n' for s in query.statements)
                out.writelines(s + ';\n' for s in query.cleanup)
        print('seed %s case %d: %.2000s\nto reproduce: %s' % (self.options.seed, number, failure, path))
        if str(failure).startswith('connection lost') and self.options.log:
            with open(self.options.log, errors='replace') as log:
                print(''.join(log.readlines()[-40:]))

    def run(self, job):
        """Runs every options.jobs'th case; true if no case failed."""
        options = self.options
        start = time.monotonic()
        number = options.one if options.one is not None else options.first + job
        while number < options.first + options.cases or number == options.one:
            try:
                self.case(number)
            except Failure:
                return False
            number += options.jobs
            if options.one is not None or time.monotonic() - start > options.seconds:
                break
        return True


def run_job(options, job):
    fuzzer = Fuzzer(options)
    return fuzzer.run(job), fuzzer.counts


def run(options):
    counts = Counts()
    passed = True
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for job_passed, job_counts in pool.map(run_job, [options] * options.jobs, range(options.jobs)):
            passed = passed and job_passed
            counts.add(job_counts)
    print('seed %s: %s' % (options.seed, counts))
    if passed and counts.ours < options.min_ours * counts.queries:
        print('fewer than %g of the queries had a plan of ours' % options.min_ours)
        return False
    if passed and counts.analyzed_scans > 50 and counts.cached_scans * 20 < counts.analyzed_scans:
        print('hardly a scan had cached columns')
        return False
    if passed and counts.analyzed_scans > 1000 and counts.loading_scans == 0:
        print('no scan loaded expressions')
        return False
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--dsn', default='', help='libpq connection string')
    parser.add_argument('--seed', default='1')
    parser.add_argument('--jobs', type=int, default=1, help='processes that share the cases')
    parser.add_argument('--seconds', type=float, default=60, help='start no case after this time')
    parser.add_argument('--cases', type=int, default=sys.maxsize, help='stop after so many cases')
    parser.add_argument('--first', type=int, default=0, help='number of the first case')
    parser.add_argument('--one', type=int, help='run this case only')
    parser.add_argument('--queries', type=int, default=40, help='queries of a case')
    parser.add_argument('--min-ours', type=float, default=0.3, help='share of queries that must have a plan of ours')
    parser.add_argument('--device', default='', help='how the name of the device begins that plans of ours must run on')
    parser.add_argument('--out', default='fuzz-out', help='directory for failing cases')
    parser.add_argument('--log', help="the server's log, shown when a connection is lost")
    sys.exit(0 if run(parser.parse_args()) else 1)


if __name__ == '__main__':
    main()
