#!/usr/bin/env python3
"""exports.py [NAME ..]: the models of tests/models and of models.py through every pass that says it keeps ONNX, alone and in the
order of a compilation: ONNX Runtime loads each exported file and gives the numbers that it gives for the source. A source
that no pass has touched is written as it was.

Needs numpy, onnx, onnxruntime and the command weft (WEFT=build/bin/weft). Prints a line for each file that is wrong, and the
count."""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import models
import peer
from tool_files import feeds_of

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "models"))
import fill  # noqa: E402

BIND = dict(batch=2, text_batch=2, image_batch=3, seq=9, dec_seq=6, past_seq=4, total_seq=13, N=2, H=64, W=64)
LARGER = {"tv_vit_b_16": 224, "tv_inception_v3": 96, "tv_fasterrcnn_mbv3": 96}  # what the models ask of H and W
LIFTED = {"Attention", "RotaryEmbedding"}  # written as what import makes of them
ASK = {"Gradient", "InsertQdq", "SmoothQuant"}  # for names, or ranges that calibration gives
TOLERANCE = 2e-4  # by the largest magnitude: passes round sums otherwise


def passes():
    """Names of those that keep ONNX, and the order in which a compilation runs passes."""
    listed = json.loads(subprocess.run([peer.WEFT, "--list-passes", "--json"], capture_output=True, text=True, check=True).stdout)
    keep = [p["name"] for p in listed if p.get("keeps_onnx")]
    order = next(p["passes"] for p in listed if p["name"] == "default").split(",")
    return keep, order


def stages():
    """Pipelines to export behind."""
    keep, order = passes()
    for name in keep:
        if name not in ASK:
            yield name
    for i, name in enumerate(order):
        if i > 0 and name.split("{")[0] in keep:
            yield ",".join(order[:i + 1])


def exported(source, pipeline, path):
    """The error of weft, or None."""
    done = subprocess.run([peer.WEFT, "opt", str(source), "--passes", pipeline, "-o", str(path)], capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else None


def parts(model):
    """What a file says, but for order: nodes, values, inputs, outputs, versions."""
    g = model.graph
    values = {t.name: t.SerializeToString(deterministic=True) for t in g.initializer}
    nodes = collections.Counter()
    for n in g.node:
        if n.op_type == "Constant":  # or an initializer: what it is called is what counts
            values[n.output[0]] = None
            continue
        attributes = sorted(a.name for a in n.attribute)
        inputs = list(n.input)
        while inputs and not inputs[-1]:
            inputs.pop()
        nodes[n.op_type, n.name, tuple(inputs), tuple(n.output), tuple(attributes)] += 1
    return {"nodes": nodes, "values": set(values), "inputs": [v.name for v in g.input],
            "outputs": [v.name for v in g.output], "operator set": {o.domain: o.version for o in model.opset_import}}


class Check:
    def __init__(self):
        self.wrong = self.total = 0

    def note(self, name, pipeline, error):
        self.total += 1
        what = f"{name}, {pipeline or 'no pass'}"
        if error:
            self.wrong += 1
            print(f"{what}: {error[:400]}", flush=True)

    def model(self, name, model, bind, folder):
        source, out = folder / "source.onnx", folder / "out.onnx"
        onnx.save(model, source)
        feeds = feeds_of(source, bind, np.random.default_rng(1))
        want = peer.session(source).run(None, feeds)
        error = exported(source, "", out)
        if not error and not model.functions and not {n.op_type for n in model.graph.node} & LIFTED:
            a, b = parts(model), parts(onnx.load(out))
            error = "; ".join(f"{k} differ" for k in a if a[k] != b[k])
        self.note(name, "", error)
        for pipeline in stages():
            error = exported(source, pipeline, out)
            if not error:
                try:
                    session = peer.session(out)
                    got = session.run(None, feeds)
                    names = [o.name for o in session.get_outputs()]
                    error = next((f"{n}: {e}" for n, w, g in zip(names, want, got)
                                  if not isinstance(e := peer.apart(w, g), float) or e > TOLERANCE), None)
                except Exception as e:  # ONNX Runtime's errors have no base of their own
                    error = f"ONNX Runtime: {e}"
            self.note(name, pipeline, error)


def main(wanted):
    check = Check()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        sources = [(n, build) for n, build in models.ALL.items()] + [(n, lambda n=n: fill.load(n)) for n in fill.names()]
        for name, load in sources:
            if wanted and name not in wanted:
                continue
            size = LARGER.get(name.removesuffix("_dynamo"), 64)
            check.model(name, load(), {**BIND, "H": size, "W": size}, folder)
    print(f"{check.total - check.wrong} of {check.total} exported as they should be")
    return check.wrong > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
