"""Operators and passes that are defined in Python."""

from __future__ import annotations

import pathlib
import pickle
import tempfile
import threading
import traceback
import unittest
from typing import Any

import numpy as np
from common import BACKEND, Array, floats, run_script, session_of

import weft
from weft import expr

calls: list[str] = []


@weft.op("pydef::Squareplus")
def squareplus(x: weft.Expr) -> weft.Expr:
    """(x + sqrt(x^2 + 4)) / 2."""
    calls.append(x.dtype)
    return (x + expr.sqrt(x * x + 4)) * 0.5


@weft.op("pydef::Affine")
def affine(x: weft.Expr, shift: weft.Expr | None = None, *, scale: float = 2.0, flip: bool = False) -> weft.Expr:
    y = x * scale if shift is None else x * scale + shift
    return -y if flip else y


def squareplus_of(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.asarray((wide + np.sqrt(wide * wide + 4)) / 2)


def one(op: weft.Operator, dtype: Any, shape: Any, **attributes: Any) -> weft.Session:
    g = weft.Graph()
    g.outputs = [op(g.input("x", dtype, shape), **attributes)]
    return session_of(g)


class OperatorTest(unittest.TestCase):
    def test_a_lambda_is_a_whole_operator(self) -> None:
        op = weft.op("pydef::Lambda", lambda x: (x + expr.sqrt(x * x + 4)) * 0.5)
        x = floats(5, 3)
        np.testing.assert_allclose(one(op, "f32", ["n", 3]).run(x)[0], squareplus_of(x), rtol=1e-6)

    def test_it_fuses_and_the_function_is_called_once(self) -> None:
        g = weft.Graph()
        x, b = g.input("x", "f32", ["n", 3]), g.input("b", "f32", [3])
        g.outputs = [weft.ops.Softmax(squareplus(x + b), axis=-1), squareplus(b)]
        calls.clear()
        program = weft.compile(g)
        if not BACKEND:
            self.assertEqual((program.stats["library_calls"], program.stats["interpreted"]), (0, 0))
            self.assertLessEqual(program.stats["kernels"], 2)
        self.assertLessEqual(len(calls), 1)
        session = weft.Session(program)
        v, w = floats(4, 3), floats(3)
        got, other = session.run(v, w)
        self.assertLessEqual(len(calls), 1)
        e = np.exp(squareplus_of(v + w))
        np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), rtol=1e-5)
        np.testing.assert_allclose(other, squareplus_of(w), rtol=1e-6)

    def test_dtypes(self) -> None:
        for dtype, rtol in (("float16", 1e-3), ("float32", 1e-6), ("float64", 1e-14)):
            x = np.linspace(-3, 3, 7).astype(dtype)
            [y] = one(squareplus, dtype, [7]).run(x)
            self.assertEqual(y.dtype, x.dtype)
            np.testing.assert_allclose(y, squareplus_of(x), rtol=rtol)
        g = weft.Graph()
        g.outputs = [affine(g.input("i", "i32", [3])), affine(g.input("b", "bf16", [3]), scale=0.5)]
        g.infer()
        self.assertEqual([e.dtype for e in g.outputs], ["i32", "bf16"])
        np.testing.assert_array_equal(one(affine, "i32", [3]).run(np.arange(3, dtype=np.int32))[0], [0, 2, 4])

    def test_attributes_and_absent_operands(self) -> None:
        g = weft.Graph()
        x, s = g.input("x", "f32", [2]), g.input("s", "f32", [2, 1])
        g.outputs = [affine(x), affine(x, scale=3), affine(x, s, flip=True), affine(x, None, scale=0.5)]
        v, w = np.array([1, 2], np.float32), np.array([[10], [20]], np.float32)
        for got, want in zip(session_of(g).run(v, w), (v * 2, v * 3, -(v * 2 + w), v / 2)):
            np.testing.assert_array_equal(got, want)
        self.assertEqual([n.attrs for n in g.nodes if n.op][1], {"scale": 3})
        twin = weft.Graph.parse(str(g))
        self.assertEqual(str(twin), str(g))
        self.assertEqual(str(pickle.loads(pickle.dumps(g)).copy()), str(g))
        described = weft.ops.get("pydef::Affine")
        self.assertIn("scale (float, default 2", described.__doc__ or "")
        self.assertEqual(weft.ops.get("pydef::Squareplus").__doc__, "(x + sqrt(x^2 + 4)) / 2.\n\nOperands:\n    x (any)\n"
                         "Results:\n    y (any)")

    def test_several_results(self) -> None:
        @weft.op("pydef::SinCos", outputs=["sin", "cos"])
        def sincos(x: weft.Expr) -> tuple[weft.Expr, weft.Expr]:
            return expr.sin(x), expr.cos(x)

        g = weft.Graph()
        sin, cos = sincos(g.input("x", "f64", ["n"]))
        [d] = weft.gradients([weft.ops.ReduceSum(sin * cos)], [g.inputs[0]])
        g.outputs = {"s": sin, "c": cos, "d": d}
        x = np.linspace(-2, 2, 9)
        s, c, got = session_of(g).run(x)
        np.testing.assert_allclose(s, np.sin(x), rtol=1e-14)
        np.testing.assert_allclose(c, np.cos(x), rtol=1e-14)
        np.testing.assert_allclose(got, np.cos(2 * x), rtol=1e-13, atol=1e-15)

    def test_operators_in_operators(self) -> None:
        op = weft.op("pydef::Twice", lambda x: squareplus(squareplus(x)))
        x = floats(6)
        np.testing.assert_allclose(one(op, "f32", [6]).run(x)[0], squareplus_of(squareplus_of(x)), rtol=1e-6)

    def test_the_expression_is_differentiated(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f64", ["n"])
        y = squareplus(x)
        [dx] = weft.gradients([weft.ops.ReduceSum(y)], [x])
        [ddx] = weft.gradients([weft.ops.ReduceSum(dx)], [x])
        g.outputs = [y, dx, ddx]
        session, h = session_of(g), 1e-5
        v = np.linspace(-3, 3, 13)
        low, here, high = session.run(v - h), session.run(v), session.run(v + h)
        np.testing.assert_allclose((high[0] - low[0]) / (2 * h), here[1], rtol=1e-8)
        np.testing.assert_allclose((high[1] - low[1]) / (2 * h), here[2], rtol=1e-6, atol=1e-9)

    def test_in_a_loop_and_its_gradient(self) -> None:
        op = weft.op("pydef::Sine", lambda x: expr.sin(x))

        @op.FGradient
        def gradient(node: weft.Node, dy: weft.Entry) -> weft.Entry:
            x = node.inputs[0]
            assert x is not None
            return dy * weft.ops.Cos(x)

        body, g = weft.Graph(), weft.Graph()
        _, c, x = body.input("i", "i64", []), body.input("c", "bool", []), body.input("x", "f64", ["n"])
        body.outputs = [weft.ops.Identity(c), op(squareplus(x)) + x]
        v, steps = g.input("v", "f64", ["n"]), g.constant(np.array(3, np.int64))
        y = weft.ops.get("Loop")(steps, None, v, body=body)
        [d] = weft.gradients([weft.ops.ReduceSum(y)], [v])
        g.outputs = [y, d]
        session, at, h = session_of(g), np.linspace(-1, 1, 5), 1e-6
        want = (session.run(at + h)[0] - session.run(at - h)[0]) / (2 * h)
        np.testing.assert_allclose(session.run(at)[1], want, rtol=1e-7)

    def test_functions_of_expr(self) -> None:
        x, y = np.array([0.125, 0.25, 0.5, 0.625, 0.875]), np.linspace(-1.5, 2.5, 5)
        names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "atanh": "arctanh"}
        pairs: list[tuple[Any, Any]] = [(getattr(expr, n), getattr(np, names.get(n, n))) for n in (
            "sqrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh asinh atanh floor ceil round trunc isnan isinf".split())]
        pairs += [(expr.rsqrt, lambda a: 1 / np.sqrt(a)), (expr.sigmoid, lambda a: 1 / (1 + np.exp(-a))),
                  (lambda a: expr.acosh(a + 1), lambda a: np.arccosh(a + 1)), (lambda a: 2 ** a, lambda a: 2 ** a)]
        for i, (mine, theirs) in enumerate(pairs):
            [got] = one(weft.op(f"pydef::Unary{i}", unary_of(mine)), "f64", [5]).run(x)
            np.testing.assert_allclose(got, theirs(x), rtol=1e-13)
        two: list[tuple[Any, Any]] = [
            (lambda a, b: a + b, np.add), (lambda a, b: a - b, np.subtract), (lambda a, b: a * b, np.multiply),
            (lambda a, b: a / b, np.divide), (lambda a, b: a // b, np.floor_divide), (lambda a, b: b % a, lambda a, b: b % a),
            (lambda a, b: a ** b, np.power), (lambda a, b: a < b, np.less), (lambda a, b: a >= b, np.greater_equal),
            (lambda a, b: a == b, np.equal), (lambda a, b: a != b, np.not_equal), (expr.minimum, np.minimum),
            (expr.maximum, np.maximum), (lambda a, b: expr.fmod(b, a), lambda a, b: np.fmod(b, a)),
            (lambda a, b: (a < b) & (b < 2) | ~(a > 0.5), lambda a, b: (a < b) & (b < 2) | ~(a > 0.5)),
            (lambda a, b: expr.where(b > 0, a, -1), lambda a, b: np.where(b > 0, a, -1)),
            (lambda a, b: abs(-b) ** 3 + expr.cast(expr.cast(b, "i32"), "f64"), lambda a, b: np.abs(b) ** 3 + np.trunc(b)),
        ]
        for i, (mine, theirs) in enumerate(two):
            op = weft.op(f"pydef::Binary{i}", binary_of(mine))
            g = weft.Graph()
            g.outputs = [op(g.input("a", "f64", [5]), g.input("b", "f64", [5]))]
            np.testing.assert_allclose(session_of(g).run(x, y)[0], theirs(x, y), rtol=1e-12, err_msg=str(i))
        whole = weft.op("pydef::Whole", lambda a, b: ((a // b) * b + a % b ^ (a << 2) & 7 | 1) + expr.constant(1 << 40, "i64") * 0)
        g = weft.Graph()
        g.outputs = [whole(g.input("a", "i64", ["n"]), g.input("b", "i64", []))]
        v = np.arange(-4, 5)
        np.testing.assert_array_equal(session_of(g).run(v, np.int64(3))[0], v // 3 * 3 + v % 3 ^ (v << 2) & 7 | 1)

    def test_a_saved_program_needs_no_python(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "p.weftx")
            session = one(squareplus, "f32", ["n"])
            session.program.save(path)
            np.save(path + ".npy", floats(5))
            done = run_script(f"""
                import numpy as np, weft
                assert "pydef::Squareplus" not in weft.ops.list()
                [y] = weft.Session(weft.load_program({path!r})).run(np.load({path + '.npy'!r}))
                print(y.tolist())
                """)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.strip(), str(session.run(floats(5))[0].tolist()))

    def test_kernels_for_a_gpu(self) -> None:
        g = weft.Graph()
        g.outputs = [squareplus(g.input("x", "f32", ["n"]) * 2.0)]
        made = weft.apply_passes(g, "Simplify,Fusion,CodeGen", target="cuda:sm_90")
        self.assertEqual([n.op for n in made.nodes if n.op], ["weft::Fused"])
        self.assertIn("kernel", made.attributes)

    def test_owners_and_override(self) -> None:
        def first(x: weft.Expr) -> weft.Expr:
            return x + 1

        op = weft.op("pydef::Owned", first)
        line = first.__code__.co_firstlineno
        self.assertEqual(weft._weft._describe_op("pydef::Owned")["owner"], f"{__name__} (test_define.py:{line})")
        old = one(op, "f32", [2])
        with self.assertRaises(weft.DuplicateError) as caught:
            weft.op("pydef::Owned", lambda x: x + 2)
        self.assertIn(f"test_define.py:{line}", str(caught.exception))
        self.assertIn("override", caught.exception.hint)
        new = weft.op("pydef::Owned", lambda x: x + 2, override=True)
        zeros = np.zeros(2, np.float32)
        np.testing.assert_array_equal(old.run(zeros)[0], [1, 1])
        np.testing.assert_array_equal(one(new, "f32", [2]).run(zeros)[0], [2, 2])

    def test_gradient_of_ones_own(self) -> None:
        @weft.op("pydef::Clip", lambda x: expr.minimum(expr.maximum(x, -1), 1)).FGradient
        def straight_through(node: weft.Node, dy: weft.Entry | None) -> list[weft.Entry | None]:
            assert node.op == "pydef::Clip" and dy is not None
            return [dy * 3.0]

        g = weft.Graph()
        x = g.input("x", "f32", [3])
        [dx] = weft.gradients([weft.ops.ReduceSum(weft.ops.get("pydef::Clip")(x))], [x])
        g.outputs = [dx]
        np.testing.assert_array_equal(session_of(g).run(np.array([-5, 0, 5], np.float32))[0], [3, 3, 3])

    def test_simplify_of_ones_own(self) -> None:
        op = weft.op("pydef::Half", lambda x: x * 0.5)

        @op.FSimplify
        def of_double(node: weft.Node, facts: weft.RewriteFacts) -> weft.Entry | None:
            add = node.inputs[0]
            assert add is not None and facts.shape(add) == ("n",) and facts.dtype(add) == "f32"
            inner = add.node
            if inner.op == "Add" and inner.inputs[0] == inner.inputs[1] and inner.inputs[0] is not None:
                assert facts.same_shape(add, inner.inputs[0])
                return inner.inputs[0]
            return None

        g = weft.Graph()
        x = g.input("x", "f32", ["n"])
        g.outputs = [op(x + x), op(x + 1.0)]
        simpler = weft.apply_passes(g, "Simplify", checks="equivalent")
        self.assertEqual(sorted(str(n.op) for n in simpler.nodes if n.op), ["Add", "Constant", "pydef::Half"])

    def test_numpy(self) -> None:
        def median(x: Array, *, axis: int = -1) -> Array:
            return np.asarray(np.median(x, axis=axis).astype(x.dtype))

        def shape(x: tuple[Any, ...], *, axis: int) -> tuple[Any, ...]:
            return tuple(d for i, d in enumerate(x) if i != axis % len(x))

        op = weft.op("pydef::Median", FCompute=median, FInferShape=shape)
        g = weft.Graph()
        x = g.input("x", "f32", ["n", 3])
        g.outputs = [op(x * 2.0) + 1.0, op(x, axis=0)]
        g.infer()
        self.assertEqual([e.shape for e in g.outputs], [("n",), (3,)])
        session = session_of(g)
        for n in (4, 1, 7):
            v = floats(n, 3)
            got = session.run(v)
            np.testing.assert_allclose(got[0], np.median(v * 2, -1) + 1, rtol=1e-6)
            np.testing.assert_array_equal(got[1], np.median(v, 0))

    def test_numpy_with_sizes_that_the_data_tell(self) -> None:
        unique = weft.op("pydef::Distinct", FCompute=lambda x: np.unique(x), FInferShape=lambda x: (None,))
        g = weft.Graph()
        g.outputs = [unique(g.input("x", "f32", ["n"])) * 2.0]
        session = session_of(g)
        for v in ([3, 1, 3], [5], [2, 1, 0, 1]):
            np.testing.assert_array_equal(session.run(np.array(v, np.float32))[0], np.unique(v) * 2)

    def test_numpy_by_signature(self) -> None:
        op = weft.op("pydef::Outer", FCompute=lambda a, b: np.multiply.outer(a, b), signature="T[n], T[m] -> T[n, m]")
        g = weft.Graph()
        g.outputs = [op(g.input("a", "f32", ["p"]), g.input("b", "f32", [2]))]
        g.infer()
        self.assertEqual(g.outputs[0].shape, ("p", 2))
        a, b = floats(3), floats(2)
        np.testing.assert_array_equal(session_of(g).run(a, b)[0], np.multiply.outer(a, b))

    def test_numpy_with_dtypes_of_its_own_beside_a_signature(self) -> None:
        def places(x: Array) -> Array:
            return np.asarray(x.argmax(1))

        op = weft.op("pydef::Places", FCompute=places, signature="T[n, m] -> T[n]", FInferType=lambda t: "i64")
        later = weft.op("pydef::PlacesLater", FCompute=places, signature="T[n, m] -> T[n]")
        later.FInferType(lambda t: "i64")
        for each in (op, later):
            g = weft.Graph()
            g.outputs = [each(g.input("x", "f32", ["n", 3]))]
            g.infer()
            self.assertEqual((g.outputs[0].dtype, g.outputs[0].shape), ("i64", ("n",)))
            x = floats(4, 3)
            np.testing.assert_array_equal(session_of(g).run(x)[0], x.argmax(1))

    def test_a_function_that_is_refused_has_no_effect(self) -> None:
        op = weft.op("pydef::Once", FCompute=lambda x: x + 1, FInferShape=lambda s: s, FInferType=lambda t: t)
        for add, function in (
            (op.FCompute, lambda x: x + 2),
            (op.FInferShape, lambda s: (7,)),
            (op.FInferType, lambda t: "f64"),
        ):
            with self.assertRaisesRegex(weft.DuplicateError, "pydef::Once"):
                add(function)
        x = floats(3)
        np.testing.assert_array_equal(one(op, "f32", ["n"]).run(x)[0], x + 1)
        wide = weft.op("pydef::OnceShaped", lambda x: x + 1, FInferShape=lambda s: s)
        with self.assertRaisesRegex(weft.DuplicateError, "pydef::OnceShaped"):
            wide.FInferShape(lambda s: (7,))
        np.testing.assert_array_equal(one(wide, "f32", ["n"]).run(x)[0], x + 1)
        with self.assertRaisesRegex(TypeError, "FCompute is None"):
            squareplus.FCompute(None)  # type: ignore[arg-type]

    def test_numpy_keeps_what_it_was_given(self) -> None:
        kept: list[Array] = []

        def keep(x: Array) -> Array:
            kept.append(x)
            return x

        op = weft.op("pydef::Keep", FCompute=keep, FInferShape=lambda s: s)
        session = one(op, "f32", ["n"])
        for n in (3, 3, 4):
            x = floats(n)
            [y] = session.run(x)
            np.testing.assert_array_equal(y, x)
            y[:] = 0
        del session
        for got in kept:
            np.testing.assert_array_equal(got, floats(len(got)))

    def test_numpy_in_threads(self) -> None:
        op = weft.op("pydef::Cube", FCompute=lambda x: x ** 3, FInferShape=lambda s: s)
        program = one(op, "f32", ["n"]).program
        wrong: list[int] = []

        def work(seed: int) -> None:
            session = weft.Session(program)
            for i in range(50):
                x = np.full(seed + i + 1, seed, np.float32)
                if not np.array_equal(session.run(x)[0], x ** 3):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_a_callback_runs_another_session(self) -> None:
        inner = one(squareplus, "f32", ["n"])
        op = weft.op("pydef::Inner", FCompute=lambda x: inner.run(x)[0], FInferShape=lambda s: s)
        x = floats(5)
        np.testing.assert_allclose(one(op, "f32", ["n"]).run(x)[0], squareplus_of(x), rtol=1e-6)

    def test_errors_have_causes(self) -> None:
        def divide(x: weft.Expr) -> weft.Expr:
            return x * (1 / 0)

        op = weft.op("pydef::Divide", divide)
        g = weft.Graph()
        g.outputs = [op(g.input("x", "f32", [2]), name="here")]
        with self.assertRaises(weft.CallbackError) as caught:
            weft.compile(g)
        self.assertIsInstance(caught.exception.__cause__, ZeroDivisionError)
        self.assertTrue(caught.exception.__suppress_context__)
        for text in ("InferType", "'here'", "pydef::Divide"):
            self.assertIn(text, str(caught.exception))
        # It tells the line.
        cause = caught.exception.__cause__
        assert cause is not None
        place = traceback.extract_tb(cause.__traceback__)[-1]
        self.assertEqual((place.name, place.line), ("divide", "return x * (1 / 0)"))
        broken = weft.op("pydef::Broken", FCompute=lambda x: x.no_such_thing, FInferShape=lambda s: s)
        session = one(broken, "f32", [2])
        for _ in range(2):
            with self.assertRaises(weft.CallbackError) as caught:
                session.run(floats(2))
            self.assertIsInstance(caught.exception.__cause__, AttributeError)

    def test_an_error_whose_text_has_no_utf8(self) -> None:
        def fails(x: Array) -> Array:
            raise ValueError("name \udcff")

        session = one(weft.op("pydef::Surrogate", FCompute=fails, FInferShape=lambda s: s), "f32", [2])
        with self.assertRaisesRegex(weft.CallbackError, r"ValueError: name \\udcff") as caught:
            session.run(floats(2))
        self.assertIsInstance(caught.exception.__cause__, ValueError)

    def test_an_interrupt_comes_out_as_it_is(self) -> None:
        def stop(x: Array) -> Array:
            raise KeyboardInterrupt

        op = weft.op("pydef::Stop", FCompute=stop, FInferShape=lambda s: s)
        session = one(op, "f32", [2])
        with self.assertRaises(KeyboardInterrupt):
            session.run(floats(2))

        @weft.register_pass
        def leave(graph: weft.Graph) -> None:
            raise SystemExit(3)

        with self.assertRaises(SystemExit):
            weft.apply_passes(weft.Graph(), "Leave")


def unary_of(f: Any) -> Any:
    def call(a: weft.Expr) -> Any:
        return f(a)

    return call


def binary_of(f: Any) -> Any:
    def call(a: weft.Expr, b: weft.Expr) -> Any:
        return f(a, b)

    return call


class PassTest(unittest.TestCase):
    def graph(self) -> weft.Graph:
        g = weft.Graph()
        a, b, c = (g.input(n, "f32", ["n", 4]) for n in "abc")
        g.outputs = [(a - -b) + -c]
        return g

    def test_a_pass(self) -> None:
        kept: list[Any] = []

        @weft.register_pass(needs=("shape", "dtype"), options={"add": (True, "also Add"), "most": 10})
        def fold_minus(graph: weft.Graph, context: weft.PassContext) -> None:
            """Takes a Neg into the Sub or Add that reads it."""
            kept.extend([graph, context, graph.nodes[0], graph.outputs[0]])
            assert graph.outputs[0].shape == ("n", 4) and context.target == "cpu" and context.option("most") == 10
            for node in graph.nodes:
                second = node.inputs[1] if node.op in ("Sub", "Add") else None
                first = node.inputs[0] if second is not None else None
                if first is None or second is None or second.node.op != "Neg" or (node.op == "Add" and not context.option("add")):
                    continue
                if not context.fuel("fold", node):
                    break
                other = {"Sub": weft.ops.Add, "Add": weft.ops.Sub}[str(node.op)]
                negated = second.node.inputs[0]
                assert negated is not None
                graph.replace_uses(node.outputs[0], other(first, negated))
                context.count("folded")
            context.count("dead", graph.erase_dead())

        g = self.graph()
        text = str(g)
        records: list[weft.PassRecord] = []
        out = weft.apply_passes(g, "FoldMinus", records=records, checks="all")
        self.assertEqual(sorted(n.op for n in out.nodes if n.op), ["Add", "Sub"])
        self.assertEqual(records[-1].statistics, {"folded": 2, "dead": 4})
        self.assertEqual([r.name for r in records if not r.asked], ["InferType", "InferShape"])
        self.assertEqual(str(g), text)
        kinds = [n.op for n in weft.apply_passes(g, [("FoldMinus", {"add": False})]).nodes if n.op]
        self.assertEqual(sorted(k for k in kinds if k), ["Add", "Add", "Neg"])
        self.assertEqual(len(weft.apply_passes(g, "FoldMinus", fuel=1).nodes), 6)
        v = [floats(2, 4) for _ in range(3)]
        np.testing.assert_allclose(session_of(out).run(*v)[0], v[0] + v[1] - v[2], rtol=1e-6)
        info = weft.passes.describe("FoldMinus")
        self.assertEqual(info.depends, ["shape", "dtype"])
        self.assertEqual([(o.name, o.default) for o in info.options], [("add", True), ("most", 10)])
        self.assertIn(f"{__name__} (test_define.py:", info.owner)
        self.assertEqual(info.doc, "Takes a Neg into the Sub or Add that reads it.")
        # What was the pass's is not any longer.
        graph, context, node, entry = kept[:4]
        uses: list[Any] = [lambda: graph.input("x"), lambda: str(graph), lambda: graph.nodes, lambda: graph.copy(),
                           lambda: node.inputs, lambda: entry.shape, lambda: -entry, lambda: context.count("x"), lambda: context.target,
                           lambda: weft.compile(graph), lambda: weft.ops.Relu(entry), lambda: context.option("add")]
        for use in uses:
            with self.assertRaises(weft.ApiMisuseError):
                use()

    def test_another_graph(self) -> None:
        @weft.register_pass("pydefTwice", result="differs")
        def twice(graph: weft.Graph) -> weft.Graph:
            other = graph.copy()
            other.outputs = [e + e for e in other.outputs]
            return other

        out = weft.apply_passes(self.graph(), "pydefTwice")
        v = [floats(2, 4) for _ in range(3)]
        np.testing.assert_allclose(session_of(out).run(*v)[0], 2 * (v[0] + v[1] - v[2]), rtol=1e-5, atol=1e-6)

    def test_in_a_pipeline_of_a_compilation(self) -> None:
        seen: list[str] = []

        @weft.register_pass
        def look_around(graph: weft.Graph) -> None:
            seen.extend(str(n.op) for n in graph.nodes if n.op)

        program = weft.compile(self.graph(), pipeline="LookAround," + weft.standard_pipeline())
        self.assertEqual(sorted(set(seen)), ["Add", "Neg", "Sub"])
        v = [floats(2, 4) for _ in range(3)]
        np.testing.assert_allclose(weft.Session(program).run(*v)[0], v[0] + v[1] - v[2], rtol=1e-6)

    def test_claims_are_checked(self) -> None:
        @weft.register_pass("pydefLiar")
        def liar(graph: weft.Graph) -> None:
            graph.outputs = [e * 2.0 for e in graph.outputs]

        with self.assertRaises(weft.CheckError):
            weft.apply_passes(self.graph(), "pydefLiar", checks="equivalent")

        @weft.register_pass("pydefPromise", provides="subgraph")
        def promise(graph: weft.Graph) -> None:
            pass

        with self.assertRaises(weft.Error):
            weft.apply_passes(self.graph(), "pydefPromise")

    def test_errors_have_causes(self) -> None:
        @weft.register_pass("pydefFails")
        def fails(graph: weft.Graph) -> None:
            weft.ops.get("Concat")(graph.outputs[0], axis="no")

        g = self.graph()
        with self.assertRaises(weft.CallbackError) as caught:
            weft.apply_passes(g, "pydefFails")
        self.assertIsInstance(caught.exception.__cause__, weft.AttributeValueError)
        self.assertIn("pass pydefFails", caught.exception.place)
        self.assertEqual(len(g.nodes), 7)

        @weft.register_pass("pydefOuter")
        def outer(graph: weft.Graph) -> None:
            weft.apply_passes(graph, "pydefFails")

        with self.assertRaises(weft.CallbackError) as caught:
            weft.apply_passes(g, "pydefOuter")
        inner = caught.exception.__cause__
        self.assertIsInstance(inner, weft.CallbackError)
        self.assertIsInstance(getattr(inner, "__cause__", None), weft.AttributeValueError)


class ProcessTest(unittest.TestCase):
    def check(self, text: str) -> None:
        done = run_script("import numpy as np, threading, time, weft\n" + text)
        self.assertEqual((done.returncode, done.stdout.split()[-1:]), (0, ["fine"]), done.stdout + done.stderr)

    def test_the_interpreter_ends_with_operators_registered(self) -> None:
        self.check("""
op = weft.op("demo::A", lambda x: x + 1)
low = weft.op("demo::B", FCompute=lambda x: x * 2, FInferShape=lambda s: s)
@op.FGradient
def gradient(node, dy):
    return [dy]
@weft.register_pass
def nothing(graph):
    pass
g = weft.Graph()
x = g.input("x", "f32", ["n"])
g.outputs = [low(op(x))] + weft.gradients([op(x)], [x])
session = weft.Session(weft.compile(weft.apply_passes(g, "Nothing")))
print(session.run(np.ones(3, np.float32)))
kept = [op, g, session, weft.Expr]
try:
    weft.compile(weft.apply_passes(g, "Missing"))
except weft.Error as error:
    kept.append(error)
print("fine")
""")

    def test_the_interpreter_ends_while_numpy_runs(self) -> None:
        self.check("""
started = threading.Event()
def slow(x):
    started.set()
    time.sleep(0.01)
    return x
op = weft.op("demo::Slow", FCompute=slow, FInferShape=lambda s: s)
g = weft.Graph()
y = g.input("x", "f32", [4])
for _ in range(50):
    y = op(y)
g.outputs = [y]
program = weft.compile(g)
def work():
    session = weft.Session(program)
    while True:
        try:
            session.run(np.ones(4, np.float32))
        except weft.Error:
            time.sleep(0.001)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
started.wait()
print("fine")
""")

    def test_the_interpreter_ends_while_threads_meet_errors(self) -> None:
        # Whether a thread is in the making of an error just then is chance.
        for _ in range(4):
            self.check("""
op = weft.op("demo::Plus", FCompute=lambda x: x + 1, FInferShape=lambda s: s)
g = weft.Graph()
g.outputs = [op(g.input("x", "f32", [4]))]
program = weft.compile(g)
def work():
    session = weft.Session(program)
    while True:
        session.run(np.ones(4, np.float32))
        try:
            session.run(np.ones(5, np.float32))
        except weft.Error:
            pass
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
print("fine")
""")


if __name__ == "__main__":
    unittest.main()
