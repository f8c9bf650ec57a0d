"""Records of PyTorch models by hand: JSON, functional form, rules, obstacles, `.pt2` files."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile
from typing import Any

import numpy as np

import weft
import weft.torch
from weft.torch.functional import NotFunctional, make_functional
from weft.torch.graph import GraphBuilder
from weft.torch.linting import find_obstacles
from weft.torch.pt2 import BadProgram, read_pt2, size_text
from weft.torch.record import (
    DType,
    Frame,
    Node,
    Output,
    Record,
    Ref,
    Size,
    Source,
    Specialization,
    Symbol,
    TensorType,
)
from weft.torch.translate.core import Translation, Untranslatable, Val, promote
from weft.torch.translate.gradient import gradient, missing
from weft.torch.translate.sizes import combine, evaluate, product

MATRIX = TensorType("float32", (3, 4))


def record_of(*nodes: Node, values: list[TensorType], output: int) -> Record:
    """One input, value 0, and one result."""
    record = Record(values=list(values), nodes=list(nodes), stacks=[(), (Frame("m.py", 7, "f"),)])
    record.sources.append(Source("x", "input", 0))
    record.outputs.append(Output("y", Ref(output)))
    return record


def run(record: Record, x: Any, **options: Any) -> Any:
    exported = weft.torch.build(record, {}, **options)
    return weft.Session(exported.compile()).run(x)[0]


class RecordTest(unittest.TestCase):
    def test_json_round_trip(self) -> None:
        record = record_of(
            Node("aten.f", (Ref(0), (1, None, True, float("inf"), "s"), Size("2*n")),
                 {"dtype": DType("float16")}, (1, None), 1, False),
            values=[TensorType("float32", (Size("n"), 2)), MATRIX], output=1,
        )  # fmt: skip
        record.symbols.append(Symbol("n", 2, 9))
        record.specializations.append(Specialization("Eq(n, 2)", "n", Frame("m.py", 3, "f")))
        text = record.to_json()
        again = Record.from_json(text)
        self.assertEqual(again, record)
        self.assertEqual(again.to_json(), text)

    def test_version(self) -> None:
        plain = json.loads(Record().to_json())
        plain["version"] = 99
        with self.assertRaisesRegex(ValueError, "version 99"):
            Record.from_json(json.dumps(plain))

    def test_promotion(self) -> None:
        for a, b, want in (
            ("bool", "uint8", "uint8"), ("int8", "uint8", "int16"), ("int64", "float16", "float16"),
            ("float16", "bfloat16", "float32"), ("float32", "float64", "float64"),
        ):  # fmt: skip
            self.assertEqual(promote(a, b), want)
            self.assertEqual(promote(b, a), want)

    def test_sizes(self) -> None:
        symbols = {"n": 7, "m": 3}
        for text, want in (
            ("n*m + 1", 22), ("FloorDiv(n, 2)", 3), ("n//2 - Mod(n, m)", 2), ("Max(n, m)", 7),
            ("-n", -7), ("CeilToInt(IntTrueDiv(n, 2))", 4),
            ("FloorToInt(FloatTrueDiv(20.0, ToFloat(m)))", 6),
            ("CeilToInt(OpaqueUnaryFn_sqrt(ToFloat(n)))", 3), ("PowByNatural(m, 3)", 27),
        ):  # fmt: skip
            self.assertEqual(evaluate(Size(text), symbols), want, text)
        self.assertEqual(product([2, Size("n"), 3]), Size("6*n"))
        self.assertEqual(product([0, Size("n")]), 0)
        self.assertEqual(evaluate(combine("-", Size("n"), 2), symbols), 5)


    def test_sizes_of_a_graph(self) -> None:
        """Sizes as torch writes them; what Weft has no word for is inferred."""
        graph = GraphBuilder({})
        for i, (text, want) in enumerate((
            ("m*((n//4))**2", weft.Graph().input("x", "f32", ["m*(n//4)*(n//4)"]).shape),
            ("FloorDiv(n, 2)", ("n//2",)), ("2*n + 1", weft.Graph().input("x", "f32", ["1+2*n"]).shape),
            ("CeilToInt(IntTrueDiv(n, 2))", (None,)),
        )):  # fmt: skip
            self.assertEqual(graph.input(f"x{i}", "float32", [text]).shape, want, text)


class FunctionalTest(unittest.TestCase):
    def test_write_through_a_view(self) -> None:
        """y = x.clone(); y[1].add_(1); y.t()[0].fill_(3)"""
        row, column = TensorType("float32", (4,)), TensorType("float32", (3,))
        turned = TensorType("float32", (4, 3))
        record = make_functional(
            record_of(
                Node("aten.clone.default", (Ref(0),), {}, (1,)),
                Node("aten.select.int", (Ref(1), 0, 1), {}, (2,)),
                Node("aten.add_.Tensor", (Ref(2), 1), {}, (None,)),
                Node("aten.t.default", (Ref(1),), {}, (3,)),
                Node("aten.select.int", (Ref(3), 0, 0), {}, (4,)),
                Node("aten.fill_.Scalar", (Ref(4), 3), {}, (None,)),
                values=[MATRIX, MATRIX, row, turned, column], output=1,
            )
        )  # fmt: skip
        self.assertFalse([n.op for n in record.nodes if n.op.split(".")[1].endswith("_")])
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        want = x.copy()
        want[1] += 1
        want[:, 0] = 3
        np.testing.assert_array_equal(run(record, x), want)

    def test_a_view_is_read_anew_after_a_write_to_its_base(self) -> None:
        """v = y.view(12); y.mul_(2); v"""
        flat = TensorType("float32", (12,))
        record = make_functional(
            record_of(
                Node("aten.clone.default", (Ref(0),), {}, (1,)),
                Node("aten.view.default", (Ref(1), (12,)), {}, (2,)),
                Node("aten.mul_.Tensor", (Ref(1), 2), {}, (None,)),
                Node("aten.neg.default", (Ref(2),), {}, (3,)),
                values=[MATRIX, MATRIX, flat, flat], output=3,
            )
        )  # fmt: skip
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        np.testing.assert_array_equal(run(record, x), -2 * x.ravel())

    def test_a_written_buffer_is_state(self) -> None:
        record = record_of(
            Node("aten.add_.Tensor", (Ref(1), Ref(0)), {}, (2,)),
            values=[MATRIX, MATRIX, MATRIX], output=2,
        )  # fmt: skip
        record.sources.append(Source("total", "buffer", 1))
        exported = weft.torch.build(make_functional(record), {"total": np.ones((3, 4), np.float32)})
        session = weft.Session(exported.compile())
        x = np.full((3, 4), 2, np.float32)
        for want in (3, 5, 7):
            np.testing.assert_array_equal(session.run(x)[0], np.full((3, 4), want))
        np.testing.assert_array_equal(session.store["total"], np.full((3, 4), 7))

    def test_a_write_that_is_not_undone_is_refused(self) -> None:
        record = record_of(
            Node("aten.unfold.default", (Ref(0), 1, 2, 1), {}, (1,)),
            Node("aten.mul_.Tensor", (Ref(1), 2), {}, (None,), 1),
            values=[MATRIX, TensorType("float32", (3, 3, 2))], output=1,
        )  # fmt: skip
        with self.assertRaisesRegex(NotFunctional, "m.py:7"):
            make_functional(record)


class RulesTest(unittest.TestCase):
    def test_a_rule_of_the_user(self) -> None:
        def cube(t: Translation, self: Val) -> Val:
            return t.mul(t.mul(self, self), self)

        record = record_of(
            Node("mine.cube.default", (Ref(0),), {}, (1,), 1), values=[MATRIX, MATRIX], output=1
        )
        with self.assertRaisesRegex(weft.torch.ExportError, "m.py:7.*mine.cube"):
            weft.torch.build(record, {})
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        np.testing.assert_array_equal(run(record, x, rules={"mine.cube.default": cube}), x**3)

    def test_all_obstacles_are_named(self) -> None:
        record = record_of(
            Node("aten.a.default", (Ref(0),), {}, (1,), 1),
            Node("aten.b.default", (Ref(1),), {}, (2,), 1),
            values=[MATRIX, MATRIX, MATRIX], output=2,
        )  # fmt: skip
        record.specializations.append(Specialization("Eq(n, 3)", "n", Frame("m.py", 9, "f")))
        found = find_obstacles(record, {})
        self.assertEqual([o.kind for o in found], ["specialization", "operator", "operator"])
        self.assertEqual([o.place for o in found], ["m.py:9", "m.py:7", "m.py:7"])

    def test_sizes_that_are_rounded_up(self) -> None:
        """full(ceil(n / 2)): at odd sizes too."""
        record = record_of(
            Node("aten.full.default", ((Size("CeilDiv(n, 2)"),), 3.0), {}, (1,)),
            values=[TensorType("float32", (Size("n"),)),
                    TensorType("float32", (Size("CeilDiv(n, 2)"),))], output=1,
        )  # fmt: skip
        session = weft.Session(weft.torch.build(record, {}).compile())
        for n in (1, 6, 7):
            self.assertEqual(session.run(np.ones(n, np.float32))[0].shape, ((n + 1) // 2,))

    def test_no_node_for_what_nothing_needs(self) -> None:
        record = record_of(
            Node("aten.unheard_of.default", (Ref(0),), {}, (1,)),
            Node("aten.neg.default", (Ref(0),), {}, (2,)),
            values=[MATRIX, MATRIX, MATRIX], output=2,
        )  # fmt: skip
        x = np.ones((3, 4), np.float32)
        record.nodes = [n for n in record.nodes if n.op != "aten.unheard_of.default"]
        np.testing.assert_array_equal(run(record, x), -x)


class GradientTest(unittest.TestCase):
    """`X_backward` is the gradient of X; `JointTest` has each of them beside autograd."""

    def test_of_the_operand(self) -> None:
        """silu_backward(x, x) = x (s + x s (1 - s))"""
        record = record_of(
            Node("aten.silu_backward.default", (Ref(0), Ref(0)), {}, (1,)),
            values=[MATRIX, MATRIX], output=1,
        )  # fmt: skip
        x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
        s = 1 / (1 + np.exp(-x))
        np.testing.assert_allclose(run(record, x), x * (s + x * s * (1 - s)), rtol=1e-5, atol=1e-6)

    def test_one_operand_in_two_places(self) -> None:
        """A gradient by one of them is not one by both: conv(x, x) by its input."""
        kind = TensorType("float64", (1, 1, 3))
        mask = (True, False, False)
        record = record_of(
            Node("aten.convolution_backward.default",
                 (Ref(0), Ref(0), Ref(0), None, (1,), (1,), (1,), False, (0,), 1, mask), {},
                 (1, None, None)),
            values=[kind, kind], output=1,
        )  # fmt: skip
        x = np.array([[[1.0, 2.0, 4.0]]])
        # dx[i] = sum over o of dy[o] w[i - o + 1]
        np.testing.assert_allclose(run(record, x), [[[2 * 1 + 1 * 2, 4 * 1 + 2 * 2 + 1 * 4,
                                                      4 * 2 + 2 * 4]]])  # fmt: skip

    def test_of_a_result_without_the_operand(self) -> None:
        record = record_of(
            Node("aten._softmax_backward_data.default", (Ref(0), Ref(0), 1, DType("float32")), {},
                 (1,)),
            values=[MATRIX, MATRIX], output=1,
        )  # fmt: skip
        x = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
        want = x * (x - (x * x).sum(1, keepdims=True))
        np.testing.assert_allclose(run(record, x), want, rtol=1e-5, atol=1e-6)

    def test_an_operand_that_is_missing_is_not_read(self) -> None:
        """The gradient of x * x reads x, whatever results are kept."""

        def forward(t: Translation, self: Val) -> Val:
            return t.mul(self, self)

        def backward(t: Translation, dy: Val, output: Val) -> Val:
            operand = missing(output.dtype, output.dims)
            return gradient(t, forward, (operand,), [0], dy, saved={0: output})[0]

        record = record_of(
            Node("mine.square_backward", (Ref(0), Ref(0)), {}, (1,), 1),
            values=[MATRIX, MATRIX], output=1,
        )  # fmt: skip
        with self.assertRaisesRegex(Untranslatable, "not kept at m.py:7"):
            weft.torch.build(record, {}, rules={"mine.square_backward": backward})

    def test_symbols_that_no_operand_has(self) -> None:
        """slice_backward into a size that comes from another input."""
        n, m = Size("n"), Size("m")
        record = record_of(
            Node("aten.slice_backward.default", (Ref(0), (m, 4), 0, 1, Size("n+1"), 1), {}, (1,)),
            values=[TensorType("float32", (n, 4)), TensorType("float32", (m, 4))], output=1,
        )  # fmt: skip
        record.values.append(TensorType("float32", (m,)))
        record.sources.append(Source("other", "input", 2))
        record.symbols += [Symbol("n"), Symbol("m")]
        session = weft.Session(weft.torch.build(record, {}).compile())
        for count, size in ((2, 5), (3, 4)):
            x = np.ones((count, 4), np.float32)
            (y,) = session.run(x, np.zeros(size, np.float32))
            want = np.zeros((size, 4), np.float32)
            want[1 : count + 1] = 1
            np.testing.assert_array_equal(y, want)

    def test_rms_norm_by_differences(self) -> None:
        """torch has this operator for other devices alone."""
        kind, row = TensorType("float64", (3, 4)), TensorType("float64", (4,))
        stats = TensorType("float64", (3, 1))
        record = record_of(
            Node("aten._fused_rms_norm_backward.default",
                 (Ref(1), Ref(0), (4,), Ref(2), Ref(3), (True, True)), {}, (4, 5)),
            values=[kind, kind, stats, row, kind, row], output=4,
        )  # fmt: skip
        record.sources += [Source(n, "input", i) for i, n in ((1, "dy"), (2, "rstd"), (3, "w"))]
        record.outputs.append(Output("dw", Ref(5)))
        generator = np.random.default_rng(0)
        x, dy, w = (generator.standard_normal(s) for s in ((3, 4), (3, 4), (4,)))

        def rstd(x: Any) -> Any:
            return 1 / np.sqrt((x * x).mean(1, keepdims=True) + 0.1)

        def value(x: Any, w: Any) -> Any:
            return (dy * x * rstd(x) * w).sum()

        session = weft.Session(weft.torch.build(record, {}).compile())
        for got, at in zip(session.run(x, dy, rstd(x), w), (0, 1)):
            for i in np.ndindex(got.shape):
                step = np.zeros(got.shape)
                step[i] = 1e-6
                up, down = ((x + s, w) if at == 0 else (x, w + s) for s in (step, -step))
                self.assertAlmostEqual(got[i], (value(*up) - value(*down)) / 2e-6, 6)

    def test_binary_cross_entropy_at_the_ends(self) -> None:
        """Where p is 0 or 1, the loss is at most 100 and its gradient as torch defines it: (p - y)
        over p (1 - p), the latter at least 1e-12. The ways to it: backward operator, graph of a loss, weft.gradients."""
        p, y, w = np.array([1.0, 0.0, 0.25, 0.0]), np.array([1.0, 0.0, 1.0, 1.0]), np.arange(1.0, 5)
        slope = w * (p - y) / np.maximum(p * (1 - p), 1e-12)
        kind, one = TensorType("float64", (4,)), TensorType("float64", ())
        forward = Node("aten.binary_cross_entropy.default", (Ref(0), Ref(1), Ref(2)), {}, (3,))
        record = record_of(forward, values=[kind, kind, kind, one], output=3)
        record.sources = [
            Source("p", "parameter", 0, True), Source("y", "input", 1), Source("w", "input", 2)
        ]  # fmt: skip
        exported = weft.torch.build(record, {"p": p}, loss="y")
        loss, by_p = weft.Session(exported.compile()).run(y, w)
        np.testing.assert_allclose(loss, (3 * -np.log(0.25) + 4 * 100) / 4)
        np.testing.assert_allclose(by_p, slope / 4)
        record.sources[0] = Source("p", "input", 0)
        graph = weft.torch.build(record, {}).graph
        of_p = [e for e in graph.inputs if e.name == "p"]
        graph.outputs = [*graph.outputs, *weft.gradients(graph.outputs, of_p)]
        loss, by_p = weft.Session(weft.compile(graph)).run(p, y, w)
        np.testing.assert_allclose(loss, (3 * -np.log(0.25) + 4 * 100) / 4)
        np.testing.assert_allclose(by_p, slope / 4)
        for reduction, factor in ((0, 1.0), (1, 0.5), (2, 2.0)):
            gradient_type = kind if reduction == 0 else one
            backward = Node(
                "aten.binary_cross_entropy_backward.default",
                (Ref(0), Ref(1), Ref(2), Ref(3), reduction), {}, (4,),
            )  # fmt: skip
            record = record_of(backward, values=[gradient_type, kind, kind, kind, kind], output=4)
            record.sources = [Source(n, "input", i) for i, n in enumerate("gpyw")]
            dy = np.full(4 if reduction == 0 else (), factor * (4 if reduction == 1 else 1))
            session = weft.Session(weft.torch.build(record, {}).compile())
            np.testing.assert_allclose(session.run(dy, p, y, w)[0], slope * factor)

    def test_equal_calls_are_differentiated_once(self) -> None:
        values = [MATRIX] * 4
        record = record_of(
            *(Node("aten.tanh_backward.default", (Ref(i), Ref(i)), {}, (i + 1,)) for i in range(3)),
            values=values, output=3,
        )  # fmt: skip
        builder = GraphBuilder({})
        translation = Translation(record, builder)
        translation.sources()
        translation.run()
        self.assertEqual(len(translation.gradients), 1)


class Pt2Test(unittest.TestCase):
    def write(self, model: Any, weights: Any = None, data: bytes = b"") -> str:
        folder = tempfile.mkdtemp()
        path = str(pathlib.Path(folder) / "m.pt2")
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("m/models/model.json", json.dumps(model))
            if weights is not None:
                config = {"config": {"w": weights}}
                file.writestr("m/data/weights/model_weights_config.json", json.dumps(config))
                file.writestr("m/data/weights/weight_0", data)
        return path

    def tensor(self, *dims: int, dtype: int = 7) -> dict[str, Any]:
        strides = [1] * len(dims)
        for i in range(len(dims) - 2, -1, -1):
            strides[i] = strides[i + 1] * dims[i + 1]
        return {
            "dtype": dtype,
            "sizes": [{"as_int": d} for d in dims],
            "strides": [{"as_int": s} for s in strides],
            "storage_offset": {"as_int": 0},
            "requires_grad": True,
        }

    def program(self) -> dict[str, Any]:
        """relu_(x + w)"""

        def node(target: str, output: str, *names: str) -> dict[str, Any]:
            given = [{"name": n, "arg": {"as_tensor": {"name": n}}, "kind": 1} for n in names]
            trace = 'File "/site/m.py", line 5, in forward'
            return {
                "target": f"torch.ops.aten.{target}", "inputs": given,
                "outputs": [{"as_tensor": {"name": output}}], "metadata": {"stack_trace": trace},
            }  # fmt: skip

        return {
            "schema_version": {"major": 8, "minor": 20},
            "range_constraints": {},
            "graph_module": {
                "graph": {
                    "nodes": [
                        node("add.Tensor", "sum", "x", "p_w"), node("relu_.default", "y", "sum"),
                    ],
                    "tensor_values": {n: self.tensor(2, 2) for n in ("x", "p_w", "sum", "y")},
                },
                "signature": {
                    "input_specs": [
                        {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}},
                        {"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
                    ],
                    "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}],
                },
            },
        }  # fmt: skip

    def weight(self, **changes: Any) -> dict[str, Any]:
        return {
            "path_name": "weight_0",
            "use_pickle": False,
            "tensor_meta": self.tensor(2, 2),
        } | changes

    def test_a_program(self) -> None:
        w = np.array([[1, -2], [3, -4]], np.float32)
        path = self.write(self.program(), self.weight(), w.tobytes())
        session = weft.Session(weft.torch.export(path).compile())
        x = np.ones((2, 2), np.float32)
        np.testing.assert_array_equal(session.run(x)[0], np.maximum(x + w, 0))
        self.assertNotIn("torch", sys.modules)

    def test_as_other_models(self) -> None:
        """By `weft.load`, `weft.compile`, and the command as `python -m weft`, without torch."""
        w = np.array([[1, -2], [3, -4]], np.float32)
        path = self.write(self.program(), self.weight(), w.tobytes())
        x = np.ones((2, 2), np.float32)
        want = np.maximum(x + w, 0)
        np.testing.assert_array_equal(weft.Session(weft.compile(path)).run(x)[0], want)
        self.assertEqual([e.name for e in weft.load(pathlib.Path(path)).inputs], ["x"])
        with self.assertRaises(BadProgram):
            weft.load(self.write({"schema_version": {"major": 7}}))
        folder = tempfile.mkdtemp()

        def command(*arguments: str) -> subprocess.CompletedProcess[str]:
            code = "import sys; sys.modules['torch'] = None; from weft.__main__ import main; sys.exit(main())"
            return subprocess.run(
                [sys.executable, "-c", code, *arguments], capture_output=True, text=True
            )

        ran = command("run", path, "--input", "x=1", "--outputs-dir", folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        [result] = pathlib.Path(folder).glob("*.npy")
        np.testing.assert_array_equal(np.load(result), want)
        self.assertIn("weft", command("--version").stdout)
        for bad, code in (("none.pt2", 4), (__file__, 2)):
            ran = command("run", bad)
            self.assertEqual(ran.returncode, code, ran.stderr)
        pathlib.Path(folder, "bad.pt2").write_text("no zip")
        ran = command("run", str(pathlib.Path(folder, "bad.pt2")))
        self.assertEqual((ran.returncode, "zip" in ran.stderr), (4, True), ran.stderr)

    def test_bad_files(self) -> None:
        good = np.zeros(4, np.float32).tobytes()
        with self.assertRaisesRegex(BadProgram, "schema 7"):
            read_pt2(self.write({**self.program(), "schema_version": {"major": 7}}))
        with self.assertRaisesRegex(BadProgram, "beyond"):
            read_pt2(self.write(self.program(), self.weight(), good[:8]))
        with self.assertRaisesRegex(BadProgram, "pickle"):
            read_pt2(self.write(self.program(), self.weight(use_pickle=True), good))
        with self.assertRaisesRegex(BadProgram, "beyond"):
            meta = {**self.tensor(2, 2), "storage_offset": {"as_int": -1}}
            read_pt2(self.write(self.program(), self.weight(tensor_meta=meta), good))
        with self.assertRaisesRegex(BadProgram, "dtype"):
            read_pt2(
                self.write(
                    self.program(), self.weight(tensor_meta=self.tensor(2, 2, dtype=9)), good
                )
            )
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.pt2"
            with zipfile.ZipFile(path, "w") as file:
                file.writestr("a", "b")
            with self.assertRaisesRegex(BadProgram, "model.json"):
                read_pt2(path)
            path.write_bytes(b"no zip")
            with self.assertRaises(zipfile.BadZipFile):
                read_pt2(path)

    def test_sizes(self) -> None:
        self.assertEqual(size_text("Symbol('s43', positive=True, integer=True)"), "s43")
        self.assertEqual(size_text("Mul(Integer(2), Symbol('n', integer=True))"), "2*n")
        self.assertEqual(
            size_text("FloorDiv(Add(Symbol('n'), Integer(-1)), Integer(2))"), "(n+-1)//2"
        )
        with self.assertRaises(BadProgram):
            size_text("__import__('os').system('true')")
