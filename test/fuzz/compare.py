"""Are two results the same?  Rows are text as the server sent it, None for NULL."""

import math

# Relative to the bound that the query computes beside a float aggregate.
FLOAT8 = 1e-9
# sum(float4) adds up in float4: PostgreSQL's own order is this far off.
FLOAT4 = 6e-8
# The last of the 6 digits that a float4 has where extra_float_digits is 0.
FLOAT4_SHOWN = 1e-5


def by_value(text):
    """One form for equal values that print differently: 1.0 and 1.00, -0 and 0, 'a' and 'a '."""
    if text is None:
        return None
    text = text.rstrip(' ')
    if text == '-0':
        return '0'
    digits = text.lstrip('-')
    if '.' in digits and 'e' not in digits and digits.replace('.', '', 1).isdigit():
        text = text.rstrip('0').rstrip('.')
        return '0' if text == '-0' else text
    return text


def exact_part(row, outputs):
    return tuple(by_value(v) if o.how == 'value' else v for v, o in zip(row, outputs) if o.how in ('exact', 'value'))


def order(outputs):
    def key(row):
        floats = tuple('%.6g' % float(v) if v is not None else '' for v, o in zip(row, outputs)
                       if o.how not in ('exact', 'value'))
        exact = exact_part(row, outputs)
        return tuple((v is None, v or '') for v in exact), floats
    return key


def close(a, b, bound, output, rows):
    if a is None or b is None:
        return a is b
    x, y = float(a), float(b)
    if not (math.isfinite(x) and math.isfinite(y)):
        return a == b
    if bound is None or not math.isfinite(float(bound)):
        return True
    bound = abs(float(bound))
    tolerance = max(FLOAT4_SHOWN, rows * FLOAT4) if output.single else FLOAT8
    if output.how == 'sum':
        return abs(x - y) <= tolerance * bound
    if output.how == 'stddev':
        x, y = x * x, y * y
    return abs(x - y) <= FLOAT8 * bound * bound


def difference(off, on, outputs, rows):
    """None, or what differs between the rows of the two modes."""
    if outputs is None:
        return None
    if len(off) != len(on):
        return '%d rows, then %d' % (len(off), len(on))
    key = order(outputs)
    for a, b in zip(sorted(off, key=key), sorted(on, key=key)):
        if exact_part(a, outputs) != exact_part(b, outputs):
            return 'row %s, then %s' % (a, b)
        for i, output in enumerate(outputs):
            if output.how in ('exact', 'value'):
                continue
            if not close(a[i], b[i], a[output.scale], output, rows):
                return 'float column %d of row %s, then %s' % (i + 1, a, b)
    return None
