"""What must be told by name and never crash: a hundred wrong calls, each an error of Weft, after which all is as it was.

`tools/sanitize python` runs them again under AddressSanitizer.
"""

from __future__ import annotations

import gc
import os
import pathlib
import pickle
import tempfile
import threading
import unittest
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from common import Array, example, floats, run_script, session_of, unary

import weft
from weft import expr
from weft._pickle import program as unpickled

Case = tuple[str, Callable[[], Any], type[BaseException]]


class Raises:
    """As what numpy asks for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "name"):
            def fail(*arguments: Any, **options: Any) -> Any:
                raise OSError("broken")

            return fail
        raise AttributeError(name)


class Gives:
    """A capsule that is none."""

    def __dlpack__(self, **options: Any) -> Any:
        return 42

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Elsewhere(Gives):
    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


def inputs() -> Iterator[Case]:
    session, a = session_of(example()), floats(8)
    wrong: dict[str, tuple[Any, type[BaseException]]] = {
        "objects": (np.empty(8, object), TypeError), "big-endian": (a.astype(">f4"), TypeError),
        "structured": (np.zeros(8, [("x", "f4")]), TypeError), "a record": (np.zeros(8, [("x", "f4")])[0], TypeError),
        "dates": (np.zeros(8, "M8[s]"), TypeError), "differences of dates": (np.zeros(8, "m8[s]"), TypeError),
        "raw bytes": (np.zeros(8, "V4"), TypeError), "long doubles": (a.astype(np.longdouble), TypeError),
        "complex": (a.astype(complex), ValueError),
        "f64": (a.astype(float), ValueError),
        "text": (np.array(["x"] * 8), ValueError),
        "too few": (a[:7], ValueError), "0-d": (np.float32(1), ValueError), "2-d": (a.reshape(2, 4), ValueError),
        "empty": (a[:0], ValueError), "None": (None, ValueError), "an object": (object(), TypeError), "a str": ("abc", TypeError),
        "bytes": (b"abc", TypeError), "a ragged list": ([[1.0], [1.0, 2.0]], TypeError), "a set": ({1.0}, TypeError),
        "a dict": ({"x": 1.0}, TypeError), "a generator": ((x for x in a), TypeError), "a function": (floats, TypeError),
        "a type": (float, TypeError), "Ellipsis": (..., TypeError), "too large a number": (10 ** 400, Exception),
        "a broken __array__": (Raises("__array__"), Exception), "a broken __dlpack__": (Raises("__dlpack__"), Exception),
        "no capsule": (Gives(), Exception), "a device's": (Elsewhere(), Exception), "an entry": (example().inputs[0], TypeError),
        "a graph": (example(), TypeError), "a session": (session, TypeError), "lists in lists": ([[[]]] * 8, ValueError),
    }
    for name, (value, error) in wrong.items():
        yield f"input: {name}", partial(session.run, a, value), error
    calls: dict[str, tuple[Callable[[], Any], type[BaseException]]] = {
        "none": (lambda: session.run(), ValueError), "one": (lambda: session.run(a), ValueError),
        "three": (lambda: session.run(a, a, a), ValueError), "a missing name": (lambda: session.run({"a": a}), KeyError),
        "an unknown name": (lambda: session.run({"a": a, "c": a}), KeyError),
        "a name too many": (lambda: session.run({"a": a, "b": a, "c": a}), KeyError),
        "unknown results": (lambda: session.run(a, a, results="list"), ValueError),
        "profile without inputs": (lambda: session.profile(), ValueError),
        "start without inputs": (lambda: session.start(), ValueError),
    }
    for name, (call, error) in calls.items():
        yield f"inputs: {name}", call, error
    two = weft.Graph()
    x, y = two.input("x", "f32", ["n"]), two.input("y", "f32", ["n"])
    two.outputs = [x + y]
    pair = session_of(two)
    yield "inputs: one symbol, two sizes", lambda: pair.run(floats(3), floats(4)), ValueError
    pending = session.start(a, a)
    pending.wait()
    yield "results taken twice", lambda: pending.wait(), weft.ApiMisuseError
    number = unary("Neg", "i8", [])
    yield "input: a number beyond i8", lambda: number.run(300), TypeError
    yield "input: a fraction for i8", lambda: number.run(0.5), TypeError
    yield "input: NaN for i8", lambda: number.run(float("nan")), TypeError


def outputs() -> Iterator[Case]:
    session, a, room = session_of(example()), floats(8), floats(16)
    wrong: dict[str, tuple[Any, type[BaseException]]] = {
        "too small": (np.empty(7, np.float32), ValueError), "f64": (np.empty(8), ValueError),
        "2-d": (np.empty((1, 8), np.float32), ValueError), "read-only": (frozen(floats(8)), ValueError),
        "steps": (room[::2], ValueError),
        "backwards": (floats(8)[::-1], ValueError),
        "big-endian": (np.empty(8, ">f4"), TypeError),
        "objects": (np.empty(8, object), TypeError), "one element for all": (np.broadcast_to(np.float32(0), 8), ValueError),
        "structured": (np.zeros(8, [("x", "f4")]), TypeError), "an unknown name": ({"z": np.empty(8, np.float32)}, KeyError),
        "two": ([a, a], ValueError), "none": ([], ValueError), "a str": ("text", TypeError), "a number": (7, TypeError),
        "a bytearray": (bytearray(32), TypeError), "unaligned": (np.zeros(33, np.uint8)[1:].view(np.float32), ValueError),
        "a read-only tensor": (weft.Tensor(frozen(floats(8)), copy=False), ValueError),
    }
    for name, (value, error) in wrong.items():
        yield f"out: {name}", partial(session.run, a, a, out=value), error
    g = weft.Graph()
    x = g.input("x", "f32", [4])
    g.outputs = [x + 1.0, x * 2.0]
    both = session_of(g)
    yield "out: overlapping", lambda: both.run(a[:4], out=[room[:4], room[2:6]]), ValueError
    yield "out: one for two", lambda: both.run(a[:4], out=room[:4]), ValueError


def graphs() -> Iterator[Case]:
    g: Any = example()
    ops: Any = weft.ops
    other = example()
    a, foreign = g.inputs[0], other.inputs[0]
    erased = weft.ops.Neg(a)
    gone = erased.node
    g.erase(gone)
    add = g.nodes[2]
    calls: dict[str, tuple[Callable[[], Any], type[BaseException]]] = {
        "an erased entry": (lambda: -erased, weft.ApiMisuseError), "an erased node": (lambda: gone.inputs, weft.ApiMisuseError),
        "entries of two graphs": (lambda: a + foreign, weft.ApiMisuseError),
        "an operand of another graph": (lambda: ops.Add(a, foreign), weft.ApiMisuseError),
        "no graph": (lambda: ops.Add(1.0, 2.0), weft.ApiMisuseError), "if on an entry": (lambda: bool(a < 1.0), TypeError),
        "an unknown operator": (lambda: ops.get("Reluu"), LookupError), "operands missing": (lambda: ops.Add(a), weft.Error),
        "operands too many": (lambda: ops.Neg(a, a), weft.Error),
        "an unknown attribute": (lambda: ops.Softmax(a, axes=1), ValueError),
        "an attribute's type": (lambda: ops.Softmax(a, axis="last"), ValueError),
        "an attribute's object": (lambda: ops.Softmax(a, axis=object()), ValueError),
        "an operand's object": (lambda: ops.Add(a, object()), TypeError),
        "erase what is used": (lambda: g.erase(add), weft.ApiMisuseError),
        "an unknown node": (lambda: g.node("nobody"), KeyError),
        "an unknown id": (lambda: g.node(10 ** 6), KeyError),
        "a negative id": (lambda: g.node(-1), KeyError),
        "an unknown attribute of the graph": (lambda: g.attribute("shapes"), KeyError),
        "a slot": (lambda: g.set_input(add, 7, a), weft.ApiMisuseError),
        "a cycle": (lambda: (g.set_input(add, 0, g.outputs[0]), g.verify()), weft.Error),
        "a text": (lambda: weft.Graph.parse("graph of no form"), ValueError),
        "an empty text": (lambda: weft.Graph.parse(""), ValueError),
        "json": (lambda: weft.Graph.from_json("[1, 2"), ValueError),
        "json of something else": (lambda: weft.Graph.from_json("{}"), ValueError),
        "a negative size": (lambda: g.input("n", "f32", [-1]), ValueError),
        "a dimension": (lambda: g.input("n", "f32", ["a +"]), ValueError),
        "a shape": (lambda: g.input("n", "f32", 1.5), ValueError), "a dtype": (lambda: g.input("n", "f33", [1]), TypeError),
        "a parameter": (lambda: g.param("p", object()), TypeError), "a constant": (lambda: g.constant(object()), TypeError),
        "outputs of another graph": (lambda: setattr(g, "outputs", [foreign]), weft.ApiMisuseError),
        "names of outputs": (lambda: setattr(g, "output_names", ["a", "b", "c"]), weft.ApiMisuseError),
        "gradients of nothing": (lambda: weft.gradients([], []), weft.ApiMisuseError),
        "gradients of whole numbers": (lambda: weft.gradients([ops.ArgMax(other.outputs[0], axis=0)], [foreign]), NotImplementedError),
        "the twin of a stranger": (lambda: weft.Graph().at(a), weft.ApiMisuseError),
        "a split without gradients": (lambda: weft.split_gradient(other, 7), weft.Error),
    }
    for name, (call, error) in calls.items():
        yield f"graph: {name}", call, error


def programs() -> Iterator[Case]:
    folder = pathlib.Path(tempfile.mkdtemp())
    g = example()
    program = weft.compile(g)
    whole = program.to_bytes()
    calls: dict[str, tuple[Callable[[], Any], type[BaseException]]] = {
        "an unknown backend": (lambda: weft.compile(g, backend="tpu"), weft.Error),
        "threads": (lambda: weft.compile(g, threads=-1), weft.ApiMisuseError),
        "limits": (lambda: weft.compile(g, limits="nods=3"), ValueError),
        "a limit": (lambda: weft.compile(g, limits={"nodes": 1}), weft.LimitError),
        "a model that is none": (lambda: weft.load(b"\x08\x07not a model"), ValueError),
        "an empty model": (lambda: weft.load(b""), ValueError),
        "no file": (lambda: weft.load(folder / "none.onnx"), OSError), "a folder": (lambda: weft.load(folder), weft.Error),
        "no program": (lambda: weft.load_program(b"nothing"), ValueError),
        "half a program": (lambda: weft.load_program(whole[:len(whole) // 2]), ValueError),
        "a damaged program": (lambda: weft.load_program(whole[:200] + bytes(64) + whole[264:]), weft.Error),
        "a program for a graph": (lambda: weft.load(whole), weft.Error),
        "nowhere to save": (lambda: program.save(folder / "no" / "p.weftx"), OSError),
        "an ending": (lambda: weft.save(g, folder / "g.txt"), weft.Error),
        "a pickle's bytes": (lambda: unpickled(b"x"), ValueError),
        "a plugin": (lambda: weft.load_plugin(folder / "none.so"), OSError),
        "an unknown pass": (lambda: weft.apply_passes(g, "Fusin"), LookupError),
        "an unknown option": (lambda: weft.apply_passes(g, "Fusion{most=1}"), ValueError),
        "a pipeline's text": (lambda: weft.apply_passes(g, "Fusion{"), ValueError),
        "a pipeline of numbers": (lambda: weft.apply_passes(g, [3]), ValueError),  # type: ignore[list-item]
        "an unknown check": (lambda: weft.apply_passes(g, "Simplify", checks="every"), ValueError),
        "what is needed, strictly": (lambda: weft.apply_passes(g, "Fusion", strict=True), ValueError),
    }
    for name, (call, error) in calls.items():
        yield f"program: {name}", call, error
    store: Any = weft.VariableStore()
    store["w"] = floats(3)
    yield "store: an unknown name", lambda: store["v"], KeyError
    yield "store: delete what is not there", lambda: store.__delitem__("v"), KeyError
    yield "store: an object", lambda: store.__setitem__("w", object()), TypeError
    (folder / "c").write_bytes(b"no checkpoint")
    yield "store: a file that is none", lambda: store.load(folder / "c"), weft.Error
    h = weft.Graph()
    h.outputs = [h.state("w", dtype="f32", shape=[4]) + 1.0]
    yield "store: another shape", lambda: weft.Session(weft.compile(h), store).run(), weft.Error
    yield "store: nothing in it", lambda: weft.Session(weft.compile(h), weft.VariableStore()).run(), weft.Error


def definitions() -> Iterator[Case]:
    kept: list[weft.Expr] = []
    number = iter(range(10 ** 6))

    def types(function: Any, dtype: str = "f32", **options: Any) -> Callable[[], Any]:
        """Defines an operator, and infers a node of it."""
        def call() -> None:
            op = weft.op(f"pybad::F{next(number)}", function, **options)
            g = weft.Graph()
            g.outputs = [op(g.input("x", dtype, [4]))]
            g.infer()

        return call

    def runs(compute: Any, **options: Any) -> Callable[[], Any]:
        def call() -> None:
            options.setdefault("FInferShape", lambda s: s)
            op = weft.op(f"pybad::F{next(number)}", FCompute=compute, **options)
            g = weft.Graph()
            g.outputs = [op(g.input("x", "f32", [4]))]
            weft.Session(weft.compile(g)).run(floats(4))

        return call

    def gradient(rule: Any) -> Callable[[], Any]:
        def call() -> None:
            op = weft.op(f"pybad::F{next(number)}", lambda x: x + 1, FGradient=rule)
            g = weft.Graph()
            x = g.input("x", "f32", [4])
            weft.gradients([op(x)], [x])

        return call

    def simplify(rule: Any) -> Callable[[], Any]:
        def call() -> None:
            op = weft.op(f"pybad::F{next(number)}", lambda x: x + 1, FSimplify=rule)
            g = weft.Graph()
            g.outputs = [op(g.input("x", "f32", [4]))]
            weft.apply_passes(g, "Simplify")

        return call

    def in_pass(body: Any, **options: Any) -> Callable[[], Any]:
        def call() -> None:
            name = f"pybadPass{next(number)}"
            weft.register_pass(name, **options)(body)
            weft.apply_passes(example(), name)

        return call

    def several(x: weft.Expr) -> Any:
        return x, x

    def with_default(x: weft.Expr, y: float = 1.0) -> Any:
        return x

    def with_keywords(x: weft.Expr, **rest: Any) -> Any:
        return x

    def untyped(x: weft.Expr, *, k: Any = None) -> Any:
        return x

    def nothing() -> Any:
        return 1

    def keep(x: weft.Expr) -> weft.Expr:
        kept.append(x)
        return x

    def own_session(x: Array) -> Array:
        return np.asarray(holder[0].run(x)[0])

    holder: list[weft.Session] = []

    def runs_itself() -> None:
        op = weft.op(f"pybad::F{next(number)}", FCompute=own_session, FInferShape=lambda s: s)
        g = weft.Graph()
        g.outputs = [op(g.input("x", "f32", [4]))]
        holder[:] = [weft.Session(weft.compile(g))]
        holder[0].run(floats(4))

    def of_another(x: weft.Expr) -> weft.Expr:
        weft.op(f"pybad::F{next(number)}", keep)
        types(keep, "f64")()
        return kept[-1]

    foreign = example().inputs[0]
    callback, misuse = weft.CallbackError, weft.ApiMisuseError
    cases: dict[str, tuple[Callable[[], Any], type[BaseException]]] = {
        "raises": (types(lambda x: x.nothing), callback),
        "if on a value": (types(lambda x: x if x > 0 else -x), callback),
        "numpy": (types(lambda x: np.sqrt(x)), callback),
        "gives a str": (types(lambda x: "x"), TypeError),
        "gives None": (types(lambda x: None), TypeError),
        "gives two": (types(several), misuse), "mixed dtypes": (types(lambda x: x + expr.cast(x, "f64")), callback),
        "a fraction beside whole numbers": (types(lambda x: x * 0.5, "i32"), callback),
        "sqrt of whole numbers": (types(lambda x: expr.sqrt(x),
        "i32"), callback),
        "a number beyond the dtype": (types(lambda x: x + 300, "i8"), callback),
        "operands of strings": (types(lambda x: x, "str"), TypeError),
        "not callable": (lambda: weft.op("pybad::N", 3), TypeError),  # type: ignore[call-overload]
        "an operand with a default": (types(with_default), misuse), "any keywords": (types(with_keywords), misuse),
        "an attribute of no type": (types(untyped), ValueError),
        "no operand": (types(nothing), misuse),
        "no output": (types(several, outputs=0), misuse),
        "no domain": (lambda: weft.op("Bad", lambda x: x), misuse), "an expression of another call": (types(of_another), misuse),
        "a signature beside an expression": (types(lambda x: x, signature="T[n] -> T[n]"), misuse),
        "FInferType raises": (types(lambda x: x, FInferType=lambda t: 1 / 0), callback),
        "FInferType gives no dtype": (types(lambda x: x, FInferType=lambda t: "f33"), TypeError),
        "FInferType says another dtype": (types(lambda x: x, FInferType=lambda t: "i32"), TypeError),
        "FInferShape raises": (types(lambda x: x, FInferShape=lambda s: 1 / 0), callback),
        "FInferShape gives no shape": (types(lambda x: x, FInferShape=lambda s: object()), ValueError),
        "FInferShape gives a negative size": (types(lambda x: x, FInferShape=lambda s: (-4,)), ValueError),
        "FCompute raises": (runs(lambda x: x.nothing), callback),
        "FCompute gives another dtype": (runs(lambda x: x.astype(float)), TypeError),
        "FCompute gives another shape": (runs(lambda x: x[:3]), ValueError),
        "FCompute gives None": (runs(lambda x: None), ValueError),
        "FCompute gives objects": (runs(lambda x: x.astype(object)), TypeError),
        "FCompute gives too many": (runs(lambda x: [x, x]), misuse),
        "FCompute takes another number": (runs(lambda: 1), misuse), "FCompute runs its own session": (runs_itself, callback),
        "a signature that is none": (runs(lambda x: x, signature="T[n"), ValueError),
        "a signature of two": (runs(lambda x: x, signature="T[n] -> T[n], T[n]"), misuse),
        "FGradient raises": (gradient(lambda n, dy: 1 / 0), callback),
        "FGradient gives too many": (gradient(lambda n, dy: [dy, dy]), misuse),
        "FGradient gives a number": (gradient(lambda n, dy: 1.0), TypeError),
        "FGradient gives a stranger": (gradient(lambda n, dy: foreign), misuse),
        "FSimplify raises": (simplify(lambda n: 1 / 0), callback),
        "FSimplify gives a stranger": (simplify(lambda n: foreign), misuse),
        "FSimplify gives too many": (simplify(lambda n: [n.inputs[0], n.inputs[0]]), misuse),
        "a pass raises": (in_pass(lambda g: 1 / 0), callback), "a pass gives a str": (in_pass(lambda g: "graph"), TypeError),
        "a pass needs what nobody provides": (in_pass(lambda g: g, needs="nonsense"), ValueError),
        "a pass promises": (in_pass(lambda g: None, provides="subgraph"), weft.Error),
        "a pass's option": (in_pass(lambda g: None, options={"a": object()}), ValueError),
        "a pass's result": (in_pass(lambda g: None, result="other"), ValueError),
        "a body that cannot be called": (in_pass(3), Exception),
        "a pass makes a cycle": (in_pass(lambda g: g.set_input(g.nodes[2], 0, g.outputs[0])), weft.Error),
    }
    for name, (call, error) in cases.items():
        yield f"definition: {name}", call, error


class BadInputTest(unittest.TestCase):
    counted = 0

    def check(self, cases: Iterator[Case]) -> int:
        count = 0
        for name, call, error in cases:
            count += 1
            with self.subTest(name):
                with self.assertRaises(error) as caught:
                    call()
                self.assertIsInstance(caught.exception, weft.Error, repr(caught.exception))
                self.assertRegex(getattr(caught.exception, "code"), "^WEFT-E[0-9]{4}$")
                self.assertTrue(str(caught.exception))
                self.assertNotIsInstance(caught.exception, weft.InternalError)
                pickle.loads(pickle.dumps(caught.exception))
        # All is as it was.
        a = floats(8)
        np.testing.assert_array_equal(session_of(example()).run(a, a)[0], (a + a) * a)
        return count

    def test_a_hundred_cases(self) -> None:
        self.assertGreaterEqual(sum(self.check(cases()) for cases in (inputs, outputs, graphs, programs, definitions)), 100)

    def test_odd_but_right(self) -> None:
        s, x = unary("Neg", "f32", ["n"]), floats(12)
        odd: list[Any] = [x[::-1], x[::3], x[:0], frozen(floats(12)), np.asfortranarray(x), np.broadcast_to(x[:1], 5),
                          np.ma.array(x), list(x), tuple(x), memoryview(x.data), weft.Tensor(x), [], np.array([], np.float32),
                          np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32)]
        for given in odd:
            np.testing.assert_array_equal(s.run(given)[0], -np.asarray(given, np.float32))
        for one in (3, 3.0, np.float32(3), np.array(3, np.float32), weft.Tensor(3.0, "f32")):
            self.assertEqual(unary("Neg", "f32", []).run(one)[0], -3)

    def test_an_owner_goes_before_its_views(self) -> None:
        session = session_of(example())
        a = floats(8)
        [y] = session.run(a, a)
        want = y.copy()
        program, store, entry = session.program, session.store, example().inputs[0]
        node, graph = entry.node, program.graph
        value = graph.copy().params
        tensor = weft.Tensor(floats(1000))
        array = tensor.numpy()[::7]
        pending = session.start(a, a)
        del session, tensor, program
        gc.collect()
        np.testing.assert_array_equal(y, want)
        np.testing.assert_array_equal(array, floats(1000)[::7])
        np.testing.assert_array_equal(pending.wait()[0], want)
        self.assertEqual((entry.name, node.name, list(store), value), ("a", "a", [], []))
        self.assertEqual(len(entry.graph.nodes), 4)
        self.assertTrue(graph.nodes)
        # An input that the caller drops at once.
        for _ in range(50):
            [y] = session_of(example()).run(np.ones(8, np.float32), np.ones(8, np.float32))
            gc.collect()
            np.testing.assert_array_equal(y, np.full(8, 2))

    def test_a_session_in_two_threads(self) -> None:
        entered, leave = threading.Event(), threading.Event()

        def wait(x: Array) -> Array:
            entered.set()
            leave.wait(60)
            return x

        op = weft.op("pybad::Wait", FCompute=wait, FInferShape=lambda s: s)
        g = weft.Graph()
        g.outputs = [op(g.input("x", "f32", [4]))]
        session, got = session_of(g), list[Any]()
        thread = threading.Thread(target=lambda: got.extend(session.run(floats(4))))
        thread.start()
        entered.wait(60)
        for use in (lambda: session.run(floats(4)), lambda: session.profile(floats(4)), lambda: session.start(floats(4))):
            with self.assertRaises(weft.ApiMisuseError) as caught:
                use()
            self.assertIn("another thread", str(caught.exception))
        leave.set()
        thread.join()
        np.testing.assert_array_equal(got[0], floats(4))
        session.run(floats(4))

    def test_rounds_leave_nothing(self) -> None:
        """Making, running and dropping sessions. A sanitizer keeps what was freed, so there it is only done."""
        program, a, b = weft.compile(example()), floats(8), floats(8)
        n = int(os.environ.get("WEFT_TEST_ROUNDS", "100000"))

        def resident() -> int:
            with open("/proc/self/statm", encoding="ascii") as f:
                return int(f.read().split()[1]) * 4096

        def rounds(count: int) -> None:
            for i in range(count):
                session = weft.Session(program)
                [y] = session.run(a, b)
                if i % 16 == 0:
                    x = session.run({"a": a, "b": b}, out=y)[0]
                    assert x is y
                    try:
                        session.run(a, b[:3])
                    except weft.Error:
                        pass
                    example().copy()

        rounds(n // 10)
        before = resident()
        rounds(n)
        if "asan" not in os.environ.get("LD_PRELOAD", ""):
            self.assertLess(resident() - before, 2 << 20)

    def test_after_a_fork(self) -> None:
        done = run_script("""
            import os
            import numpy as np
            import weft
            op = weft.op("demo::A", FCompute=lambda x: x, FInferShape=lambda s: s)
            g = weft.Graph()
            g.outputs = [op(g.input("x", "f32", [4]))]
            program = weft.compile(g)
            session, x = weft.Session(program), np.zeros(4, np.float32)
            session.run(x)
            if (child := os.fork()) == 0:
                code = 0
                for use in (lambda: session.run(x), lambda: weft.compile(g), lambda: weft.load_program(program.to_bytes())):
                    try:
                        use()
                        code = 1
                    except weft.ApiMisuseError:
                        pass
                weft.op("demo::B", lambda x: x + 1)
                g.infer()
                os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            session.run(x)
            print("fine")
            """)
        self.assertEqual(done.stdout.strip(), "fine", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
