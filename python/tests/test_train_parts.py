"""What train steps are made of, without torch: steps of optimizers as nodes, random nodes of one state, ONNX's tensors."""

from __future__ import annotations

import collections
import gc
import math
import unittest
import weakref
from typing import Any

import numpy as np

import weft
from weft._weft import _Watch
from weft.torch import optimizers
from weft.torch.graph import GraphBuilder
from weft.torch.seeding import seed_from
from weft.torch.test_case import tensor_proto

Values = dict[str, Any]


def sgd(group: Values, held: Values, g: Any, past: int) -> None:
    """torch's arithmetic on arrays, step by step."""
    g = -g if group["maximize"] else g
    g = g + group["weight_decay"] * held["w"]
    if group["momentum"]:
        first = past == 0
        held["momentum_buffer"] = g if first else group["momentum"] * held["momentum_buffer"] + (1 - group["dampening"]) * g
        g = g + group["momentum"] * held["momentum_buffer"] if group["nesterov"] else held["momentum_buffer"]
    held["w"] = held["w"] - group["lr"] * g


def adam(group: Values, held: Values, g: Any, past: int, apart: bool) -> None:
    b1, b2 = group["betas"]
    g = -g if group["maximize"] else g
    if apart:
        held["w"] = held["w"] * (1 - group["lr"] * group["weight_decay"])
    else:
        g = g + group["weight_decay"] * held["w"]
    held["exp_avg"] = b1 * held["exp_avg"] + (1 - b1) * g
    held["exp_avg_sq"] = b2 * held["exp_avg_sq"] + (1 - b2) * g * g
    t = past + 1
    root = np.sqrt(held["exp_avg_sq"]) / math.sqrt(1 - b2**t) + group["eps"]
    held["w"] = held["w"] - group["lr"] / (1 - b1**t) * held["exp_avg"] / root


class OptimizersTest(unittest.TestCase):
    def check(self, kind: str, **options: Any) -> None:
        group: Values = {"lr": 0.1, "weight_decay": 0.0, "maximize": False}
        group |= {"momentum": 0.0, "dampening": 0.0, "nesterov": False} if kind == "SGD" else {"betas": (0.9, 0.99), "eps": 1e-3}
        group |= options
        terms = optimizers.structure(kind, group)
        keys = optimizers.slots(kind, terms)
        rng = np.random.default_rng(0)
        mine: Values = {k: np.zeros(5) for k in keys} | {"w": rng.standard_normal(5)}
        want = {k: v.copy() for k, v in mine.items()}
        builder = GraphBuilder({}, ("w",))
        weight = builder.weight("w", "float64", (5,), True)
        factor = builder.input("x", "float64", (5,))
        loss = weft.ops.ReduceSum(weight * weight * factor, keepdims=0)
        [gradient] = weft.gradients([loss], [weight])
        writer = optimizers.Writer(builder)
        names = tuple(optimizers.coefficients(kind, group, 0))
        numbers = np.zeros(len(names))
        store = weft.VariableStore()
        read: dict[str, weft.Entry] = {}

        def at(key: str, dtype: str) -> weft.Entry:
            if key not in read:
                i = names.index(key)
                store.adopt(key, numbers[i : i + 1].reshape(()))
                read[key] = builder.graph.state(key, None, dtype, ())
            return read[key]

        def slot(key: str) -> weft.Entry:
            return builder.graph.state(key, None, "float64", (5,))

        optimizers.write_step(writer, kind, terms, "w", "float64", gradient, at, slot)
        builder.output("loss", loss)
        for key, value in mine.items():
            store.adopt(key, value)
        session = weft.Session(weft.compile(builder.finish()), store)
        for past in range(6):
            group["lr"] = 0.1 / (past + 1)
            x = rng.standard_normal(5)
            numbers[:] = [optimizers.coefficients(kind, group, past)[n] for n in names]
            g = 2 * want["w"] * x
            (value,) = session.run(x)
            self.assertAlmostEqual(float(value), float((want["w"] ** 2 * x).sum()), places=9)
            if kind == "SGD":
                sgd(group, want, g, past)
            else:
                adam(group, want, g, past, kind == "AdamW")
            for key, array in want.items():
                np.testing.assert_allclose(mine[key], array, rtol=1e-10, err_msg=f"{kind} {options} {key}")

    def test_steps(self) -> None:
        self.check("SGD")
        self.check("SGD", weight_decay=0.1, maximize=True)
        for nesterov in (False, True):
            self.check("SGD", momentum=0.9, nesterov=nesterov, weight_decay=0.01)
        self.check("SGD", momentum=0.9, dampening=0.4)
        for kind in ("Adam", "AdamW"):
            self.check(kind)
            self.check(kind, weight_decay=0.1, maximize=True)

    def test_what_is_not_known(self) -> None:
        with self.assertRaisesRegex(ValueError, "amsgrad"):
            optimizers.structure("Adam", {"amsgrad": True})
        with self.assertRaisesRegex(ValueError, "Lion is not known"):
            optimizers.kind_of(type("Lion", (), {})())

    def test_parameters_that_the_loss_does_not_depend_on(self) -> None:
        g = weft.Graph()
        a, b = (g.state(n, np.ones(2, np.float32)) for n in "ab")
        made = weft.gradients([weft.ops.ReduceSum(a * 2, keepdims=0)], [a, b])
        self.assertEqual(optimizers.reached(dict(zip("ab", made))), {"a"})


class SeedingTest(unittest.TestCase):
    def seeded(self, g: weft.Graph) -> tuple[weft.Session, Any]:
        state = np.array([7, 1], np.int64)
        self.assertTrue(seed_from(g, lambda: g.state("state", None, "int64", (2,))))
        store = weft.VariableStore()
        store.adopt("state", state)
        return weft.Session(weft.compile(g), store), state

    def test_dropout_and_its_gradient(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", [400, 50])
        ratio, training = g.constant(np.float32(0.25)), g.constant(np.bool_(True))
        y, mask = weft.ops.Dropout(x, ratio, training)
        [dx] = weft.gradients([weft.ops.ReduceSum(y, keepdims=0)], [x])
        other, _ = weft.ops.Dropout(x, ratio, training)
        g.outputs = [y, mask, dx, other]
        session, state = self.seeded(g)
        ones = np.ones((400, 50), np.float32)
        y0, mask0, dx0, other0 = session.run(ones)
        self.assertAlmostEqual(float(np.mean(y0 != 0)), 0.75, delta=0.02)
        np.testing.assert_array_equal(y0 != 0, mask0)
        np.testing.assert_allclose(y0[mask0], 1 / 0.75, rtol=1e-6)
        np.testing.assert_array_equal(y0, dx0)
        self.assertFalse(np.array_equal(y0, other0))
        np.testing.assert_array_equal(session.run(ones)[0], y0)
        state[0] = 8
        self.assertFalse(np.array_equal(session.run(ones)[0], y0))

    def test_draws(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f64", [2000])
        g.outputs = [
            weft.ops.RandomUniformLike(x, low=-1.0, high=3.0),
            weft.ops.RandomNormal(mean=2.0, scale=0.5, shape=[2000], graph=g),
        ]
        session, _ = self.seeded(g)
        uniform, normal = session.run(np.full(2000, 0.3))
        self.assertEqual((uniform.dtype, normal.dtype), (np.float64, np.float32))
        self.assertTrue(-1 <= uniform.min() < -0.9 and 2.9 < uniform.max() < 3)
        self.assertAlmostEqual(float(normal.mean()), 2.0, delta=0.1)

    def test_graphs_without(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", [2])
        g.outputs = [weft.ops.Dropout(x)[0]]
        self.assertFalse(seed_from(g, lambda: self.fail("asked for")))


class TensorFileTest(unittest.TestCase):
    def test_read_back(self) -> None:
        """By Weft's own reader of such files, as an input of the command and in the package onnx."""
        array = np.arange(300, dtype=np.float32).reshape(2, 150)
        written = tensor_proto("a name", 1, [2, 150], array.tobytes())
        try:
            import onnx
            from onnx import numpy_helper
        except ImportError:
            self.skipTest("no package onnx")
        proto = onnx.TensorProto.FromString(written)
        self.assertEqual(proto.name, "a name")
        np.testing.assert_array_equal(numpy_helper.to_array(proto), array)


class WatchTest(unittest.TestCase):
    def test_dictionaries(self) -> None:
        kept, other = object(), object()
        a: dict[str, Any] = {"x": kept, "y": None}
        b: dict[str, Any] = collections.OrderedDict()
        watch = _Watch()
        self.assertTrue(watch.unchanged())
        watch.hold(a)
        watch.hold(b)
        for holder, key, value in ((a, "x", other), (a, "z", 1), (b, "z", 1)):
            before = dict(holder)
            self.assertTrue(watch.unchanged())
            holder[key] = value
            self.assertFalse(watch.unchanged())
            holder.clear()
            holder.update(before)
        self.assertTrue(watch.unchanged())
        for wrong in (np.zeros(2), 1):
            with self.assertRaises(TypeError):
                watch.remember(wrong)
        with self.assertRaises(TypeError):
            watch.hold([])  # type: ignore[arg-type]

    def test_what_holds_its_watch_is_collected(self) -> None:
        class Held:
            pass

        held, watch = Held(), _Watch()
        watch.hold({"held": held})
        held.__dict__["watch"] = watch
        gone = weakref.ref(held)
        del held, watch
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
