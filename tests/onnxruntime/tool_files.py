#!/usr/bin/env python3
"""tool_files.py [--keep FOLDER] [--bind NAME=N] [MODEL.onnx ...]: files that ONNX Runtime's tools write, through ONNX Runtime
and through weft: its optimizer's levels, that of transformers, quantization in its formats, half floats. Without models, of the
six small ones of models.py.

Needs numpy, onnx, onnxruntime (sympy and onnxconverter-common where they are installed) and the command weft
(WEFT=build/bin/weft). Prints a line for each file, with the operators that
are not of the standard, and the count."""
import argparse
import collections
import logging
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

import models
import peer

logging.disable(logging.WARNING)


def extent(dim, bind):
    if dim.HasField("dim_value"):
        return dim.dim_value
    text = dim.dim_param
    for name in sorted(bind, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", str(bind[name]), text)
    return int(eval(text, {"__builtins__": {}}))  # sums and products of symbols


def feeds_of(path, bind, rng):
    m = onnx.load(path, load_external_data=False)
    weights = {t.name for t in m.graph.initializer}
    feeds = {}
    for v in m.graph.input:
        if v.name in weights:
            continue
        tensor = v.type.tensor_type
        dims = [extent(d, bind) for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype == bool or (dtype.kind == "i" and "mask" in v.name):
            x = np.ones(dims, dtype)
        elif dtype.kind == "i" and "position" in v.name:
            x = np.broadcast_to(np.arange(dims[-1]), dims).astype(dtype).copy()
        elif dtype.kind == "i":
            x = rng.integers(0, 2 if "type" in v.name else 40, dims).astype(dtype)
        else:
            x = (rng.standard_normal(dims) * 0.5).astype(dtype)
        feeds[v.name] = x
    return feeds


class Calibration:
    def __init__(self, path, bind):
        rng = np.random.default_rng(3)
        self.left = [feeds_of(path, bind, rng) for _ in range(4)]

    def get_next(self):
        return self.left.pop() if self.left else None


def written(path, name, bind, folder):
    """Pairs of a file's name and what writes it."""
    from onnxruntime import quantization as quant
    from onnxruntime.quantization import matmul_nbits_quantizer
    level = ort.GraphOptimizationLevel

    def optimized(source, how, save):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = how
        options.optimized_model_filepath = str(save)
        ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"], disabled_optimizers=["NchwcTransformer"])

    def transformers(save):
        from onnxruntime.transformers import optimizer
        kind, heads, hidden = models.TRANSFORMERS.get(name, ("bert", 0, 0))
        m = optimizer.optimize_model(str(path), model_type=kind, num_heads=heads, hidden_size=hidden, opt_level=0)
        m.save_model_to_file(str(save))

    def static(form, save, **more):
        ready = folder / f"{name}.prepared.onnx"
        quant.shape_inference.quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
        quant.quantize_static(str(ready), str(save), Calibration(path, bind), quant_format=form, **more)

    def half(save, keep):
        from onnxruntime.transformers import float16
        m = float16.convert_float_to_float16(onnx.load(path), keep_io_types=keep)
        onnx.save(m, save)

    def half_common(save):
        from onnxconverter_common import float16
        onnx.save(float16.convert_float_to_float16(onnx.load(path)), save)

    def four_bits(save):
        q = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load(path), block_size=32, is_symmetric=False)
        q.process()
        q.model.save_model_to_file(str(save))

    yield "basic", lambda save: optimized(path, level.ORT_ENABLE_BASIC, save)
    yield "extended", lambda save: optimized(path, level.ORT_ENABLE_EXTENDED, save)
    yield "all", lambda save: optimized(path, level.ORT_ENABLE_ALL, save)
    if name in models.TRANSFORMERS or re.search("bert|gpt|llama|t5|whisper|vit|swin", name):
        yield "transformers", transformers
    yield "dynamic", lambda save: quant.quantize_dynamic(str(path), str(save), weight_type=quant.QuantType.QInt8)
    yield "dynamic_channels", lambda save: quant.quantize_dynamic(str(path), str(save), per_channel=True, weight_type=quant.QuantType.QUInt8)
    yield "dynamic_extended", lambda save: optimized(folder / f"{name}.dynamic.onnx", level.ORT_ENABLE_EXTENDED, save)
    yield "qdq", lambda save: static(quant.QuantFormat.QDQ, save)
    yield "qdq_extended", lambda save: optimized(folder / f"{name}.qdq.onnx", level.ORT_ENABLE_EXTENDED, save)
    yield "qdq_all", lambda save: optimized(folder / f"{name}.qdq.onnx", level.ORT_ENABLE_ALL, save)
    yield "qoperator", lambda save: static(quant.QuantFormat.QOperator, save)
    yield "qoperator_channels", lambda save: static(quant.QuantFormat.QOperator, save, per_channel=True, weight_type=quant.QuantType.QInt8,
                                                    activation_type=quant.QuantType.QUInt8)
    yield "half", lambda save: half(save, False)
    yield "half_kept", lambda save: half(save, True)
    yield "half_common", half_common
    if name in ("bert", "gpt2", "llama", "vit") or re.search("bert|gpt|llama", name):
        yield "four_bits", four_bits


# By how much the largest error may be off the largest magnitude. Quantized values flip by one step where sums round
# differently, and what follows adds that up.
TOLERANCE = {"half": 2e-2, "dynamic": 5e-2, "q": 5e-2, "four": 2e-3}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*")
    parser.add_argument("--keep")
    parser.add_argument("--only", default="")
    parser.add_argument("--bind", action="append", default=[])
    args = parser.parse_args()
    bind = {"batch": 2, "seq": 8, "N": 2, **{k: int(v) for k, v in (b.split("=") for b in args.bind)}}
    good = total = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(args.keep or temporary)
        folder.mkdir(exist_ok=True)
        sources = [pathlib.Path(m) for m in args.models]
        if not sources:
            for name, build in models.ALL.items():
                sources.append(folder / f"{name}.onnx")
                onnx.save(build(), sources[-1])
        for source in sources:
            for kind, write in written(source, source.stem, bind, folder):
                if not re.search(args.only or ".", kind):
                    continue
                file = folder / f"{source.stem}.{kind}.onnx"
                line = f"{source.stem + ' ' + kind:32}"
                try:
                    write(file)
                    feeds = feeds_of(file, bind, np.random.default_rng(1))
                    s = peer.session(file)
                    want = dict(zip([o.name for o in s.get_outputs()], s.run(None, feeds)))
                except Exception as e:
                    print(f"{line} not written: {type(e).__name__} {str(e)[:150]}", flush=True)
                    continue
                ops = collections.Counter(n.op_type for n in onnx.load(file, load_external_data=False).graph.node
                                          if n.domain not in ("", "ai.onnx"))
                total += 1
                tolerance = next((t for k, t in TOLERANCE.items() if kind.startswith(k)), 1e-3)
                said = peer.differs(file, feeds, tolerance, want, steps=1)
                good += not said
                print(f"{line} {said[:400] if said else 'equal'}   {dict(ops) if ops else ''}", flush=True)
    print(f"{good} of {total} equal")
    return good < total


if __name__ == "__main__":
    sys.exit(main())
