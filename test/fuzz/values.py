"""Types and values for the fuzzer.

A value is SQL text without a type: a quoted literal or an expression that has
the column's type after assignment.  Every choice comes from the Random given.
"""

INT_RANGE = {'int2': 2 ** 15, 'int4': 2 ** 31, 'int8': 2 ** 63}

# What expressions know of a type; the rest is the type modifier's business.
KINDS = ('bool', 'int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'date',
         'timestamp', 'timestamptz', 'text', 'bpchar')

TYPES = ('bool', 'int2', 'int4', 'int8', 'float4', 'float8', 'numeric(10,2)',
         'numeric(18,6)', 'numeric(38,10)', 'numeric(5,0)', 'numeric(4,-2)',
         'numeric(3,5)', 'numeric', 'date', 'timestamp', 'timestamp(0)',
         'timestamptz', 'text', 'varchar(12)', 'char(5)')

# Columns that no query uses: they only move the others about.
OTHER_TYPES = ('bytea', 'jsonb', 'interval', 'point', 'uuid', 'int4[]', '"char"', 'name', 'time')


def kind_of(type_name):
    """The kind of a type: numeric of numeric(10,2), text of varchar(12)."""
    base = type_name.split('(')[0]
    return {'varchar': 'text', 'char': 'bpchar'}.get(base, base)


def quote(text):
    return "'" + text.replace("'", "''") + "'"


def integer(rng, kind, wild):
    limit = INT_RANGE[kind]
    if wild and rng.random() < 0.3:
        return str(rng.choice((-limit, limit - 1, -limit + 1, limit - 2, limit // 2, -(limit // 3))))
    return str(rng.choice((rng.randint(-3, 10), rng.randint(-100, 100), rng.randint(0, 30000))))


def floating(rng, kind, wild):
    """Tame values may be summed and squared: the sum's error is bounded by its terms."""
    if wild:
        extremes = ['NaN', 'Infinity', '-Infinity', '-0', '0', '1e-37', '-1e37', '16777217']
        if kind == 'float8':
            extremes += ['1e308', '-1.7976931348623157e308', '5e-324', '2.2250738585072014e-308',
                         '9007199254740993', '1e-300', '0.1']
        if rng.random() < 0.6:
            return rng.choice(extremes)
    return rng.choice((str(rng.randint(-20, 20)), '%.3f' % rng.uniform(-1000, 1000),
                       repr(rng.uniform(0.001, 1e6)), '0.1', '1.5'))


def decimal(rng, type_name, wild):
    if type_name == 'numeric':
        if wild and rng.random() < 0.3:
            return rng.choice(('NaN', 'Infinity', '-Infinity', '1e40', '-1e-30', '9' * 60 + '.5',
                               '0.' + '0' * 25 + '1', '123456789012345678.123456789012345678'))
        digits = rng.randint(0, 4)
        return '%.*f' % (digits, rng.uniform(-500, 500))
    precision, scale = (int(x) for x in type_name[8:-1].split(','))
    if rng.random() < 0.1 and wild:
        return rng.choice(('NaN', '0'))
    digits = precision if wild and rng.random() < 0.5 else min(precision, rng.randint(1, 6))
    unscaled = rng.choice((-1, 1, 1)) * rng.randint(0, 10 ** digits - 1)
    return '%de%d' % (unscaled, -scale)


def day(rng, wild):
    if wild and rng.random() < 0.4:
        return rng.choice(('infinity', '-infinity', '4713-01-01 BC', '5874897-12-31',
                           '0001-01-01', '294276-12-31', '2000-01-01'))
    return '20%02d-%02d-%02d' % (rng.randint(19, 24), rng.randint(1, 12), rng.randint(1, 28))


def moment(rng, wild):
    if wild and rng.random() < 0.4:
        return rng.choice(('infinity', '-infinity', '4713-01-01 00:00:00 BC', '1999-12-31 23:59:59.999999',
                           '294276-12-30 23:59:59.999999', '2000-01-01', '2024-03-31 02:30:00',
                           '2024-10-27 02:30:00', '1969-12-31 23:59:59.5'))
    return day(rng, False) + ' %02d:%02d:%02d.%s' % (
        rng.randint(0, 23), rng.randint(0, 59), rng.randint(0, 59), rng.choice(('0', '5', '123456')))


def string(rng, type_name, wild):
    """Quoted already: long texts are expressions."""
    limit = {'varchar(12)': 12, 'char(5)': 5}.get(type_name, 40)
    if wild and limit == 40 and rng.random() < 0.3:
        return rng.choice((
            "repeat('ab', %d)" % rng.choice((100, 1500, 5000)),
            "(SELECT string_agg(md5((i + %d)::text), '') FROM generate_series(1, %d) i)"
            % (rng.randint(0, 3), rng.choice((30, 80, 200)))))
    text = rng.choice(('', 'a', 'A', 'b', 'ab', 'abc', 'a ', 'a  ', ' a', 'x' * limit, 'x' * (limit - 1),
                       'ä', 'éa', '日本', "o'k", '%', 'a\\b', 'DE', 'US', 'FR', str(rng.randint(0, 50))))
    return quote(text[:limit])


def other(rng, type_name):
    return {'bytea': "'\\x%s'" % ('ab' * rng.randint(0, 9)), 'jsonb': """'{"a": %d}'""" % rng.randint(0, 9),
            'interval': "'%d hours'" % rng.randint(0, 99), 'point': "'(1,2)'",
            'uuid': "'00000000-0000-0000-0000-0000000000%02d'" % rng.randint(0, 99),
            'int4[]': "'{1,%d}'" % rng.randint(0, 9), '"char"': "'c'", 'name': "'some_name'",
            'time': "'01:02:03'"}[type_name]


def value(rng, type_name, wild):
    """One value of the type as SQL text, never NULL."""
    kind = kind_of(type_name)
    if type_name in OTHER_TYPES:
        return other(rng, type_name)
    if kind in ('text', 'bpchar'):
        return string(rng, type_name, wild)
    if kind == 'bool':
        return rng.choice(("'t'", "'f'"))
    if kind in INT_RANGE:
        return quote(integer(rng, kind, wild))
    if kind in ('float4', 'float8'):
        return quote(floating(rng, kind, wild))
    if kind == 'numeric':
        return quote(decimal(rng, type_name, wild))
    if kind == 'date':
        return quote(day(rng, wild))
    return quote(moment(rng, wild))
