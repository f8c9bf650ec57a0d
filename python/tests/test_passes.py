"""Pipelines, gradients, models, stores, reports."""

from __future__ import annotations

import pathlib
import pickle
import tempfile
import threading
import unittest

import numpy as np
from common import example, floats, needs_kernels, session_of

import weft
from weft._types import PipelineLike


class PassesTest(unittest.TestCase):
    def test_pipelines(self) -> None:
        g = example()
        text = str(g)
        pipelines: list[PipelineLike] = ["Simplify,Fusion{max_ops=64}", ["Simplify", ("Fusion", {"max_ops": 64})], ["Fusion"]]
        for pipeline in pipelines:
            fused = weft.apply_passes(g, pipeline)
            self.assertEqual([n.op for n in fused.nodes if n.op], ["weft::Fused"])
        self.assertEqual(str(g), text)
        body = next(n for n in fused.nodes if n.op).attrs["body"]
        self.assertEqual([n.op for n in body.nodes if n.op], ["Add", "Mul"])
        self.assertIn("subgraph", fused.attributes + ["subgraph"])
        self.assertEqual(fused.attribute("dtype")[(0, 0)], "f32")
        with self.assertRaises(KeyError):
            fused.attribute("dtypes")

    def test_records(self) -> None:
        records: list[weft.PassRecord] = []
        seen: list[str] = []
        weft.apply_passes(example(), "Fusion", records=records, on_pass=lambda r: seen.append(r.name))
        self.assertEqual([r.name for r in records], seen)
        self.assertEqual(records[-1].name, "Fusion")
        self.assertTrue(records[-1].asked)
        self.assertFalse(records[0].asked)
        self.assertTrue(any("Fusion" in r.reason for r in records))
        self.assertGreater(records[-1].nodes_before, records[-1].nodes_after)

    def test_errors_of_a_callback_come_out(self) -> None:
        def fail(record: weft.PassRecord) -> None:
            raise ZeroDivisionError(record.name)

        with self.assertRaises(ZeroDivisionError):
            weft.apply_passes(example(), "Simplify", on_pass=fail)

    def test_wrong_pipelines(self) -> None:
        g = example()
        for pipeline, error in (("Fusin", LookupError), ("Fusion{max=3}", weft.UnknownOptionError), ("Fusion{", weft.Error),
                                ([("Fusion", {"max_ops": []})], weft.UnknownOptionError), ([3], ValueError)):
            with self.subTest(pipeline), self.assertRaises(error) as caught:
                weft.apply_passes(g, pipeline)  # type: ignore[arg-type]
            self.assertIsInstance(caught.exception, weft.Error)
        with self.assertRaises(weft.UnknownPassError) as unknown:
            weft.apply_passes(g, "Fusin")
        self.assertIn("Fusion", unknown.exception.hint)
        with self.assertRaises(weft.DependencyError):
            weft.apply_passes(g, "Fusion", strict=True)
        with self.assertRaises(weft.UsageError):
            weft.apply_passes(g, "Simplify", checks="everything")
        with self.assertRaises(weft.UsageError):
            weft.apply_passes(g, "Simplify", limits="nods=3")

    def test_options(self) -> None:
        g = example()
        with tempfile.TemporaryDirectory() as folder:
            weft.apply_passes(g, "Simplify,Fusion", checks="all", dump_dir=folder, limits={"nodes": 100}, target="cpu")
            self.assertTrue(list(pathlib.Path(folder).iterdir()))
        self.assertEqual(len([n for n in weft.apply_passes(g, "Fusion", skip=["Fusion"]).nodes if n.op]), 2)
        with self.assertRaises(weft.LimitError):
            weft.compile(g, limits="deadline_s=0.0000001")
        self.assertIn("InferShape", weft.resolve_pipeline(g, "Fusion"))
        self.assertIn("Fusion", weft.standard_pipeline())

    def test_what_is_known_of_passes(self) -> None:
        self.assertIn("Fusion", weft.passes.list())
        fusion = weft.passes.describe("Fusion")
        self.assertIn("shape", fusion.depends)
        self.assertIn("max_ops", [o.name for o in fusion.options])
        with self.assertRaises(weft.UnknownPassError):
            weft.passes.describe("Fusin")

    def test_report(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = weft.report(example(), "Simplify,Fusion", pathlib.Path(folder) / "r.html")
            page = pathlib.Path(path).read_text(encoding="utf-8")
        self.assertIn("weft::Fused", page)
        self.assertIn("InferShape", page)
        self.assertEqual(page.count("<html"), 1)


class GradientTest(unittest.TestCase):
    def test_gradients(self) -> None:
        g = weft.Graph()
        x, w = g.input("x", "f32", [5]), g.input("w", "f32", [5])
        y = weft.ops.Tanh(x * w)
        dx, dw = weft.gradients([y], [x, w])
        g.outputs = [y, dx, dw]
        a, b = floats(5), np.array([1, 2, -1, 0.5, 3], np.float32)
        got = session_of(g).run(a, b)
        slope = 1 - np.tanh(a * b) ** 2
        np.testing.assert_allclose(got[1], slope * b, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(got[2], slope * a, rtol=2e-5, atol=1e-6)

    def test_given_output_gradients_and_second_order(self) -> None:
        g = weft.Graph()
        x, seed = g.input("x", "f32", [3]), g.input("seed", "f32", [3])
        [dx] = weft.gradients([x**3.0], [x], [seed])
        [ddx] = weft.gradients([dx], [x], [None])
        g.outputs = [dx, ddx]
        a, s = np.array([1, 2, 3], np.float32), np.array([1, 0.5, -1], np.float32)
        first, second = session_of(g).run(a, s)
        np.testing.assert_allclose(first, s * 3 * a**2, rtol=1e-5)
        np.testing.assert_allclose(second, s * 6 * a, rtol=1e-5)

    def test_split(self) -> None:
        g = weft.Graph()
        x, w = g.input("x", "f32", [4, 3]), g.input("w", "f32", [3, 2])
        y = weft.ops.Exp(x @ w)
        g.outputs = [y]
        [dw] = weft.gradients([y], [w])
        g.outputs = [y, dw]
        split = weft.split_gradient(g, 1)
        a, b = floats(4, 3), floats(3, 2)
        forward = session_of(split.forward).run(a, b)
        names = [e.node.name for e in split.backward.inputs]
        values = {"x": a, "w": b}
        for name, output in zip(names[len(names) - len(split.retained):], split.retained):
            values[name] = forward[output]
        [got] = session_of(split.backward).run({n: values[n] for n in names})
        np.testing.assert_allclose(got, a.T @ np.exp(a @ b), rtol=1e-4)

    def test_wrong_requests(self) -> None:
        g, other = weft.Graph(), weft.Graph()
        x = g.input("x", "i64", [3])
        with self.assertRaises(weft.UnsupportedError):
            weft.gradients([x + 1], [x])
        with self.assertRaises(weft.ApiMisuseError):
            weft.gradients([x], [other.input("y", "f32", [3])])
        with self.assertRaises(weft.ApiMisuseError):
            weft.gradients([], [x])


class ModelTest(unittest.TestCase):
    def test_files(self) -> None:
        g = example()
        a, b = floats(8), floats(8)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("m.onnx", "m.weft", "m.json"):
                path = pathlib.Path(folder) / name
                weft.save(g, path)
                np.testing.assert_array_equal(session_of(weft.load(path)).run(a, b)[0], (a + b) * a)
                again = weft.load(path.read_bytes(), path.suffix[1:])
                self.assertEqual(again.output_names, ["y"])
            weft.export_onnx(g, f"{folder}/n.onnx", value_info="none", external="always", external_bytes=1)
            self.assertEqual(weft.load(f"{folder}/n.onnx").output_names, ["y"])
            with self.assertRaises(OSError):
                weft.load(f"{folder}/absent.onnx")
            with self.assertRaises(weft.UsageError):
                weft.load(f"{folder}/m.txt")
            with self.assertRaises(OSError):
                weft.save(g, f"{folder}/absent/m.onnx")
            with self.assertRaises(weft.UsageError):
                weft.export_onnx(g, external="often")
        with self.assertRaises(weft.ModelError):
            weft.load(b"no model")
        with self.assertRaises(TypeError):
            weft.load(3)  # type: ignore[arg-type]

    def test_model_protos(self) -> None:
        try:
            import onnx
        except ImportError:
            self.skipTest("no onnx")
        model = onnx.load_from_string(weft.export_onnx(weft.apply_passes(example(), "Simplify,Fusion")))
        onnx.checker.check_model(model)
        findings: list[weft.Finding] = []
        a, b = floats(8), floats(8)
        np.testing.assert_array_equal(session_of(weft.load(model, findings=findings)).run(a, b)[0], (a + b) * a)
        self.assertEqual(findings, [])
        np.testing.assert_array_equal(weft.Session(weft.compile(model)).run(a, b)[0], (a + b) * a)

    @needs_kernels
    def test_programs(self) -> None:
        program = weft.compile(example())
        a, b = floats(8), floats(8)
        self.assertEqual([(s.name, s.dtype, s.shape) for s in program.inputs], [("a", "f32", (8,)), ("b", "f32", (8,))])
        self.assertEqual(program.outputs[0].name, "y")
        self.assertEqual(program.stats["kernels"], 1)
        self.assertEqual(program.backend, "cpu")
        self.assertIn("Fusion", [r.name for r in program.passes])
        self.assertEqual(set(program.sample_inputs()), {"a", "b"})
        with tempfile.TemporaryDirectory() as folder:
            program.save(f"{folder}/p.weftx")
            loaded = weft.load_program(f"{folder}/p.weftx")
            with self.assertRaises(weft.UnsupportedError):
                weft.load(f"{folder}/p.weftx")
        for twin in (loaded, pickle.loads(pickle.dumps(program)), weft.load_program(program.to_bytes())):
            np.testing.assert_array_equal(weft.Session(twin).run(a, b)[0], (a + b) * a)
        with self.assertRaises(weft.ModelError):
            weft.load_program(program.to_bytes()[:-9])

    def test_backends(self) -> None:
        a, b = floats(8), floats(8)
        for options in ({"backend": "ref"}, {"fusion": False}, {"threads": 1}, {"pipeline": weft.standard_pipeline()}):
            np.testing.assert_array_equal(session_of(example(), **options).run(a, b)[0], (a + b) * a)
        with self.assertRaises(weft.UnsupportedError):
            weft.compile(example(), backend="abacus")
        with self.assertRaises(weft.ApiMisuseError):
            weft.compile(example(), threads=-1)


class StoreTest(unittest.TestCase):
    def counter(self) -> weft.Graph:
        g = weft.Graph()
        n = g.state("n", np.array(0, np.float32))
        x = g.input("x", "f32", [])
        g.outputs = [weft.ops.weft.Assign(n, n + x)]
        return g

    def test_variables_outlive_runs(self) -> None:
        program = weft.compile(self.counter())
        self.assertTrue(program.writes_variables)
        self.assertEqual([v.name for v in program.variables], ["n"])
        store = weft.VariableStore()
        s = weft.Session(program, store)
        self.assertEqual(float(s.run(2)[0]), 2)
        self.assertEqual(float(weft.Session(program, store).run(3)[0]), 5)
        self.assertEqual(float(store["n"]), 5)
        store["n"] = np.array(10, np.float32)
        self.assertEqual(float(s.run(1)[0]), 11)
        self.assertEqual(float(weft.Session(program).run(1)[0]), 1)

    def test_mapping(self) -> None:
        store = weft.VariableStore()
        w = floats(3)
        store["w"] = w
        store.update({"b": np.zeros(2)}, c=1.5)
        self.assertEqual(sorted(store), ["b", "c", "w"])
        self.assertEqual(len(store), 3)
        self.assertIn("w", store)
        self.assertNotIn(3, store)
        np.testing.assert_array_equal(store["w"], w)
        copy = store["w"]
        copy[:] = 0
        np.testing.assert_array_equal(store["w"], w)
        self.assertEqual([k for k, _ in store.items()], ["b", "c", "w"])
        self.assertEqual(len(list(store.values())), 3)
        self.assertIsNone(store.get("x"))
        self.assertEqual(store.pop("x", 7), 7)
        np.testing.assert_array_equal(store.pop("b"), np.zeros(2))
        del store["c"]
        for name in ("c", "x"):
            with self.assertRaises(KeyError):
                store[name]
            with self.assertRaises(KeyError):
                del store[name]
        with self.assertRaises(TypeError):
            store["o"] = object()  # type: ignore[assignment]
        store.clear()
        self.assertEqual(dict(store), {})

    def test_checkpoints(self) -> None:
        store, other = weft.VariableStore(), weft.VariableStore()
        store["w"] = floats(3)
        store.set_metadata("epoch", "3")
        with tempfile.TemporaryDirectory() as folder:
            store.save(f"{folder}/c.ckpt")
            other.load(f"{folder}/c.ckpt")
            np.testing.assert_array_equal(other["w"], store["w"])
            self.assertEqual(other.metadata, {"epoch": "3"})
            with self.assertRaises(OSError):
                other.load(f"{folder}/absent")

    def test_adopted_arrays(self) -> None:
        store, mine = weft.VariableStore(), np.array(4, np.float32)
        store.adopt("n", mine)
        s = weft.Session(weft.compile(self.counter()), store)
        s.run(2)
        self.assertEqual(float(mine), 6)
        mine[...] = 1
        self.assertEqual(float(s.run(2)[0]), 3)
        read_only = np.zeros(2, np.float32)
        read_only.flags.writeable = False
        with self.assertRaises(weft.BadInputError):
            store.adopt("r", read_only)
        store.sync()

    def test_a_store_in_two_threads(self) -> None:
        """Whoever waits for the store lets others have the interpreter: an adopted array goes with its lock."""
        store = weft.VariableStore()
        store["other"] = floats(3)
        done = threading.Event()

        def adopt() -> None:
            for _ in range(3000):
                store.adopt("w", np.zeros(4, np.float32))
                del store["w"]
            done.set()

        thread = threading.Thread(target=adopt, daemon=True)
        thread.start()
        while not done.is_set():
            self.assertIn(len(store), (1, 2))
            self.assertNotIn("absent", store)
            self.assertIn("other", list(store))
            self.assertGreaterEqual(store.nbytes, 12)
        thread.join()

    def test_a_store_of_another_model(self) -> None:
        store = weft.VariableStore()
        store["n"] = np.zeros(3, np.float32)
        with self.assertRaises(weft.BindingError):
            weft.Session(weft.compile(self.counter()), store).run(1)


if __name__ == "__main__":
    unittest.main()
