"""Recorded PyTorch models: translated, compiled and run with no torch; and their gradients.

`python/torch_checks/record_models.py` writes the records, with what eager torch gives on seeded
weights: projections of results and gradients.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import sys
import unittest
from typing import Any

import numpy as np
import seeded

import weft
import weft.torch
from weft.torch.record import Record

FOLDER = pathlib.Path(__file__).parent / "recorded"


def read(path: pathlib.Path) -> tuple[Record, dict[str, Any]]:
    plain = json.loads(gzip.decompress(path.read_bytes()))
    return Record.from_json(json.dumps(plain["record"])), plain


def tensors_of(record: Record, plain: dict[str, Any]) -> dict[str, Any]:
    tensors = {name: seeded.read_array(kept) for name, kept in plain["kept"].items()}
    for source in record.sources:
        if source.kind != "input" and source.name not in tensors:
            kind = record.tensor(source.value)
            dims = [d for d in kind.dims if isinstance(d, int)]
            tensors[source.name] = seeded.make_weight(source.name, dims, kind.dtype)
    return tensors


class RecordedTest(unittest.TestCase):
    def check(self, name: str) -> None:
        record, plain = read(FOLDER / f"{name}.json.gz")
        exported = weft.torch.build(record, tensors_of(record, plain), loss=plain["loss"])
        session = weft.Session(exported.compile())
        names = exported.graph.output_names
        inputs = [entry.name for entry in exported.graph.inputs]
        for case in plain["cases"]:
            feeds = {n: seeded.read_array(case["inputs"][n]) for n in inputs}
            results = dict(zip(names, session.run(feeds)))
            # Some gradients are 0 but for rounding, as that of the bias of attention's keys; their
            # errors are measured by the longest of all.
            lengths = [w[2] for o, w in case["outputs"].items() if o.startswith("grad_")]
            floor = 1e-2 * max(lengths, default=0)
            for output, want in case["outputs"].items():
                got = seeded.project(output, np.asarray(results[output]))
                if output.startswith("grad_"):
                    error = seeded.differs(got, want, 1e-4, floor)
                else:
                    error = seeded.differs(got, want, 2e-5)
                self.assertLess(error, 1, f"{name}: {output}")
        self.assertNotIn("torch", sys.modules)


class JointTest(unittest.TestCase):
    """Forward and backward operators as AOTAutograd traces them, in float64."""

    def test_operators(self) -> None:
        for case in json.loads(gzip.decompress((FOLDER / "joint.gz").read_bytes())):
            with self.subTest(case["name"]):
                record = Record.from_json(json.dumps(case["record"]))
                tensors = {name: seeded.read_array(kept) for name, kept in case["tensors"].items()}
                exported = weft.torch.build(record, tensors)
                session = weft.Session(exported.compile())
                feeds = [seeded.read_array(kept) for kept in case["feeds"]]
                results = dict(zip(exported.graph.output_names, session.run(*feeds)))
                for output, want in case["outputs"].items():
                    got = seeded.project(output, np.asarray(results[output]))
                    error = seeded.differs(got, want, case["tolerance"], 1e-3)
                    self.assertLess(error, 1, output)


def _add(name: str) -> None:
    setattr(RecordedTest, f"test_{name}", lambda self: self.check(name))


for _path in sorted(FOLDER.glob("*.json.gz")):
    _add(_path.name.removesuffix(".json.gz"))
