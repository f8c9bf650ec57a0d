#!/usr/bin/env python3
"""gpu_peers.py: what gpu_bench.py puts its figures beside: the driver's copy, PyTorch and JAX. One part a process:

    python3 bench/gpu_peers.py copy|torch-ops|torch-lenet|torch-resnet|jax-ops [--try-on-cpu]

prints one JSON object. PyTorch has TF32 switched off, as Weft has.
"""
import ctypes
import json
import math
import os
import statistics
import sys
import time

MEASURE_S = 1.0  # of each loop
TRY_S = 0.1  # the same, where it is only tried
WARM = 10
OPS = ("chain", "softmax", "layer_norm", "statistics", "adam")


class Sizes:
    def __init__(self, tiny):
        self.chain = 1 << 12 if tiny else 1 << 28
        self.rows, self.columns = (16, 64) if tiny else (65536, 4096)
        self.images = (2, 4, 6, 6) if tiny else (256, 256, 56, 56)
        self.resnet = ["--size", "32", "--blocks", "1"] if tiny else []
        self.resnet_batch = 2 if tiny else 128
        self.lenet_batch = 64
        self.tiny = tiny

    def adam(self):
        """The 161 parameters of ResNet-50, of which the offset of the last layer is left out."""
        shapes = [(64, 3, 7, 7), (64,), (64,)]
        inputs = 64
        for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
            for block in range(blocks):
                shapes += [(width, inputs, 1, 1), (width,), (width,), (width, width, 3, 3), (width,), (width,)]
                shapes += [(4 * width, width, 1, 1), (4 * width,), (4 * width,)]
                if block == 0:
                    shapes += [(4 * width, inputs, 1, 1), (4 * width,), (4 * width,)]
                inputs = 4 * width
        shapes += [(1000, 2048)]
        return [tuple(max(1, d // 64) for d in s) for s in shapes] if self.tiny else shapes


def elements(shape):
    return math.prod(shape)


def moved_bytes(name, z):
    """What has to be read and written at least."""
    return {
        "chain": 8 * z.chain,
        "softmax": 8 * z.rows * z.columns,
        "layer_norm": 8 * z.rows * z.columns,
        "statistics": 4 * elements(z.images),
        "adam": 28 * sum(map(elements, z.adam())),
    }[name]


def steady(run, wait=lambda: None, warm=WARM):
    """Milliseconds of a run that has ended, and processor microseconds of this process a run."""
    for _ in range(warm):
        run()
    wait()
    times, cpu, begin = [], time.process_time(), time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < MEASURE_S:
        t = time.perf_counter()
        run()
        wait()
        times.append(1e3 * (time.perf_counter() - t))
    return {"ms": statistics.median(times), "min_ms": min(times), "runs": len(times),
            "cpu_us": 1e6 * (time.process_time() - cpu) / len(times)}


def copy_part(z, _tiny):
    """The driver's copy, for every number of bytes that some figure moves."""
    cuda = ctypes.CDLL(os.environ.get("WEFT_LIBCUDA", "libcuda.so.1"))

    def call(name, *arguments):
        result = getattr(cuda, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: CUresult {result}")

    device, context, stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), int(os.environ.get("WEFT_CUDA_DEVICE", "0")))
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuStreamCreate", ctypes.byref(stream), 1)
    found = {}
    for name in OPS:
        size = ctypes.c_size_t(moved_bytes(name, z) // 2)
        a, b = ctypes.c_ulonglong(), ctypes.c_ulonglong()
        call("cuMemAlloc_v2", ctypes.byref(a), size)
        call("cuMemAlloc_v2", ctypes.byref(b), size)
        call("cuMemsetD8_v2", a, ctypes.c_ubyte(1), size)
        found[name] = steady(lambda: call("cuMemcpyDtoDAsync_v2", b, a, size, stream),
                             lambda: call("cuStreamSynchronize", stream))
        found[name]["gb_per_s"] = 2e-6 * size.value / found[name]["ms"]
        call("cuMemFree_v2", a)
        call("cuMemFree_v2", b)
    return found


def torch_device(tiny):
    import torch
    torch.manual_seed(1)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if not tiny and not torch.cuda.is_available():
        raise RuntimeError("this PyTorch sees no GPU")
    wait = (lambda: None) if tiny else torch.cuda.synchronize
    return torch, "cpu" if tiny else "cuda", wait


def torch_ops_part(z, tiny):
    torch, device, wait = torch_device(tiny)
    found = {}

    def ops():
        f = torch.nn.functional
        x = torch.randn(z.chain, device=device)
        yield "chain", lambda x: torch.relu(torch.tanh(x * 0.7 - 0.1) * x), (x,)
        x = torch.randn(z.rows, z.columns, device=device)
        yield "softmax", lambda x: torch.softmax(x, -1), (x,)
        s, b = torch.randn(2, z.columns, device=device)
        yield "layer_norm", lambda x, s, b: f.layer_norm(x, (z.columns,), s, b), (x, s, b)
        x = torch.randn(*z.images, device=device)
        yield "statistics", lambda x: torch.var_mean(x, (0, 2, 3), correction=0), (x,)

    with torch.no_grad():
        for name, function, operands in ops():
            found[name] = {"eager": steady(lambda: function(*operands), wait)}
            compiled = torch.compile(function)
            found[name]["compiled"] = steady(lambda: compiled(*operands), wait)
    parameters = [torch.nn.Parameter(torch.randn(s, device=device)) for s in z.adam()]
    for p in parameters:
        p.grad = torch.randn_like(p)
    adam = torch.optim.Adam(parameters, fused=True)
    found["adam"] = {"fused": steady(adam.step, wait)}
    return found


def jax_part(z, tiny):
    import jax
    if not tiny and jax.default_backend() != "gpu":
        raise RuntimeError("this JAX sees no GPU")
    jnp, key, found = jax.numpy, jax.random.PRNGKey(1), {}

    def norm(x, s, b):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * s + b

    def ops():
        yield "chain", lambda x: jnp.maximum(jnp.tanh(x * 0.7 - 0.1) * x, 0), (jax.random.normal(key, (z.chain,)),)
        x = jax.random.normal(key, (z.rows, z.columns))
        yield "softmax", lambda x: jax.nn.softmax(x, -1), (x,)
        yield "layer_norm", norm, (x, x[0], x[1])
        x = jax.random.normal(key, z.images)
        yield "statistics", lambda x: (x.mean((0, 2, 3)), x.var((0, 2, 3))), (x,)

    for name, function, operands in ops():
        compiled = jax.jit(function)
        found[name] = {"jit": steady(lambda: jax.block_until_ready(compiled(*operands)))}
    return found


def training(torch, net, optimizer, x, y, wait, autocast, mode):
    """One step, its loss fetched, as Weft's is; and steps given without waiting, the mean of many."""
    loss_of = torch.nn.CrossEntropyLoss()

    def forward(x, y):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=autocast):
            return loss_of(net(x), y)

    if mode:
        forward = torch.compile(forward, mode=None if mode == "default" else mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return loss

    found = steady(lambda: step().item(), wait)
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < MEASURE_S:
        step()
        count += 1
        if count % 20 == 0:
            wait()
    wait()
    found["unwaited_ms"] = 1e3 * (time.perf_counter() - begin) / count
    return found


def torch_lenet_part(z, tiny):
    torch, device, wait = torch_device(tiny)
    nn, found = torch.nn, {}
    x = torch.randn(z.lenet_batch, 1, 28, 28, device=device)
    y = torch.randint(0, 10, (z.lenet_batch,), device=device)
    for mode in ("", "reduce-overhead"):
        net = nn.Sequential(nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Tanh(),
                            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10)).to(device)
        fast = {} if tiny else {"fused": True, "capturable": True}
        found[mode or "eager"] = training(torch, net, torch.optim.Adam(net.parameters(), **fast), x, y, wait, False, mode)
    return found


def torch_resnet_part(z, tiny):
    torch, device, wait = torch_device(tiny)
    nn = torch.nn
    torch.backends.cudnn.benchmark = True

    def norm(x, filters, size, stride):
        return nn.Sequential(nn.Conv2d(x, filters, size, stride, size // 2, bias=False), nn.BatchNorm2d(filters))

    class Block(nn.Module):
        def __init__(self, inputs, width, stride, project):
            super().__init__()
            self.body = nn.Sequential(norm(inputs, width, 1, 1), nn.ReLU(), norm(width, width, 3, stride), nn.ReLU(),
                                      norm(width, 4 * width, 1, 1))
            self.shortcut = norm(inputs, 4 * width, 1, stride) if project else nn.Identity()

        def forward(self, x):
            return torch.relu(self.body(x) + self.shortcut(x))

    layers, inputs = [norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((1, 1, 1, 1) if tiny else (3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Block(inputs, 64 << stage, 2 if stage and not block else 1, not block))
            inputs = 4 * (64 << stage)
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)).to(device)
    net = net.to(memory_format=torch.channels_last)
    size = 32 if tiny else 224
    x = torch.randn(z.resnet_batch, 3, size, size, device=device).to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (z.resnet_batch,), device=device)
    sgd = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9, weight_decay=1e-4)
    return {"compiled": training(torch, net, sgd, x, y, wait, not tiny, "" if tiny else "default")}


PARTS = {"copy": copy_part, "torch-ops": torch_ops_part, "torch-lenet": torch_lenet_part,
         "torch-resnet": torch_resnet_part, "jax-ops": jax_part}


def main():
    tiny = "--try-on-cpu" in sys.argv
    if len(sys.argv) < 2 or sys.argv[1] not in PARTS:
        sys.exit("usage: gpu_peers.py " + "|".join(PARTS) + " [--try-on-cpu]")
    if tiny:
        global MEASURE_S
        MEASURE_S = TRY_S
    try:
        print(json.dumps(PARTS[sys.argv[1]](Sizes(tiny), tiny)))
        return 0
    except (ImportError, OSError, RuntimeError) as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
