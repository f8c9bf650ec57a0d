"""parts.py: what the cases are made of: a case, small models, edits of them, and all of it in memory."""
import copy

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
CASES = {}  # name -> function that makes a Case


class Case:
    """What one oddity is tried with: models, or functions that write one into a folder and return its path."""

    def __init__(self):
        self.good = self.odd = None
        self.twins = {}
        self.inputs = {"x": np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)}
        self.warns = ""  # codes of the warnings; none: the file is valid


def case(function):
    CASES[function.__name__] = function
    return function


def values(*shape):
    count = int(np.prod(shape))
    return (np.arange(count, dtype=np.float32) % 7 - 3).reshape(shape) / 4


def tensor(name, array):
    return numpy_helper.from_array(array, name)


def info(name, shape, dtype=F32):
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def model(nodes, inputs, outputs, initializers=(), value_info=(), opset=17, ir=8, functions=(), domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers), value_info=list(value_info))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, v) for d, v in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir, functions=list(functions))


def chain(batch=2, value_info=()):
    """y = Relu(x w + b) s"""
    nodes = [node("MatMul", ["x", "w"], ["m"], name="product"), node("Add", ["m", "b"], ["a"], name="bias"),
             node("Relu", ["a"], ["r"], name="act"), node("Mul", ["r", "s"], ["y"], name="scale")]
    weights = [tensor("w", values(3, 4)), tensor("b", values(4)), tensor("s", np.float32(1.5).reshape(()))]
    return model(nodes, [info("x", [batch, 3])], [info("y", [batch, 4])], weights, value_info)


def branches():
    """y = If(sum(x) > 0) then Neg(Relu(x)) else Add(Abs(x), x), with two nodes a branch"""
    then = helper.make_graph([node("Relu", ["x"], ["t1"]), node("Neg", ["t1"], ["t2"])], "then", [], [info("t2", [2, 3])])
    other = helper.make_graph([node("Abs", ["x"], ["e1"]), node("Add", ["e1", "x"], ["e2"])], "else", [], [info("e2", [2, 3])])
    nodes = [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "zero"], ["c"]),
             node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    return model(nodes, [info("x", [2, 3])], [info("y", [2, 3])], [tensor("zero", np.float32(0).reshape(()))])


def loop():
    """y = x doubled and shifted three times"""
    body = helper.make_graph(
        [node("Add", ["v", "v"], ["d"]), node("Sub", ["d", "one"], ["v2"]), node("Identity", ["go"], ["go2"])], "body",
        [info("i", [], I64), info("go", [], TensorProto.BOOL), info("v", [2, 3])],
        [info("go2", [], TensorProto.BOOL), info("v2", [2, 3])], [tensor("one", np.float32(1).reshape(()))])
    return model([node("Loop", ["three", "", "x"], ["y"], body=body)], [info("x", [2, 3])], [info("y", [2, 3])],
                 [tensor("three", np.int64(3).reshape(()))])


def scan():
    body = helper.make_graph([node("Add", ["s", "e"], ["t"]), node("Relu", ["t"], ["s2"]), node("Neg", ["s2"], ["o"])], "body",
                             [info("s", [3]), info("e", [3])], [info("s2", [3]), info("o", [3])])
    return model([node("Scan", ["z", "x"], ["last", "y"], body=body, num_scan_inputs=1)], [info("x", [2, 3])],
                 [info("y", [2, 3])], [tensor("z", values(3))])


def calls(body=None, imports=None):
    """y = d.F(d.F(x)), a function of the model: F(a) = Neg(Relu(a))"""
    body = body or [node("Relu", ["a"], ["t"]), node("Neg", ["t"], ["b"])]
    imports = [helper.make_opsetid("", 17)] if imports is None else imports
    f = helper.make_function("d", "F", ["a"], ["b"], body, imports)
    nodes = [node("F", ["x"], ["f"], domain="d"), node("F", ["f"], ["y"], domain="d")]
    return model(nodes, [info("x", [2, 3])], [info("y", [2, 3])], functions=[f], domains=[("d", 1)])


def edited(m, *edits):
    m = copy.deepcopy(m)
    for edit in edits:
        edit(m)
    return m


def nodes_as(order, path=()):
    """An edit: the nodes of the graph, or of a graph inside of a node, in another order."""
    def edit(m):
        g = graph_at(m, path)
        old = [copy.deepcopy(n) for n in g.node]
        del g.node[:]
        g.node.extend(old[i] for i in order)
    return edit


def graph_at(m, path):
    g = m.graph
    for name in path:
        g = next(a.g for n in g.node for a in n.attribute if a.name == name)
    return g


def rewired(at, k, name, path=()):
    def edit(m):
        graph_at(m, path).node[at].input[k] = name
    return edit


def dim_of(m, what="input", at=0, k=0):
    return getattr(m.graph, what)[at].type.tensor_type.shape.dim[k]


def with_dim(value, what="input", at=0, k=0):
    def edit(m):
        d = dim_of(m, what, at, k)
        if isinstance(value, str):
            d.dim_param = value
        elif value is None:
            d.Clear()
        else:
            d.dim_value = value
    return edit
