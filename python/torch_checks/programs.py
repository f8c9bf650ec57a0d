"""Control flow, sizes from data, writes: by the recorder or torch.export, and from `.pt2` files."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import torch
from common import compare, distance, expected
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import weft
import weft.torch


_loop: Any = while_loop


class Cond(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: self.linear(x) * 2, lambda x: x - 1, (x,))


class While(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        start = torch.tensor(0)
        return _loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5 + i), (start, x))


class Scan(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        def step(carry: torch.Tensor, value: torch.Tensor) -> Any:
            new = carry * 0.5 + value
            return new, new * 2

        return scan(step, torch.zeros(4), x)


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x[x > 0].sum(), torch.nonzero(x), x[x > 0] * 2


class Count(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        n = (x > 0).sum().item()
        torch._check(n >= 0)
        torch._check(n < 100)
        return torch.zeros(n) + 1  # type: ignore[arg-type]


class Writes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = x.clone()
        y[1].add_(1)
        y[:, 2:4].mul_(2)
        y.transpose(0, 1)[0].fill_(3)
        y.view(-1)[5:9] = 0
        return torch.relu_(y) + y.sum()


MODULES = (Cond, While, Scan, Masked, Count, Writes)


def decode_error(tokens: int = 20) -> float:
    """GPT-2 writes tokens with a cache that grows, each the one that eager GPT-2 writes."""
    import transformers
    import transformers_set

    model, _ = transformers_set.ALL["gpt2"]()

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, past: Any) -> Any:
            cache = transformers.DynamicCache()
            for i, (key, value) in enumerate(past):
                cache.update(key, value, i)
            out = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
            return out.logits, [(c.keys, c.values) for c in out.past_key_values.layers]

    with torch.no_grad():
        out = model(transformers_set.ids(2, 4), use_cache=True)
    past = [(c.keys, c.values) for c in out.past_key_values.layers]
    return _decode(Step().eval(), (), out.logits, past, tokens)


def encoder_decode_error(tokens: int = 20) -> float:
    """The same of T5: the decoder's cache grows, keys and values of the encoder's result stay."""
    import transformers
    import transformers_set

    model, inputs = transformers_set.ALL["t5"]()
    start = torch.tensor([[0, 5, 7], [0, 9, 3]])  # a length of 1 would be a constant
    with torch.no_grad():
        encoded = model.encoder(inputs["input_ids"]).last_hidden_state
        out = model(encoder_outputs=(encoded,), decoder_input_ids=start, use_cache=True)
    cache = out.past_key_values
    across = [(c.keys, c.values) for c in cache.cross_attention_cache.layers]
    past = [(c.keys, c.values) for c in cache.self_attention_cache.layers]

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor, past: Any, encoded: torch.Tensor, across: Any) -> Any:
            own, other = transformers.DynamicCache(), transformers.DynamicCache()
            for i, (key, value) in enumerate(past):
                own.update(key, value, i)
            for i, (key, value) in enumerate(across):
                other.update(key, value, i)
            out = self.model(
                encoder_outputs=(encoded,),
                decoder_input_ids=ids,
                past_key_values=transformers.EncoderDecoderCache(own, other),
                use_cache=True,
            )
            layers = out.past_key_values.self_attention_cache.layers
            return out.logits, [(c.keys, c.values) for c in layers]

    return _decode(Step().eval(), (encoded, across), out.logits, past, tokens)


def _decode(step: Any, rest: Any, logits: torch.Tensor, past: Any, tokens: int) -> float:
    import numpy as np

    token = logits[:, -1:].argmax(-1)
    dims = {0: "batch", 2: "past"}
    shapes: list[Any] = [{0: "batch"}, [(dims, dims)] * len(past)]
    if rest:
        still = {0: "batch", 2: "source"}
        shapes += [{0: "batch", 1: "source"}, [(still, still)] * len(rest[1])]
    exported = weft.torch.export(step, (token, past, *rest), dynamic_shapes=tuple(shapes))
    names = [entry.name for entry in exported.graph.inputs]
    session = weft.Session(exported.compile())
    held = [part.numpy() for pair in past for part in pair]
    given = {n: v.numpy() for n, v in _named(step, (token, past, *rest)).items()}
    moving = [n for n in names if n.startswith("past")]
    worst = 0.0
    for _ in range(tokens):
        given.update(zip(moving, held))
        given[names[0]] = token.numpy()
        logits_here, *held = session.run({n: given[n] for n in names})
        with torch.no_grad():
            want, past = step(token, past, *rest)
        worst = max(worst, distance(logits_here, want.numpy()))
        token = want[:, -1:].argmax(-1)
        if not np.array_equal(np.asarray(logits_here)[:, -1:].argmax(-1), token.numpy()):
            raise AssertionError("another token")
    return worst


def _named(step: Any, args: Any) -> dict[str, torch.Tensor]:
    from weft.torch.capture.recorder import flatten_inputs

    return {n: leaf for n, _, leaf in flatten_inputs(step, args, {})}


def program_error(kind: type[torch.nn.Module]) -> float:
    """The largest difference over three inputs, and of the program from a file."""
    torch.manual_seed(0)
    module = kind().eval()
    inputs = [torch.randn(6, 4), -torch.rand(6, 4), torch.rand(6, 4)]
    worst = compare(module, [((x,), {}) for x in inputs], onnxruntime=False).weft
    program = torch.export.export(module, (inputs[0],))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program.pt2"
        torch.export.save(program, path)
        session = weft.Session(weft.torch.export(path).compile())
    for x in inputs:
        for got, want in zip(session.run(x.numpy()), expected(module, (x,), {})):
            worst = max(worst, distance(got, want))
    return worst
