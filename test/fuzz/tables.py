"""Random tables: their columns, their rows, and what happened to the rows since."""

from values import OTHER_TYPES, TYPES, kind_of, value


class Column:
    def __init__(self, name, type_name, pool=(), wild=False, nulls=0.0):
        self.name = name
        self.type = type_name
        self.kind = kind_of(type_name)
        self.pool = pool          # values that its rows have
        self.wild = wild
        self.nulls = nulls
        self.usable = True        # may a query name it?
        self.assigned = True      # does an INSERT give it a value?

    def draw(self, rng):
        return 'NULL' if rng.random() < self.nulls else rng.choice(self.pool)


class Table:
    """A table `t` with a unique not-null column `id`; `setup` makes it."""

    def __init__(self, rng):
        self.rng = rng
        self.setup = []
        self.name = 't'
        self.rows = 0
        self.next_id = 800001     # of rows inserted after loading
        self.shape = rng.choices(('plain', 'temp', 'unlogged', 'partitioned', 'inherited'),
                                 (60, 8, 8, 14, 10))[0]
        self.columns = self.make_columns()
        self.create()
        self.load()
        self.change()

    # Columns -----------------------------------------------------------------

    def make_column(self, name, type_name):
        rng = self.rng
        wild = rng.random() < 0.3
        pool = [value(rng, type_name, wild) for _ in range(rng.choice((1, 2, 5, 12, 40)))]
        column = Column(name, type_name, pool, wild, rng.choice((0, 0, 0.02, 0.3, 0.95, 1.0)))
        column.usable = type_name not in OTHER_TYPES
        return column

    def make_columns(self):
        rng = self.rng
        columns = [self.make_column('c%d' % i, rng.choice(TYPES)) for i in range(rng.randint(4, 11))]
        columns += [self.make_column('o%d' % i, rng.choice(OTHER_TYPES)) for i in range(rng.choice((0, 0, 1, 2)))]
        if rng.random() < 0.5:
            columns.append(self.make_column('dropped', rng.choice(TYPES + OTHER_TYPES)))
            columns[-1].usable = False
        columns.append(Column('id', 'int4'))
        rng.shuffle(columns)
        return columns

    def definitions(self, columns):
        return ', '.join('%s %s%s' % (c.name, c.type, ' NOT NULL' if c.name == 'id' else '') for c in columns)

    def shuffled(self):
        columns = list(self.columns)
        self.rng.shuffle(columns)
        return columns

    # DDL ---------------------------------------------------------------------

    def create(self):
        rng, run = self.rng, self.setup.append
        # The extra columns of children make their attribute numbers differ.
        if self.shape == 'partitioned':
            run('CREATE TABLE t (%s) PARTITION BY HASH (id)' % self.definitions(self.columns))
            parts = rng.randint(1, 3)
            for i in range(parts):
                run('CREATE TABLE t_%d (gone int8, %s)' % (i, self.definitions(self.shuffled())))
                run('ALTER TABLE t_%d DROP COLUMN gone' % i)
                run('ALTER TABLE t ATTACH PARTITION t_%d FOR VALUES WITH (modulus %d, remainder %d)' % (i, parts, i))
        elif self.shape == 'inherited':
            run('CREATE TABLE t (%s)' % self.definitions(self.columns))
            for i in range(rng.randint(1, 2)):
                run('CREATE TABLE t_%d (own text, %s)' % (i, self.definitions(self.shuffled())))
                run('ALTER TABLE t_%d INHERIT t' % i)
        else:
            prefix = {'temp': 'TEMP ', 'unlogged': 'UNLOGGED '}.get(self.shape, '')
            extra = ''
            if rng.random() < 0.15:
                extra = ', g int8 GENERATED ALWAYS AS (id::int8 * 3) STORED'
            run('CREATE %sTABLE t (%s%s)' % (prefix, self.definitions(self.columns), extra))
            if extra:
                column = Column('g', 'int8', ["'0'", "'3'", "'300'"])
                column.assigned = False
                self.columns.append(column)
        if rng.random() < 0.2:
            run('CREATE INDEX ON t (id)')

    def targets(self):
        """Tables that INSERT goes to: children of an inherited table take rows themselves."""
        if self.shape == 'inherited':
            children = sum(s.startswith('CREATE TABLE t_') for s in self.setup)
            return ['t'] + ['t_%d' % i for i in range(children)]
        return ['t']

    # Rows --------------------------------------------------------------------

    def insert(self, target, ids):
        columns = [c for c in self.columns if c.assigned]
        rows = ('(%s)' % ', '.join(str(i) if c.name == 'id' else c.draw(self.rng) for c in columns) for i in ids)
        return 'INSERT INTO %s (%s) VALUES %s' % (target, ', '.join(c.name for c in columns), ', '.join(rows))

    def load(self):
        rng = self.rng
        count = rng.choice((0, 1, 2, 30, 200, 200, 400))
        for target in self.targets():
            if count:
                self.setup.append(self.insert(target, range(self.rows + 1, self.rows + count + 1)))
                self.rows += count
        copies = rng.choice((0, 0, 0, 2, 10, 25))
        if copies and self.rows:
            names = [c.name for c in self.columns if c.assigned and c.name != 'id']
            columns = ''.join(', ' + name for name in names)
            self.setup.append('INSERT INTO t (id%s) SELECT id + k * 2000%s FROM t, generate_series(1, %d) k'
                              % (columns, columns, copies))
            self.rows *= copies + 1

    def insert_more(self):
        self.next_id += 9
        return self.insert('t', range(self.next_id - 9, self.next_id))

    def some_row(self):
        return self.rng.choice(('id %% %d = %d' % (self.rng.choice((2, 3, 7, 50)), self.rng.randint(0, 1)),
                                'id < %d' % self.rng.randint(1, 100), 'id > 50'))

    def some_update(self):
        column = self.rng.choice([c for c in self.columns if c.assigned and c.name != 'id'])
        return 'UPDATE t SET %s = %s WHERE %s' % (column.name, column.draw(self.rng), self.some_row())

    def some_change(self):
        return self.rng.choice((self.some_update, self.some_update,
                                lambda: 'DELETE FROM t WHERE ' + self.some_row(),
                                self.insert_more))()

    def change(self):
        rng, run = self.rng, self.setup.append
        vacuum = rng.choice((None, None, 'VACUUM', 'VACUUM ANALYZE', 'VACUUM FREEZE', 'ANALYZE'))
        if vacuum and rng.random() < 0.5:
            run(vacuum + ' t')
        if any(c.name == 'dropped' for c in self.columns):
            run('ALTER TABLE t DROP COLUMN dropped')
            self.columns = [c for c in self.columns if c.name != 'dropped']
        for i in range(rng.choice((0, 0, 1, 2))):
            column = self.make_column('a%d' % i, rng.choice(TYPES))
            default = rng.choice(('', ' DEFAULT ' + rng.choice(column.pool)))
            if default.startswith(' DEFAULT ('):
                default = ''          # a subquery
            run('ALTER TABLE t ADD COLUMN %s %s%s' % (column.name, column.type, default))
            self.columns.append(column)
            if rng.random() < 0.7:
                run(self.insert_more())
        for _ in range(rng.choice((0, 1, 1, 3))):
            run(rng.choice((self.some_update, self.some_update, lambda: 'DELETE FROM t WHERE ' + self.some_row()))())
        if rng.random() < 0.4:
            run('BEGIN')
            run(self.some_change())
            if rng.random() < 0.5:
                run('SAVEPOINT s')
                run(self.some_change())
                run('ROLLBACK TO s')
            run(rng.choice(('ROLLBACK', 'ROLLBACK', 'COMMIT')))
        if vacuum:
            run(vacuum + ' t')

    def usable(self):
        return [c for c in self.columns if c.usable]
