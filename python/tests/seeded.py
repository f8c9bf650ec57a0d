"""Weights and inputs of recorded models: numbers from a seed, the same wherever they are made."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _generator(name: str, salt: int = 0) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(name.encode()), salt])


def make_weight(name: str, dims: Sequence[int], dtype: str) -> Array:
    """A parameter, or the statistics of a normalization."""
    draw = _generator(name).standard_normal(dims)
    if name.endswith("running_var"):
        values = 0.5 + np.abs(draw)
    elif len(dims) >= 2:
        values = draw / np.sqrt(np.prod(dims[1:]))
    elif name.endswith("weight"):
        values = 1 + 0.1 * draw
    else:
        values = 0.1 * draw
    return np.asarray(values, dtype)


def is_seeded(name: str, dtype: str, kind: str) -> bool:
    """Others are kept with the record."""
    if not dtype.startswith("float"):
        return False
    return kind == "parameter" or name.endswith(("running_mean", "running_var"))


def make_input(name: str, dims: Sequence[int], dtype: str) -> Array:
    return _generator(name, 1).standard_normal(dims).astype(dtype)


def project(name: str, value: Array) -> list[float]:
    """Two projections on random directions, and the length that their errors are measured by."""
    flat = np.asarray(value, np.float64).ravel()
    directions = _generator(name, 2).standard_normal((2, flat.size)) / np.sqrt(max(flat.size, 1))
    return [*(directions @ flat).tolist(), float(np.sqrt(np.mean(flat**2)) if flat.size else 0)]


def differs(
    got: Sequence[float], want: Sequence[float], tolerance: float, floor: float = 1e-6
) -> float:
    """How many tolerances two projections of one value are apart; of values smaller than `floor`
    that many of the floor."""
    scale = max(want[2], floor)
    return max(abs(a - b) / scale for a, b in zip(got[:2], want[:2])) / tolerance


def read_array(plain: Mapping[str, Any]) -> Array:
    """An array as the records keep it: dtype, dims and all elements, or a seed by its name."""
    if "seed" in plain:
        return make_input(plain["seed"], plain["dims"], plain["dtype"])
    return np.array(plain["values"], plain["dtype"]).reshape(plain["dims"])
