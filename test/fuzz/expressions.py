"""Random SQL expressions of a wanted kind over the columns of a table.

Most of them can be offloaded; a few cannot, and many can raise errors.  Those of
CALLS are PostgreSQL's, once for each value of a column, or for each row; those of
ROW_CALLS, of several columns, for each row.
"""

from values import INT_RANGE, KINDS, TYPES, kind_of, value

COMPARISONS = ('=', '<>', '<', '<=', '>', '>=')
WIDENS_TO = {'int2': ('int2',), 'int4': ('int2', 'int4'), 'int8': ('int2', 'int4', 'int8'),
             'float4': ('float4',), 'float8': ('float4', 'float8'), 'numeric': ('int4', 'numeric', 'int8')}
# Casts between kinds that PostgreSQL has, by result.
CASTS_FROM = {'bool': ('int4',), 'int2': ('int4', 'int8', 'float8', 'numeric'),
              'int4': ('bool', 'int2', 'int8', 'float4', 'float8', 'numeric'),
              'int8': ('int2', 'int4', 'float4', 'float8', 'numeric'),
              'float4': ('int2', 'int4', 'int8', 'float8', 'numeric'),
              'float8': ('int2', 'int4', 'int8', 'float4', 'numeric'),
              'numeric': ('int2', 'int4', 'int8', 'numeric', 'float8'),
              'date': ('timestamp', 'timestamptz'), 'timestamp': ('date', 'timestamptz'),
              'timestamptz': ('date', 'timestamp'), 'text': ('bpchar', 'int4', 'text'), 'bpchar': ('text',)}

# Functions of an expression of one kind, by that of the result.
CALLS = {'bool': (("({} ~ '[a-c]')", 'text'), ("({} LIKE '%a%')", 'text'), ("({} < 'b')", 'text'), ("({} >= 'ab'::bpchar)", 'bpchar'),
                  ("({} ILIKE 'A%')", 'bpchar'), ("(extract(dow FROM {}) < 3)", 'date'), ('(sqrt({}) > 2)', 'int4'), ("({}::text > '5')", 'int8')),
         'int2': (('(length({})::int2)', 'text'), ('({} # 3::int2)', 'int2'), ('({}::text::int2)', 'text')),
         'int4': (('length({})', 'text'), ('octet_length({})', 'bpchar'), ('ascii({})', 'text'), ('({} << 3)', 'int4'), ('(date_part(\'day\', {})::int4)', 'date'),
                  ('({}::int4)', 'text'), ('hashint8({})', 'int8')),
         'int8': (('(length({})::int8)', 'text'), ('({} | 7)', 'int8'), ('(1000 / length({}))::int8', 'text')),
         'float8': (('sqrt({}::float8)', 'int2'), ("date_part('month', {})", 'date'), ('({} ^ 2)', 'int4')),
         'numeric': (('extract(year FROM {})', 'date'), ('round({} / 3.0, 2)', 'int4'), ('extract(hour FROM {})', 'timestamp'), ('({}::text::numeric)', 'int2')),
         'date': (("({} + interval '1 month')::date", 'date'), ('make_date(2024, 1, {})', 'int4')),
         'timestamp': (("date_trunc('week', {})", 'timestamp'), ("({} - interval '1 month')", 'date')),
         'timestamptz': (("date_trunc('day', {})", 'timestamptz'),),
         'text': (('upper({})', 'text'), ('left({}, 2)', 'text'), ("concat({}, '!')", 'text'), ('quote_nullable({})', 'text'), ('({}::text)', 'int4'), ('({}::text)', 'date'),
                  ('({}::text)', 'bool'), ("to_char({}, 'YYYY-MM')", 'timestamp'), ('substr({}, 2)', 'bpchar'), ("({} || 'x')", 'text'), ("nullif({}::text, '1')", 'int8')),
         'bpchar': (('lower({})::bpchar', 'bpchar'),)}

# The same of several expressions.
ROW_CALLS = {'bool': (("({} || {} ~ '[a-c]1')", 'text', 'text'), ('({} < {})', 'text', 'text'), ('(sqrt({}) > {})', 'int4', 'int2'), ("({}::text LIKE '%1%' OR {} ~ 'a')", 'numeric', 'text'),
                      ('(({}, {}) < (3, 3))', 'int4', 'int2')),
             'int4': (('length({} || {})', 'text', 'bpchar'), ('({} # {})', 'int4', 'int2'), ('strpos({}, {})', 'text', 'text'), ('(100 / length({} || {}))', 'text', 'text')),
             'int8': (('({} << {})', 'int8', 'int2'), ('gcd({}, {})', 'int8', 'int4')),
             'float8': (('atan2({}, {})', 'float8', 'int4'), ("date_part('day', {} - {})", 'timestamp', 'timestamp')),
             'numeric': (('round({} / nullif({}, 0), 2)', 'numeric', 'int4'), ('width_bucket({}, 0, 10, 5)::numeric(5,1) + {}', 'numeric', 'int2')),
             'date': (('make_date(2000 + {} % 30, 1, {})', 'int4', 'int2'), ("({} + {} * interval '1 day')::date", 'timestamp', 'int2')),
             'timestamp': (("date_trunc('month', {} + {} * interval '1 hour')", 'timestamp', 'int2'), ("({} AT TIME ZONE 'Europe/Berlin')", 'timestamptz')),
             'text': (('({} || {})', 'text', 'text'), ("split_part({}, '1', {})", 'text', 'int2'), ('replace({}, {}, lower({}))', 'text', 'text', 'text'), ('({}::text || {})', 'numeric', 'text'),
                      ('left(md5({}), {})', 'text', 'int4'), ("(CASE upper({}) WHEN 'A' THEN {} ELSE reverse({}) END)", 'text', 'text', 'text'))}


class Expressions:
    def __init__(self, rng, columns, prefix=''):
        self.rng = rng
        self.columns = columns
        self.prefix = prefix

    def of_kind(self, kind):
        return [c for c in self.columns if c.kind == kind]

    def name(self, column):
        return self.prefix + column.name

    def some_kind(self):
        """Mostly a kind that a column has."""
        rng = self.rng
        return rng.choice(self.columns).kind if rng.random() < 0.9 else rng.choice(KINDS)

    def constant(self, kind):
        rng = self.rng
        columns = [c for c in self.of_kind(kind) if c.pool]
        if rng.random() < 0.04:
            return 'NULL::' + kind
        if columns and rng.random() < 0.8:
            # A value that rows have; a long text or NULL stays out of the query.
            column = rng.choice(columns)
            text = rng.choice(column.pool)
            if text.startswith("'") and not text.startswith("'-"):
                return '%s::%s' % (text, column.type)
        if kind == 'bpchar':
            return "'%s'::char(%d)" % (rng.choice(('', 'a', 'a ', 'ab', 'x')), rng.randint(1, 6))
        type_name = rng.choice([t for t in TYPES if kind_of(t) == kind])
        return '(%s::%s)' % (value(rng, type_name, rng.random() < 0.15), type_name)

    def leaf(self, kind):
        columns = self.of_kind(kind)
        if columns and self.rng.random() < 0.85:
            return self.name(self.rng.choice(columns))
        return self.constant(kind)

    def expression(self, kind, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.3:
            return self.leaf(kind)
        if kind in CALLS and rng.random() < 0.25:
            call, argument = rng.choice(CALLS[kind])
            return call.format(self.leaf(argument) if rng.random() < 0.7 else self.expression(argument, depth - 1))
        if kind in ROW_CALLS and rng.random() < 0.15:
            call, *arguments = rng.choice(ROW_CALLS[kind])
            return call.format(*(self.leaf(a) if rng.random() < 0.8 else self.expression(a, depth - 1) for a in arguments))
        if kind == 'bool' and rng.random() < 0.75:
            return self.condition(depth)
        own = getattr(self, 'make_' + {'int2': 'integer', 'int4': 'integer', 'int8': 'integer', 'float4': 'float',
                                       'float8': 'float', 'timestamp': 'moment', 'timestamptz': 'moment',
                                       'bpchar': 'string', 'text': 'string', 'bool': 'choice'}.get(kind, kind))
        return rng.choices((own, self.make_choice, self.make_cast), (6, 3, 2))[0](kind, depth - 1)

    # Results of any kind ------------------------------------------------------

    def make_choice(self, kind, depth):
        rng = self.rng
        a, b = self.expression(kind, depth), self.expression(kind, depth)
        form = rng.randrange(6)
        if form == 0:
            return '(CASE WHEN %s THEN %s ELSE %s END)' % (self.condition(depth), a, b)
        if form == 1:
            return '(CASE WHEN %s THEN %s WHEN %s THEN %s END)' % (self.condition(depth), a, self.condition(depth), b)
        if form == 2:
            other = self.some_kind()
            return '(CASE %s WHEN %s THEN %s ELSE %s END)' % (self.leaf(other), self.constant(other), a, b)
        if form == 3:
            return 'COALESCE(%s, %s)' % (a, b)
        if form == 4:
            return 'NULLIF(%s, %s)' % (a, b)
        return '%s(%s, %s)' % (rng.choice(('GREATEST', 'LEAST')), a, b)

    def make_cast(self, kind, depth):
        source = self.rng.choice(CASTS_FROM[kind])
        target = kind
        if kind == 'numeric':
            target = self.rng.choice([t for t in TYPES if t.startswith('numeric')])
        elif kind == 'bpchar':
            target = 'char(%d)' % self.rng.randint(1, 6)
        elif kind == 'text':
            target = self.rng.choice(('text', 'text', 'varchar', 'varchar(3)'))
        return '(%s)::%s' % (self.expression(source, depth), target)

    # By kind -------------------------------------------------------------------

    def make_arithmetic(self, kind, depth, operators):
        rng = self.rng
        a, b = self.expression(kind, depth), self.expression(rng.choice(WIDENS_TO[kind]), depth)
        if rng.random() < 0.3:
            b = self.constant(kind)
        if rng.random() < 0.3:
            a, b = b, a
        form = rng.random()
        if form < 0.1:
            return '(- %s)' % a
        if form < 0.2:
            return 'abs(%s)' % a
        text = '(%s %s %s)' % (a, rng.choice(operators), b)
        # An operand that may be narrower makes the result's kind uncertain.
        return text if kind not in ('int2', 'numeric') else '%s::%s' % (text, kind)

    def make_integer(self, kind, depth):
        if kind == 'int4' and self.of_kind('date') and self.rng.random() < 0.2:
            return '(%s - %s)' % (self.expression('date', depth), self.leaf('date'))
        text = self.make_arithmetic(kind, depth, ('+', '-', '+', '-', '*', '/', '%'))
        return text if kind != 'int8' else '(%s)::int8' % text

    def make_float(self, kind, depth):
        return self.make_arithmetic(kind, depth, ('+', '-', '*', '/'))

    def make_numeric(self, kind, depth):
        return self.make_arithmetic(kind, depth, ('+', '-', '*', '+', '-', '*', '/', '%'))

    def make_date(self, kind, depth):
        return '(%s %s %s)' % (self.expression('date', depth), self.rng.choice('+-'), self.expression('int4', depth - 1))

    def make_moment(self, kind, depth):
        if self.rng.random() < 0.15:
            return "date_trunc('month', %s)" % self.expression(kind, depth)
        return self.make_cast(kind, depth)

    def make_string(self, kind, depth):
        if self.rng.random() < 0.15:
            return 'lower(%s)::%s' % (self.expression(kind, depth), kind)
        return self.leaf(kind)

    # Conditions ----------------------------------------------------------------

    def condition(self, depth):
        rng = self.rng
        form = rng.random()
        if depth > 0 and form < 0.35:
            joiner = rng.choice((' AND ', ' OR '))
            return '(%s)' % joiner.join(self.condition(depth - 1) for _ in range(rng.choice((2, 2, 3))))
        if depth > 0 and form < 0.42:
            return '(NOT %s)' % self.condition(depth - 1)
        if form < 0.5:
            return '(%s IS %s%s)' % (self.expression('bool', depth - 1) if rng.random() < 0.5 else
                                     self.condition(depth - 1) if depth > 0 else self.leaf('bool'),
                                     rng.choice(('', 'NOT ')), rng.choice(('TRUE', 'FALSE', 'UNKNOWN')))
        kind = self.some_kind()
        a = self.expression(kind, depth - 1)
        if form < 0.58:
            return '(%s IS %sNULL)' % (a, rng.choice(('', 'NOT ')))
        if form < 0.64:
            return '(%s IS %sDISTINCT FROM %s)' % (a, rng.choice(('', 'NOT ')), self.constant(kind))
        if form < 0.74:
            return self.membership(kind, a)
        if form < 0.80 and kind not in ('text', 'bpchar', 'bool'):
            return '(%s BETWEEN %s AND %s)' % (a, self.constant(kind), self.constant(kind))
        if form < 0.82 and kind in ('text', 'bpchar'):
            return "(%s LIKE 'a%%')" % a
        if form < 0.84 and kind in INT_RANGE:
            return 'mod(%s, 3) = 1' % a
        if kind in ('text', 'bpchar', 'bool') and rng.random() < 0.9:
            operator = rng.choice(('=', '<>'))
        else:
            operator = rng.choice(COMPARISONS)
        if rng.random() < 0.25:
            near = [k for k in WIDENS_TO.get(kind, (kind,))]
            return '(%s %s %s)' % (a, operator, self.expression(rng.choice(near), depth - 1))
        return '(%s %s %s)' % (a, operator, self.constant(kind))

    def row_condition(self):
        """Over an expression that PostgreSQL evaluates for each row."""
        kind = self.rng.choice([kind for kind in ROW_CALLS if kind not in ('bool', 'numeric')])
        call, *arguments = self.rng.choice(ROW_CALLS[kind])
        condition = '(%s %s %s)' % (call.format(*map(self.leaf, arguments)), self.rng.choice(('=', '=', '<>', '>')), self.constant(kind))
        return condition if self.rng.random() < 0.5 else '(%s AND %s)' % (self.condition(1), condition)

    def membership(self, kind, a):
        rng = self.rng
        members = [self.constant(kind) for _ in range(rng.choice((1, 2, 3, 8, 30)))]
        if rng.random() < 0.15:
            members.append('NULL')
        form = rng.random()
        if form < 0.5:
            return '(%s %sIN (%s))' % (a, rng.choice(('', '', 'NOT ')), ', '.join(members))
        if form < 0.9:
            cast = {'bpchar': 'bpchar'}.get(kind, kind)
            if rng.random() < 0.1:
                members = []
            return '(%s = ANY (ARRAY[%s]::%s[]))' % (a, ', '.join(members), cast)
        return '(%s <> ALL (ARRAY[%s]::%s[]))' % (a, ', '.join(members), kind)

    # Floats whose sums have bounded errors ----------------------------------------

    def tame(self):
        """A float8 or float4 expression fit for sum and variance, or None; and whether it is a float4."""
        rng = self.rng
        columns = [c for c in self.columns if c.kind in ('float4', 'float8') and not c.wild]
        if not columns:
            columns = [c for c in self.columns if c.kind == 'int2']
            return '%s::float8' % self.name(rng.choice(columns)) if columns else None, False
        column = rng.choice(columns)
        name = self.name(column)
        form = rng.random()
        if form < 0.55:
            text = name
        elif form < 0.7:
            text = '(%s * 1.5::%s)' % (name, column.kind)
        elif form < 0.8:
            text = '(CASE WHEN %s THEN %s END)' % (self.condition(1), name)
        elif form < 0.9:
            text = 'COALESCE(%s, 0.5::%s)' % (name, column.kind)
        else:
            text = '(%s + %s::%s)' % (name, name, column.kind)
        return text, column.kind == 'float4'
