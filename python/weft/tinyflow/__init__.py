"""TinyFlow's calls (2016) on Weft: programs that say `import tinyflow as tf` say `from weft import tinyflow as tf`."""

from weft.tinyflow import datasets as datasets
from weft.tinyflow import graph as graph
from weft.tinyflow import nn as nn
from weft.tinyflow import symbol as _base
from weft.tinyflow import symbol as symbol
from weft.tinyflow import train as train
from weft.tinyflow.graph import infer_variable_shapes
from weft.tinyflow.session import Session
from weft.tinyflow.symbol import (
    Variable, argmax, assign, equal, exp, float32, gradients, group, initialize_all_variables, log, matmul, normal, ones, placeholder,
    pow, reduce_mean, reduce_sum, set_seed, sqrt, tanh, zeros, zeros_like,
)

__all__ = [
    "Session", "Variable", "_base", "argmax", "assign", "datasets", "equal", "exp", "float32", "gradients", "graph", "group",
    "infer_variable_shapes", "initialize_all_variables", "log", "matmul", "nn", "normal", "ones", "placeholder", "pow", "reduce_mean",
    "reduce_sum", "set_seed", "sqrt", "symbol", "tanh", "train", "zeros", "zeros_like",
]
