"""Capsules of DLPack as any producer may make them: each is taken or refused with a sentence, none ends the process."""
import ctypes
import gc

import pytest

import gradus as gd


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Plain(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", DELETER),
                ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


class Producer:
    """An array of a different library: exports the capsule it was given and counts the calls of its deleter."""

    def __init__(self, versioned, deleter=True, flags=0, major=1, values=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), **fields):
        self.memory = (ctypes.c_double * len(values))(*values)
        self.deleted = 0
        shape, strides = fields.pop("shape", (2, 3)), fields.pop("strides", None)
        self.shape = (ctypes.c_int64 * len(shape))(*shape) if shape is not None else None
        self.strides = (ctypes.c_int64 * len(strides))(*strides) if strides is not None else None
        tensor = dict(data=ctypes.addressof(self.memory), device_type=1, ndim=len(shape or ()), code=2, bits=64, lanes=1) | fields
        described = DLTensor(shape=ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64)) if self.shape is not None else None,
                             strides=ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64)) if self.strides is not None else None,
                             **tensor)
        self.end = DELETER(self.count) if deleter else DELETER()
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        self.managed = (Versioned(major=major, flags=flags, deleter=self.end, tensor=described) if versioned
                        else Plain(deleter=self.end, tensor=described))

    def count(self, managed):
        self.deleted += 1

    def capsule(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), self.name, None)

    def __dlpack__(self, **keywords):
        return self.capsule()


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
@pytest.mark.parametrize("as_object", [False, True], ids=["capsule", "object"])
@pytest.mark.parametrize("deleter", [False, True], ids=["without deleter", "deleter"])
def test_a_capsule_is_taken_and_its_deleter_called_once_if_there_is_one(versioned, as_object, deleter):
    made = Producer(versioned, deleter)
    t = gd.from_dlpack(made if as_object else made.capsule())
    assert t.tolist() == [[1, 2, 3], [4, 5, 6]] and made.deleted == 0
    view = t[1]
    del t
    gc.collect()
    assert view.tolist() == [4, 5, 6] and made.deleted == 0
    del view
    gc.collect()
    assert made.deleted == deleter


FINE = {
    "strides": (dict(strides=(1, 2)), [[1, 3, 5], [2, 4, 6]]),
    "backwards": (dict(strides=(-3, -1), byte_offset=40), [[6, 5, 4], [3, 2, 1]]),
    "offset": (dict(shape=(2,), byte_offset=16), [3, 4]),
    "no axes": (dict(shape=(), byte_offset=8), 2),
    "no axes, no shape": (dict(shape=None), 1),
    "no elements, no memory": (dict(shape=(0, 3), data=None), []),
    "no elements, an odd address": (dict(shape=(3, 0), byte_offset=3), [[], [], []]),
    "no elements, strides of any kind": (dict(shape=(0, 3), data=None, strides=(2**62, 2**62)), []),
    "bits of a later version": (dict(flags=1 << 40), [[1, 2, 3], [4, 5, 6]]),
}


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
@pytest.mark.parametrize("fields, values", FINE.values(), ids=FINE)
def test_what_the_format_allows_is_taken(versioned, fields, values):
    made = Producer(versioned, **fields)
    t = gd.from_dlpack(made.capsule())
    assert t.tolist() == values and made.deleted == 0
    del t
    gc.collect()
    assert made.deleted == 1


def test_the_read_only_flag_holds():
    made = Producer(True, flags=1)
    t = gd.from_dlpack(made)
    assert t.is_read_only
    with pytest.raises(gd.StateError):
        t[0] = 5.0
    assert list(made.memory) == [1, 2, 3, 4, 5, 6]


REFUSED = {
    "negative ndim": (dict(ndim=-1), gd.ShapeError),
    "too many axes": (dict(ndim=9), gd.ShapeError),
    "ndim without shape": (dict(shape=None, ndim=2), gd.ShapeError),
    "a negative size": (dict(shape=(2, -3)), gd.Error),
    "sizes beyond 2^63": (dict(shape=(2**40, 2**40)), gd.Error),
    "strides beyond 2^63": (dict(strides=(2**62, 2**62)), gd.Error),
    "NULL data": (dict(data=None), gd.Error),
    "NULL data, an offset": (dict(data=None, byte_offset=64), gd.Error),
    "an odd offset": (dict(byte_offset=3), gd.Error),
    "an offset beyond the addresses": (dict(byte_offset=2**64 - 8), gd.Error),
    "an unknown code": (dict(code=3), gd.DtypeError),
    "complex": (dict(code=5, bits=128), gd.DtypeError),
    "unknown bits": (dict(bits=24), gd.DtypeError),
    "four lanes": (dict(lanes=4), gd.DtypeError),
    "no lanes": (dict(lanes=0), gd.DtypeError),
    "an unknown device": (dict(device_type=77), gd.DeviceError),
    "a negative device": (dict(device_type=-1), gd.DeviceError),
}


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
@pytest.mark.parametrize("as_object", [False, True], ids=["capsule", "object"])
@pytest.mark.parametrize("fields, kind", REFUSED.values(), ids=REFUSED)
def test_what_it_does_not_allow_is_refused_and_stays_the_producer_s(versioned, as_object, fields, kind):
    made = Producer(versioned, **fields)
    with pytest.raises(kind, match="from_dlpack|from_memory"):
        gd.from_dlpack(made if as_object else made.capsule())
    gc.collect()
    assert made.deleted == 0  # the capsule still has it


def test_a_version_to_come_is_refused():
    with pytest.raises(gd.Error, match="version 2"):
        gd.from_dlpack(Producer(True, major=2))


def test_what_is_no_capsule_is_refused():
    class Wrong:
        def __dlpack__(self, **keywords):
            return 3

    with pytest.raises((TypeError, ValueError)):
        gd.from_dlpack(Wrong())
    with pytest.raises((AttributeError, TypeError)):
        gd.from_dlpack(3)
    taken = Producer(True).capsule()
    gd.from_dlpack(taken)
    with pytest.raises(ValueError):
        gd.from_dlpack(taken)
