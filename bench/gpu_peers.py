#!/usr/bin/env python3
"""gpu_peers.py: what gpu_bench.py puts its figures beside: the driver's copy, PyTorch and JAX. One part a process:

    python3 bench/gpu_peers.py copy|torch-ops|torch-lenet|torch-resnet|torch-loops|jax-ops|jax-lenet [--try-on-cpu]

prints one JSON object; what one function of a part could not do is an "error" in its place. PyTorch and JAX have TF32
switched off, as Weft has.
"""
import ctypes
import functools
import json
import math
import os
import statistics
import sys
import time

MEASURE_S = 1.0  # of each loop
TRY_S = 0.1  # the same, where it is only tried
WARM = 10
AHEAD = 20  # steps that are started before the last is waited for
ROWS = ("softmax", "layer_norm", "softmax_256", "layer_norm_256", "softmax_65536", "layer_norm_65536")
OPS = ("chain", "softmax", "layer_norm", "statistics", "adam", *ROWS[2:])


def base_of(name):
    return name.rstrip("0123456789").rstrip("_")


class Sizes:
    """Every operand of an operation is larger than any cache of a GPU, ten times at least."""

    def __init__(self, tiny):
        self.chain = 1 << 12 if tiny else 1 << 28
        self.images = (2, 4, 6, 6) if tiny else (256, 256, 56, 56)
        self.product = 64 if tiny else 8192
        self.resnet = ["--size", "32", "--blocks", "1"] if tiny else []
        self.resnet_batch = 2 if tiny else 128
        self.lenet_batch = 64
        self.lstm = (4, 2, 8) if tiny else (64, 64, 512)  # steps, batch, width
        self.scan = (4, 64) if tiny else (256, 1 << 20)  # steps, elements of each
        self.tiny = tiny

    def rows(self, name):
        number = name[len(base_of(name)) + 1:]
        columns = int(number) if number else 4096
        return self.chain // columns or 1, columns

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


def moved_bytes(name, z):
    """What has to be read and written at least."""
    if name in ROWS:
        return 8 * math.prod(z.rows(name))
    return {
        "chain": 8 * z.chain,
        "statistics": 4 * math.prod(z.images),
        "adam": 28 * sum(map(math.prod, z.adam())),
    }[name]


def steady(run, wait=lambda: None, warm=WARM):
    """Milliseconds of a run that has ended: the median."""
    for _ in range(warm):
        run()
    wait()
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < MEASURE_S:
        t = time.perf_counter()
        run()
        wait()
        times.append(1e3 * (time.perf_counter() - t))
    return {"ms": statistics.median(times), "min_ms": min(times), "runs": len(times)}


def unwaited(start, wait):
    """Milliseconds of a step that is not waited for, and processor microseconds that starting it takes."""
    cpu = count = 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < MEASURE_S:
        before = time.process_time()
        for _ in range(AHEAD):
            start()
        cpu += time.process_time() - before
        wait()
        count += AHEAD
    return {"unwaited_ms": 1e3 * (time.perf_counter() - begin) / count, "cpu_us": 1e6 * cpu / count}


def guarded(found, name, measure):
    """One failing function does not take the others with it."""
    try:
        found[name] = measure()
    except Exception as e:  # whatever a compiler of a peer throws
        found[name] = {"error": f"{type(e).__name__}: {e}".splitlines()[0][:300]}
        print(f"{name}: {found[name]['error']}", file=sys.stderr, flush=True)


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

    def measured(count):
        size = ctypes.c_size_t(count)
        a, b = ctypes.c_ulonglong(), ctypes.c_ulonglong()
        call("cuMemAlloc_v2", ctypes.byref(a), size)
        call("cuMemAlloc_v2", ctypes.byref(b), size)
        call("cuMemsetD8_v2", a, ctypes.c_ubyte(1), size)
        found = steady(lambda: call("cuMemcpyDtoDAsync_v2", b, a, size, stream),
                       lambda: call("cuStreamSynchronize", stream))
        call("cuMemFree_v2", a)
        call("cuMemFree_v2", b)
        return {**found, "gb_per_s": 2e-6 * count / found["ms"]}

    measured = functools.lru_cache(None)(measured)
    return {name: measured(moved_bytes(name, z) // 2) for name in OPS}


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
    f, found = torch.nn.functional, {"version": torch.__version__}

    def operation(name):
        """A function and its operands; each is compiled for itself."""
        base = base_of(name)
        if base == "chain":
            return lambda x: torch.relu(torch.tanh(x * 0.7 - 0.1) * x), (torch.randn(z.chain, device=device),)
        if base == "statistics":
            x = torch.randn(*z.images, device=device)
            return lambda x: torch.var_mean(x, (0, 2, 3), correction=0), (x,)
        shape = z.rows(name)
        x = torch.randn(*shape, device=device)
        if base == "softmax":
            return lambda x: torch.softmax(x, -1), (x,)
        s, b = torch.randn(2, shape[1], device=device)
        return lambda x, s, b: f.layer_norm(x, shape[1:], s, b), (x, s, b)

    def eager_and_compiled(name):
        function, operands = operation(name)
        torch.compiler.reset()
        compiled = torch.compile(function, dynamic=False)
        with torch.no_grad():
            return {"eager": steady(lambda: function(*operands), wait),
                    "compiled": steady(lambda: compiled(*operands), wait)}

    def adam(**options):
        parameters = [torch.nn.Parameter(torch.randn(s, device=device)) for s in z.adam()]
        for p in parameters:
            p.grad = torch.randn_like(p)
        return steady(torch.optim.Adam(parameters, **options).step, wait)

    guarded(found, "adam", lambda: {"fused": adam(fused=True), "foreach": adam(foreach=True)})
    for name in OPS:
        if name != "adam":
            guarded(found, name, functools.partial(eager_and_compiled, name))
    return found


def torch_loops_part(z, tiny):
    """An LSTM, which is cuDNN's, and a loop over steps, which is Python's."""
    torch, device, wait = torch_device(tiny)
    found = {"version": torch.__version__}

    def lstm():
        steps, batch, width = z.lstm
        net, x = torch.nn.LSTM(width, width).to(device), torch.randn(steps, batch, width, device=device)
        with torch.no_grad():
            return steady(lambda: net(x), wait)

    def scan():
        x, s = torch.randn(*z.scan, device=device), torch.randn(z.scan[1], device=device)

        def loop(h, x):
            y = torch.empty_like(x)
            for t in range(x.shape[0]):
                h = torch.tanh(h + x[t])
                y[t] = h
            return h, y

        with torch.no_grad():
            return steady(lambda: loop(s, x), wait)

    guarded(found, "lstm", lstm)
    guarded(found, "scan", scan)
    return found


def jax_device(tiny):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    jax.config.update("jax_default_matmul_precision", "highest")
    if not tiny and jax.default_backend() != "gpu":
        raise RuntimeError("this JAX sees no GPU")
    return jax


def jax_ops_part(z, tiny):
    jax = jax_device(tiny)
    jnp, key, found = jax.numpy, jax.random.PRNGKey(1), {"version": jax.__version__}

    def norm(x, s, b):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * s + b

    def operation(name):
        base = base_of(name)
        if base == "chain":
            return lambda x: jnp.maximum(jnp.tanh(x * 0.7 - 0.1) * x, 0), (jax.random.normal(key, (z.chain,)),)
        if base == "statistics":
            return lambda x: (x.mean((0, 2, 3)), x.var((0, 2, 3))), (jax.random.normal(key, z.images),)
        x = jax.random.normal(key, z.rows(name))
        return (lambda x: jax.nn.softmax(x, -1), (x,)) if base == "softmax" else (norm, (x, x[0], x[-1]))

    def measure(name):
        function, operands = operation(name)
        compiled = jax.jit(function)
        return {"jit": steady(lambda: jax.block_until_ready(compiled(*operands)))}

    for name in OPS:
        if name != "adam":
            guarded(found, name, functools.partial(measure, name))
    return found


def training(step, value, wait):
    """One step whose loss is fetched, as Weft's is; steps that are not waited for; and what the first took more."""
    begin = time.perf_counter()
    value(step())
    wait()
    first = time.perf_counter() - begin
    found = steady(lambda: value(step()), wait)
    return {**found, **unwaited(step, wait), "compile_s": max(first - 1e-3 * found["ms"], 0)}


def torch_training(torch, net, optimizer, x, y, wait, autocast, mode):
    loss_of = torch.nn.CrossEntropyLoss()

    def forward(x, y):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=autocast):
            return loss_of(net(x), y)

    if mode:
        torch.compiler.reset()
        forward = torch.compile(forward, mode=mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return training(step, lambda loss: loss.item(), wait)


def torch_lenet_part(z, tiny):
    torch, device, wait = torch_device(tiny)
    nn, found = torch.nn, {"version": torch.__version__}
    x = torch.randn(z.lenet_batch, 1, 28, 28, device=device)
    y = torch.randint(0, 10, (z.lenet_batch,), device=device)

    def measure(mode):
        net = nn.Sequential(nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Tanh(),
                            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10)).to(device)
        fast = {} if tiny else {"fused": True, "capturable": True}
        return torch_training(torch, net, torch.optim.Adam(net.parameters(), **fast), x, y, wait, False, mode)

    guarded(found, "eager", lambda: measure(None))
    guarded(found, "compiled", lambda: measure("default" if tiny else "reduce-overhead"))
    return found


def torch_resnet_part(z, tiny):
    torch, device, wait = torch_device(tiny)
    nn, found = torch.nn, {"version": torch.__version__}
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

    size = 32 if tiny else 224
    x = torch.randn(z.resnet_batch, 3, size, size, device=device).to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (z.resnet_batch,), device=device)

    def measure(mode):
        layers, inputs = [norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for stage, blocks in enumerate((1, 1, 1, 1) if tiny else (3, 4, 6, 3)):
            for block in range(blocks):
                layers.append(Block(inputs, 64 << stage, 2 if stage and not block else 1, not block))
                inputs = 4 * (64 << stage)
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)).to(device)
        net = net.to(memory_format=torch.channels_last)
        fast = {} if tiny else {"fused": True}
        sgd = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9, weight_decay=1e-4, **fast)
        return torch_training(torch, net, sgd, x, y, wait, not tiny, mode)

    guarded(found, "eager", lambda: measure(None))
    if tiny:
        return {**found, "compiled": found["eager"]}  # compiling it takes a CPU a minute
    guarded(found, "compiled", lambda: measure("default"))
    return found


def jax_lenet_part(z, tiny):
    jax = jax_device(tiny)
    jnp, lax = jax.numpy, jax.lax
    keys = iter(jax.random.split(jax.random.PRNGKey(1), 6))
    shapes = ((20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (800, 500), (500,), (500, 10), (10,))
    params = [jax.random.normal(next(keys), s) * 0.05 if len(s) > 1 else jnp.zeros(s) for s in shapes]
    x = jax.random.normal(next(keys), (z.lenet_batch, 1, 28, 28))
    y = jax.random.randint(next(keys), (z.lenet_batch,), 0, 10)

    def layer(h, w, b):
        h = lax.conv_general_dilated(h, w, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        return lax.reduce_window(jnp.tanh(h + b[:, None, None]), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def loss_of(p):
        h = layer(layer(x, p[0], p[1]), p[2], p[3]).reshape(z.lenet_batch, -1)
        scores = jax.nn.log_softmax(jnp.tanh(h @ p[4] + p[5]) @ p[6] + p[7])
        return -scores[jnp.arange(z.lenet_batch), y].mean()

    def adam(state):
        p, m, v, t = state
        loss, g = jax.value_and_grad(loss_of)(p)
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
        t = t + 1
        rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        return ([a - rate * b / (jnp.sqrt(c) + 1e-8) for a, b, c in zip(p, m, v)], m, v, t), loss

    compiled = jax.jit(adam, donate_argnums=0)
    zeros = [jnp.zeros(s) for s in shapes]
    state = [(params, zeros, [jnp.zeros(s) for s in shapes], jnp.float32(0))]

    def step():
        state[0], loss = compiled(state[0])
        return loss

    return {"version": jax.__version__, "jit": training(step, float, lambda: jax.block_until_ready(state[0]))}


PARTS = {"copy": copy_part, "torch-ops": torch_ops_part, "torch-lenet": torch_lenet_part,
         "torch-resnet": torch_resnet_part, "torch-loops": torch_loops_part, "jax-ops": jax_ops_part,
         "jax-lenet": jax_lenet_part}


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
    except Exception as e:  # whatever a peer throws: its figures are missing, and this says why
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
