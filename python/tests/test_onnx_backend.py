"""ONNX's own cases against the Backend interface, and what they do not ask of it."""

from __future__ import annotations

import re
import unittest
from typing import Any

import numpy as np

import weft

try:
    import onnx
    import onnx.backend.test
    from onnx import helper
except ImportError as error:
    raise unittest.SkipTest("onnx is not installed") from error
else:
    from weft import onnx_backend

# Models that are downloaded (OnnxBackendRealModelTest), and devices that are not there, are left out.
KINDS = ("Node", "Simple", "PyTorchConverted", "PyTorchOperator")
NOT_ASKED = {
    "test_bernoulli": "draws: the expected numbers are those of numpy's generator",
    "test_training_dropout_(mask_|default_|default_mask_)?cpu": "draws: the expected numbers are those of numpy's generator",
    "test_dft_inverse_(opset19_)?cpu": "zeros: what is expected was computed in single precision and has up to 2e-7",
    "test_loop16_seq_none": "ONNX's runner takes the length of a tensor without axes",
}
suite = onnx.backend.test.BackendTest(onnx_backend, __name__)
for kind in KINDS:
    name = f"OnnxBackend{kind}ModelTest"
    case: Any = suite.test_cases[name]
    for method in [m for m in vars(case) if m.startswith("test_")]:
        if not method.endswith("_cpu"):
            delattr(case, method)
        for pattern, reason in NOT_ASKED.items():
            if re.match(pattern, method) and hasattr(case, method):
                setattr(case, method, unittest.skip(reason)(getattr(case, method)))
    globals()[name] = case


class Nodes(unittest.TestCase):
    def test_operands(self) -> None:
        x = np.arange(3, dtype=np.float32)
        double = helper.make_node("Add", ["x", "x"], ["y"])
        for given in ([x, x], [x], {"x": x}):
            results: Any = onnx_backend.run_node(double, given)
            np.testing.assert_array_equal(results["y"], 2 * x)
        with self.assertRaisesRegex(weft.BadInputError, "2 operands, and 1 arrays"):
            onnx_backend.run_node(helper.make_node("Add", ["x", "z"], ["y"]), [x])
        with self.assertRaisesRegex(weft.BindingError, "'z'"):
            onnx_backend.run_node(helper.make_node("Add", ["x", "z"], ["y"]), {"x": x})
        with self.assertRaisesRegex(weft.UsageError, "unknown arguments: z"):
            onnx_backend.prepare(model_of("Relu")).run([x], z=1)

    def test_left_out_operands_and_older_versions(self) -> None:
        x = np.array([-2, 0, 5], np.float32)
        clip = helper.make_node("Clip", ["x", "", "most"], ["y"])
        [y] = onnx_backend.run_node(clip, [x, np.float32(3)])
        np.testing.assert_array_equal(y, [-2, 0, 3])
        [y] = onnx_backend.run_node(helper.make_node("Clip", ["x"], ["y"], max=3.0), [x], opset_version=6)
        np.testing.assert_array_equal(y, [-2, 0, 3])

    def test_sequences_and_strings(self) -> None:
        parts = [np.ones(2, np.float32), np.zeros(3, np.float32)]
        [y] = onnx_backend.run_node(helper.make_node("SequenceAt", ["s", "i"], ["y"]), [parts, np.array(1)])
        np.testing.assert_array_equal(y, parts[1])
        [y] = onnx_backend.run_node(helper.make_node("StringConcat", ["a", "b"], ["y"]), [np.array(["a"]), np.array(["b"])])
        self.assertEqual(y.tolist(), ["ab"])
        with self.assertRaisesRegex(weft.BadInputError, "empty sequence"):
            onnx_backend.run_node(helper.make_node("SequenceLength", ["s"], ["y"]), [[]])

    def test_other_domains(self) -> None:
        node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=1.0)
        [y] = onnx_backend.run_node(node, [np.array([0, 1, 2], np.float32)])
        np.testing.assert_array_equal(y, [0, 0, 1])


class Models(unittest.TestCase):
    def test_one_preparation_many_runs(self) -> None:
        rep: Any = onnx_backend.prepare(model_of("Relu"), threads=1)
        for n in (1, 4):
            x = np.linspace(-1, 1, n, dtype=np.float32)
            [y] = rep.run([x])
            np.testing.assert_array_equal(y, np.maximum(x, 0))
            np.testing.assert_array_equal(rep.run({"x": x})["y"], y)
        np.testing.assert_array_equal(onnx_backend.run_model(model_of("Relu").SerializeToString(), [x])[0], y)

    def test_what_cannot_be_run(self) -> None:
        self.assertTrue(onnx_backend.is_compatible(model_of("Relu")))
        self.assertFalse(onnx_backend.is_compatible(model_of("Frobnicate")))
        self.assertIn("Frobnicate", onnx_backend.why_incompatible(model_of("Frobnicate")))
        with self.assertRaisesRegex(weft.Error, "Frobnicate"):
            onnx_backend.prepare(model_of("Frobnicate"))

    def test_devices(self) -> None:
        self.assertTrue(onnx_backend.supports_device("CPU"))
        for device in ("TPU", "CPU:1", "CUDA:x", "CUDA:4096", ""):
            self.assertFalse(onnx_backend.supports_device(device))
        with self.assertRaisesRegex(weft.UsageError, "unknown device 'TPU'"):
            onnx_backend.prepare(model_of("Relu"), "TPU")


def model_of(op: str) -> Any:
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy")
    return helper.make_model(helper.make_graph([helper.make_node(op, ["x"], ["y"])], "g", [x], [y]))


if __name__ == "__main__":
    unittest.main()
