"""gpu_models.py: the graphs that gpu_bench.py times, as text of Weft. Operands and results are variables, so that both stay on
the device. See gpu_peers.py for their extents."""

from gpu_peers import ROWS, base_of


def text(shape, dtype="f32"):
    return f"{dtype}[" + ", ".join(map(str, shape)) + "]"


def chain_model(z):
    return f"""weft 1
graph (%x: f32[{z.chain}] {{state = 1}}, %o: f32[{z.chain}] {{state = 1}}, %a: f32[] param = [0.7], %b: f32[] param = [-0.1]) -> (%d) {{
  %p = Mul(%x, %a)
  %q = Add(%p, %b)
  %t = Tanh(%q)
  %s = Mul(%t, %x)
  %r = Relu(%s)
  %w = weft::Assign(%o, %r)
  %d = weft::Group(%w)
}}
"""


def softmax_model(shape):
    t = text(shape)
    return f"""weft 1
graph (%x: {t} {{state = 1}}, %o: {t} {{state = 1}}) -> (%d) {{
  %y = Softmax(%x) {{axis = -1}}
  %w = weft::Assign(%o, %y)
  %d = weft::Group(%w)
}}
"""


def layer_norm_model(shape):
    t, row = text(shape), text(shape[1:])
    return f"""weft 1
graph (%x: {t} {{state = 1}}, %s: {row} {{state = 1}}, %b: {row} {{state = 1}}, %o: {t} {{state = 1}}) -> (%d) {{
  %y, %m, %i = LayerNormalization(%x, %s, %b) {{axis = -1}}
  %w = weft::Assign(%o, %y)
  %d = weft::Group(%w)
}}
"""


def statistics_model(z):
    c = z.images[1]
    return f"""weft 1
graph (%x: {text(z.images)} {{state = 1}}, %u: f32[1, {c}, 1, 1] {{state = 1}}, %v: f32[1, {c}, 1, 1] {{state = 1}}, %axes: i64[3] param = [0, 2, 3]) -> (%d) {{
  %m, %q, %e = weft::Moments(%x, %axes)
  %a = weft::Assign(%u, %m)
  %b = weft::Assign(%v, %q)
  %d = weft::Group(%a, %b)
}}
"""


def adam_model(z):
    """p, m, v and g of every parameter stay on the device; the rule is torch's, with the bias corrections in `rate`."""
    inputs, body, done = [], [], []
    for name, value in (("b1", 0.9), ("c1", 0.1), ("b2", 0.999), ("c2", 0.001), ("eps", 1e-8), ("rate", 1e-3)):
        inputs.append(f"%{name}: f32[] param = [{value!r}]")
    for i, shape in enumerate(z.adam()):
        inputs += [f"%{k}{i}: {text(shape)} {{state = 1}}" for k in "pmvg"]
        body.append(f"""  %ma{i} = Mul(%m{i}, %b1)
  %mb{i} = Mul(%g{i}, %c1)
  %mc{i} = Add(%ma{i}, %mb{i})
  %va{i} = Mul(%v{i}, %b2)
  %gg{i} = Mul(%g{i}, %g{i})
  %vb{i} = Mul(%gg{i}, %c2)
  %vd{i} = Add(%va{i}, %vb{i})
  %vc{i} = Abs(%vd{i})
  %sq{i} = Sqrt(%vc{i})
  %de{i} = Add(%sq{i}, %eps)
  %rm{i} = Mul(%mc{i}, %rate)
  %up{i} = Div(%rm{i}, %de{i})
  %pc{i} = Sub(%p{i}, %up{i})
  %x{i} = weft::Assign(%m{i}, %mc{i})
  %y{i} = weft::Assign(%v{i}, %vc{i})
  %z{i} = weft::Assign(%p{i}, %pc{i})""")
        done += [f"%{k}{i}" for k in "xyz"]
    return "weft 1\ngraph (" + ", ".join(inputs) + ") -> (%d) {\n" + "\n".join(body) + \
        f"\n  %d = weft::Group({', '.join(done)})\n}}\n"


def product_model(z, dtype):
    """One call of cuBLASLt: what the device reaches at most in products of a type."""
    t = text((z.product, z.product), dtype)
    return f"""weft 1
graph (%a: {t} {{state = 1}}, %b: {t} {{state = 1}}, %o: {t} {{state = 1}}) -> (%d) {{
  %y = MatMul(%a, %b)
  %w = weft::Assign(%o, %y)
  %d = weft::Group(%w)
}}
"""


def lstm_model(z):
    """An LSTM over steps and images of one width, forward: all its steps."""
    steps, batch, width = z.lstm
    x = text((steps, batch, width))
    return f"""weft 1
graph (%x: {x} {{state = 1}}, %w: {text((1, 4 * width, width))} {{state = 1}}, %r: {text((1, 4 * width, width))} {{state = 1}}, %b: {text((1, 8 * width))} {{state = 1}}, %o: {text((steps, 1, batch, width))} {{state = 1}}) -> (%d) {{
  %y, %h, %c = LSTM(%x, %w, %r, %b) {{hidden_size = {width}}}
  %a = weft::Assign(%o, %y)
  %d = weft::Group(%a)
}}
"""


def scan_model(z):
    """One element-wise kernel a step, whose results are kept."""
    steps, width = z.scan
    x, row = text((steps, width)), text((width,))
    return f"""weft 1
graph (%x: {x} {{state = 1}}, %s: {row} {{state = 1}}, %o: {x} {{state = 1}}) -> (%d) {{
  %h, %y = Scan(%s, %x) {{
    num_scan_inputs = 1,
    body = graph (%p: {row}, %v: {row}) -> (%n, %n) {{
      %u = Add(%p, %v) : {row}
      %n = Tanh(%u) : {row}
    }}
  }}
  %a = weft::Assign(%o, %y)
  %d = weft::Group(%a)
}}
"""


def model(name, z):
    if name.startswith("product_"):
        return product_model(z, name[len("product_"):])
    if name in ROWS:
        shape = z.rows(name)
        return softmax_model(shape) if base_of(name) == "softmax" else layer_norm_model(shape)
    return {"chain": chain_model, "statistics": statistics_model, "adam": adam_model, "lstm": lstm_model,
            "scan": scan_model}[name](z)
