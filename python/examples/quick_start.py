"""A graph by hand: built, looked at, compiled, run."""

import numpy as np

import weft

g = weft.Graph("mlp")
x = g.input("x", "f32", ["batch", 784])
w = g.param("w", np.full((784, 10), 0.01, np.float32))
y = weft.ops.Softmax(x @ w + 1.0, axis=-1)
g.outputs = {"y": y}
g.infer()
print(y.dtype, y.shape)

fused = weft.apply_passes(g, "Simplify,Fusion")
print(fused)

session = weft.Session(weft.compile(g))
[result] = session.run(np.ones((2, 784), np.float32))
print(result.shape, float(result.sum()))
