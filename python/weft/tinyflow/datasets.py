"""Pictures with classes. In MNIST's place is Fashion-MNIST of its Debian package, in CIFAR-10's a folder of its binary version,
or the same pictures with three channels, padded to 32 x 32."""

from __future__ import annotations

import gzip
import pathlib
from typing import Any

import numpy as np

import weft

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")


class DataSet:
    """Pictures and labels, given in batches, in a new order each time round."""

    def __init__(self, images: Any, labels: Any, flatten: bool, onehot: bool) -> None:
        scaled = images / np.float32(255)
        self.images = scaled.reshape(len(scaled), -1) if flatten else scaled
        self.labels = np.eye(10)[labels] if onehot else labels.astype(np.float32)
        self._generator, self._order = np.random.default_rng(0), np.arange(0)

    def next_batch(self, size: int) -> tuple[Any, Any]:
        while len(self._order) < size:
            self._order = np.concatenate([self._order, self._generator.permutation(len(self.images))])
        taken, self._order = self._order[:size], self._order[size:]
        return self.images[taken], self.labels[taken]


class Sets:
    def __init__(self, train: DataSet, test: DataSet) -> None:
        self.train, self.test = train, test


def _grey(kind: str, folder: str | pathlib.Path) -> list[Any]:
    try:
        files = [gzip.decompress((pathlib.Path(folder) / f"{kind}-{f}-ubyte.gz").read_bytes()) for f in ("images-idx3", "labels-idx1")]
    except OSError as error:
        raise weft.FileError(f"the data set is not there: {error}; install the Debian package dataset-fashion-mnist") from error
    return [np.frombuffer(f, np.uint8, offset=4 + 4 * f[3]).reshape(np.frombuffer(f, ">i4", f[3], 4)) for f in files]


def get_mnist(flatten: bool = False, onehot: bool = False, folder: str | pathlib.Path = FASHION_MNIST) -> Sets:
    """28 x 28 numbers of [0, 1] a picture: `[n, 784]`, or `[n, 1, 28, 28]`."""
    return Sets(*(DataSet(x[:, None], y, flatten, onehot) for x, y in (_grey("train", folder), _grey("t10k", folder))))


def get_cifar10(folder: str | pathlib.Path | None = None, flatten: bool = False, onehot: bool = False) -> Sets:
    """3 x 32 x 32 numbers of [0, 1] a picture."""
    sets = []
    for kind, files in (("train", [f"data_batch_{i}.bin" for i in range(1, 6)]), ("t10k", ["test_batch.bin"])):
        if folder is not None:
            rows = np.concatenate([np.fromfile(pathlib.Path(folder) / f, np.uint8) for f in files]).reshape(-1, 3073)
            sets.append(DataSet(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0], flatten, onehot))
        else:
            grey, labels = _grey(kind, FASHION_MNIST)
            padded = np.pad(grey, ((0, 0), (2, 2), (2, 2)))[:, None]
            sets.append(DataSet(np.repeat(padded, 3, axis=1), labels, flatten, onehot))
    return Sets(*sets)
