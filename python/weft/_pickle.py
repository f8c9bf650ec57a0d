"""What pickles are read with."""

from weft import _weft


def program(state: bytes) -> _weft.Program:
    return _weft.load_program(state)


def tensor(state: bytes) -> _weft.Tensor:
    return _weft._tensor_from_proto(state)
