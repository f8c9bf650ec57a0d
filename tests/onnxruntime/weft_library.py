"""weft_library.py: libweft.so through its C interface (weft/weft.h), by ctypes: thousands of runs in one process.

    program = Program(model_bytes, backend="cpu:no-fusion")
    outputs = program.run({"x": array, "list": [array, ..], "maybe": Opt([array])})

The library is the file WEFT_LIBRARY, else that of build/lib."""
import ctypes
import os

import ml_dtypes
import numpy as np
import onnx

from reference_ops import Opt

LIBRARY = os.environ.get("WEFT_LIBRARY", "build/lib/libweft.so")
# By the numbers of weft/c_types.h.
DTYPES = {1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32, 9: np.uint64,
          10: np.float16, 11: ml_dtypes.bfloat16, 12: np.float32, 13: np.float64}
NUMBERS = {np.dtype(d): n for n, d in DTYPES.items()}
SEQUENCE, OPTIONAL, OPTIONAL_SEQUENCE = 1, 2, 4
P = ctypes.c_void_p


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("backend", ctypes.c_char_p), ("passes", ctypes.c_char_p), ("threads", ctypes.c_int32),
                ("limits", ctypes.c_char_p), ("cancel", P), ("tune", ctypes.c_int32), ("unused", ctypes.c_int32), ("tf32", ctypes.c_int32),
                ("overridable", ctypes.c_char_p), ("strict", ctypes.c_int32), ("unused_too", ctypes.c_int32)]


class Io(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("dim_texts", ctypes.POINTER(ctypes.c_char_p)), ("kind", ctypes.c_int32)]


class Counts(ctypes.Structure):
    """weft::CompileCounts of weft/runtime/program/program.h."""
    _fields_ = [("programs", ctypes.c_int64), ("kernels", ctypes.c_int64)]


class WeftError(Exception):
    pass


def open_library():
    lib = ctypes.CDLL(LIBRARY)
    lib.weft_error_text.restype = ctypes.c_char_p
    for name in ("weft_program_num_inputs", "weft_program_num_outputs", "weft_list_size"):
        getattr(lib, name).restype = ctypes.c_size_t
        getattr(lib, name).argtypes = [P]
    lib.weft_tensor_data.restype = P
    lib.weft_tensor_dims.restype = ctypes.POINTER(ctypes.c_int64)
    lib.weft_tensor_bytes.restype = ctypes.c_int64
    for name in ("weft_tensor_data", "weft_tensor_dims", "weft_tensor_bytes", "weft_tensor_dtype", "weft_tensor_rank", "weft_tensor_kind",
                 "weft_tensor_release", "weft_session_release", "weft_program_release"):
        getattr(lib, name).argtypes = [P]
    lib.weft_list_element.argtypes = [P, ctypes.c_size_t, P]
    lib.weft_session_output.argtypes = [P, ctypes.c_size_t, P]
    lib.weft_program_output.argtypes = lib.weft_program_input.argtypes = [P, ctypes.c_size_t, P]
    lib.weft_session_bind_input.argtypes = [P, ctypes.c_char_p, P]
    lib.weft_session_run.argtypes = [P]
    lib.weft_session_create.argtypes = [P, P]
    lib.weft_program_load_memory.argtypes = [P, ctypes.c_size_t, ctypes.c_char_p, P, P]
    lib.weft_list_create.argtypes = [ctypes.c_int32, ctypes.c_int32, ctypes.c_size_t, P, P]
    lib.weft_tensor_create.argtypes = [ctypes.c_int32, ctypes.c_int32, P, P]
    lib.weft_tensor_create.restype = ctypes.c_int32
    lib.count = lib._ZN4weft13CountCompiledEv  # has no name in C
    lib.count.restype = Counts
    return lib


_lib = None


def lib():
    global _lib
    _lib = _lib or open_library()
    return _lib


def check(status):
    if status:
        raise WeftError(lib().weft_error_text().decode())


def count_compiled():
    c = lib().count()
    return c.programs + c.kernels


def to_weft(value, dtype=None, kind=0):
    """A handle, to be released. `kind` and `dtype` are those of the input, for lists."""
    out = P()
    if isinstance(value, list):
        inner = [to_weft(v, dtype, SEQUENCE if kind == OPTIONAL_SEQUENCE else 0) for v in value]
        check(lib().weft_list_create(kind, dtype, len(inner), (P * len(inner))(*inner), ctypes.byref(out)))
        for h in inner:
            lib().weft_tensor_release(h)
        return out
    value = np.asarray(value, order="C")
    dims = (ctypes.c_int64 * value.ndim)(*value.shape)
    check(lib().weft_tensor_create(NUMBERS[value.dtype], value.ndim, dims, ctypes.byref(out)))
    if value.size:
        ctypes.memmove(lib().weft_tensor_data(out), value.ctypes.data, value.nbytes)
    return out


def from_weft(handle):
    """A copy; the handle is released."""
    try:
        kind = lib().weft_tensor_kind(handle)
        if kind:
            out = []
            for i in range(lib().weft_list_size(handle)):
                h = P()
                check(lib().weft_list_element(handle, i, ctypes.byref(h)))
                out.append(from_weft(h))
            return Opt(out) if kind in (OPTIONAL, OPTIONAL_SEQUENCE) else out
        shape = [lib().weft_tensor_dims(handle)[i] for i in range(lib().weft_tensor_rank(handle))]
        out = np.empty(shape, DTYPES[lib().weft_tensor_dtype(handle)])
        if out.size:
            ctypes.memmove(out.ctypes.data, lib().weft_tensor_data(handle), out.nbytes)
        return out
    finally:
        lib().weft_tensor_release(handle)


class Program:
    """A model (an onnx.ModelProto or its bytes) and a session. `compiled` counts what its runs have compiled."""

    def __init__(self, model, backend="cpu", threads=1, format="onnx"):
        data = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
        options = Options(struct_size=ctypes.sizeof(Options), backend=backend.encode(), threads=threads)
        self.program, self.session, self.compiled = P(), P(), 0
        check(lib().weft_program_load_memory(data, len(data), format.encode(), ctypes.byref(options), ctypes.byref(self.program)))
        check(lib().weft_session_create(self.program, ctypes.byref(self.session)))
        self.inputs, self.outputs = ([self.io(get, i) for i in range(count(self.program))] for get, count in (
            (lib().weft_program_input, lib().weft_program_num_inputs), (lib().weft_program_output, lib().weft_program_num_outputs)))

    def io(self, get, i):
        io = Io(struct_size=ctypes.sizeof(Io))
        check(get(self.program, i, ctypes.byref(io)))
        return io.name.decode(), io.dtype, io.kind

    def run(self, feeds):
        """The outputs in order."""
        before = count_compiled()
        for name, dtype, kind in self.inputs:
            if name in feeds:
                h = to_weft(feeds[name], dtype, kind)
                status = lib().weft_session_bind_input(self.session, name.encode(), h)
                lib().weft_tensor_release(h)
                check(status)
        check(lib().weft_session_run(self.session))
        out = []
        for i in range(len(self.outputs)):
            h = P()
            check(lib().weft_session_output(self.session, i, ctypes.byref(h)))
            out.append(from_weft(h))
        self.compiled += count_compiled() - before
        return out

    def __del__(self):
        lib().weft_session_release(self.session)
        lib().weft_program_release(self.program)
