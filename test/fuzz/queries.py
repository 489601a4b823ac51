"""Random queries over a table.

A query is a list of statements.  Of each, `outputs` says how its result is
compared; None is a statement without a result.
"""

from dataclasses import dataclass, field
from typing import List, Optional

from expressions import Expressions
from values import INT_RANGE


@dataclass
class Output:
    """How a column is compared: exactly, as a key whose form may vary, or as a float.

    For a float, `scale` is the index of a column that bounds it: sum or avg of
    the absolute values for `sum`, their maximum for `variance` and `stddev`.
    """
    how: str = 'exact'            # exact, value, sum, variance, stddev
    scale: int = -1
    single: bool = False          # sum(float4) adds up in float4


@dataclass
class Statement:
    sql: str
    outputs: Optional[List[Output]] = None


@dataclass
class Query:
    statements: List[Statement] = field(default_factory=list)
    explain: Optional[str] = None     # what to EXPLAIN, once `before` statements ran
    before: int = 0
    cleanup: List[str] = field(default_factory=list)

    def add(self, sql, outputs=None):
        self.statements.append(Statement(sql, outputs))
        return self


class Queries:
    def __init__(self, rng, table):
        self.rng = rng
        self.table = table
        self.columns = table.usable()
        self.numbers = 0

    # Parts of a SELECT ---------------------------------------------------------

    def expressions(self, prefix=''):
        return Expressions(self.rng, self.columns, prefix)

    def where(self, e, share=0.7):
        return ' WHERE ' + e.condition(self.rng.choice((0, 1, 1, 2, 3))) if self.rng.random() < share else ''

    def scan_outputs(self, e):
        rng = self.rng
        texts = [e.expression(e.some_kind(), rng.choice((0, 0, 0, 1, 2))) for _ in range(rng.randint(1, 5))]
        return texts + [e.prefix + 'id']

    def key(self, e):
        """A group key and how its value is compared."""
        rng = self.rng
        keys = [c for c in self.columns if c.name != 'id']
        if rng.random() < 0.75:
            column = rng.choice(keys)
            varies = column.type == 'numeric' or column.kind in ('float4', 'float8')
            return e.name(column), Output('value' if varies else 'exact')
        return e.expression(e.some_kind(), rng.choice((1, 1, 2))), Output('value')

    def filter(self, e, share=0.25):
        return ' FILTER (WHERE %s)' % e.condition(self.rng.choice((0, 1))) if self.rng.random() < share else ''

    def exact_aggregate(self, e):
        rng = self.rng
        kind = e.some_kind()
        argument = e.expression(kind, rng.choice((0, 0, 1, 2)))
        names = ['count', 'min', 'max', 'count DISTINCT']
        if kind in INT_RANGE or kind == 'numeric':
            names += ['sum', 'avg', 'sum', 'avg'] + [rng.choice((
                'stddev', 'stddev_pop', 'stddev_samp', 'variance', 'var_pop', 'var_samp'))]
        if kind in INT_RANGE:
            names += ['bit_and', 'bit_or', 'sum DISTINCT']
        if kind == 'bool':
            names = ['count', 'count DISTINCT', 'bool_and', 'bool_or', 'every']
        elif kind in ('text', 'bpchar') and rng.random() < 0.9:
            names = ['count', 'count DISTINCT']
        name = rng.choice(names)
        if rng.random() < 0.2:
            name, argument = 'count', '*'
        text = ('%s(%s)' % (name, argument) if ' DISTINCT' not in name else
                '%s(DISTINCT %s)' % (name.split()[0], argument)) + self.filter(e)
        # min and max keep one of several equal values: which one is the plan's choice.
        how = Output('value' if name in ('min', 'max') else 'exact')
        form = rng.random()
        if form < 0.05:
            return 'COALESCE(%s, NULL)' % text, how
        if form < 0.10 and name == 'count':
            return '%s * 2 + 1' % text, how
        if form < 0.13 and name == 'sum':
            return '%s / NULLIF(count(*), 0)' % text, how
        return text, how

    def aggregates(self, e, outputs):
        """Adds to outputs, which are (text, Output) already, some aggregates."""
        rng = self.rng
        for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
            outputs.append(self.exact_aggregate(e))
        for _ in range(rng.choice((0, 0, 1, 2))):
            argument, single = e.tame()
            if not argument:
                break
            name = rng.choice(('sum', 'avg', 'sum', 'avg', 'stddev', 'stddev_pop', 'variance', 'var_pop', 'var_samp'))
            condition = self.filter(e)
            bound = {'sum': 'sum', 'avg': 'avg'}.get(name, 'max')
            how = {'sum': 'sum', 'avg': 'sum'}.get(name, 'variance' if name.startswith('var') else 'stddev')
            outputs.append(('%s(abs(%s))%s' % (bound, argument, condition), Output('sum', len(outputs), single)))
            outputs.append(('%s(%s)%s' % (name, argument, condition), Output(how, len(outputs) - 1, single)))
        if not outputs:
            outputs.append(('count(*)', Output()))

    def having(self, e):
        rng = self.rng
        if rng.random() > 0.25:
            return ''
        column = rng.choice(self.columns)
        return ' HAVING ' + rng.choice((
            'count(*) > %d' % rng.randint(0, 5), 'count(%s) %% 2 = 0' % e.name(column),
            'bool_or(%s)' % e.condition(0), 'max(%sid) > %d' % (e.prefix, rng.randint(0, 300)),
            'count(*) > 1 AND min(%sid) < %d' % (e.prefix, rng.randint(1, 300))))

    def aggregate_select(self, e, source, where):
        """SELECT ... GROUP BY as (text, outputs)."""
        rng = self.rng
        outputs, groups = [], []
        if rng.random() < 0.7:
            for _ in range(rng.choice((1, 1, 2, 3))):
                text, how = self.key(e)
                outputs.append((text, how))
                groups.append(text if rng.random() < 0.8 else str(len(outputs)))
        self.aggregates(e, outputs)
        group = ''
        if groups:
            group = ' GROUP BY ' + ', '.join(groups)
            if rng.random() < 0.05:
                group = ' GROUP BY ROLLUP (%s)' % ', '.join(groups)
            elif rng.random() < 0.1 and not any(how.how in ('variance', 'stddev', 'sum') for _, how in outputs):
                # A key that is grouped by and not shown.
                group += ', ' + self.key(e)[0]
        return ('SELECT %s FROM %s%s%s%s' % (', '.join(text for text, _ in outputs), source, where, group, self.having(e)),
                [how for _, how in outputs])

    # Whole queries ---------------------------------------------------------------

    def make(self):
        makers = ((self.aggregate, 40), (self.scan, 16), (self.subquery, 12), (self.prepared, 6), (self.lateral, 5),
                  (self.cursor, 5), (self.sublink, 6), (self.own_changes, 5), (self.join, 4), (self.top, 5))
        maker = self.rng.choices([m for m, _ in makers], [w for _, w in makers])[0]
        return maker()

    def simple(self, sql, outputs):
        return Query(explain=sql).add(sql, outputs)

    def aggregate(self):
        e = self.expressions()
        return self.simple(*self.aggregate_select(e, 't', self.where(e)))

    def scan(self):
        e = self.expressions()
        texts = self.scan_outputs(e)
        if self.rng.random() < 0.1:
            texts.append('t')          # the whole row
        where = ' WHERE ' + e.row_condition() if self.rng.random() < 0.2 else self.where(e, 0.95)
        sql = 'SELECT %s FROM t%s' % (', '.join(texts), where)
        if self.rng.random() < 0.2:
            sql += ' ORDER BY t.id LIMIT %d' % self.rng.randint(1, 40)
        return self.simple(sql, [Output()] * len(texts))

    def top(self):
        """ORDER BY and LIMIT over a unique key."""
        e = self.expressions()
        column = self.rng.choice([c for c in self.columns])
        sql = 'SELECT %s AS k, count(*), max(id) FROM t%s GROUP BY 1 ORDER BY max(id) %s LIMIT %d' % (
            column.name, self.where(e), self.rng.choice(('', 'DESC')), self.rng.randint(1, 20))
        return self.simple(sql, [Output('value'), Output(), Output()])

    def subquery(self):
        rng, e = self.rng, self.expressions()
        form = rng.randrange(4)
        if form == 0:
            inner = 'SELECT %s FROM t%s' % (', '.join(c.name for c in self.columns), self.where(e))
            sql, outputs = self.aggregate_select(e, '(%s) q' % inner, self.where(e))
        elif form == 1:
            inner, outputs = self.aggregate_select(e, 't', self.where(e))
            sql = 'WITH q AS %s(%s) SELECT * FROM q' % (rng.choice(('', 'MATERIALIZED ')), inner)
        elif form == 2:
            key, _ = self.key(e)
            sql = ('SELECT n, count(*) FROM (SELECT %s AS k, count(*) AS n FROM t%s GROUP BY 1) q GROUP BY n'
                   % (key, self.where(e)))
            outputs = [Output(), Output()]
        else:
            parts = [self.aggregate_select(e, 't', self.where(e)) for _ in range(2)]
            sql = 'SELECT count(*) FROM (%s) a UNION ALL SELECT count(*) FROM (%s) b' % tuple(p[0] for p in parts)
            outputs = [Output()]
        return self.simple(sql, outputs)

    def prepared(self):
        rng, e = self.rng, self.expressions()
        column = rng.choice([c for c in self.columns if c.pool] or self.columns)
        self.numbers += 1
        name = 'p%d' % self.numbers
        operator = '=' if column.kind in ('text', 'bpchar', 'bool') else rng.choice(('=', '<', '>=', '<>'))
        where = ' WHERE %s %s $1%s' % (column.name, operator, rng.choice(('', ' AND id < 1000', ' OR $1 IS NULL')))
        sql, outputs = self.aggregate_select(e, 't', where)
        query = Query(before=2, cleanup=['DEALLOCATE ALL', 'RESET plan_cache_mode'])
        query.add('SET plan_cache_mode = %s' % rng.choice(('auto', 'force_generic_plan', 'force_custom_plan')))
        kind = {'bpchar': 'char(5)'}.get(column.kind, column.kind)
        query.add('PREPARE %s(%s) AS %s' % (name, kind, sql))
        for _ in range(rng.choice((1, 3, 7))):
            argument = e.constant(column.kind)
            query.add('EXECUTE %s(%s)' % (name, argument), outputs)
        query.explain = query.statements[-1].sql
        return query

    def lateral(self):
        rng, e = self.rng, self.expressions('t.')
        column = rng.choice([c for c in self.columns if c.pool] or self.columns)
        values = ', '.join('(%d, %s)' % (i, e.constant(column.kind)) for i in range(rng.randint(1, 5)))
        condition = ' WHERE t.%s = v.x' % column.name
        if rng.random() < 0.5:
            condition += ' AND ' + e.condition(1)
        texts, outputs = self.exact_aggregate(e)
        sql = ('SELECT v.i, a.* FROM (VALUES %s) v(i, x), LATERAL (SELECT count(*) AS n, %s AS s FROM t%s) a'
               % (values, texts, condition))
        return self.simple(sql, [Output(), Output(), outputs])

    def cursor(self):
        rng, e = self.rng, self.expressions()
        if rng.random() < 0.5:
            texts = self.scan_outputs(e)
            sql, outputs = 'SELECT %s FROM t%s' % (', '.join(texts), self.where(e)), [Output()] * len(texts)
        else:
            # In order, for FETCH cuts the result where it likes.
            text, how = self.exact_aggregate(e)
            sql = 'SELECT max(id), count(*), %s FROM t%s GROUP BY %s ORDER BY 1' % (text, self.where(e), self.key(e)[0])
            outputs = [Output(), Output(), how]
        if 'ORDER BY' not in sql:
            sql += ' ORDER BY t.id'
        query = Query(explain=sql, before=1, cleanup=['ROLLBACK'])
        query.add('BEGIN')
        scroll = rng.choice(('', 'SCROLL '))
        query.add('DECLARE c %sCURSOR FOR %s' % (scroll, sql))
        query.add('FETCH %d FROM c' % rng.randint(1, 20), outputs)
        if scroll:
            query.add('FETCH BACKWARD 3 FROM c', outputs)
        if rng.random() < 0.5:
            query.add(self.table.some_update())
        query.add('FETCH ALL FROM c', outputs)
        if scroll:
            query.add('MOVE ABSOLUTE 0 FROM c')
            query.add('FETCH ALL FROM c', outputs)
        query.add('CLOSE c')
        return query

    def sublink(self):
        rng, e = self.rng, self.expressions()
        column = rng.choice(self.columns)
        inner = 'SELECT %s FROM t AS s WHERE %s' % (column.name, self.expressions('s.').condition(1))
        sql = 'SELECT %s FROM t WHERE %s' % ('count(*), count(%s)' % column.name, rng.choice((
            '%s IN (%s)' % (column.name, inner), '%s NOT IN (%s)' % (column.name, inner),
            'EXISTS (%s)' % inner, 'id > (SELECT count(*) FROM t WHERE %s)' % e.condition(1),
            'id >= (SELECT max(id) / 2 FROM t)',
            'EXISTS (SELECT 1 FROM t s WHERE s.id = t.id AND %s)' % self.expressions('s.').condition(1))))
        return self.simple(sql, [Output(), Output()])

    def own_changes(self):
        rng = self.rng
        e = self.expressions()
        query = Query(cleanup=['ROLLBACK'])
        query.add(rng.choice(('BEGIN', 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'BEGIN ISOLATION LEVEL SERIALIZABLE')))
        for _ in range(rng.choice((1, 2))):
            query.add(self.table.some_change())
            if rng.random() < 0.4:
                query.add('SAVEPOINT s')
                query.add(self.table.some_change())
                if rng.random() < 0.6:
                    query.add('ROLLBACK TO s')
        sql, outputs = self.aggregate_select(e, 't', self.where(e, 0.4))
        query.before = len(query.statements)
        query.explain = sql
        query.add(sql, outputs)
        query.add('SELECT id FROM t' + self.where(e), [Output()])
        return query

    def join(self):
        rng, e = self.rng, self.expressions('t.')
        column = rng.choice(self.columns)
        sql = rng.choice((
            'SELECT count(*), sum(u.n) FROM t JOIN (SELECT %(k)s AS k, count(*) AS n FROM t GROUP BY 1) u ON t.%(k)s = u.k%(w)s',
            'SELECT count(*), max(t.id) FROM t LEFT JOIN t u ON t.id = u.id AND u.%(k)s IS NOT NULL%(w)s',
            'SELECT count(*), count(u.id) FROM (SELECT * FROM t WHERE id < 20) t JOIN LATERAL (SELECT max(id) AS id FROM t s WHERE s.id <= t.id AND t.id < 9) u ON true%(w)s',
            'SELECT a.n, b.n FROM (SELECT count(*) AS n FROM t%(w)s) a, (SELECT count(DISTINCT %(k)s) AS n FROM t) b')) % {
                'k': column.name, 'w': self.where(e)}
        return self.simple(sql, [Output(), Output()])
