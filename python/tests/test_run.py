"""Runs: what goes in and comes out, by position, by name, into the caller's arrays."""

from __future__ import annotations

import gc
import threading
import unittest
import weakref

import numpy as np
from common import example, floats, needs_kernels, session_of, unary

import weft


class RunTest(unittest.TestCase):
    def test_positional_and_named(self) -> None:
        s = session_of(example())
        a, b = floats(8), np.arange(8, dtype=np.float32)
        for got in (s.run(a, b), s.run({"b": b, "a": a})):
            self.assertEqual(len(got), 1)
            np.testing.assert_array_equal(got[0], (a + b) * a)
            self.assertEqual(got[0].dtype, np.float32)

    def test_python_numbers_take_the_dtype_that_is_wanted(self) -> None:
        s = session_of(example())
        [y] = s.run([1, 2, 3, 4, 5, 6, 7, 8], [0.5] * 8)
        np.testing.assert_allclose(y, (np.arange(1, 9) + 0.5) * np.arange(1, 9))
        with self.assertRaises(TypeError):
            unary("Neg", "i64", [2]).run([0.5, 1.5])
        # Whole numbers keep their values, or are refused.
        np.testing.assert_array_equal(unary("Identity", "u8", [2]).run([1, 255])[0], [1, 255])
        for dtype, value in (("u8", 256), ("u8", -1), ("i8", 300), ("i8", np.int64(300))):
            with self.assertRaisesRegex(TypeError, "beyond dtype"):
                unary("Identity", dtype, []).run(value)

    def test_out(self) -> None:
        s = session_of(example())
        a, b, y = floats(8), floats(8), np.empty(8, np.float32)
        for out in (y, [y], (y,), {"y": y}):
            y[:] = 0
            got = s.run(a, b, out=out)
            self.assertIs(got[0], y)
            np.testing.assert_array_equal(y, (a + b) * a)
        got = s.run(a, b, out=[None])
        self.assertIsNot(got[0], y)

    def test_out_may_be_an_input(self) -> None:
        s = session_of(example())
        a, b = floats(8), floats(8)
        want = (a + b) * a
        s.run(a, b, out=a)
        np.testing.assert_array_equal(a, want)

    def test_out_overlapping_an_input(self) -> None:
        s = session_of(example())
        memory = floats(12)
        a, b = memory[:8], floats(8)
        want = (a + b) * a
        s.run(a, b, out=memory[4:])
        np.testing.assert_array_equal(memory[4:], want)

    def test_wrong_out(self) -> None:
        s = session_of(example())
        a, b = floats(8), floats(8)
        read_only = np.empty(8, np.float32)
        read_only.flags.writeable = False
        wrong: list[tuple[object, type[Exception]]] = [
            (np.empty(7, np.float32), weft.BindingError), (np.empty(8, np.float64), weft.BindingError),
            (np.empty((1, 8), np.float32), weft.BindingError), (read_only, weft.BadInputError),
            (np.empty(16, np.float32)[::2], weft.BadInputError), (np.empty(8, np.float32)[::-1], weft.BadInputError),
            (np.empty(8, ">f4"), TypeError), ({"z": np.empty(8, np.float32)}, KeyError), ([a, b], weft.BindingError),
            ("text", TypeError), (np.empty(8, object), TypeError), (7, TypeError),
        ]
        for out, error in wrong:
            with self.subTest(out=repr(out)), self.assertRaises(error) as caught:
                s.run(a, b, out=out)
            self.assertIsInstance(caught.exception, weft.Error)
        np.testing.assert_array_equal(s.run(a, b)[0], (a + b) * a)

    def test_two_outputs_that_share_memory(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", [4])
        g.outputs = [x + 1.0, x * 2.0]
        memory = np.empty(6, np.float32)
        with self.assertRaises(weft.BindingError):
            session_of(g).run(floats(4), out=[memory[:4], memory[2:]])

    def test_wrong_inputs(self) -> None:
        s = session_of(example())
        a = floats(8)
        structured = np.zeros(8, [("x", "f4")])
        wrong: list[tuple[tuple[object, ...], type[Exception]]] = [
            ((a,), ValueError), ((a, a, a), ValueError), (({"a": a},), KeyError), (({"a": a, "c": a},), KeyError),
            ((a, a.astype(np.float64)), ValueError), ((a, a[:7]), ValueError), ((a, a.reshape(2, 4)), ValueError),
            ((a, a.astype(">f4")), TypeError), ((a, structured), TypeError), ((a, np.empty(8, object)), TypeError),
            ((a, np.zeros(8, "M8[s]")), TypeError), ((a, None), ValueError), ((a, object()), TypeError), ((a, "text"), TypeError),
            ((a, 1.0), ValueError), ((a, np.array(["x"] * 8)), ValueError), ((a, [[1.0], [1.0, 2.0]]), TypeError),
        ]
        for inputs, error in wrong:
            with self.subTest(inputs=repr(inputs)), self.assertRaises(error) as caught:
                s.run(*inputs)
            self.assertIsInstance(caught.exception, weft.Error)
        np.testing.assert_array_equal(s.run(a, a)[0], (a + a) * a)

    def test_unknown_name_has_a_hint(self) -> None:
        g = weft.Graph()
        g.outputs = [-g.input("pixels", "f32", [2])]
        with self.assertRaises(weft.BindingError) as caught:
            session_of(g).run({"pixel": floats(2)})
        self.assertIn("pixels", caught.exception.hint)
        self.assertEqual(caught.exception.code, "WEFT-E0105")
        self.assertIn("WEFT-E0105", str(caught.exception))

    def test_odd_memory(self) -> None:
        s = unary("Neg", "f32", ["n"])
        x = floats(12)
        read_only = x.copy()
        read_only.flags.writeable = False
        unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32)
        for given in (x, x[::2], x[::-1], x[3:], read_only, x[:0], np.broadcast_to(x[:1], 5), np.asfortranarray(x), unaligned):
            np.testing.assert_array_equal(s.run(given)[0], -given)
        two = unary("Neg", "f32", ["n", "m"])
        for given in (floats(3, 4).T, np.asfortranarray(floats(3, 4)), floats(0, 3), floats(4, 6)[1:3, ::3]):
            np.testing.assert_array_equal(two.run(given)[0], -given)

    def test_scalars(self) -> None:
        s = unary("Neg", "f32", [])
        for given in (np.array(3, np.float32), np.float32(3), 3, 3.0):
            [y] = s.run(given)
            self.assertEqual(y.shape, ())
            self.assertEqual(y, -3)

    def test_dtypes(self) -> None:
        for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
                     "float64", "complex64", "complex128"):
            with self.subTest(name):
                x = np.array([0, 1, 1], name)
                [y] = unary("Identity", name, [3]).run(x)
                self.assertEqual(y.dtype, x.dtype)
                np.testing.assert_array_equal(x, y)

    def test_dtypes_of_ml_dtypes(self) -> None:
        try:
            import ml_dtypes  # noqa: F401
        except ImportError:
            self.skipTest("no ml_dtypes")
        for name in ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn", "int4",
                     "uint4"):
            with self.subTest(name):
                x = np.array([0, 1, 3, -2 if name != "uint4" else 2, 4], weft.numpy_dtype(name))
                [y] = unary("Identity", name, [5]).run(x)
                self.assertEqual(y.dtype, x.dtype)
                np.testing.assert_array_equal(x.astype(np.float32), y.astype(np.float32))

    def test_strings(self) -> None:
        s = unary("Identity", "str", ["n"])
        for given in (["a", "déjà", ""], np.array(["a", "déjà", ""]), np.array(["a", "déjà", ""], object)):
            self.assertEqual(s.run(given)[0].tolist(), ["a", "déjà", ""])
        with self.assertRaises(TypeError):
            s.run(np.array(["a", 3], object))

    def test_sequences(self) -> None:
        g = weft.Graph.parse("weft 1\ngraph (%s: seq(f32), %o: opt(f32)) -> (%back, %has) {\n"
                             "  %zero = Constant() {value = tensor i64[] [0]} : ?\n"
                             "  %one = Constant() {value = tensor i64[] [1]} : ?\n"
                             "  %a = SequenceAt(%s, %zero) : ?\n  %b = SequenceAt(%s, %one) : ?\n"
                             "  %back = SequenceConstruct(%b, %a) : ?\n  %has = OptionalHasElement(%o) : ?\n}\n")
        s = session_of(g)
        x, y = floats(2), floats(3)
        back, has = s.run([x, y], None)
        self.assertIsInstance(back, list)
        np.testing.assert_array_equal(back[0], y)
        np.testing.assert_array_equal(back[1], x)
        self.assertFalse(has)
        self.assertTrue(s.run([x, y], x)[1])
        with self.assertRaises(TypeError):
            s.run(x, None)

    def test_symbolic_shapes(self) -> None:
        g = weft.Graph()
        a, b = g.input("a", "f32", ["n", 3]), g.input("b", "f32", [3, "m"])
        g.outputs = [a @ b]
        s = session_of(g)
        for n, m in ((1, 1), (5, 2), (0, 4)):
            x, y = floats(n, 3), floats(3, m)
            np.testing.assert_allclose(s.run(x, y)[0], x @ y, rtol=1e-5, atol=1e-6)

    def test_results_keep_their_memory_alive(self) -> None:
        s = session_of(example())
        a, b = floats(8), floats(8)
        [y] = s.run(a, b)
        part = y[2:5]
        want = part.copy()
        s.run(b, a)
        del s, y
        gc.collect()
        for _ in range(100):
            np.empty(8, np.float32).fill(7)
        np.testing.assert_array_equal(part, want)

    def test_results_are_the_callers(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", [3])
        c = g.constant(np.array([1, 2, 3], np.float32))
        g.outputs = {"same": x, "constant": c, "view": weft.ops.Reshape(x, np.array([3, 1]))}
        s = session_of(g)
        given = np.array([4, 5, 6], np.float32)
        for _ in range(2):
            same, constant, view = s.run(given)
            np.testing.assert_array_equal(same, [4, 5, 6])
            np.testing.assert_array_equal(constant, [1, 2, 3])
            np.testing.assert_array_equal(view, [[4], [5], [6]])
            for result in (same, constant, view):
                result[...] = 0
            np.testing.assert_array_equal(given, [4, 5, 6])

    def test_an_input_lives_as_long_as_it_is_needed(self) -> None:
        class Array(np.ndarray):
            pass

        s = session_of(example())
        a = floats(8).view(Array)
        seen = weakref.ref(a)
        [y] = s.run(a, a)
        del a
        gc.collect()
        self.assertIsNone(seen())
        self.assertEqual(y.shape, (8,))

    @needs_kernels
    def test_no_copy(self) -> None:
        import resource

        g = weft.Graph()
        x = g.input("x", "f32", ["n"])
        g.outputs = [x * 2.0]
        s = session_of(g)
        x_large, y_large = np.ones(1 << 24, np.float32), np.empty(1 << 24, np.float32)
        s.run(x_large, out=y_large)
        before = resource.getrusage(resource.RUSAGE_SELF)
        s.run(x_large, out=y_large)
        after = resource.getrusage(resource.RUSAGE_SELF)
        # A copy of 64 MiB would touch 16384 fresh pages.
        self.assertLess(after.ru_minflt - before.ru_minflt, 4000)
        self.assertEqual(after.ru_maxrss, before.ru_maxrss)

    def test_results_as_tensors(self) -> None:
        s = session_of(example())
        a = floats(8)
        [y] = s.run(a, a, results="weft")
        self.assertIsInstance(y, weft.Tensor)
        np.testing.assert_array_equal(y.numpy(), (a + a) * a)
        [again] = s.run(y, a)
        self.assertEqual(again.shape, (8,))
        with self.assertRaises(weft.UsageError):
            s.run(a, a, results="jax")

    @needs_kernels
    def test_two_threads_in_one_session(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", [400, 400])
        y = x
        for _ in range(20):
            y = y @ x
        g.outputs = [y]
        s = session_of(g)
        x_value = floats(400, 400) / 20
        [want] = s.run(x_value)
        errors, results = [], []

        def work() -> None:
            for _ in range(10):
                try:
                    results.append(s.run(x_value)[0])
                except weft.ApiMisuseError as error:
                    errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(errors) + len(results), 30)
        self.assertTrue(errors)
        for got in results:
            np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(s.run(x_value)[0], want)

    def test_sessions_in_threads(self) -> None:
        program = weft.compile(example())
        a, b = floats(8), floats(8)

        def work() -> None:
            s = weft.Session(program)
            for _ in range(200):
                np.testing.assert_array_equal(s.run(a, b)[0], (a + b) * a)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    @needs_kernels
    def test_start_and_profile(self) -> None:
        s = session_of(example())
        a = floats(8)
        pending = s.start(a, a)
        self.assertIsInstance(pending.ready, bool)
        np.testing.assert_array_equal(pending.wait()[0], (a + a) * a)
        with self.assertRaises(weft.ApiMisuseError):
            pending.wait()
        steps = s.profile(a, a)
        self.assertEqual([t.kind for t in steps], ["kernel"])
        self.assertGreater(steps[0].microseconds, 0)
        self.assertGreater(steps[0].flops, 0)

    def test_owner_deleted_before_its_view(self) -> None:
        pending = session_of(example()).start(floats(8), floats(8))
        gc.collect()
        self.assertEqual(pending.wait()[0].shape, (8,))
        store = session_of(example()).store
        gc.collect()
        self.assertEqual(len(store), 0)


if __name__ == "__main__":
    unittest.main()
