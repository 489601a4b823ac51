"""As much of libpq as the fuzzer needs: a connection, and results as the server's text."""

import ctypes

LIBRARY = ctypes.CDLL('libpq.so.5')
TEXT, POINTER, NUMBER = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int
for name, result, *arguments in (
        ('PQconnectdb', POINTER, TEXT), ('PQstatus', NUMBER, POINTER), ('PQerrorMessage', TEXT, POINTER),
        ('PQfinish', None, POINTER), ('PQsetNoticeProcessor', POINTER, POINTER, POINTER, POINTER),
        ('PQexec', POINTER, POINTER, TEXT), ('PQresultStatus', NUMBER, POINTER), ('PQclear', None, POINTER),
        ('PQresultErrorField', TEXT, POINTER, NUMBER), ('PQntuples', NUMBER, POINTER), ('PQnfields', NUMBER, POINTER),
        ('PQgetisnull', NUMBER, POINTER, NUMBER, NUMBER), ('PQgetvalue', TEXT, POINTER, NUMBER, NUMBER)):
    function = getattr(LIBRARY, name)
    function.restype, function.argtypes = result, arguments

COMMAND_OK, TUPLES_OK = 1, 2
DIAG_SQLSTATE = ord('C')


@ctypes.CFUNCTYPE(None, POINTER, TEXT)
def ignore_notice(_, text):
    pass


class Error(Exception):
    """Of the server, with its SQLSTATE; without one, of the connection."""

    def __init__(self, message, sqlstate):
        super().__init__(message)
        self.sqlstate = sqlstate


class Connection:
    def __init__(self, conninfo):
        self.handle = LIBRARY.PQconnectdb(conninfo.encode())
        LIBRARY.PQsetNoticeProcessor(self.handle, ignore_notice, None)
        if self.is_lost():
            raise self.error(None)

    def is_lost(self):
        return LIBRARY.PQstatus(self.handle) != 0

    def error(self, sqlstate):
        return Error(LIBRARY.PQerrorMessage(self.handle).decode(), sqlstate)

    def execute(self, sql):
        """The rows, of texts and None."""
        result = LIBRARY.PQexec(self.handle, sql.encode())
        try:
            if LIBRARY.PQresultStatus(result) not in (COMMAND_OK, TUPLES_OK):
                sqlstate = LIBRARY.PQresultErrorField(result, DIAG_SQLSTATE)
                raise self.error(sqlstate and sqlstate.decode())
            fields = range(LIBRARY.PQnfields(result))
            return [tuple(None if LIBRARY.PQgetisnull(result, row, field) else LIBRARY.PQgetvalue(result, row, field).decode()
                          for field in fields) for row in range(LIBRARY.PQntuples(result))]
        finally:
            LIBRARY.PQclear(result)

    def close(self):
        LIBRARY.PQfinish(self.handle)
        self.handle = None
