"""Graphs: building, editing, handles, forms."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import unittest

import numpy as np
from common import example, floats, needs_kernels, session_of

import weft


class GraphTest(unittest.TestCase):
    def test_arithmetic(self) -> None:
        g = weft.Graph()
        x, y = g.input("x", "f32", [4]), g.input("y", "f32", [4])
        wide = np.arange(4, dtype=np.float32)
        outputs = [x + y, x - 1, 2 * x, 1 / (x + 3), x**2, 2.0**x, -x, abs(x), wide + x, x + wide, x < y, x >= 0, x @ y]
        g.outputs = outputs
        a, b = floats(4), np.array([1, -1, 0.5, 0], np.float32)
        want = [a + b, a - 1, 2 * a, 1 / (a + 3), a**2, 2.0**a, -a, abs(a), wide + a, a + wide, a < b, a >= 0, a @ b]
        for got, expected in zip(session_of(g).run(a, b), want):
            np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)

    def test_inline(self) -> None:
        """A graph among the nodes of another, twice."""
        square = weft.Graph()
        x, y = square.input("x", "f32", [4]), square.input("y", "f32", [4])
        w = square.param("w", np.full(4, 2, np.float32))
        square.outputs = [x * x + y * w, y]
        g = weft.Graph()
        a, b = g.input("a", "f32", [4]), g.input("b", "f32", [4])
        first, same = g.inline(square, [a, b], origin="layer")
        self.assertEqual(same, b)
        self.assertEqual(first.node.origin, ["layer"])
        second, _ = g.inline(square, [first, a])
        g.outputs = [second]
        p, q = floats(4), floats(4) + 1
        np.testing.assert_allclose(session_of(g).run(p, q)[0], (p * p + 2 * q) ** 2 + 2 * p, rtol=1e-5)
        with self.assertRaisesRegex(weft.Error, "1 operands for 2 inputs"):
            g.inline(square, [a])
        with self.assertRaisesRegex(weft.Error, "of another graph"):
            g.inline(square, [x, y])
        with self.assertRaisesRegex(weft.Error, "in itself"):
            g.inline(g, [a, b])
        writer = weft.Graph()
        state = writer.state("s", np.zeros(4, np.float32))
        writer.outputs = [weft.ops.get("weft::Assign")(state, state + 1)]
        with self.assertRaisesRegex(weft.UnsupportedError, "stays in its graph"):
            g.inline(writer, [])

    def test_integers_stay_integers(self) -> None:
        g = weft.Graph()
        x = g.input("x", "i64", [3])
        g.outputs = [x + 1, x * (1 << 60)]
        a = np.array([1, 2, 3])
        plus, times = session_of(g).run(a)
        np.testing.assert_array_equal(plus, a + 1)
        np.testing.assert_array_equal(times, a * (1 << 60))
        for number in (0.5, float("inf"), float("nan"), 1e300):
            with self.assertRaises(TypeError):
                x + number
        small = g.input("small", "u8", [3])
        for whole in (300, -1):
            with self.assertRaisesRegex(TypeError, "beyond u8"):
                small + whole

    def test_no_truth_value(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", [3])
        with self.assertRaises(TypeError):
            bool(x < 1)
        self.assertNotEqual(x, x + 0)
        self.assertEqual(x, g.inputs[0])
        self.assertEqual(len({x, g.inputs[0]}), 1)
        with self.assertRaises(TypeError):
            x + object()  # type: ignore[operator]

    def test_operators_of_the_registry(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", [2, 6])
        first, second = weft.ops.Split(x, axis=1, num_outputs=2, name="halves")
        self.assertEqual(first.node.name, "halves")
        g.outputs = [weft.ops.Concat(second, first, axis=1), weft.ops.weft.SumTo(x, np.zeros((1, 6), np.float32))]
        a = floats(2, 6)
        swapped, total = session_of(g).run(a)
        np.testing.assert_array_equal(swapped, np.concatenate([a[:, 3:], a[:, :3]], 1))
        np.testing.assert_allclose(total, a.sum(0, keepdims=True), rtol=1e-6)
        self.assertIn("axis", inspect.signature(weft.ops.Softmax).parameters)
        self.assertIn("axis", weft.ops.Softmax.__doc__ or "")
        self.assertTrue(hasattr(weft.ops, "Relu"))
        self.assertFalse(hasattr(weft.ops, "Reluu"))
        self.assertIn("Relu", dir(weft.ops))
        with self.assertRaises(AttributeError) as caught:
            weft.ops.Reluu(x)  # type: ignore[attr-defined]
        self.assertIn("Relu", str(caught.exception))

    def test_every_operator_describes_itself(self) -> None:
        for key in weft.ops.list():
            function = weft.ops.get(key)
            self.assertTrue(function.__doc__, key)
            self.assertIn("graph", inspect.signature(function).parameters, key)

    def test_wrong_operands(self) -> None:
        g, other = weft.Graph(), weft.Graph()
        x, y = g.input("x", "f32", [2]), other.input("y", "f32", [2])
        with self.assertRaises(weft.ApiMisuseError):
            x + y
        with self.assertRaises(weft.ApiMisuseError):
            weft.ops.Add(x, y)
        with self.assertRaises(weft.ApiMisuseError):
            weft.ops.Constant(value=np.zeros(2))
        with self.assertRaises(weft.AttributeValueError):
            weft.ops.Softmax(x, axes=1)  # type: ignore[call-arg]
        with self.assertRaises(weft.AttributeValueError):
            weft.ops.Softmax(x, axis="one")  # type: ignore[arg-type]
        with self.assertRaises(weft.ModelError):
            weft.ops.Add(x)  # type: ignore[call-arg]
        with self.assertRaises(weft.ApiMisuseError):
            g.outputs = [y]
        self.assertEqual(g.num_nodes, 1)

    def test_attributes(self) -> None:
        g = weft.Graph()
        c = weft.ops.Constant(value=np.array([1.5, 2.5], np.float32), graph=g)
        np.testing.assert_array_equal(c.node.attrs["value"], [1.5, 2.5])
        x = g.input("x", "f32", [2, 3])
        t = weft.ops.Transpose(x, perm=(1, 0))
        self.assertEqual(t.node.attrs["perm"], [1, 0])
        g.set_attr(t.node, "perm", np.array([0, 1]))
        self.assertEqual(t.node.attrs["perm"], [0, 1])
        cast = weft.ops.Cast(x, to="i32")
        g.outputs = [cast]
        g.infer()
        self.assertEqual(cast.dtype, "i32")
        with self.assertRaises(weft.AttributeValueError):
            g.set_attr(t.node, "perm", object())

    def test_shapes(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", ["n", 4, None])
        unknown = g.input("u")
        self.assertEqual(x.shape, ("n", 4, None))
        self.assertIsNone(unknown.shape)
        self.assertIsNone(unknown.dtype)
        y = weft.ops.Concat(x, x, axis=0)
        self.assertIsNone(y.shape)
        g.outputs = [y]
        g.infer()
        self.assertEqual(y.shape, ("2*n", 4, None))
        self.assertEqual(y.dtype, "f32")
        for wrong in ([-1], [object()], 1.5, ["n+"]):
            with self.assertRaises(weft.Error):
                g.input("w", "f32", wrong)  # type: ignore[arg-type]
        for name in ("f32", "float32", np.float32, np.dtype("float32"), float, "seq(f32)"):
            g.input(f"i{name}", name, None)
        with self.assertRaises(TypeError):
            g.input("w", "f33")

    def test_a_part(self) -> None:
        g = weft.Graph()
        x, unused = g.input("x", "f32"), g.input("unused", "f32", [3])
        w, b, k = g.state("w", None, "f32", [20, "c", 5, 5]), g.state("b", None, "f32", ["m"]), g.state("k")
        y = weft.ops.Conv(x, w) + weft.ops.Unsqueeze(b, np.array([1, 2]))
        step = weft.ops.weft.Assign(k, weft.ops.ReduceSum(y))
        other = weft.ops.weft.Assign(b, weft.ops.Relu(weft.ops.weft.Assign(k, unused)))
        self.assertEqual(weft.ops.Mul(y, k).list_input_variables(), [w, b, k])
        self.assertEqual(x.list_input_variables(), [])
        part = g.extract([y, step])
        self.assertEqual((part.inputs, part.outputs), ([part.at(x)], [part.at(y), part.at(step)]))
        self.assertEqual([v.name for v in part.states], ["w", "b", "k"])
        with self.assertRaises(weft.ApiMisuseError):
            part.at(other)
        self.assertEqual(len(g.inputs), 2)
        part.declare(part.at(x), [7, 3, 9, 9])
        part.infer()
        self.assertEqual((part.at(w).shape, part.at(b).shape, part.at(y).shape), ((20, 3, 5, 5), ("m",), (7, 20, 5, 5)))
        part.declare(part.at(b), [20])
        part.infer()
        self.assertEqual((part.at(y).shape, w.shape, x.shape), ((7, 20, 5, 5), (20, "c", 5, 5), None))
        part.declare(part.at(x), ["n", 4, 9, 9])
        with self.assertRaises(weft.ShapeError):  # c is 3
            part.infer()
        part = g.extract([y])
        part.declare(part.at(x), ["n", 4, 9, 9])
        part.infer()
        self.assertEqual((part.at(w).shape, part.at(y).shape), ((20, 4, 5, 5), ("n", 20, 5, 5)))
        self.assertEqual(g.constant(np.zeros([2, 3])).shape, (2, 3))
        for wrong, at in ((part.at(y), part), (part.at(w), g)):
            with self.assertRaises(weft.ApiMisuseError):
                at.declare(wrong, [1])
        with self.assertRaises(weft.ApiMisuseError):
            part.extract([y])

    def test_editing(self) -> None:
        g = example()
        y = g.outputs[0]
        total = y.node.inputs[0]
        assert total is not None
        g.replace_uses(total, g.inputs[1])
        self.assertEqual(y.node.inputs[0], g.inputs[1])
        dead = total.node
        self.assertEqual(g.erase_dead(), 1)
        with self.assertRaises(weft.ApiMisuseError):
            dead.name
        with self.assertRaises(weft.ApiMisuseError):
            total + 1
        self.assertIn("Node", repr(y.node))
        with self.assertRaises(weft.Error):
            g.erase(y.node)
        with self.assertRaises(weft.ApiMisuseError):
            g.set_input(y.node, 7, y)
        g.set_input(y.node, 1, g.inputs[1])
        b = floats(8)
        np.testing.assert_array_equal(session_of(g).run(b, b)[0], b * b)
        g.verify()

    def test_handles_keep_their_graph(self) -> None:
        x = weft.Graph().input("x", "f32", [3])
        node = (x + 1).node
        gc.collect()
        g = x.graph
        g.outputs = [node.outputs[0]]
        del g, x
        gc.collect()
        np.testing.assert_array_equal(session_of(node.graph).run(np.zeros(3, np.float32))[0], np.ones(3))

    def test_handles_after_a_pass(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", [3])
        y = weft.ops.Identity(x + 0.0)
        g.outputs = [y]
        after = weft.apply_passes(g, "Simplify")
        self.assertEqual(y.node.op, "Identity")  # of the graph before it
        self.assertEqual(after.at(x).node.name, "x")
        with self.assertRaises(weft.ApiMisuseError):
            after.at(y)
        with self.assertRaises(weft.ApiMisuseError):
            after.outputs = [y]

    def test_forms(self) -> None:
        g = example()
        g.metadata = {"author": "me"}
        text = g.to_text(full=True)
        self.assertEqual(str(weft.Graph.parse(text)), str(g))
        self.assertEqual(str(weft.Graph.from_json(g.to_json())), str(g))
        for twin in (pickle.loads(pickle.dumps(g)), copy.copy(g), copy.deepcopy(g), g.copy()):
            self.assertEqual(str(twin), str(g))
            self.assertEqual(twin.metadata, {"author": "me"})
            twin.name = "other"
        self.assertEqual(g.name, "example")
        with self.assertRaises(weft.SyntaxTextError) as caught:
            weft.Graph.parse("weft 1\ngraph (", "mine.weft")
        self.assertIn("mine.weft", str(caught.exception))

    def test_large_tensors_in_pickles(self) -> None:
        g = weft.Graph()
        w = floats(64, 64)
        g.outputs = [g.input("x", "f32", ["n", 64]) @ g.param("w", w)]
        twin = pickle.loads(pickle.dumps(g))
        x = floats(2, 64)
        np.testing.assert_array_equal(session_of(twin).run(x)[0], session_of(g).run(x)[0])

    def test_parameters_are_copies(self) -> None:
        g = weft.Graph()
        w = np.ones(3, np.float32)
        p, view = g.param("w", w), g.param("v", w, copy=False)
        w[:] = 2
        np.testing.assert_array_equal(g.value(p), [1, 1, 1])
        np.testing.assert_array_equal(g.value(view), [2, 2, 2])
        with self.assertRaises(ValueError):
            g.value(p)[0] = 3
        self.assertIsNone(g.value(g.input("x")))
        self.assertEqual([n.name for n in g.params], ["w", "v"])

    def test_node_by_name(self) -> None:
        g = example()
        self.assertEqual(g.node("a"), g.inputs[0].node)
        self.assertEqual(g.node(g.inputs[1].node.id).name, "b")
        with self.assertRaises(KeyError):
            g.node("c")
        with self.assertRaises(KeyError):
            g.node(99)
        self.assertEqual(g.output_names, ["y"])
        g.output_names = ["z"]
        self.assertEqual(g.output_names, ["z"])
        with self.assertRaises(weft.ApiMisuseError):
            g.output_names = []

    @needs_kernels
    def test_notebook(self) -> None:
        g = weft.apply_passes(example(), "Simplify,Fusion")
        page = g._repr_html_()
        self.assertIn("f32[8]", page)
        self.assertIn("Add Mul", page)
        page = weft.compile(example())._repr_html_()
        self.assertIn("kernel", page)
        self.assertIn("1 kernels", page)


if __name__ == "__main__":
    unittest.main()
