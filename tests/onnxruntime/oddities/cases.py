"""cases.py: models with one oddity each, as real tools write them, and twins of each that are wrong.

A case is a model, the same model without its oddity, and twins: models that look alike and mean nothing, or too much. All of
them are made here, by onnx's own helpers.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper

from parts import (F32, I64, Case, branches, calls, case, chain, edited, graph_at, info, loop, model, node, nodes_as, rewired,
                   scan, tensor, values, with_dim)


# ---- order of nodes ----

def ordered(good, order, twin, path=(), warns="node-order"):
    c = Case()
    c.good, c.warns = good, warns
    c.odd = edited(good, nodes_as(order, path))
    c.twins = {"cycle": edited(good, twin)}
    return c


@case
def order_reversed():
    return ordered(chain(), [3, 2, 1, 0], rewired(0, 0, "r"))


@case
def order_casts_at_the_end():
    """As ONNX Runtime's float16 converter appends them."""
    good = chain()
    g = good.graph
    g.node[2].input[0] = "a32"
    g.node.insert(2, node("Cast", ["a16"], ["a32"], to=F32))
    g.node.insert(2, node("Cast", ["a"], ["a16"], to=TensorProto.FLOAT16))
    c = ordered(good, [0, 1, 4, 5, 2, 3], rewired(2, 0, "a32"))
    c.twins["undefined"] = edited(good, rewired(2, 0, "nothing"))
    return c


@case
def order_first_reads_last():
    return ordered(chain(), [1, 2, 3, 0], rewired(1, 0, "a"))


@case
def order_in_a_branch():
    return ordered(branches(), [1, 0], rewired(0, 0, "t2", ("then_branch",)), ("then_branch",))


@case
def order_in_the_other_branch():
    return ordered(branches(), [1, 0], rewired(0, 0, "e2", ("else_branch",)), ("else_branch",))


@case
def order_in_a_loop():
    return ordered(loop(), [1, 2, 0], rewired(0, 0, "v2", ("body",)), ("body",))


@case
def order_in_a_scan():
    return ordered(scan(), [2, 1, 0], rewired(0, 0, "o", ("body",)), ("body",))


@case
def order_of_what_a_branch_reads():
    """The If stands before the node whose result its branch uses."""
    good = branches()
    good.graph.node.insert(0, node("Mul", ["x", "x"], ["square"]))
    graph_at(good, ["then_branch"]).node[0].input[0] = "square"
    return ordered(good, [1, 2, 3, 0], rewired(0, 0, "y"))


@case
def order_in_a_function():
    c = Case()
    c.warns = "node-order"
    c.good = calls()
    c.odd = calls([node("Neg", ["t"], ["b"]), node("Relu", ["a"], ["t"])])
    c.twins["cycle"] = calls([node("Neg", ["t"], ["b"]), node("Relu", ["b"], ["t"])])
    return c


@case
def order_of_constants():
    """Constants behind what reads them, as graph editors append them."""
    good = chain()
    good.graph.node.insert(0, node("Constant", [], ["half"], value=tensor("", np.float32(0.5).reshape(()))))
    good.graph.node[4].input[1] = "half"
    return ordered(good, [1, 2, 3, 4, 0], rewired(2, 0, "y"))


@case
def order_of_outputs():
    """Both results of a Split, in front of it."""
    nodes = [node("Split", ["x", "parts"], ["a", "b"], axis=1), node("Neg", ["b"], ["n"]), node("Concat", ["n", "a"], ["y"], axis=1)]
    good = model(nodes, [info("x", [2, 3])], [info("y", [2, 3])], [tensor("parts", np.array([1, 2], np.int64))])
    return ordered(good, [2, 1, 0], rewired(0, 0, "y"))


@case
def order_of_two_hundred():
    nodes = [node("Sub" if i % 3 else "Add", [f"t{i}", "x"], [f"t{i + 1}"]) for i in range(200)]
    good = model(nodes, [info("t0", [2, 3]), info("x", [2, 3])], [info("t200", [2, 3])])
    order = np.random.RandomState(5).permutation(200).tolist()
    c = ordered(good, order, rewired(0, 0, "t200"))
    c.inputs = {"t0": values(2, 3), **c.inputs}
    return c


# ---- dims ----

def with_input_dim(value, k=0, warns="", twins=()):
    c = Case()
    c.warns = warns
    c.good = chain("N")
    c.odd = edited(c.good, with_dim(value, k=k), *([with_dim(value, "output", k=k)] if k == 0 else []))
    for twin in twins:
        c.twins[f"dim {twin}"] = edited(c.good, with_dim(twin, k=k))
    return c


@case
def dim_minus_one():
    return with_input_dim(-1, warns="minus-one-dim", twins=(-2, -(1 << 63)))


@case
def dims_all_minus_one():
    c = with_input_dim(-1, warns="minus-one-dim", twins=(-3,))
    c.odd = edited(c.odd, with_dim(-1, k=1), with_dim(-1, "output", k=1))
    return c


@case
def dim_minus_one_of_an_output():
    c = with_input_dim("N", warns="minus-one-dim")
    c.odd = edited(c.good, with_dim(-1, "output"))
    c.twins["dim -2"] = edited(c.good, with_dim(-2, "output"))
    return c


@case
def dim_minus_one_in_between():
    c = Case()
    c.warns = "minus-one-dim"
    c.good = chain("N")
    c.odd = chain("N", [info("m", [-1, 4])])
    c.twins["dim -2"] = chain("N", [info("m", [-2, 4])])
    return c


@case
def dim_minus_one_in_a_loop():
    c = Case()
    c.warns = "minus-one-dim"
    c.good = loop()
    c.odd = edited(c.good)
    c.twins["dim -2"] = edited(c.good)
    for m, value in ((c.odd, -1), (c.twins["dim -2"], -2)):
        graph_at(m, ["body"]).input[2].type.tensor_type.shape.dim[0].dim_value = value
    return c


@case
def dim_without_a_value():
    return with_input_dim(None)


DIM_NAMES = {
    "question_mark": "?", "unk": "unk__12", "space": "batch size", "minus": "seq-len", "plus": "N+1", "product": "2*h",
    "quotient": "N/2", "call": "floor(N/2)", "min": "min", "mod": "mod", "bcast": "bcast", "unbacked": "u0",
    "number": "12", "minus_one_text": "-1", "none": "None", "underscore": "_", "dollar": "$N", "quote": 'N"x\'', "percent": "%d",
    "brackets": "[N]", "comma": "a,b", "colon": "dim:0", "slash": "Transpose_dim/0", "unicode": "\u6279\u91cf", "long": "n" * 400,
    "newline": "a\nb", "star": "*", "hash": "#0", "equals": "N=2",
}


def named_dim(key):
    def make():
        return with_input_dim(DIM_NAMES[key])
    make.__name__ = f"dim_named_{key}"
    return case(make)


for name_key in DIM_NAMES:
    named_dim(name_key)


@case
def dims_that_share_a_question_mark():
    """MXNet and others name every unknown dim "?"; the dims differ."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    def of(a, b, k):
        return model(nodes, [info("x", [a, b]), info("w", [b, k])], [info("y", [a, k])])
    c = Case()
    c.good, c.odd = of("a", "b", "c"), of("?", "?", "?")
    c.inputs["w"] = values(3, 4)
    return c


# ---- header ----

@case
def opset_missing():
    c = Case()
    c.warns = "missing-opset"
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.ClearField("opset_import"))
    c.twins["custom operator"] = edited(c.odd, lambda m: setattr(m.graph.node[2], "domain", "nobody"))
    c.twins["unknown operator"] = edited(c.odd, lambda m: setattr(m.graph.node[2], "op_type", "Rellu"))
    return c


@case
def opset_missing_of_the_default_domain():
    c = Case()
    c.warns = "missing-opset"
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.opset_import[0].CopyFrom(helper.make_opsetid("ai.onnx.ml", 3)))
    c.twins["custom operator"] = edited(c.odd, lambda m: setattr(m.graph.node[2], "domain", "nobody"))
    return c


@case
def opset_missing_in_2019():
    """Softmax of IR version 6 runs over all axes behind the first, the one of today over the last."""
    c = Case()
    c.warns = "missing-opset"
    c.good = model([node("Softmax", ["x"], ["y"])], [info("x", [1, 2, 3])], [info("y", [1, 2, 3])], opset=11, ir=6)
    c.odd = edited(c.good, lambda m: m.ClearField("opset_import"))
    c.inputs = {"x": values(1, 2, 3)}
    c.twins["attribute of another version"] = edited(
        c.odd, lambda m: m.graph.node[0].attribute.append(helper.make_attribute("stash_type", 1)))
    return c


@case
def opset_missing_of_ml():
    c = Case()
    c.warns = "missing-opset"
    nodes = [node("Binarizer", ["x"], ["t"], domain="ai.onnx.ml", threshold=0.5), node("Relu", ["t"], ["y"])]
    c.good = model(nodes, [info("x", [2, 3])], [info("y", [2, 3])], domains=[("ai.onnx.ml", 3)])
    c.odd = edited(c.good, lambda m: m.opset_import.pop())
    c.twins["custom domain"] = edited(c.odd, lambda m: setattr(m.graph.node[0], "domain", "nobody"))
    return c


def with_opset(version, domain=""):
    def edit(m):
        for entry in m.opset_import:
            if entry.domain == domain:
                entry.version = version
    return edit


@case
def opset_newer():
    c = Case()
    c.warns = "newer-opset"
    c.good = edited(chain(), with_opset(22))
    c.odd = edited(c.good, with_opset(29))
    c.twins["unknown attribute"] = edited(c.odd, lambda m: m.graph.node[2].attribute.append(helper.make_attribute("slope", 1.0)))
    c.twins["unknown operator"] = edited(c.odd, lambda m: setattr(m.graph.node[2], "op_type", "Rellu"))
    c.twins["one more operand"] = edited(c.odd, lambda m: m.graph.node[2].input.append("s"))
    c.twins["opset 1000"] = edited(c.good, with_opset(1000))
    c.twins["opset 0"] = edited(c.good, with_opset(0))
    return c


@case
def opset_newer_of_an_unused_domain():
    c = Case()
    c.warns = "newer-opset"
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx.ml", 9)))
    c.twins["version -1"] = edited(c.good, lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx.ml", -1)))
    return c


@case
def opset_of_a_domain_that_nobody_uses():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.opset_import.append(helper.make_opsetid("com.acme", 7)))
    return c


@case
def opset_imported_twice():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.opset_import.append(helper.make_opsetid("", 17)))
    c.twins["version 0"] = edited(c.good, lambda m: m.opset_import.append(helper.make_opsetid("", 0)))
    return c


@case
def opset_imported_in_two_versions():
    c = opset_imported_twice()
    c.warns = "two-opsets"
    c.odd = edited(c.good, lambda m: m.opset_import.append(helper.make_opsetid("", 16)))
    return c


@case
def opset_by_its_long_name():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: setattr(m.opset_import[0], "domain", "ai.onnx"))
    return c


@case
def opset_missing_in_a_function():
    c = Case()
    c.warns = "missing-opset"
    c.good = calls()
    c.odd = calls(imports=[])
    c.twins["custom operator"] = calls([node("Relu", ["a"], ["t"]), node("Neg", ["t"], ["b"], domain="nobody")], [])
    return c


@case
def opset_of_2017():
    """Operator set 1: Not, MatMul and Softmax are as they were."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Softmax", ["m"], ["y"], axis=1)]
    c = Case()
    c.good = model(nodes, [info("x", [2, 3])], [info("y", [2, 4])], [tensor("w", values(3, 4))], opset=11)
    c.odd = edited(c.good, with_opset(1))
    c.twins["no operator"] = edited(c.odd, lambda m: setattr(m.graph.node[1], "op_type", "Sygn"))
    c.twins["attribute of later"] = edited(c.odd, lambda m: m.graph.node[0].attribute.append(helper.make_attribute("axis", 0)))
    return c


@case
def operator_newer_than_the_opset():
    """ONNX Runtime's optimizer makes LayerNormalization of 17 whatever the file imports."""
    c = Case()
    c.warns = "newer-operator"
    weights = [tensor("s", values(3)), tensor("b", values(3))]
    c.good = model([node("LayerNormalization", ["x", "s", "b"], ["y"])], [info("x", [2, 3])], [info("y", [2, 3])], weights)
    c.odd = edited(c.good, with_opset(11))
    c.twins["misspelled"] = edited(c.odd, lambda m: setattr(m.graph.node[0], "op_type", "LayerNormalisation"))
    c.twins["no such attribute"] = edited(c.odd, lambda m: m.graph.node[0].attribute.append(helper.make_attribute("groups", 2)))
    c.twins["one operand"] = edited(c.odd, lambda m: m.graph.node[0].input.__delitem__(slice(1, 3)))
    return c


@case
def ir_missing():
    c = Case()
    c.warns = "missing-ir"
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.ClearField("ir_version"))
    c.twins["IR 99"] = edited(c.good, lambda m: setattr(m, "ir_version", 99))
    c.twins["IR -1"] = edited(c.good, lambda m: setattr(m, "ir_version", -1))
    return c


@case
def ir_zero():
    c = ir_missing()
    c.odd = edited(c.good, lambda m: setattr(m, "ir_version", 0))
    return c


@case
def ir_and_opset_missing():
    c = Case()
    c.warns = "missing-ir missing-opset"
    c.good = chain()
    c.odd = edited(c.good, lambda m: (m.ClearField("ir_version"), m.ClearField("opset_import")))
    c.twins["no graph"] = edited(c.odd, lambda m: m.ClearField("graph"))
    return c


@case
def ir_of_2017():
    """IR version 3: initializers are listed as inputs."""
    c = Case()
    c.good = edited(chain(), with_opset(8))
    c.odd = edited(c.good, lambda m: setattr(m, "ir_version", 3),
                   lambda m: m.graph.input.extend([info("w", [3, 4]), info("b", [4]), info("s", [])]))
    return c


# ---- value infos ----

def with_value_info(good, *infos):
    return edited(good, lambda m: m.graph.value_info.extend(infos))


@case
def value_info_of_nothing():
    c = Case()
    c.good = chain()
    c.odd = with_value_info(c.good, info("nothing", [7]))
    return c


@case
def value_info_twice():
    c = Case()
    c.warns = "two-value-infos"
    c.good = chain()
    c.odd = with_value_info(c.good, info("m", [2, 4]), info("m", [2, 4]))
    c.twins["no such dtype"] = with_value_info(c.good, info("m", [2, 4]), info("m", [2, 4], 777))
    return c


@case
def value_info_of_an_input():
    c = Case()
    c.good = chain()
    c.odd = with_value_info(c.good, info("x", [2, 3]), info("w", [3, 4]), info("y", [2, 4]))
    return c


@case
def value_info_without_a_type():
    c = Case()
    c.good = chain()
    c.odd = with_value_info(c.good, onnx.ValueInfoProto(name="m"))
    return c


@case
def declared_shape_wrong():
    c = Case()
    c.warns = "declared-shape"
    c.good = chain()
    c.odd = with_value_info(c.good, info("m", [2, 5]))
    c.twins["shape of the operand"] = edited(c.good, with_dim(4, k=1))
    return c


@case
def declared_rank_wrong():
    c = declared_shape_wrong()
    c.odd = with_value_info(c.good, info("a", [2, 4, 1]))
    return c


@case
def declared_batch_of_one():
    """An exporter that saw one example wrote its batch everywhere but into the inputs."""
    c = Case()
    c.good = chain("N")
    c.odd = with_value_info(c.good, info("m", [1, 4]), info("a", [1, 4]), info("r", [1, 4]))
    c.twins["dim -7"] = with_value_info(c.good, info("m", [-7, 4]))
    return c


@case
def declared_dtype_wrong():
    c = Case()
    c.warns = "declared-type"
    c.good = chain()
    c.odd = with_value_info(c.good, info("m", [2, 4], I64))
    c.twins["no such dtype"] = with_value_info(c.good, info("m", [2, 4], 777))
    c.twins["dtype of an output"] = edited(c.good, lambda m: m.graph.output[0].CopyFrom(info("y", [2, 4], I64)))
    return c


@case
def declared_dtype_of_half():
    """A converter to float16 that left the infos of before."""
    c = Case()
    c.warns = "declared-type"
    nodes = [node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16), node("Relu", ["h"], ["r"]), node("Cast", ["r"], ["y"], to=F32)]
    c.good = model(nodes, [info("x", [2, 3])], [info("y", [2, 3])])
    c.odd = with_value_info(c.good, info("r", [2, 3]))
    c.twins["operands of two dtypes"] = edited(c.good, lambda m: (m.graph.node[1].CopyFrom(node("Add", ["h", "x"], ["r"]))))
    return c


@case
def declared_shape_of_an_output_wrong():
    c = Case()
    c.warns = "declared-shape"
    c.good = chain()
    c.odd = edited(c.good, with_dim(5, "output", k=1))
    c.twins["dim -2"] = edited(c.good, with_dim(-2, "output", k=1))
    return c


@case
def declared_rank_of_an_output_wrong():
    c = Case()
    c.warns = "declared-shape"
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.output[0].CopyFrom(info("y", [4])))
    c.twins["dtype"] = edited(c.good, lambda m: m.graph.output[0].CopyFrom(info("y", [2, 4], TensorProto.DOUBLE)))
    return c


@case
def declared_shape_missing():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.output[0].type.tensor_type.ClearField("shape"))
    return c


@case
def declared_type_of_an_output_missing():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.output[0].ClearField("type"))
    return c


@case
def declared_symbols_of_an_output_differ():
    c = Case()
    c.good = chain("N")
    c.odd = edited(c.good, with_dim("M", "output"))
    return c


# ---- initializers ----

@case
def initializer_is_an_input():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.input.extend([info("w", [3, 4]), info("b", [4])]))
    c.twins["input twice"] = edited(c.good, lambda m: m.graph.input.extend([info("x", [2, 3])]))
    return c


@case
def initializer_is_an_input_of_another_shape():
    c = Case()
    c.warns = "declared-shape"
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.input.extend([info("w", [4, 3])]))
    c.twins["dtype"] = edited(c.good, lambda m: m.graph.input.extend([info("w", [3, 4], I64)]))
    return c


@case
def initializer_that_nobody_reads():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.initializer.append(tensor("spare", values(5))))
    c.twins["too short"] = edited(c.odd, lambda m: m.graph.initializer[3].dims.append(9))
    return c


@case
def initializer_twice_and_equal():
    c = Case()
    c.warns = "two-initializers"
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.initializer.append(tensor("w", values(3, 4))))
    c.twins["other values"] = edited(c.good, lambda m: m.graph.initializer.append(tensor("w", values(3, 4) + 1)))
    c.twins["other shape"] = edited(c.good, lambda m: m.graph.initializer.append(tensor("w", values(4, 3))))
    c.twins["result of that name"] = edited(c.good, lambda m: m.graph.initializer.append(tensor("m", values(2, 4))))
    return c


@case
def initializer_twice_in_two_encodings():
    """As raw bytes, and as a list of floats."""
    c = initializer_twice_and_equal()
    listed = helper.make_tensor("w", F32, [3, 4], values(12).tolist())
    c.odd = edited(c.good, lambda m: m.graph.initializer.append(listed))
    c.twins["one bit"] = edited(c.odd, lambda m: m.graph.initializer[3].float_data.__setitem__(5, 0.1))
    c.twins["one short"] = edited(c.odd, lambda m: m.graph.initializer[3].float_data.pop())
    return c


@case
def initializer_and_a_constant_of_one_name():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.initializer.append(tensor("spare", values(1))))
    c.twins["both"] = edited(c.good, lambda m: m.graph.node.insert(0, node("Constant", [], ["w"], value=tensor("", values(3, 4)))))
    return c


@case
def initializer_without_elements():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.initializer.append(tensor("roi", np.zeros(0, np.float32))))
    return c


@case
def initializer_given_out():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.output.append(info("w", [3, 4])))
    c.good = c.odd
    return c


# ---- inputs and outputs ----

@case
def output_twice():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.output.append(m.graph.output[0]))
    c.twins["nothing computes it"] = edited(c.good, lambda m: m.graph.output.append(info("z", [2, 4])))
    return c


@case
def output_twice_and_another():
    c = output_twice()
    c.good = edited(c.good, lambda m: m.graph.output.append(info("r", [2, 4])))
    c.odd = edited(c.good, lambda m: m.graph.output.append(info("y", [2, 4])))
    return c


@case
def output_is_an_input():
    c = Case()
    c.good = edited(chain(), lambda m: m.graph.output.append(info("x", [2, 3])))
    c.odd = c.good
    return c


@case
def input_that_nobody_reads():
    c = Case()
    c.good = edited(chain(), lambda m: m.graph.input.append(info("spare", [2])))
    c.odd = c.good
    c.inputs["spare"] = values(2)
    return c


@case
def input_without_an_element_type():
    c = Case()
    c.warns = "untyped-input"
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type"))
    c.twins["no such dtype"] = edited(c.good, lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 99))
    return c


@case
def input_without_a_type():
    c = input_without_an_element_type()
    c.good = model([node("Relu", ["x"], ["y"])], [info("x", [2, 3])], [info("y", [2, 3])])
    c.odd = edited(c.good, lambda m: m.graph.input[0].ClearField("type"))
    return c


@case
def input_without_a_shape():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"))
    return c


@case
def names_with_characters():
    c = Case()
    names = {"x": "x", "m": "model/layer:0", "a": "a b", "r": "\u00e9\u4e2d", "y": "y", "w": "w%d{}", "b": "b\"'\\"}
    c.good = chain()
    def rename(m):
        for n in m.graph.node:
            for k, v in enumerate(n.input):
                n.input[k] = names.get(v, v)
            for k, v in enumerate(n.output):
                n.output[k] = names.get(v, v)
        for t in m.graph.initializer:
            t.name = names.get(t.name, t.name)
    c.odd = edited(c.good, rename)
    return c


# ---- tensor payloads ----

@case
def bool_bytes_of_two():
    c = Case()
    mask = helper.make_tensor("mask", TensorProto.BOOL, [3], b"\x01\x00\x01", raw=True)
    c.good = model([node("Where", ["mask", "x", "zero"], ["y"])], [info("x", [2, 3])], [info("y", [2, 3])],
                   [mask, tensor("zero", np.float32(0).reshape(()))])
    c.odd = edited(c.good, lambda m: setattr(m.graph.initializer[0], "raw_data", b"\x02\x00\xff"))
    c.twins["too short"] = edited(c.good, lambda m: setattr(m.graph.initializer[0], "raw_data", b"\x02\x00"))
    return c


@case
def payload_in_lists():
    c = Case()
    c.good = chain()
    c.odd = edited(c.good, lambda m: m.graph.initializer[0].CopyFrom(helper.make_tensor("w", F32, [3, 4], values(12).tolist())))
    c.twins["both"] = edited(c.odd, lambda m: setattr(m.graph.initializer[0], "raw_data", values(12).tobytes()))
    c.twins["one short"] = edited(c.odd, lambda m: m.graph.initializer[0].float_data.pop())
    return c
