"""TinyFlow's calls, and programs in its style that train."""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
import unittest
import warnings
from typing import Any

import numpy as np
from common import Array

import weft
from weft import tinyflow as tf
from weft.tinyflow import _base
from weft.tinyflow import symbol as _sym

ROOT = pathlib.Path(__file__).resolve().parents[2]
generator = np.random.default_rng(7)


def numbers(*shape: int) -> Array:
    return generator.standard_normal(shape).astype(np.float32)


def clusters(count: int = 400, classes: int = 4, size: int = 16) -> tuple[Array, Array]:
    """Points around a centre for each class."""
    labels = generator.integers(0, classes, count)
    return (2 * numbers(classes, size)[labels] + numbers(count, size)), labels.astype(np.float32)


def first_values(session: tf.Session, loss: Any, feeds: Any, stdev: float = 0.1) -> None:
    session.run([tf.assign(v, tf.normal(shape, stdev)) for v, _, shape in tf.infer_variable_shapes(loss, feed_dict=feeds)])


class Calls(unittest.TestCase):
    def value(self, symbol: Any, feed_dict: Any = None) -> Any:
        return tf.Session().run(symbol, feed_dict=feed_dict)

    def test_arithmetic(self) -> None:
        x, a = tf.placeholder("x"), np.array([[0.5, 2, 3]], np.float32)
        cases = [
            (1 / (1 + tf.exp(-x)), 1 / (1 + np.exp(-a))), (x + 1, a + 1), (1 - x, 1 - a), (x - 1, a - 1), (2 * x, 2 * a),
            (x / 4, a / 4), (x ** 2, a ** 2), (0.9 ** x, 0.9 ** a), (tf.pow(x, x), a ** a), (tf.log(x), np.log(a)),
            (tf.sqrt(x), np.sqrt(a)), (tf.tanh(x), np.tanh(a)), (tf.equal(x, 2), a == 2), (tf.argmax(x, 1), [2]),
            (tf.reduce_sum(x, reduction_indices=[1]), [5.5]), (tf.reduce_mean(x), 5.5 / 3), (2.0 * x, 2 * a),
            (tf.matmul(x, tf.ones(shape=[3, 2])), [[5.5, 5.5]]), (_sym.zeros_like(x) + 1, [[1, 1, 1]]),
            (tf.nn.softmax(x), np.exp(a) / np.exp(a).sum()), (tf.nn.relu(x - 1), [[0, 1, 2]]),
        ]
        for symbol, expected in cases:
            got = self.value(symbol, {x: a.astype(np.float64)})
            self.assertEqual(got.dtype, np.float32)
            np.testing.assert_allclose(got, expected, rtol=1e-6)
        self.assertEqual("%g" % self.value(tf.reduce_sum(x) / 2, {x: a}), "2.75")

    def test_state(self) -> None:
        session = tf.Session()
        w, v = tf.Variable(tf.zeros([2])), tf.Variable(tf.ones(shape=[2]), "v")
        begin = tf.initialize_all_variables()
        step = tf.group(tf.assign(w, w + 1), tf.assign(v, v * 2))
        for _ in range(2):  # first values are not forgotten
            self.assertIsNone(session.run(begin))
            self.assertIsNone(session.run(step))
            got, none = session.run([w + v, step])
            self.assertIsNone(none)
            np.testing.assert_array_equal(got, [6, 6])  # built after the step, so read after it
            np.testing.assert_array_equal(session.run(tf.assign(w, v * 3)), [12, 12])
        with self.assertRaisesRegex(weft.BindingError, "without a value"):
            tf.Session().run(w + v)

    def test_gradients(self) -> None:
        x, w = tf.placeholder("x"), tf.Variable(tf.ones([3]), "w")
        y = tf.reduce_sum(x * w ** 2)
        self.assertEqual(y.list_input_variables(), [w])
        session, a = tf.Session(), numbers(3)
        session.run(tf.initialize_all_variables())
        dx, dw = session.run(tf.gradients(y, [x, w]), {x: a})
        np.testing.assert_allclose(dx, np.ones(3))
        np.testing.assert_allclose(dw, 2 * a, rtol=1e-6)
        [dx] = session.run(tf.gradients([y, x], [x], grad_ys=[tf.ones([]) * 2, tf.zeros([3])]), {x: a})
        np.testing.assert_allclose(dx, 2 * np.ones(3))

    def test_first_extents_that_have_to_fit(self) -> None:
        a, b, w = tf.placeholder("a"), tf.placeholder("b"), tf.Variable(tf.zeros([3]))
        session, both = tf.Session(), tf.matmul(a, b)
        session.run(tf.initialize_all_variables())
        for rows in (2, 5):
            x, y = numbers(rows, 3), numbers(3, 4)
            np.testing.assert_allclose(session.run(both, {a: x, b: y}), x @ y, rtol=1e-4, atol=1e-5)
        copied, sums = tf.assign(w, 2 * a), tf.reduce_sum(a * a, reduction_indices=[0])
        for _ in range(2):
            np.testing.assert_array_equal(session.run(copied, {a: [1, 2, 3]}), [2, 4, 6])
            np.testing.assert_array_equal(session.run(w), [2, 4, 6])
        for rows in (1, 4):
            self.assertEqual(session.run(sums, {a: np.ones(rows)}), rows)
        with self.assertRaises(weft.ShapeError):
            session.run(copied, {a: [1, 2]})

    def test_shapes(self) -> None:
        x, label = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        h = tf.nn.conv2d(x, num_filter=20, ksize=[1, 5, 5, 1], name="shapes", no_bias=False)
        h = tf.nn.batch_normalization(h, name="norm")
        h = tf.nn.max_pool(tf.nn.relu(h), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1])
        logits = tf.nn.linear(tf.nn.flatten_layer(h), num_hidden=10, name="out")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits, label)
        found = tf.infer_variable_shapes(loss, feed_dict={x: [100, 1, 28, 28], label: [100]})
        self.assertEqual([(name, shape) for _, name, shape in found], [
            ("shapes_weight", [20, 1, 5, 5]), ("shapes_bias", [20]), ("norm_gamma", [20]), ("norm_beta", [20]),
            ("out_weight", [10, 2880])])

    def test_layers_are_what_numpy_says(self) -> None:
        x, a = tf.placeholder("x"), numbers(2, 3, 6, 6)
        [same] = self.value([tf.nn.max_pool(x, ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1])], {x: a})
        padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        np.testing.assert_array_equal(same, windows.max((4, 5)))
        mean = self.value(tf.nn.avg_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME", data_format="NCHW"), {x: a})
        np.testing.assert_allclose(mean, a.reshape(2, 3, 3, 2, 3, 2).mean((3, 5)), rtol=1e-5, atol=1e-6)
        w = numbers(4, 3, 3, 3)
        got = self.value(tf.nn.conv2d(x, _base.constant(w), ksize=[1, 3, 3, 1], padding="SAME"),
                         {x: a})
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
        np.testing.assert_allclose(got, np.einsum("nchwij,fcij->nfhw", windows, w), rtol=1e-4, atol=1e-5)
        biased = self.value(tf.nn.bias_add(x, _base.constant([1, 2, 3])), {x: a})
        np.testing.assert_array_equal(biased, a + np.array([1, 2, 3], np.float32)[:, None, None])
        with self.assertRaisesRegex(weft.UsageError, "NCHW"):
            tf.nn.max_pool(x, ksize=[1, 2, 2, 1], data_format="NHWC")

    def test_sessions(self) -> None:
        x = tf.placeholder(tf.float32, [None, 2])
        for words in ("gpu fusion", "gpu"):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                session = tf.Session(config=words)
                self.assertEqual(len(seen), 0 if session.backend == "cuda" else 1)
            np.testing.assert_array_equal(session.run(x + 1, {x: [[1, 2]]}), [[2, 3]])
        with self.assertRaisesRegex(weft.UsageError, "'tpu'"):
            tf.Session(device="tpu")
        session, y = tf.Session(), tf.reduce_mean(x)
        for n in (3, 5, 1):
            self.assertEqual(session.run(y, {x: np.ones((n, 2))}), 1)
        self.assertEqual(len(session._programs), 2)  # of many rows, of one
        with self.assertRaisesRegex(weft.ShapeError, "None, 2"):
            session.run(y, {x: np.ones((2, 3))})
        with self.assertRaisesRegex(weft.BindingError, "not fed"):
            session.run(y)

    def test_old_names(self) -> None:
        program = ("import tinyflow as tf\nfrom tinyflow.datasets import get_mnist, get_cifar10\n"
                   "from nnvm import symbol as _sym\nimport nnvm.graph as graph\nfrom tinyflow import _base\n"
                   "x = tf.placeholder('x')\ng = graph.create(1 / (1 + tf.exp(-x)))\n"
                   "print(tf.Session().run(g.symbol, {x: 0}), len(g.lower({x: [2]}).outputs), _sym.zeros is _base.zeros)\n")
        path = [str(ROOT / "python/tinyflow_wheel"), *sys.path]
        run = subprocess.run([sys.executable, "-c", f"import sys\nsys.path = {path!r}\n{program}"], capture_output=True, text=True,
                             check=True)
        self.assertEqual(run.stdout, "0.5 1 True\n")


class UserAdam:
    """As its user writes it."""

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-4,
                 name: str = "Adam") -> None:
        self.name, self.lr, self.beta1, self.beta2, self.epsilon = name, learning_rate, beta1, beta2, epsilon
        self.t = _base.Variable(_sym.zeros(shape=[1]), name + "_t")
        self.m: list[Any] = []
        self.v: list[Any] = []

    def minimize(self, loss: Any) -> Any:
        variables = loss.list_input_variables()
        grads = _base.gradients(loss, variables)
        updates = []
        for i, v in enumerate(variables):
            self.m.append(_base.Variable(_sym.zeros_like(v), self.name + "_m" + str(i)))
            self.v.append(_base.Variable(_sym.zeros_like(v), self.name + "_v" + str(i)))
        update_t = _sym.assign(self.t, self.t + 1)
        rate = _sym.sqrt(1 - self.beta2 ** update_t) / (1 - self.beta1 ** update_t)
        lr_t = self.lr * rate
        for var, g, m, v in zip(variables, grads, self.m, self.v):
            update_m = _sym.assign(m, self.beta1 * m + (1 - self.beta1) * g)
            update_v = _sym.assign(v, self.beta2 * v + (1 - self.beta2) * g * g)
            updates.append(_sym.assign(var, var - lr_t * update_m / (_sym.sqrt(update_v) + self.epsilon)))
        return _base.group(*updates)


class PyTorchAdam(UserAdam):
    """Epsilon is beside the root of the corrected second moment, and 1 - beta^t is state."""

    def minimize(self, loss: Any) -> Any:
        updates, variables = [], loss.list_input_variables()
        grads = tf.gradients(loss, variables)
        c1, c2 = (tf.assign(v, v * beta + (1 - beta))
                  for v, beta in ((tf.Variable(tf.zeros([]), "c"), self.beta1), (tf.Variable(tf.zeros([]), "c"), self.beta2)))
        rate, scale = self.lr / c1, 1 / tf.sqrt(c2)
        for x, g in zip(variables, grads):
            m, v = tf.Variable(_sym.zeros_like(x), "m"), tf.Variable(_sym.zeros_like(x), "v")
            mean = tf.assign(m, self.beta1 * m + (1 - self.beta1) * g)
            power = tf.assign(v, self.beta2 * v + (1 - self.beta2) * g * g)
            updates.append(tf.assign(x, x - rate * mean / (tf.sqrt(power) * scale + self.epsilon)))
        return tf.group(*updates)


class Training(unittest.TestCase):
    def train(self, loss: Any, step: Any, feeds: dict[Any, Array], steps: int = 60, stdev: float = 0.1) -> list[float]:
        session = tf.Session()
        first_values(session, loss, {k: v.shape for k, v in feeds.items()}, stdev)
        session.run(tf.initialize_all_variables())
        losses = [float(session.run([loss, step], feed_dict=feeds)[0]) for _ in range(steps)]
        self.assertLess(losses[-1], 0.3 * losses[0])
        self.session = session
        return losses

    def test_linear_regression_is_numpys(self) -> None:
        x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        w = tf.Variable(tf.zeros([3, 1]))
        loss = tf.reduce_mean((tf.matmul(x, w) - y) ** 2)
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        a = numbers(64, 3)
        b, at, session = a @ np.array([[1], [-2], [3]], np.float32), np.zeros((3, 1)), tf.Session()
        session.run(tf.initialize_all_variables())
        for _ in range(30):
            value, _none = session.run([loss, step], feed_dict={x: a, y: b})
            np.testing.assert_allclose(value, np.mean((a @ at - b) ** 2), rtol=1e-4)
            at = at - 0.1 * 2 / 64 * a.T @ (a @ at - b)
        np.testing.assert_allclose(session.run(w), at, rtol=1e-4)

    def test_softmax_by_hand_with_one_hot_labels(self) -> None:
        x, y_ = tf.placeholder(tf.float32, [None, 16]), tf.placeholder(tf.float32, [None, 4])
        w = tf.Variable(tf.zeros([16, 4]))
        y = tf.nn.softmax(tf.matmul(x, w))
        loss = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y + 1e-6), reduction_indices=[1]))
        step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        a, labels = clusters()
        session, onehot = tf.Session("cpu fusion"), np.eye(4)[labels.astype(int)]
        session.run(tf.initialize_all_variables())
        right = tf.reduce_mean(tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1)))
        for i in range(40):
            session.run(step, feed_dict={x: a[i * 10:i * 10 + 10], y_: onehot[i * 10:i * 10 + 10]})
            session.run(right, feed_dict={x: a, y_: onehot})  # train and test alternate
        self.assertGreater(session.run(right, feed_dict={x: a, y_: onehot}), 0.95)
        self.assertEqual(len(session._programs), 3)  # first values, training, test

    def test_logistic_by_hand(self) -> None:
        x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        w = tf.Variable(tf.zeros([16]))
        p = 1 / (1 + tf.exp(-tf.reduce_sum(x * w, reduction_indices=[1])))
        loss = -tf.reduce_mean(y * tf.log(p + 1e-6) + (1 - y) * tf.log(1 - p + 1e-6))
        a, labels = clusters(classes=2)
        self.train(loss, tf.train.GradientDescentOptimizer(0.5).minimize(loss), {x: a, y: labels})

    def test_layers_by_their_shapes(self) -> None:
        x, label = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        h = tf.nn.relu(tf.nn.linear(x, num_hidden=32, name="mlp1", no_bias=False))
        loss = tf.nn.mean_sparse_softmax_cross_entropy_with_logits(tf.nn.linear(h, num_hidden=4, name="mlp2"), label)
        a, labels = clusters()
        self.train(loss, tf.train.AdamOptimizer(0.01).minimize(loss), {x: a, label: labels})

    def test_users_adam_is_the_trains(self) -> None:
        a, labels = clusters()
        runs = []
        for optimizer in (UserAdam(0.01), tf.train.AdamOptimizer(0.01)):
            x, label = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
            logits = tf.nn.linear(x, num_hidden=4, name="of_adam", no_bias=False)
            loss = tf.nn.mean_sparse_softmax_cross_entropy_with_logits(logits, label)
            tf.set_seed(3)
            runs.append(self.train(loss, optimizer.minimize(loss), {x: a, label: labels}))
        np.testing.assert_allclose(runs[0], runs[1], rtol=1e-3)

    def test_normalized_convolutions_with_same_padding(self) -> None:
        x, label = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        h = tf.nn.conv2d(x, num_filter=8, ksize=[1, 3, 3, 1], padding="SAME", name="same")
        h = tf.nn.relu(tf.nn.batch_normalization(h, name="same_norm"))
        h = tf.nn.avg_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME", data_format="NCHW")
        logits = tf.nn.linear(tf.nn.flatten_layer(h), num_hidden=4, name="same_out", no_bias=False)
        loss = tf.nn.mean_sparse_softmax_cross_entropy_with_logits(logits, label)
        a, labels = clusters(count=100, size=64)
        losses = self.train(loss, tf.train.AdamOptimizer(0.02).minimize(loss), {x: a.reshape(-1, 1, 8, 8), label: labels}, stdev=0.5)
        self.assertTrue(math.isfinite(losses[-1]))

    @unittest.skipUnless(tf.datasets.FASHION_MNIST.is_dir(), "Fashion-MNIST is not installed")
    def test_lenet_is_pytorchs(self) -> None:
        reference = json.loads((ROOT / "tinyflow_demo/reference/lenet.json").read_text())
        x, label = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        h = tf.tanh(tf.nn.conv2d(x, num_filter=20, ksize=[1, 5, 5, 1], name="conv1", no_bias=False))
        h = tf.nn.max_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1])
        h = tf.tanh(tf.nn.conv2d(h, num_filter=50, ksize=[1, 5, 5, 1], name="conv2", no_bias=False))
        h = tf.nn.flatten_layer(tf.nn.max_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1]))
        h = tf.nn.tanh(tf.nn.linear(h, num_hidden=500, name="fc1", no_bias=False))
        logits = tf.nn.linear(h, num_hidden=10, name="fc2", no_bias=False)
        loss = tf.nn.mean_sparse_softmax_cross_entropy_with_logits(logits, label)
        step = PyTorchAdam(1e-3, epsilon=1e-8).minimize(loss)
        session, fan_in = tf.Session(), 1
        for v, name, shape in tf.infer_variable_shapes(loss, feed_dict={x: [64, 1, 28, 28], label: [64]}):
            fan_in = int(np.prod(shape[1:])) if name.endswith("_weight") else fan_in
            session.run(tf.assign(v, hashed(reference["tensors"].index(name.replace("_", ".")), shape, 1 / math.sqrt(fan_in))))
        session.run(tf.initialize_all_variables())
        train, losses = tf.datasets.get_mnist().train, []
        for i in range(20):
            at = slice(64 * i, 64 * i + 64)
            losses.append(session.run([loss, step], feed_dict={x: train.images[at], label: train.labels[at]})[0])
        # As far from double precision as PyTorch's own variants in single precision are.
        spread = np.maximum(np.abs(np.subtract(reference["free_run_lowest"], reference["free_run_float64"])),
                            np.abs(np.subtract(reference["free_run_highest"], reference["free_run_float64"])))
        self.assertLess(float(np.max(np.abs(np.subtract(losses, reference["free_run_float64"])))), 2 * float(spread.max()) + 1e-6)


def hashed(number: int, shape: list[int], bound: float) -> Array:
    """First values as tinyflow_demo/reference/common.py makes them."""
    def mix(*words: Any) -> Any:
        z: Any = np.uint64(0)
        with np.errstate(over="ignore"):
            for w in words:
                z = (z ^ np.asarray(w, np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
                z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                z = z ^ (z >> np.uint64(31))
        return z

    order = np.arange(np.prod(shape)).reshape(shape if len(shape) != 2 else shape[::-1])
    unit = (mix(101, number, order.T if len(shape) == 2 else order) >> np.uint64(40)).astype(np.float64) * 2.0**-24
    return np.asarray(bound * (2 * unit - 1), np.float32)


if __name__ == "__main__":
    unittest.main()
