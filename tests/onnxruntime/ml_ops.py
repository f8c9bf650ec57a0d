#!/usr/bin/env python3
"""ml_ops.py [OP ...]: every operator of ai.onnx.ml, in the forms that ONNX Runtime's CPU provider takes, beside that provider;
and forms that must be refused, with what the message names.

Needs numpy, onnx, onnxruntime and the command weft (WEFT=build/bin/weft). Prints a line for each case that is wrong, and the
count."""
import itertools
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper

import peer

CASES, REFUSED = [], []
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
rng = np.random.default_rng(0)


class Case:
    """`x`: the operands; `types`: of those that are maps."""

    def __init__(self, op, x, outputs=1, version=3, types=None, **attrs):
        self.op, self.x, self.outputs, self.version, self.types = op, x, outputs, version, types
        self.attrs = {k: v for k, v in attrs.items() if v is not None}
        if op == "TreeEnsembleRegressor":
            self.attrs.setdefault("n_targets", 1)

    def model(self):
        names = [f"x{i}" for i in range(len(self.x))]
        inputs = []
        for i, x in enumerate(self.x):
            if self.types:
                inputs.append(helper.make_value_info(names[i], self.types[i]))
                continue
            kind = onnx.TensorProto.STRING if x.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(x.dtype)
            inputs.append(helper.make_tensor_value_info(names[i], kind, ["n" if k == 0 and x.ndim > 1 else d for k, d in enumerate(x.shape)]))
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, domain="ai.onnx.ml", name="it", **self.attrs)
        graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=o) for o in outputs])
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", self.version)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def feeds(self):
        return {f"x{i}": x for i, x in enumerate(self.x)}

    def __str__(self):
        text = ", ".join(f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else str(x) for x in self.x)
        return f"{self.op}-{self.version}({text}) {str({k: v for k, v in self.attrs.items() if not isinstance(v, list) or len(v) < 4})[:300]}"


def check(op, *x, **kw):
    CASES.append(Case(op, x, **kw))


def refuse(text, op, *x, **kw):
    REFUSED.append((text, Case(op, x, **kw)))


def numbers(*shape, dtype="f4"):
    return np.round(rng.normal(size=shape), 2).astype(dtype) if np.dtype(dtype).kind == "f" else rng.integers(-3, 4, shape).astype(dtype)


X = numbers(9, 3)
NUMERIC = ("f4", "f8", "i8", "i4")

# ---- features ----
for dtype in NUMERIC:
    check("Scaler", numbers(4, 3, dtype=dtype), offset=[1.0, 0.5, -1.0], scale=[2.0, 3.0, 0.25])
    check("Scaler", numbers(4, 3, dtype=dtype), offset=[1.5], scale=[0.5])
    for norm in ("MAX", "L1", "L2"):
        check("Normalizer", numbers(4, 3, dtype=dtype) * np.array([[1], [0], [-1], [2]], dtype), norm=norm)
    check("ArrayFeatureExtractor", numbers(4, 3, dtype=dtype), np.array([2, 0], "i8"))
    if dtype != "i4":
        check("OneHotEncoder", numbers(5, 1, dtype=dtype), cats_int64s=[-1, 0, 2, 3], zeros=1)
check("OneHotEncoder", numbers(5, 1, dtype="i8"), cats_int64s=[-1, 0, 2, 2], zeros=1)
check("OneHotEncoder", np.array([[1], [2]], "i8"), cats_int64s=[2, 1], zeros=0)
refuse("outside", "OneHotEncoder", np.array([[1], [7]], "i8"), cats_int64s=[2, 1], zeros=0)
check("OneHotEncoder", np.array([["a"], ["c"], ["?"]], object), cats_strings=["a", "b", "c"], zeros=1)
refuse("'cats_strings' has no elements", "OneHotEncoder", np.array([["a"]], object), cats_int64s=[1])
refuse("4 elements for 3 features", "Scaler", X, offset=[1.0] * 4, scale=[1.0])
refuse("expected MAX, L1 or L2", "Normalizer", X, norm="L3")
check("Normalizer", X[0], norm="L2")
check("Binarizer", X, threshold=0.5)
gaps = X.copy()
gaps[::2, 1] = np.nan
check("Imputer", gaps, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
check("Imputer", np.round(X), imputed_value_floats=[7.0], replaced_value_float=0.0)
check("Imputer", numbers(4, 3, dtype="i8"), imputed_value_int64s=[7, 8, 9], replaced_value_int64=1)
refuse("'imputed_value_floats' has no elements", "Imputer", X, imputed_value_int64s=[1])
check("FeatureVectorizer", X, numbers(9, 2), inputdimensions=[3, 2])
check("FeatureVectorizer", X, numbers(9, 2), inputdimensions=[2, 4])
refuse("1 elements for 2 inputs", "FeatureVectorizer", X, X, inputdimensions=[3])

# ---- labels and maps ----
words, some = np.array(["b", "a", "?"], object), np.array([2, 0, 9], "i8")
check("LabelEncoder", words, version=1, classes_strings=["a", "b"], default_int64=-5)
check("LabelEncoder", some, version=1, classes_strings=["a", "b", "c"], default_string="none")
check("LabelEncoder", words, version=2, keys_strings=["a", "b"], values_floats=[1.5, 2.5], default_float=-1.0)
check("LabelEncoder", some, version=2, keys_int64s=[2, 0], values_strings=["two", "zero"], default_string="none")
check("LabelEncoder", np.array([1.5, np.nan, 2], "f4"), version=4, keys_floats=[1.5, float("nan")], values_int64s=[3, 4], default_int64=0)
check("CategoryMapper", words, version=1, cats_strings=["a", "b"], cats_int64s=[10, 20], default_int64=-1)
check("CategoryMapper", some, version=1, cats_strings=["a", "b"], cats_int64s=[0, 2], default_string="none")
refuse("1 and 2 elements", "CategoryMapper", words, version=1, cats_strings=["a"], cats_int64s=[1, 2])
check("ZipMap", X, classlabels_int64s=[7, 5, 6])
check("ZipMap", X, classlabels_strings=["a", "b", "c"])
check("ZipMap", X[0], classlabels_strings=["a", "b", "c"])
check("ZipMap", X[:0], classlabels_int64s=[7, 5, 6])
refuse("the columns of x and the labels must agree, got 3 and 2", "ZipMap", X, classlabels_int64s=[7, 5])
refuse("none", "ZipMap", X)


def map_type(key, value):
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, None))


TEXT, INT, FLOAT = onnx.TensorProto.STRING, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
for vocabulary in (["a", "z", "b"], ["c"]):
    check("DictVectorizer", {"a": 1.5, "b": 2.0, "c": 3.0}, types=[map_type(TEXT, FLOAT)], version=1, string_vocabulary=vocabulary)
check("DictVectorizer", {4: 1.5, 7: 2.0}, types=[map_type(INT, FLOAT)], version=1, int64_vocabulary=[7, 1, 4])
for to in ("TO_FLOAT", "TO_INT64", "TO_STRING"):
    check("CastMap", {7: 1.5, 2: 2.0}, types=[map_type(INT, FLOAT)], version=1, cast_to=to, map_form="DENSE")
check("CastMap", {3: 1.5, 2: 2.0}, types=[map_type(INT, FLOAT)], version=1, cast_to="TO_FLOAT", map_form="SPARSE", max_map=5)
refuse("key 7", "CastMap", {7: 1.5}, types=[map_type(INT, FLOAT)], version=1, map_form="SPARSE", max_map=5)

# ---- linear models ----
W = [float(v) for v in np.round(rng.normal(size=12), 2)]
for transform in TRANSFORMS:
    check("LinearRegressor", X, coefficients=W[:3], intercepts=[0.1], post_transform=transform)
    check("LinearRegressor", X, coefficients=W[:6], intercepts=[0.1, 0.2], targets=2, post_transform=transform)
    check("LinearClassifier", X, outputs=2, coefficients=W[:6], intercepts=[0.1, 0.2], classlabels_ints=[5, 7], post_transform=transform)
    check("LinearClassifier", X, outputs=2, coefficients=W[:9], intercepts=[0.1, 0.2, 0.0], classlabels_strings=["a", "b", "c"],
          post_transform=transform)
    if transform != "PROBIT":
        check("LinearClassifier", X, outputs=2, coefficients=W[:3], intercepts=[0.1], classlabels_strings=["a", "b"], post_transform=transform)
for dtype in NUMERIC:
    check("LinearClassifier", numbers(5, 3, dtype=dtype), outputs=2, coefficients=W[:9], intercepts=[0.1, 0.2, 0.0], classlabels_ints=[5, 7, 9])
check("LinearRegressor", X[0], coefficients=W[:3])
check("LinearRegressor", X[:0], coefficients=W[:3], intercepts=[1.0])
refuse("4 and 1 elements", "LinearRegressor", X, coefficients=W[:4], intercepts=[0.1], targets=3)
refuse("X has 3 features", "LinearRegressor", X, coefficients=W[:4], intercepts=[0.1])
refuse("expected NONE, SOFTMAX", "LinearRegressor", X, coefficients=W[:3], post_transform="RELU")
refuse("2 intercepts for 3 classes", "LinearClassifier", X, outputs=2, coefficients=W[:6], intercepts=[0.1, 0.2], classlabels_ints=[5, 7, 9])

# ---- support vector machines ----
V = [float(v) for v in np.round(rng.normal(size=15), 2)]
for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
    check("SVMRegressor", X, coefficients=W[:5], support_vectors=V, n_supports=5, rho=[0.05], kernel_type=kernel, kernel_params=[0.5, 0.2, 3.0])
    check("SVMRegressor", X, coefficients=W[:5], support_vectors=V, n_supports=5, rho=[0.05], kernel_type=kernel, kernel_params=[0.5, 0.2, 2.0],
          one_class=1)
    check("SVMClassifier", X, outputs=2, coefficients=W[:10], support_vectors=V, vectors_per_class=[1, 2, 2], rho=[0.1, 0.2, -0.1],
          classlabels_ints=[5, 7, 9], kernel_type=kernel, kernel_params=[0.5, 0.2, 3.0])
    check("SVMClassifier", X, outputs=2, coefficients=W[:10], support_vectors=V, vectors_per_class=[1, 2, 2], rho=[0.1, 0.2, -0.1],
          prob_a=[-1.0, -0.5, -2.0], prob_b=[0.1, 0.0, -0.1], classlabels_strings=["a", "b", "c"], kernel_type=kernel,
          kernel_params=[0.5, 0.2, 3.0])
for transform in TRANSFORMS[:4]:
    for probabilities in ({}, {"prob_a": [-1.0], "prob_b": [0.1]}):
        check("SVMClassifier", X, outputs=2, coefficients=W[:5], support_vectors=V, vectors_per_class=[3, 2], rho=[0.05], classlabels_ints=[5, 7],
              kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], post_transform=transform, **probabilities)
    for c in (W[:6], [abs(w) for w in W[:6]]):
        check("SVMClassifier", X, outputs=2, coefficients=c, rho=[0.05], classlabels_ints=[5, 7], kernel_params=[0.0] * 3,
              post_transform=transform)
    check("SVMClassifier", X, outputs=2, coefficients=W[:9], rho=[0.05], classlabels_ints=[5, 7, 9], kernel_params=[0.0] * 3, post_transform=transform)
check("SVMRegressor", X, coefficients=W[:3], n_supports=0, rho=[0.05], kernel_type="POLY", kernel_params=[0.0] * 3)
refuse("'coefficients' has 4 elements", "SVMClassifier", X, outputs=2, coefficients=W[:4], support_vectors=V, vectors_per_class=[3, 2], rho=[0.05],
       classlabels_ints=[5, 7])
refuse("expected LINEAR, POLY", "SVMRegressor", X, coefficients=W[:5], support_vectors=V, n_supports=5, rho=[0.05], kernel_type="COSINE")

# ---- trees ----
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(of, ids, trees=3, depth=3, modes=MODES, positive=False, missing=False, values=np.round(X, 1)):
    """Random trees over X, whose leaves have a weight for each of `ids` (a function: of one that it draws)."""
    a = {f"nodes_{k}": [] for k in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
                                     "missing_value_tracks_true")}
    w = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree, level):
        node = sum(t == tree for t in a["nodes_treeids"])
        leaf = level == depth or (level > 0 and rng.random() < 0.2)
        for k, v in (("treeids", tree), ("nodeids", node), ("featureids", 0 if leaf else int(rng.integers(3))),
                     ("modes", "LEAF" if leaf else str(rng.choice(modes))), ("values", float(rng.choice(values.ravel()))),
                     ("truenodeids", 0), ("falsenodeids", 0), ("missing_value_tracks_true", int(rng.integers(2)))):
            a[f"nodes_{k}"].append(v)
        if leaf:
            for k in ids if not callable(ids) else [ids()]:
                weight = float(np.round(rng.uniform(0, 0.4) if positive else rng.normal(), 2))
                for name, v in (("treeids", tree), ("nodeids", node), ("ids", int(k)), ("weights", weight)):
                    w[name].append(v)
            return node
        at = len(a["nodes_treeids"]) - 1
        a["nodes_truenodeids"][at] = grow(tree, level + 1)
        a["nodes_falsenodeids"][at] = grow(tree, level + 1)
        return node

    for tree in range(trees):
        grow(tree, 0)
    if not missing:
        del a["nodes_missing_value_tracks_true"]
    return {**a, **{f"{of}_{k}": v for k, v in w.items()}}


def wide(attrs, *lists):
    """Lists of floats as tensors of doubles, which version 3 takes."""
    out = dict(attrs)
    for name in lists:
        values = out.pop(name, None)
        if values:
            out[name + "_as_tensor"] = helper.make_tensor("t", onnx.TensorProto.DOUBLE, [len(values)], values)
    return out


XR = np.round(X, 1)
XN = np.where(rng.random(XR.shape) < 0.3, np.nan, XR).astype("f4")
for mode in MODES:
    for x in (XR, XN):
        check("TreeEnsembleRegressor", x, **forest("target", [0], modes=(mode,), missing=True))
        check("TreeEnsembleRegressor", x, **forest("target", [0], modes=(mode,)))
for aggregate, targets, base, x in itertools.product(("SUM", "AVERAGE", "MIN", "MAX"), (1, 2), (False, True), (XR, XN, XR.astype("f8"))):
    check("TreeEnsembleRegressor", x, n_targets=targets, aggregate_function=aggregate, base_values=[0.5, -1.0][:targets] if base else None,
          **forest("target", range(targets), trees=9, missing=True))
for transform in TRANSFORMS:
    check("TreeEnsembleRegressor", XR, n_targets=2, post_transform=transform, **forest("target", [0, 1], positive=True))
    check("TreeEnsembleRegressor", XR, n_targets=1, post_transform=transform, **forest("target", [0], positive=True))
check("TreeEnsembleRegressor", XR.astype("f8"), **wide(forest("target", [0]), "nodes_values", "target_weights"))
check("TreeEnsembleRegressor", XR[:0], **forest("target", [0]))
check("TreeEnsembleRegressor", XR, n_targets=3, **forest("target", lambda: rng.integers(3)))
for labels, positive, base, transform in itertools.product(((5, 7), (5, 7, 9), ("a", "b"), ("a", "b", "c")), (False, True), (0, 1, 2), TRANSFORMS):
    count = len(labels)
    if base == 1 and count > 2:
        continue
    texts = isinstance(labels[0], str)
    names = {"classlabels_strings": list(labels)} if texts else {"classlabels_int64s": list(labels)}
    bases = [None, [0.25], [0.25, -0.5, 0.1][:count]][base]
    for ids in ([0], [1], range(count)):
        if transform == "PROBIT" and count == 2 and ids == [0] and base < 2:
            continue  # ONNX Runtime leaves half of the result as it was
        if not texts and count == 2 and len(ids) == 2:
            names = {"classlabels_int64s": [0, 1]}  # it takes no others here
        check("TreeEnsembleClassifier", XR, outputs=2, post_transform=transform, base_values=bases, **names,
              **forest("class", ids, positive=positive))
for x in (XN, XR.astype("f8"), XR.astype("i8"), XR.astype("i4")):
    check("TreeEnsembleClassifier", x, outputs=2, classlabels_int64s=[5, 7, 9], **forest("class", range(3), missing=True))

T = forest("target", [0], trees=1)


def changed(name, at, value):
    out = {k: list(v) for k, v in T.items()}
    out[name][at] = value
    return out


refuse("'nodes_values' has", "TreeEnsembleRegressor", XR, **{**T, "nodes_values": T["nodes_values"][1:]})
refuse("'target_weights' has", "TreeEnsembleRegressor", XR, **{**T, "target_weights": T["target_weights"][1:]})
refuse("names node 99", "TreeEnsembleRegressor", XR, **changed("nodes_truenodeids", 0, 99))
refuse("cycle", "TreeEnsembleRegressor", XR, **changed("nodes_truenodeids", 0, 0))
refuse("names node 77", "TreeEnsembleRegressor", XR, **changed("target_nodeids", 0, 77))
refuse("has two nodes", "TreeEnsembleRegressor", XR, **changed("nodes_nodeids", 1, 0))
refuse("holds 4, there are 1", "TreeEnsembleRegressor", XR, **changed("target_ids", 0, 4))
refuse("'nodes_featureids' holds -2", "TreeEnsembleRegressor", XR, **changed("nodes_featureids", 0, -2))
refuse("the features that the nodes ask for: 3 is not in", "TreeEnsembleRegressor", XR, **changed("nodes_featureids", 0, 12))
refuse('"BRANCH_UP"', "TreeEnsembleRegressor", XR, **changed("nodes_modes", 0, "BRANCH_UP"))
refuse("both of", "TreeEnsembleClassifier", XR, outputs=2, classlabels_int64s=[1, 2], classlabels_strings=["a", "b"], **forest("class", [0]))


def main(only):
    wrong = count = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.onnx")
        for case in CASES:
            if only and case.op not in only:
                continue
            count += 1
            onnx.save(case.model(), path)
            try:
                said = peer.differs(path, case.feeds(), 2e-5)
            except Exception as e:  # of ONNX Runtime
                said = f"ONNX Runtime: {e}"
            if said:
                wrong += 1
                print(f"{case}: {said[:400]}", flush=True)
        for text, case in REFUSED:
            if only and case.op not in only:
                continue
            count += 1
            onnx.save(case.model(), path)
            wrong += not peer.is_refused(case, path, text)
    print(f"{count - wrong} of {count} as they should be")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(set(sys.argv[1:])))
