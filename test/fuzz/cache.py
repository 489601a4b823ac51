#!/usr/bin/env python3
"""Writers against readers: is what the column cache answers what PostgreSQL would?

Some sessions change tables in every way that there is, others compare: in one
REPEATABLE READ or SERIALIZABLE transaction a query runs with gpuscan.enabled off
and on, several times, so that snapshots grow old while the tables change.  What
each session does follows from the seed; how they interleave does not.

A difference, an error that is not expected, or too few blocks from the cache end
the run with status 1.

    cache.py --dsn 'host=/tmp dbname=postgres' --seed 1 --seconds 60
    cache.py ... --reader-dsn 'port=5433'       readers on a hot standby
"""

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter

import libpq

TABLES = ('t0', 't1', 'parts')
PARTS = ('parts_1', 'parts_2')
FILES = ('t0', 't1') + PARTS

# Of statements that meet other sessions' ones
EXPECTED = {'42P07', '42704', '40001', '40P01', '55P03', '42P01', '42703', '42701', '23505', '57014', '55006', '25001', '0A000', '23514', '54000'}
# tuple concurrently updated, and the like, among concurrent ALTERs
EXPECTED_TEXTS = ('concurrently', 'cache lookup failed', 'could not open relation')


class Failure(Exception):
    pass


def rows(a, b):
    return ('SELECT i, i %% 37, (i * 7919) %% 100000 - 50000, (i %% 1000) * 0.01, timestamp \'2026-01-01\' + i * interval \'1 s\','
            ' CASE WHEN i %% 11 > 0 THEN \'key \' || i %% 53 END, CASE WHEN i %% 997 = 0 THEN repeat(md5(i::text), 200) ELSE md5(i::text) END,'
            ' i * 0.5::float8 FROM generate_series(%d, %d) i' % (a, b))


COLUMNS = 'id, k, v, n, d, s, big, f'


def setup(session, count):
    for sql in ['CREATE EXTENSION IF NOT EXISTS pg_visibility', 'DROP TABLE IF EXISTS t0, t1, parts, fresh']:
        session.execute(sql)
    for name in ('t0', 't1', 'parts'):
        session.execute('CREATE TABLE %s (id int NOT NULL, k int, v int8, n numeric(10,2), d timestamp, s text, big text, f float8)%s' %
                        (name, ' PARTITION BY RANGE (id)' if name == 'parts' else
                         ' WITH (autovacuum_enabled = off, fillfactor = %d)' % (100 if name == 't0' else 70)))
    session.execute('CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (20000) WITH (autovacuum_enabled = off)')
    session.execute('CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (20000) TO (MAXVALUE) WITH (autovacuum_enabled = off)')
    for name in TABLES:
        session.execute('INSERT INTO %s (%s) %s' % (name, COLUMNS, rows(1, count)))
        session.execute('CREATE INDEX ON %s (id)' % name)
    session.execute('VACUUM')


class Session:
    def __init__(self, options, dsn, number):
        self.options = options
        self.random = random.Random('%d %d' % (options.seed, number))
        self.connection = libpq.Connection(dsn)
        self.counts = Counter()
        self.log = []

    def execute(self, sql):
        self.log = self.log[-30:] + [sql[:300]]
        return self.connection.execute(sql)

    def attempt(self, *statements):
        """Runs them; an error that is to be expected ends the transaction."""
        try:
            for sql in statements:
                self.execute(sql)
            return True
        except libpq.Error as error:
            if self.connection.is_lost():
                raise
            if error.sqlstate not in EXPECTED and not any(text in str(error) for text in EXPECTED_TEXTS):
                raise Failure('%s: %s' % (statements, error))
            self.counts['failed statements'] += 1
            self.execute('ROLLBACK')
            return False


class Writer(Session):
    def change(self):
        r = self.random
        table = r.choice(TABLES)
        low = r.randrange(self.options.rows)
        high = low + r.choice((0, 1, 5, 200, 2000))
        kind = r.randrange(7)
        if kind == 0:
            return 'INSERT INTO %s (%s) %s' % (table, COLUMNS, rows(low, min(high, low + 500)))
        if kind == 1:
            return 'UPDATE %s SET v = v + 1, n = n + 0.01 WHERE id BETWEEN %d AND %d' % (table, low, high)
        if kind == 2:
            return 'UPDATE %s SET s = \'key \' || %d WHERE id %% %d = 0' % (table, r.randrange(60), r.choice((500, 5000)))
        if kind == 3:
            return 'DELETE FROM %s WHERE id BETWEEN %d AND %d' % (table, low, high)
        if kind == 4:
            return 'UPDATE %s SET big = repeat(\'x\', %d) WHERE id = %d' % (table, r.choice((1, 100, 5000, 100000)), low)
        if kind == 5:
            return 'SELECT id FROM %s WHERE id BETWEEN %d AND %d FOR UPDATE' % (table, low, min(high, low + 50))
        return 'UPDATE %s SET k = NULL, s = NULL, f = \'NaN\' WHERE id = %d' % (table, low)

    def transaction(self):
        r = self.random
        statements = ['BEGIN']
        for _ in range(r.randrange(1, 4)):
            if r.random() < 0.3:
                statements += ['SAVEPOINT s', self.change(), r.choice(('ROLLBACK TO s', 'RELEASE s'))]
            else:
                statements.append(self.change())
        if r.random() < 0.2:
            statements.append('SELECT pg_sleep(0.05)')
        self.attempt(*statements, r.choice(('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK')))

    def refill(self, table):
        r = self.random
        self.attempt('BEGIN', 'TRUNCATE %s' % table,
                     'INSERT INTO %s (%s) %s' % (table, COLUMNS, rows(1, r.randrange(1, self.options.rows))),
                     r.choice(('COMMIT', 'COMMIT', 'ROLLBACK')))

    def copy_freeze(self):
        """Frozen rows twice into a new table, with a query between, which must not be cached: a few fit its last page."""
        path = '/tmp/gpuscan_cache_%s_%d' % (self.options.seed, id(self))
        name = 'fresh_%d' % (id(self) % 1000000)
        self.attempt('COPY (%s) TO \'%s\'' % (rows(1, 3000), path), 'COPY (%s) TO \'%s_few\'' % (rows(1, 2), path))
        self.attempt('DROP TABLE IF EXISTS %s' % name, 'BEGIN', 'CREATE TABLE %s (LIKE t0)' % name,
                     'ALTER TABLE %s DROP COLUMN IF EXISTS extra' % name, 'COPY %s FROM \'%s\' (FREEZE)' % (name, path))
        for last in (False, True):
            try:
                before = self.execute('SELECT count(*), sum(v) FROM %s' % name)
                self.execute('SET LOCAL gpuscan.enabled = off')
                if before != self.execute('SELECT count(*), sum(v) FROM %s' % name):
                    raise Failure('after COPY FREEZE')
                self.execute('SET LOCAL gpuscan.enabled = on')
                if not last:
                    self.execute('COPY %s FROM \'%s\' (FREEZE)' % (name, path + self.random.choice(('', '_few', '_few'))))
            except libpq.Error:
                break
        self.attempt('COMMIT')
        self.counts['COPY FREEZE'] += 1

    def alter(self):
        r = self.random
        table = r.choice(TABLES)
        self.attempt(*r.choice((
            ['ALTER TABLE %s ADD COLUMN extra int DEFAULT %d' % (table, r.randrange(100))],
            ['ALTER TABLE %s DROP COLUMN IF EXISTS extra' % table],
            ['BEGIN', 'ALTER TABLE %s ADD COLUMN extra int DEFAULT %d' % (table, r.randrange(100)),
             'SELECT count(extra), sum(extra) FROM %s' % table, 'ROLLBACK'],
            ['ALTER TABLE %s ALTER v TYPE %s' % (table, r.choice(('int4', 'int8', 'int8')))],
            ['ALTER TABLE %s ALTER n TYPE numeric(12,%d)' % (table, r.choice((2, 2, 3)))],
            ['ALTER TABLE %s SET UNLOGGED' % r.choice(FILES)],
            ['ALTER TABLE %s SET LOGGED' % r.choice(FILES)],
            ['CREATE INDEX extra_index ON %s (v)' % table, 'DROP INDEX extra_index'])))

    def step(self):
        r = self.random
        file = r.choice(FILES)
        kind = r.random()
        if kind < 0.62:
            self.transaction()
        elif kind < 0.85:
            self.attempt('VACUUM %s %s' % (r.choice(('', '', '(FREEZE)', '(INDEX_CLEANUP off)', '(DISABLE_PAGE_SKIPPING)')), file))
        elif kind < 0.87:
            self.attempt(r.choice(('VACUUM FULL %s' % file, 'CLUSTER %s USING %s_id_idx' % (file, file))))
        elif kind < 0.89:
            self.refill(r.choice(TABLES))
        elif kind < 0.91:
            self.copy_freeze()
        elif kind < 0.94:
            self.alter()
        elif kind < 0.95:
            self.attempt('DELETE FROM %s WHERE id > %d' % (file, r.randrange(self.options.rows)), 'VACUUM %s' % file)
        elif kind < 0.96:
            self.attempt('SELECT pg_truncate_visibility_map(\'%s\')' % file)
        elif kind < 0.97:
            self.attempt('CHECKPOINT')
        else:
            self.attempt('SELECT count(*) FROM %s WHERE id %% 3 = 0' % file)      # prunes
        self.counts['steps'] += 1
        time.sleep(r.choice((0, 0, 0.01, 0.05)))

    def prepare(self):
        self.execute('SET lock_timeout = \'2s\'')
        self.execute('SET gpuscan.force = on')
        if self.random.random() < 0.5:
            self.execute('SET synchronous_commit = off')


class Reader(Session):
    def query(self):
        r = self.random
        table = r.choice(TABLES)
        low = r.randrange(self.options.rows)
        return r.choice((
            'SELECT count(*) FROM {t}',
            'SELECT count(*), sum(v), min(d), max(d), max(f) FROM {t} WHERE id >= {low}',
            'SELECT k, count(*), sum(n), max(v), count(DISTINCT s) FROM {t} GROUP BY k',
            'SELECT s, count(*), sum(v), min(id) FROM {t} WHERE k BETWEEN 3 AND 20 GROUP BY s',
            'SELECT count(*), sum(length(big)) FROM {t} WHERE s LIKE \'key 1%\'',
            'SELECT count(extra), sum(extra), sum(v) FROM {t}',
            'SELECT id % 100, count(*), sum(v), max(n), count(s) FROM {t} GROUP BY id % 100',
            'SELECT count(*), count(s), min(id), max(v), min(n), max(n), min(d), max(f) FROM {t} WHERE id >= {low}',
            'SELECT split_part(s, \' \', 2) || k, count(*), sum(length(left(big, 100) || k)) FROM {t} GROUP BY 1',
            'SELECT count(*), sum(v), count(k || s || extra) FROM {t} WHERE big || k ~ \'7.?1$\'',
            'SELECT count(*), sum(n) FROM {t} WHERE d >= timestamp \'2026-01-01 02:00\' AND v > 0',
            'SELECT id, v, n, d, s, ctid FROM {t} WHERE id BETWEEN {low} AND {low} + 30',
            'SELECT {t}, tableoid::regclass FROM {t} WHERE v BETWEEN {low} - 50000 AND {low} - 49990',
            'SELECT id, big FROM {t} WHERE s = \'key 7\' AND n BETWEEN 2 AND 3',
            'SELECT id, k, s FROM {t} WHERE f = \'NaN\' OR k IS NULL',
            'SELECT id, v, s, ctid FROM {t} WHERE s || k ~ \'^key [17].?7?$\' AND id > {low}',
            'SELECT id, big FROM {t} WHERE left(big, 3) || k IN (\'a007\', \'{low}\', \'xxx3\')',
            'SELECT id, extra FROM {t} WHERE s || k || extra = \'key 1717{low}\' OR n::text || k = \'0.{low}\'',
            'SELECT id, f FROM {t} WHERE v > 0 AND sqrt(v + k) BETWEEN 100 AND 100.1',
            'SELECT id, v FROM {t} WHERE CASE WHEN id <> {low} THEN 1000 / (id - {low}) IN (333, -250) ELSE s IS NULL END',
        )).format(t=table, low=low)

    def compare(self, query):
        try:
            self.execute('SET LOCAL gpuscan.enabled = off')
            off = sorted(map(str, self.execute(query)))
            self.execute('SET LOCAL gpuscan.enabled = on')
            if self.random.random() < 0.05:
                self.execute('SET LOCAL statement_timeout = %d' % self.random.randrange(1, 30))
            on = sorted(map(str, self.execute(query)))
            self.execute('SET LOCAL statement_timeout = 0')
            if self.random.random() < 0.3:
                plan = json.loads(self.execute('EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' + query)[0][0])
                self.add_counters(plan[0]['Plan'])
        except libpq.Error as error:
            if self.connection.is_lost() or error.sqlstate not in EXPECTED | {'25P02', '40001'}:
                raise Failure('%s: %s' % (query, error))
            self.counts['failed queries'] += 1
            return False
        self.counts['compared'] += 1
        if on != off:
            again = sorted(map(str, self.execute(query)))
            self.execute('SET LOCAL gpuscan.enabled = off')
            last = sorted(map(str, self.execute(query)))
            raise Failure('%s differs: off %s, on %s; again on %s, off %s' % (query, off[:5], on[:5], again[:5], last[:5]))
        return True

    def add_counters(self, node):
        scan = node.get('Custom Plan Provider') == 'GpuScan'
        for name in ('Blocks Cached', 'Blocks Read', 'Blocks Loaded', 'Blocks Loose', 'Blocks Loose on Device'):
            self.counts[name + (', scans' if scan else '')] += node.get(name, 0)
        if scan and '||' in str(node['Device Filter']):
            self.counts['Blocks Cached, scans by expressions'] += node['Blocks Cached']
        self.counts['plans on cuda'] += str(node.get('Device')).startswith('cuda')
        if node.get('Replaced Plan'):
            self.counts['replaced: ' + node['Replaced Plan']] += 1
        for child in node.get('Plans', ()):
            self.add_counters(child)

    def step(self):
        r = self.random
        standby = self.options.reader_dsn is not None
        levels = ('REPEATABLE READ',) if standby else ('REPEATABLE READ', 'REPEATABLE READ', 'SERIALIZABLE')
        self.execute('BEGIN ISOLATION LEVEL %s' % r.choice(levels))
        try:
            queries = [self.query() for _ in range(r.choice((1, 1, 2, 6)))]
            for number in range(len(queries) * r.choice((1, 1, 2))):
                if not self.compare(queries[number % len(queries)]):
                    return
                if not standby and r.random() < 0.1:
                    try:
                        self.execute('UPDATE t1 SET v = v + 3 WHERE id = %d' % r.randrange(self.options.rows))
                    except libpq.Error:
                        return
                if r.random() < 0.3:
                    time.sleep(r.choice((0.01, 0.1, 0.5)))
        finally:
            self.attempt(r.choice(('COMMIT', 'ROLLBACK')))

    def prepare(self):
        for sql in ('SET lock_timeout = \'5s\'', 'SET gpuscan.force = on', 'SET enable_indexscan = off',
                    'SET enable_indexonlyscan = off', 'SET enable_bitmapscan = off', 'SET work_mem = \'64MB\''):
            self.execute(sql)
        if self.random.random() < 0.3:
            self.execute('SET force_parallel_mode = on')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--dsn', default='')
    parser.add_argument('--reader-dsn')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--writers', type=int, default=3)
    parser.add_argument('--readers', type=int, default=3)
    parser.add_argument('--rows', type=int, default=40000)
    options = parser.parse_args()

    first = libpq.Connection(options.dsn)
    setup(first, options.rows)
    if options.reader_dsn is not None:
        time.sleep(2)
    end = time.monotonic() + options.seconds
    failures = []
    sessions = [Writer(options, options.dsn, i) for i in range(options.writers)]
    sessions += [Reader(options, options.reader_dsn or options.dsn, 1000 + i) for i in range(options.readers)]

    def run(session):
        try:
            session.prepare()
            while time.monotonic() < end and not failures:
                session.step()
        except (Failure, libpq.Error) as failure:
            failures.append('%s\n  %s' % (failure, '\n  '.join(session.log[-12:])))

    threads = [threading.Thread(target=run, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    counts = sum((session.counts for session in sessions), Counter())
    for name, count in sorted(counts.items()):
        print('%s: %d' % (name, count))
    if not failures and counts['Blocks Cached'] < counts['Blocks Read'] / 10:
        failures.append('only %d blocks came from the cache' % counts['Blocks Cached'])
    if not failures and counts['Blocks Cached, scans'] < counts['Blocks Read, scans'] / 10:
        failures.append('only %d blocks were sought in the cache by scans' % counts['Blocks Cached, scans'])
    if not failures and counts['compared'] > 500 and counts['Blocks Cached, scans by expressions'] == 0:
        failures.append('no blocks were sought by expressions')
    if not failures and counts['plans on cuda'] > 500 and counts['Blocks Loose on Device'] == 0:
        failures.append('the device kept no pages')
    for failure in failures:
        print('seed %d: %s' % (options.seed, failure))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
