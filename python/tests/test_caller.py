"""Programs as a framework's compiler calls them: lists of arrays and numbers, steady inputs, results born where they are
asked for. numpy stands for the framework."""

from __future__ import annotations

import pickle
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
from common import Array, floats, session_of

import weft
from weft import _weft
from weft.torch.dynamo import seeded, steady
from weft.torch.graph import GraphBuilder
from weft.torch.record import Node, Output, Record, Ref, Source, TensorType
from weft.torch.translate import families as families
from weft.torch.translate.core import Translation


def born(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Array:
    assert np.prod(sizes, dtype=int) == 0 or strides[-1:] in ((), (1,))
    return np.empty(sizes, dtype)


class Versioned(np.ndarray):
    """An array that counts how often it was written, as torch's tensors do."""

    _version = 0

    def __array_finalize__(self, _: Any) -> None:
        self._version = 0


def versioned(array: Array) -> Versioned:
    return np.array(array).view(Versioned)


def product(rows: Any = 3) -> weft.Graph:
    g = weft.Graph()
    x, w = g.input("x", "f32", [rows, 64]), g.input("w", "f32", [64, 32])
    g.outputs = [weft.ops.Relu(x @ w)]
    return g


def new(dtype: Any = np.float32, sizes: Any = None) -> tuple[Any, ...]:
    strides = None if sizes is None else tuple(int(np.prod(sizes[i + 1 :])) for i in range(len(sizes)))
    return None, dtype, None, sizes, strides


def in_threads(work: Callable[[int], None]) -> None:
    """Of 1, 5 and 9, at once."""
    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 5, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


class SteadyTest(unittest.TestCase):
    def test_packed_once_per_version(self) -> None:
        session = session_of(product(), steady=["w"])
        x, w = floats(3, 64), floats(64, 32)
        weight = weft.Tensor(w)
        for _ in range(3):
            np.testing.assert_allclose(session.run(x, weight)[0], np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)
        self.assertEqual(session.packs, 1)
        inside = weight.numpy()
        inside *= -2
        weight.version = 7
        self.assertEqual(weight.version, 7)
        np.testing.assert_allclose(session.run(x, weight)[0], np.maximum(x @ (w * -2), 0), rtol=1e-4, atol=1e-4)
        self.assertEqual(session.packs, 2)

    def test_unknown_name(self) -> None:
        with self.assertRaisesRegex(weft.errors.BindingError, "wx"):
            weft.compile(product(), steady=["wx"])

    def test_split(self) -> None:
        g = weft.Graph()
        x, w = g.input("x", "f32", [2, 3, 8, 8]), g.input("w", "f32", [4, 3, 3, 3])
        rows = [g.input(n, "f32", [4]) for n in ("scale", "shift", "mean", "variance")]
        y = weft.ops.BatchNormalization(weft.ops.Conv(x, w, None), *rows, epsilon=1e-3)
        y = y[0] if isinstance(y, tuple) else y
        # One behind no convolution.
        z = weft.ops.BatchNormalization(weft.ops.Relu(y), *rows)
        g.outputs = [z[0] if isinstance(z, tuple) else z]
        names = [e.name for e in g.inputs]
        rng = np.random.default_rng(1)
        values = dict(zip(names, [floats(2, 3, 8, 8), floats(4, 3, 3, 3), *(rng.uniform(0.5, 2, 4).astype(np.float32) for _ in rows)]))
        [want] = session_of(g).run(values)
        cut = steady.split(g, names[1:])
        assert cut is not None
        self.assertEqual([n.op for n in cut.rest.nodes if n.op == "Conv"], ["Conv"])
        self.assertFalse([n for n in (*cut.rest.nodes, *cut.first.nodes) if n.op == "BatchNormalization"])
        self.assertFalse([n for n in cut.first.nodes if n.op == "Conv"])
        derived = session_of(cut.first).run({n: values[n] for n in cut.taken})
        given = {**{n: v for n, v in values.items() if n not in cut.taken}, **dict(zip(cut.names, derived))}
        inputs = [e.name for e in cut.rest.inputs]
        [got] = session_of(cut.rest).run({n: given[n] for n in inputs})
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    def test_nothing_to_split(self) -> None:
        g = weft.Graph()
        x, w = g.input("x", "f32", [3, 4]), g.input("w", "f32", [5, 4])
        g.outputs = [x @ weft.ops.Transpose(w, perm=[1, 0])]  # only places change
        self.assertIsNone(steady.split(g, ["w"]))


class CallerTest(unittest.TestCase):
    def test_results_and_emptied_list(self) -> None:
        call = _weft._Caller(
            weft.compile(product()), [("tensor", 1, None), ("tensor", 0, None)], [new(sizes=(3, 32))],
            [("output", 0), ("argument", 2), ("object", None), ("computed", 0)],
            make=born, compute=lambda arguments: [arguments[2] + 1],
        )  # fmt: skip
        x, w = floats(3, 64), floats(64, 32)
        given: list[Any] = [w, x, 5]
        got = call(given)
        self.assertEqual(given, [])
        np.testing.assert_allclose(got[0], np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)
        self.assertEqual(got[1:], [5, None, 6])

    def test_sizes_of_the_run_and_numbers(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", ["m"])
        n = g.number("count", "n")
        g.fact("n in [1, 64]")
        g.outputs = [weft.ops.Expand(weft.ops.Unsqueeze(x, [0]), weft.ops.Concat(weft.ops.Reshape(n, [1]), [1], axis=0))]
        call = _weft._Caller(
            weft.compile(g), [("tensor", 1, None), ("number", 0, None)], [new()], [("output", 0)], make=born
        )
        for count, size in ((2, 5), (7, 3)):
            x_ = floats(size)
            [y] = call([count, x_])
            np.testing.assert_array_equal(y, np.broadcast_to(x_, (count, size)))
        with self.assertRaises(ValueError):
            call([-1, floats(2)])
        with self.assertRaises(TypeError):
            call(["two", floats(2)])

    def test_argument_written(self) -> None:
        g = weft.Graph()
        x, total = g.input("x", "f32", [4]), g.input("total", "f32", [4])
        g.outputs = [total + x, x * total]
        written: list[Any] = []
        call = _weft._Caller(
            weft.compile(g), [("tensor", 0, None), ("tensor", 1, None)], [(1, None), new(sizes=(4,))], [("output", 1)],
            make=born, written=written.extend,
        )  # fmt: skip
        x_, total_ = floats(4), np.ones(4, np.float32)
        [y] = call([x_, total_])
        np.testing.assert_array_equal(total_, x_ + 1)
        np.testing.assert_array_equal(y, x_)  # of what it was
        self.assertEqual([id(w) for w in written], [id(total_)])

    def test_steady(self) -> None:
        call = _weft._Caller(
            weft.compile(product(), steady=["w"]), [("tensor", 0, None), ("steady", 1, None)], [new(sizes=(3, 32))],
            [("output", 0)], make=born,
        )  # fmt: skip
        x, w = floats(3, 64), versioned(floats(64, 32))

        def check(packs: int) -> None:
            [y] = call([x, w])
            np.testing.assert_allclose(y, np.maximum(x @ np.asarray(w), 0), rtol=1e-4, atol=1e-4)
            self.assertEqual(call.packs, packs)

        check(1)
        check(1)
        w[3, 5] += 1
        w._version += 1
        check(2)
        w *= 2  # and nobody counts
        check(3)
        w[7, 9] += 1
        _weft._touch()
        check(4)
        w = versioned(np.asarray(w))  # elsewhere
        check(5)
        check(5)
        # Without a version nothing is kept.
        for packs in (6, 7):
            call([x, np.asarray(w)])
            self.assertEqual(call.packs, packs)

    def test_derived(self) -> None:
        first = weft.Graph()
        w, s = first.input("w", "f32", [64, 32]), first.input("s", "f32", [32])
        first.outputs = [w * s]
        derive = session_of(first)
        call = _weft._Caller(
            weft.compile(product(), steady=["w"]), [("tensor", 0, None), ("derived", 0, None)], [new(sizes=(3, 32))],
            [("output", 0)], make=born, derive=lambda arguments: derive.run(*arguments, results="weft"), derived_from=[1, 2],
        )  # fmt: skip
        x, weight, scale = floats(3, 64), versioned(floats(64, 32)), versioned(floats(32))
        for step, expected in ((None, 1), (None, 1), ("scale", 2), (None, 2)):
            if step:
                scale[0] = 9
                scale._version += 1
            [y] = call([x, weight, scale])
            np.testing.assert_allclose(y, np.maximum(x @ (np.asarray(weight) * np.asarray(scale)), 0), rtol=1e-3, atol=1e-3)
            self.assertEqual((call.derivations, call.packs), (expected, expected))

    def test_derived_in_threads(self) -> None:
        first = weft.Graph()
        first.outputs = [first.input("w", "f32", [64, 32]) * 2.0]
        session, busy = session_of(first), threading.Lock()

        def derive(arguments: list[Any]) -> list[Any]:
            if not busy.acquire(blocking=False):
                raise RuntimeError("two threads derive at once")
            try:
                time.sleep(1e-3)  # the interpreter's lock is another's
                return list(session.run(*arguments, results="weft"))
            finally:
                busy.release()

        call = _weft._Caller(
            weft.compile(product("m"), steady=["w"]), [("tensor", 0, None), ("derived", 0, None)], [new()],
            [("output", 0)], make=born, derive=derive, derived_from=[1],
        )  # fmt: skip
        w = versioned(floats(64, 32))
        wrong: list[Any] = []

        def work(rows: int) -> None:
            x = floats(rows, 64)
            for _ in range(30):
                try:
                    _weft._touch()
                    [y] = call([x, w])
                    if not np.allclose(y, np.maximum(x @ (np.asarray(w) * 2), 0), rtol=1e-3, atol=1e-3):
                        wrong.append(rows)
                except Exception as error:
                    wrong.append(error)

        in_threads(work)
        self.assertEqual(wrong, [])

    def test_a_derivation_that_fails_is_tried_again(self) -> None:
        tries: list[int] = []

        def derive(arguments: list[Any]) -> list[Any]:
            tries.append(0)
            if len(tries) == 1:
                raise RuntimeError("not now")
            return [weft.Tensor(np.asarray(arguments[0]))] if len(tries) < 3 else []

        call = _weft._Caller(
            weft.compile(product(), steady=["w"]), [("tensor", 0, None), ("derived", 0, None)], [new(sizes=(3, 32))],
            [("output", 0)], make=born, derive=derive, derived_from=[1],
        )  # fmt: skip
        x, w = floats(3, 64), versioned(floats(64, 32))
        with self.assertRaisesRegex(RuntimeError, "not now"):
            call([x, w])
        for _ in range(2):
            np.testing.assert_allclose(call([x, w])[0], np.maximum(x @ np.asarray(w), 0), rtol=1e-4, atol=1e-4)
        self.assertEqual(len(tries), 2)
        _weft._touch()
        with self.assertRaisesRegex(weft.errors.ApiMisuseError, "derived"):
            call([x, w])

    def test_threads(self) -> None:
        call = _weft._Caller(
            weft.compile(product("m")), [("tensor", 0, None), ("tensor", 1, None)], [new()], [("output", 0)], make=born
        )
        w, wrong = floats(64, 32), []

        def work(rows: int) -> None:
            x = floats(rows, 64)
            for _ in range(20):
                [y] = call([x, w])
                if not np.allclose(y, np.maximum(x @ w, 0), rtol=1e-3, atol=1e-3):
                    wrong.append(rows)

        in_threads(work)
        self.assertEqual(wrong, [])

    def test_misuse(self) -> None:
        program = weft.compile(product())
        with self.assertRaises(weft.errors.ApiMisuseError):
            _weft._Caller(program, [], [new()], [], make=born)
        with self.assertRaises(weft.errors.ApiMisuseError):
            _weft._Caller(program, [("tensor", 0, None)] * 2, [], [], make=born)
        call = _weft._Caller(
            program, [("tensor", 0, None), ("tensor", 1, None)], [new(sizes=(3, 32))], [("output", 0)], make=born
        )
        with self.assertRaises(weft.errors.ApiMisuseError):
            call([floats(3, 64)])
        with self.assertRaises(weft.errors.ApiMisuseError):
            call((floats(3, 64), floats(64, 32)))  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            call([None, floats(64, 32)])
        with self.assertRaises(weft.errors.Error):
            call([floats(2, 64), floats(64, 32)])

        def fails(*_: Any) -> Array:
            raise RuntimeError("no memory for it")

        for sizes in ((3, 32), None):
            failing = _weft._Caller(
                program, [("tensor", 0, None), ("tensor", 1, None)], [new(sizes=sizes)], [("output", 0)], make=fails
            )
            with self.assertRaisesRegex(RuntimeError, "no memory for it"):
                failing([floats(3, 64), floats(64, 32)])
        small = _weft._Caller(
            program, [("tensor", 0, None), ("tensor", 1, None)], [new(sizes=(2, 32))], [("output", 0)], make=born
        )
        with self.assertRaises(weft.errors.BindingError):
            small([floats(3, 64), floats(64, 32)])

    def test_program_with_steady_inputs_pickles(self) -> None:
        program = pickle.loads(pickle.dumps(weft.compile(product(), steady=["w"])))
        session = weft.Session(program)
        x, weight = floats(3, 64), weft.Tensor(floats(64, 32))
        for _ in range(2):
            session.run(x, weight)
        self.assertEqual(session.packs, 1)


class SeededTest(unittest.TestCase):
    def test_laws_and_streams(self) -> None:
        shape = (400, 50)
        ones = TensorType("float32", shape)
        record = Record(
            values=[ones, ones, TensorType("bool", shape), ones, ones],
            sources=[Source("x", "input", 0)],
            nodes=[
                Node("aten.native_dropout.default", (Ref(0), 0.25, True), {}, (1, 2)),
                Node("aten.rand.default", (shape,), {}, (3,)),
                Node("aten.randn_like.default", (Ref(0),), {}, (4,)),
            ],
            outputs=[Output(f"y{i}", Ref(i)) for i in (1, 2, 3, 4)],
        )
        builder = GraphBuilder({})
        streams = seeded.Streams()
        translation = Translation(record, builder, streams.rules())
        self.assertFalse(streams.used)
        translation.sources()
        translation.run()
        translation.outputs()
        self.assertTrue(streams.used)
        session = session_of(builder.finish())

        def draw(seed: int) -> list[Array]:
            return session.run({"x": np.ones(shape, np.float32), seeded.STATE: np.array([seed, 3], np.int64)})

        dropped, kept, uniform, normal = draw(1)
        np.testing.assert_array_equal(dropped, np.where(kept, np.float32(1 / 0.75), 0))
        self.assertAlmostEqual(float(kept.mean()), 0.75, delta=0.02)
        self.assertAlmostEqual(float(uniform.mean()), 0.5, delta=0.01)
        self.assertAlmostEqual(float(normal.std()), 1, delta=0.02)
        # Two operators of a graph draw from streams of their own.
        self.assertLess(abs(float(np.corrcoef(kept.ravel(), uniform.ravel())[0, 1])), 0.03)
        for again, first, other in zip(draw(1), (dropped, kept, uniform, normal), draw(2)):
            np.testing.assert_array_equal(again, first)
            self.assertFalse(np.array_equal(first, other))
