"""Errors of Weft: each is a weft.Error and the builtin that fits.

    try:
        weft.load("net.onnx")
    except weft.Error as error:
        print(error.code, error.place, error.hint)
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ApiMisuseError", "AttributeValueError", "BadInputError", "BindingError", "CallbackError", "CancelledError", "CheckError",
    "DependencyError", "DeviceError", "DuplicateError", "Error", "FileError", "IndexRangeError", "InternalError", "LimitError",
    "ModelError", "OutOfMemoryError", "OverflowedError", "PluginError", "ShapeError", "SyntaxTextError", "TypeMismatchError",
    "UnknownOpError", "UnknownOptionError", "UnknownPassError", "UnsupportedError", "UsageError",
]


class Error(Exception):
    """Base of all. `code` is 'WEFT-E0301' and stable, `place` says where, `hint` what to do; both may be empty."""

    code: str
    message: str
    place: str
    hint: str

    def __init__(self, message: str, code: str = "", place: str = "", hint: str = "", text: str = "") -> None:
        Exception.__init__(self, text or message)
        self.message, self.code, self.place, self.hint = message, code, place, hint
        self._text = text or message

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.code, self.place, self.hint, self._text)


class UsageError(Error, ValueError):
    """An option or an argument has a value that it cannot have."""


class UnknownPassError(Error, LookupError):
    """There is no pass of that name."""


class UnknownOptionError(Error, ValueError):
    """A pass has no such option, or it has another type."""


class DependencyError(Error, ValueError):
    """Nothing, or more than one thing, provides what a pass depends on."""


class BindingError(Error, KeyError, ValueError):
    """A name that a program lacks, an input that is not given, an array that does not fit a result."""


class ApiMisuseError(Error, RuntimeError):
    """Graphs mixed, a handle of an erased node, a session in two threads."""


class FileError(Error, OSError):
    """A file cannot be read or written."""


class SyntaxTextError(Error, ValueError):
    """A text does not parse: a graph, a pipeline, JSON."""


class ModelError(Error, ValueError):
    """A model is damaged or breaks the rules."""


class UnknownOpError(Error, LookupError):
    """There is no operator of that name."""


class AttributeValueError(Error, ValueError):
    """An attribute is missing, of the wrong type or out of range."""


class TypeMismatchError(Error, TypeError):
    """Dtypes do not fit, or a value is of a type that has no counterpart."""


class ShapeError(Error, ValueError):
    """Shapes do not fit."""


class BadInputError(Error, ValueError, TypeError):
    """A value given to a run has the wrong dtype or shape."""


class IndexRangeError(Error, IndexError):
    """An index tensor points outside its axis."""


class UnsupportedError(Error, NotImplementedError):
    """An operator, dtype or feature that this build or backend lacks."""


class LimitError(Error, RuntimeError):
    """A bound of the limits was reached."""


class OverflowedError(Error, OverflowError):
    """Sizes overflow 64 bits."""


class OutOfMemoryError(Error, MemoryError):
    """Memory could not be allocated."""


class CancelledError(Error, RuntimeError):
    """The caller has cancelled it."""


class DuplicateError(Error, ValueError):
    """A name is registered twice, or with two types."""


class PluginError(Error, ImportError):
    """A plugin cannot be loaded."""


class CallbackError(Error, RuntimeError):
    """A function of an operator or a pass that is yours has raised: its exception is the cause."""


class CheckError(Error, AssertionError):
    """A comparison or a claim of a pass does not hold."""


class DeviceError(Error, RuntimeError):
    """A driver, a device or a compiler of machine code failed."""


class InternalError(Error, RuntimeError):
    """A bug in Weft."""


# The extension makes errors by these, as __init__ does.
_CLASSES: dict[int, type[Error]] = {
    101: UsageError, 102: UnknownPassError, 103: UnknownOptionError, 104: DependencyError, 105: BindingError, 106: ApiMisuseError,
    201: FileError, 202: SyntaxTextError, 203: ModelError,
    301: ModelError, 302: UnknownOpError, 303: AttributeValueError, 304: TypeMismatchError, 305: ShapeError, 306: ModelError,
    307: ModelError, 308: BadInputError, 309: IndexRangeError,
    401: UnsupportedError, 402: UnsupportedError,
    501: LimitError, 502: OverflowedError, 503: OutOfMemoryError, 504: CancelledError,
    601: DuplicateError, 602: DuplicateError, 603: PluginError, 604: PluginError,
    701: CheckError, 801: DeviceError, 901: InternalError,
}
