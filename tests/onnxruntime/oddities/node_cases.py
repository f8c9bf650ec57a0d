"""node_cases.py: oddities of single nodes: their names, operands, results and attributes."""
import numpy as np
import onnx
from onnx import helper

from parts import I64, Case, branches, case, chain, edited, graph_at, info, model, node, tensor, values

def named_nodes(*names):
    def edit(m):
        for n, text in zip(m.graph.node, names):
            n.name = text
    return edit


@case
def node_names_twice():
    c = Case()
    c.warns = "two-node-names"
    c.good = chain()
    c.odd = edited(c.good, named_nodes("n", "n", "n", "n"))
    c.twins["results too"] = edited(c.good, lambda m: m.graph.node[2].output.__setitem__(0, "a"))
    return c


@case
def node_names_missing():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, named_nodes("", "", "", ""))
    return c


@case
def node_named_as_a_value():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, named_nodes("m", "x", "w", "y"))
    return c


@case
def node_that_nobody_reads():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.node.append(node("Neg", ["m"], ["dead"])))
    c.twins["nonsense"] = edited(c.good, lambda m: m.graph.node.append(node("Neg", ["nothing"], ["dead"])))
    return c


def one_node(op, inputs, y_shape=(2, 3), weights=(), opset=17, outputs=("y",), **attributes):
    return model([node(op, list(inputs), list(outputs), **attributes)], [info("x", [2, 3])], [info("y", list(y_shape))], weights,
                 opset=opset)


@case
def operand_absent_in_the_middle():
    high = tensor("high", np.float32(1).reshape(()))
    c = Case()
    c.good = one_node("Min", ["x", "high"], weights=[high])
    c.odd = one_node("Clip", ["x", "", "high"], weights=[high])
    c.twins["of two"] = one_node("Add", ["", "x"])
    return c


@case
def operand_absent_at_the_end():
    low = tensor("low", np.float32(0).reshape(()))
    c = Case()
    c.good = one_node("Clip", ["x", "low"], weights=[low])
    c.odd = one_node("Clip", ["x", "low", ""], weights=[low])
    c.twins["required"] = one_node("Add", ["x", ""])
    c.twins["more than there are"] = one_node("Relu", ["x", ""])
    return c


@case
def operands_absent_of_resize():
    sizes = tensor("sizes", np.array([4, 6], np.int64))
    c = Case()
    c.good = one_node("Resize", ["x", "roi", "", "sizes"], (4, 6), [sizes, tensor("roi", np.zeros(0, np.float32))],
                      coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor")
    c.odd = one_node("Resize", ["x", "", "", "sizes"], (4, 6), [sizes], coordinate_transformation_mode="asymmetric",
                     mode="nearest", nearest_mode="floor")
    c.twins["neither scales nor sizes"] = one_node("Resize", ["x", "", "", ""], (4, 6))
    return c


@case
def result_absent():
    c = Case()
    c.good = one_node("Dropout", ["x"])
    c.odd = one_node("Dropout", ["x"], outputs=("y", ""))
    c.twins["too many"] = one_node("Relu", ["x"], outputs=("y", "z"))
    return c


def two_best(outputs, count=2):
    """y = Relu(x), and the two largest of each row, of which nobody reads the values."""
    k = tensor("k", np.array([2], np.int64))
    nodes = [node("Relu", ["x"], ["y"]), node("TopK", ["x", "k"], list(outputs))]
    return model(nodes, [info("x", [2, 3])], [info("y", [2, 3])] + ([info("i", [2, 2], I64)] if "i" in outputs else []), [k])


@case
def result_required_and_unnamed():
    c = Case()
    c.warns = "unnamed-result"
    c.good, c.odd = two_best(["v", "i"]), two_best(["", "i"])
    c.twins["no result"] = two_best([])
    c.twins["read all the same"] = edited(c.odd, lambda m: m.graph.node.append(node("Neg", ["v"], ["n"])))
    return c


@case
def results_all_unnamed():
    c = result_required_and_unnamed()
    c.good, c.odd = two_best(["v", "w"]), two_best(["", ""])
    return c


def attributed(**more):
    """An edit: what else the attribute of a LeakyRelu says; None clears a field."""
    def edit(m):
        a = m.graph.node[0].attribute[0]
        for field, value in more.items():
            if value is None:
                a.ClearField(field)
            else:
                setattr(a, field, value)
    return edit


@case
def attribute_without_a_type():
    """As the exporters of 2017 wrote them."""
    c = Case()
    c.warns = "untyped-attribute"
    c.good = one_node("LeakyRelu", ["x"], alpha=0.5)
    c.odd = edited(c.good, attributed(type=None))
    c.twins["two values"] = edited(c.good, attributed(type=None, i=1))
    c.twins["no value"] = edited(c.good, attributed(type=None, f=None))
    c.twins["of another type"] = edited(c.good, attributed(type=None, f=None, i=1))
    c.twins["type that the value is not"] = edited(c.good, attributed(type=onnx.AttributeProto.INT))
    return c


@case
def attribute_list_without_a_type():
    c = Case()
    c.warns = "untyped-attribute"
    c.good = one_node("Transpose", ["x"], (3, 2), perm=[1, 0])
    c.odd = edited(c.good, attributed(type=None))
    c.twins["of strings"] = edited(c.good, lambda m: m.graph.node[0].attribute[0].ClearField("ints"), attributed(type=None),
                                   lambda m: m.graph.node[0].attribute[0].strings.extend([b"1", b"0"]))
    return c


@case
def attribute_without_a_value():
    """A float 0, from a writer that leaves zeros out."""
    c = Case()
    c.good = one_node("LeakyRelu", ["x"], alpha=0.0)
    c.odd = edited(c.good, attributed(f=None))
    return c


@case
def convolution_of_opset_1():
    c = Case()
    c.good = one_node("Conv", ["i", "k"], weights=[tensor("i", values(1, 1, 2, 3)), tensor("k", values(1, 1, 1, 1))],
                      y_shape=(1, 1, 2, 3), opset=6)
    c.odd = edited(c.good, lambda m: setattr(m.opset_import[0], "version", 1))
    c.twins["unknown attribute"] = edited(c.odd, lambda m: m.graph.node[0].attribute.append(helper.make_attribute("consumed", [0])))
    return c


@case
def function_that_nobody_calls():
    c = Case()
    c.good = chain()
    f = helper.make_function("d", "F", ["a"], ["b"], [node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 17)])
    c.odd = edited(c.good, lambda m: m.functions.append(f))
    c.twins["two of one name"] = edited(c.good, lambda m: m.functions.extend([f, f]))
    return c


@case
def name_of_a_branch_hides_an_outer_one():
    c = Case()
    c.good = branches()
    def rename(m):
        g = graph_at(m, ["then_branch"])
        g.node[0].output[0] = g.node[1].input[0] = "sum"
    c.odd = edited(c.good, rename)
    c.warns = "hidden-name"
    return c


@case
def metadata_twice():
    c = Case()
    c.good = chain()
    def edit(m):
        for value in ("a", "b"):
            entry = m.metadata_props.add()
            entry.key, entry.value = "author", value
    c.odd = edited(c.good, edit)
    return c


@case
def graph_without_a_name():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.ClearField("name"))
    return c
