"""weft.Tensor, and what it shares with numpy."""

from __future__ import annotations

import gc
import pickle
import unittest
from typing import Any

import numpy as np
from common import Array, floats

import weft


class TensorTest(unittest.TestCase):
    def test_from_and_to_arrays(self) -> None:
        x = floats(2, 3)
        t, view = weft.Tensor(x), weft.Tensor(x, copy=False)
        self.assertEqual((t.dtype, t.shape, t.ndim, t.size, t.nbytes, len(t)), ("f32", (2, 3), 2, 6, 24, 2))
        x[0, 0] = 7
        self.assertNotEqual(t, view)
        self.assertEqual(view.numpy()[0, 0], 7)
        np.testing.assert_array_equal(np.asarray(view), x)
        self.assertEqual(np.asarray(t, np.float64).dtype, np.float64)
        self.assertEqual(weft.Tensor([1, 2], "i32").tolist(), [1, 2])
        self.assertEqual(weft.Tensor(3.5, "f64").item(), 3.5)
        self.assertEqual(weft.Tensor.empty((2, 2), "i8").tolist(), [[0, 0], [0, 0]])
        for array in (t.numpy(), view.numpy()):
            del t, view
            gc.collect()
            t = view = weft.Tensor(array)
        self.assertIn("f32[2, 3]", repr(t))

    def test_dlpack(self) -> None:
        x = floats(4)
        t = weft.Tensor(x)
        array = np.from_dlpack(t)
        del t
        gc.collect()
        np.testing.assert_array_equal(array, x)
        for version in (None, (1, 0)):
            weft.Tensor(x).__dlpack__(max_version=version)  # nobody takes it
        self.assertEqual(weft.Tensor(x).__dlpack_device__(), (1, 0))
        shared = weft.Tensor(x)
        np.from_dlpack(shared, copy=True)[0] = 9
        np.testing.assert_array_equal(shared.numpy(), x)

    def test_read_only(self) -> None:
        x = floats(4)
        x.flags.writeable = False
        t = weft.Tensor(x, copy=False)
        self.assertTrue(t.read_only)
        with self.assertRaises(ValueError):
            t.numpy()[0] = 1
        self.assertFalse(weft.Tensor(x).read_only)
        self.assertEqual(t.place, "the host")

    def test_constants_are_copies(self) -> None:
        array, t = np.zeros(3, np.float32), weft.Tensor(np.zeros(2, np.float32))
        g = weft.Graph()
        g.outputs = [g.constant([array], dtype="seq(f32)"), weft.ops.Constant(value=t, graph=g)]
        array[:] = 7
        t.numpy()[:] = 7
        sequence, constant = weft.Session(weft.compile(g)).run()
        np.testing.assert_array_equal(sequence[0], [0, 0, 0])
        np.testing.assert_array_equal(constant, [0, 0])

    def test_another_framework(self) -> None:
        class Foreign:
            def __init__(self, array: Array, versioned: bool) -> None:
                self.array, self.versioned = array, versioned

            def __dlpack__(self, **options: Any) -> Any:
                return self.array.__dlpack__(**options) if self.versioned else self.array.__dlpack__()

        x = floats(3, 4)
        for given in (x, x.T, x[::2]):
            for versioned in (False, True):
                np.testing.assert_array_equal(weft.Tensor(Foreign(given, versioned)).numpy(), given)

        class Refusing:
            def __dlpack__(self, **options: object) -> object:
                raise BufferError("no view")

        with self.assertRaises(weft.BadInputError):
            weft.Tensor(Refusing())

    def test_pickle(self) -> None:
        for t in (weft.Tensor(floats(2, 3)), weft.Tensor(["a", "b"]), weft.Tensor([1, 2], "bf16")):
            self.assertEqual(pickle.loads(pickle.dumps(t)), t)

    def test_dtype_names(self) -> None:
        for given in ("f32", "float32", np.float32, np.dtype("<f4")):
            self.assertEqual(weft.dtype_of(given), "f32")
        self.assertEqual(weft.dtype_of("bfloat16"), "bf16")
        self.assertEqual(weft.dtype_of(str), "str")
        self.assertEqual(weft.numpy_dtype("i64"), np.dtype("int64"))
        for wrong in ("f33", object(), np.dtype([("x", "f4")]), None):
            with self.assertRaises(TypeError):
                weft.dtype_of(wrong)


if __name__ == "__main__":
    unittest.main()
