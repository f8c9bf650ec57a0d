"""What arguments may be, for signatures."""

import os
from typing import Any, Iterable, Mapping, Protocol, Sequence, Union

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft._weft import Entry, Expr


class HasDLPack(Protocol):
    """A tensor of a framework."""

    def __dlpack__(self) -> Any: ...


class HasArray(Protocol):
    """What numpy can make an array of."""

    def __array__(self) -> Any: ...


class ModelProto(Protocol):
    """An onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


PathLike = Union[str, "os.PathLike[str]"]
ArrayLike = Union[HasArray, HasDLPack, bool, int, float, complex, str, Sequence[Any]]
Operand = Union["Entry", ArrayLike]
ExprLike = Union["Expr", bool, int, float]
DTypeLike = Any
ShapeLike = Union[str, int, Sequence[Union[int, str, None]]]
PipelineLike = Union[str, Iterable[Union[str, "tuple[str, Mapping[str, bool | int | float | str]]"]]]
LimitsLike = Union[str, Mapping[str, Union[int, float, str]]]
ModelLike = Union[PathLike, bytes, bytearray, memoryview, ModelProto]
