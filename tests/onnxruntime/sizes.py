#!/usr/bin/env python3
"""sizes.py [MODELS_DIR ..]: what is known of sizes, in the models of the folders, or of tests/models.

For each model: of how many element-wise nodes of two and more operands the broadcast is decided, and how many of those rest on
a check of the dimensions that a run binds; and how many steps of a run compute sizes only, as the source has them: values that
nothing but targets, axes and bounds depend on.

Needs numpy, onnx and the command weft (WEFT=build/bin/weft). Fails below 99 % decided, and where a step computes sizes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "models"))
import fill  # noqa: E402

WEFT = os.environ.get("WEFT", "build/bin/weft")
BROADCAST = set("Add Sub Mul Div Pow Mod And Or Xor Equal Less LessOrEqual Greater GreaterOrEqual Min Max Sum Mean Where PRelu "
                "BitwiseAnd BitwiseOr BitwiseXor BitShift".split())
# Operands that say sizes, positions or axes.
SIZES = {"Reshape": {1}, "Expand": {1}, "Slice": {1, 2, 3, 4}, "Tile": {1}, "ConstantOfShape": {0}, "Resize": {1, 2, 3},
         "Range": {0, 1, 2}, "Pad": {1, 3}, "Split": {1}, "Unsqueeze": {1}, "Squeeze": {1}, "TopK": {1}, "OneHot": {1},
         "ReduceSum": {1}, "ReduceMean": {1}, "ReduceMax": {1}, "Loop": {0}, "Trilu": {1}}
LARGER = {"tv_vit_b_16": 224, "tv_inception_v3": 96, "tv_fasterrcnn_mbv3": 96}  # what the models ask of H and W


def weft(*args):
    return subprocess.run([WEFT, *map(str, args)], capture_output=True, text=True, check=True).stdout


def of_sizes(graph):
    """Values that only sizes depend on."""
    data, sizes = {o.name for o in graph.output}, set()

    def read_inside(inner):
        data.update(o.name for o in inner.output)
        for n in inner.node:
            data.update(n.input)
            for a in n.attribute:
                if a.HasField("g"):
                    read_inside(a.g)

    for n in graph.node:
        for a in n.attribute:
            if a.HasField("g"):
                read_inside(a.g)
    for n in reversed(graph.node):
        if data.isdisjoint(n.output):
            sizes.update(n.output)
        else:
            data.update(x for i, x in enumerate(n.input) if i not in SIZES.get(n.op_type, ()))
    return sizes


def dims_of(graph):
    def text(d):
        return str(d.dim_value) if d.HasField("dim_value") else d.dim_param

    values = [*graph.input, *graph.value_info, *graph.output]
    dims = {v.name: [text(d) for d in v.type.tensor_type.shape.dim] for v in values if v.type.tensor_type.HasField("shape")}
    dims.update({t.name: [str(d) for d in t.dims] for t in graph.initializer})
    for n in graph.node:
        if n.op_type == "Constant":
            dims[n.output[0]] = [str(d) for a in n.attribute if a.name == "value" for d in a.t.dims]
    return dims


def broadcast(node, dims):
    """"plain": by the shapes alone; "checked": one of the operands has the dimensions of the result; "open"."""
    shapes = [dims.get(x) for x in node.input if x]
    out = dims.get(node.output[0])
    if None in shapes or out is None:
        return "open"
    state = "plain"
    for axis in range(1, len(out) + 1):
        given = {s[-axis] for s in shapes if len(s) >= axis} - {"1"}
        if len(given) < 2:
            continue
        if out[-axis] not in given:
            return "open"
        state = "checked"
    return state


def main(folders):
    total, wrong = {"plain": 0, "checked": 0, "open": 0}, []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        files = [f for d in folders for f in sorted(pathlib.Path(d).glob("*.onnx"))]
        for source in files or fill.names():
            name = source.stem if files else source
            path = source
            if not files:
                path = folder / "source.onnx"
                onnx.save(fill.load(name), path)
            weft("opt", path, "--passes", "InferShape", "-o", folder / "out.onnx")
            told = onnx.load(folder / "out.onnx", load_external_data=False).graph
            dims, count = dims_of(told), dict.fromkeys(total, 0)
            for n in told.node:
                if n.op_type in BROADCAST and n.domain == "" and len(n.input) > 1:
                    state = broadcast(n, dims)
                    count[state] += 1
                    if state == "open":
                        print(f"  {n.op_type} {n.output[0]}: {[dims.get(x) for x in n.input]} -> {dims.get(n.output[0])}")
            sizes = of_sizes(onnx.load(path, load_external_data=False).graph)
            size = LARGER.get(name.removesuffix("_dynamo"), 64)
            symbols = {d.dim_param for v in told.input for d in v.type.tensor_type.shape.dim}
            bind = ",".join(f"{s}={size}" for s in ("H", "W") if s in symbols)
            run = json.loads(weft("bench", path, "--json", "--profile", "--iterations", 1, "--warmup", 0, *(["--bind", bind] if bind else [])))
            steps = [s["name"] for s in run["profile"] if s["name"] in sizes]
            wrong += [f"{name}: {s}" for s in steps]
            total = {k: v + count[k] for k, v in total.items()}
            print(f"{name:28} {sum(count.values()):4} broadcasts, {count['checked']:3} by a check, {count['open']:3} open; "
                  f"{len(run['profile']):3} steps, {len(steps)} of sizes", flush=True)
    nodes = sum(total.values())
    decided = (nodes - total["open"]) / max(1, nodes)
    print(f"{nodes} broadcasts, {100 * decided:.2f} % decided, {total['checked']} of them by a check of dimensions; "
          f"{len(wrong)} steps compute sizes: {', '.join(wrong) or 'none'}")
    return decided < 0.99 or bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
