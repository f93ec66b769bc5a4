"""Arrow streams from Python by ctypes: what polars and pyarrow export, without either.

    Stream([("x", "g", [batch, ...]), ...]) has __arrow_c_stream__; a batch is a dict with length, buffers (bytes or None), offset,
    null_count and dictionary (a format and a batch)."""
import ctypes

RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Schema(ctypes.Structure):
    pass


Schema._fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
                   ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(Schema))), ("dictionary", ctypes.POINTER(Schema)),
                   ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p)]


class Array(ctypes.Structure):
    pass


Array._fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
                  ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)), ("children", ctypes.POINTER(ctypes.POINTER(Array))),
                  ("dictionary", ctypes.POINTER(Array)), ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p)]
GET_SCHEMA = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Schema))
GET_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Array))
LAST_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
SAYS = ctypes.create_string_buffer(b"the disk is gone")


class CStream(ctypes.Structure):
    _fields_ = [("get_schema", GET_SCHEMA), ("get_next", GET_NEXT), ("get_last_error", LAST_ERROR), ("release", ctypes.c_void_p),
                ("private_data", ctypes.c_void_p)]


def _end(kind):
    def release(address):
        kind.from_address(address).release = None
        ENDED[kind] = ENDED.get(kind, 0) + 1
    return RELEASE(release)


ENDED = {}
_RELEASES = {Schema: _end(Schema), Array: _end(Array), CStream: _end(CStream)}
_ALIVE = []  # what C may still look at


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def _schema(into, name, fmt, children=(), dictionary=None):
    texts = fmt.encode(), name.encode()
    (into.format, into.name), into.flags, into.n_children = texts, 2, len(children)
    rows = (ctypes.POINTER(Schema) * max(len(children), 1))(*[ctypes.pointer(c) for c in children])
    into.children = ctypes.cast(rows, ctypes.POINTER(ctypes.POINTER(Schema)))
    if dictionary is not None:
        into.dictionary = ctypes.pointer(dictionary)
    into.release = _address(_RELEASES[Schema])
    _ALIVE.append((texts, rows, children, dictionary))
    return into


def _array(into, length, buffers=(), children=(), offset=0, null_count=0, dictionary=None):
    kept = [None if b is None else ctypes.create_string_buffer(bytes(b), max(len(b), 1)) for b in buffers]
    rows = (ctypes.c_void_p * max(len(buffers), 1))(*[None if k is None else ctypes.addressof(k) for k in kept])
    below = (ctypes.POINTER(Array) * max(len(children), 1))(*[ctypes.pointer(c) for c in children])
    into.length, into.null_count, into.offset, into.n_buffers, into.n_children = length, null_count, offset, len(buffers), len(children)
    into.buffers, into.children = ctypes.cast(rows, ctypes.POINTER(ctypes.c_void_p)), ctypes.cast(below, ctypes.POINTER(ctypes.POINTER(Array)))
    if dictionary is not None:
        into.dictionary = ctypes.pointer(dictionary)
    into.release = _address(_RELEASES[Array])
    _ALIVE.append((kept, rows, below, children, dictionary))
    return into


class Stream:
    """columns: [(name, format, batches)] with as many batches each; fails: the second call for a batch is an error."""

    def __init__(self, columns, fails=False, names=True):
        self.given, self.fails = columns, fails
        if names:
            self.columns = [name for name, _, _ in columns]

    def __getitem__(self, name):
        raise AssertionError("a table with __arrow_c_stream__ is read by it")

    def __arrow_c_stream__(self, requested_schema=None):
        state = {"at": 0}
        columns = self.given

        def get_schema(_, out):
            children = []
            for name, fmt, batches in columns:
                inner = batches[0].get("dictionary")
                children.append(_schema(Schema(), name, fmt, dictionary=_schema(Schema(), "", inner[0]) if inner else None))
            _schema(out[0], "", "+s", children)
            return 0

        def get_next(_, out):
            k = state["at"]
            state["at"] += 1
            if self.fails and k == 1:
                return 5
            if k >= len(columns[0][2]):
                out[0].release = None
                return 0
            children = []
            for _, _, batches in columns:
                b = dict(batches[k])
                inner = b.pop("dictionary", None)
                children.append(_array(Array(), dictionary=_array(Array(), **inner[1]) if inner else None, **b))
            _array(out[0], columns[0][2][k]["length"], [None], children)
            return 0
        stream = CStream(GET_SCHEMA(get_schema), GET_NEXT(get_next), LAST_ERROR(lambda _: ctypes.addressof(SAYS)), _address(_RELEASES[CStream]), None)
        _ALIVE.append((stream, self))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(stream), b"arrow_array_stream", None)
