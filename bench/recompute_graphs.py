"""recompute_graphs.py: problems for `weft plan FILE.json`: training graphs made at random, and those of
the recomputation paper of NeurIPS 2019 from their text form."""
import heapq
import json
import random


def training(forward, seed, unit=1 << 20):
    """Nodes of a training step: forward = [(inputs, bytes, cost, what its backward reads of inputs and itself)]."""
    nodes = []
    for k, (inputs, size, cost, _) in enumerate(forward):
        nodes.append({"name": f"f{k}", "inputs": [f"f{i}" for i in inputs], "outputs": [size * unit], "cost": cost})
    gradient = {len(forward) - 1: f"f{len(forward) - 1}"}  # of the last value: itself, as a loss
    for k in reversed(range(len(forward))):
        inputs, _, cost, reads = forward[k]
        if k not in gradient:
            continue
        into = [i for i in dict.fromkeys(inputs)] or [None]
        node = {"name": f"b{k}", "inputs": list(dict.fromkeys([gradient[k]] + [f"f{i}" for i in reads])),
                "outputs": [], "cost": 2 * cost, "inplace": []}
        for i in into:
            if i is None:
                node["outputs"].append(unit)  # of a parameter
                continue
            if i in gradient:  # added to what there is
                if gradient[i] not in node["inputs"]:
                    node["inputs"].append(gradient[i])
                node["inplace"].append([node["inputs"].index(gradient[i]), len(node["outputs"])])
            node["outputs"].append(forward[i][1] * unit)
            gradient[i] = f"b{k}" if len(node["outputs"]) == 1 else f"b{k}:{len(node['outputs']) - 1}"
        nodes.append(node)
    return {"nodes": nodes}


def chain(n, rng, skips=False):
    forward = []
    for k in range(n):
        inputs = [k - 1] if k else []
        if skips and k >= 3 and k % 3 == 0:
            inputs.append(k - 3)
        reads = ([k - 1] if k else []) if rng.random() < 0.6 else [k]
        forward.append((inputs, rng.randint(1, 8), rng.choice([1, 1, 2, 10]), reads))
    return forward


def u_shape(n, rng):
    """Down and up; level k of the way up reads level k of the way down beside what is below it."""
    half = n // 2
    forward = []
    for k in range(n):
        inputs = [k - 1] if k else []
        mirror = n - 1 - k
        if k > half and 0 <= mirror < k - 1:
            inputs.append(mirror)
        depth = min(k, n - 1 - k)
        forward.append((inputs, max(1, 8 - 2 * depth + rng.randint(0, 1)), rng.choice([1, 2, 10]), inputs[:] or [k]))
    return forward


def attention(n, rng):
    """Blocks: x -> q, k -> scores (large) -> soft-max (large) -> + x."""
    forward = [([], 2, 1, [0])]
    while len(forward) + 5 <= n:
        x = len(forward) - 1
        q, k, s, p = x + 1, x + 2, x + 3, x + 4
        size = rng.randint(2, 3)
        forward += [([x], size, 10, [x]), ([x], size, 10, [x]), ([q, k], 8, 5, [q, k]), ([s], 8, 1, [p]),
                    ([p, x], 2, 5, [p, x])]
    return forward


def instances(count):
    """[(name, problem)]: chain, skip, U, attention in turn, of at most 26 nodes."""
    made = []
    for seed in range(count):
        rng = random.Random(seed)
        kind = ("chain", "skip", "u", "attention")[seed % 4]
        n = rng.randint(8, 13)
        forward = {"chain": lambda: chain(n, rng), "skip": lambda: chain(n, rng, True), "u": lambda: u_shape(n, rng),
                   "attention": lambda: attention(max(n, 11), rng)}[kind]()
        made.append((f"{kind}-{seed}", training(forward, seed)))
    return made


def pfn(path):
    """One of the paper's graphs: activations and their gradients; backward reads what the function retains.
    Returns the problem and the cost of the forward part."""
    lines = open(path).read().split("\n")
    values, functions = map(int, lines[0].split())
    size, named, at = {}, set(), 1
    for _ in range(values):
        v, b, name = lines[at].split(" ", 2)
        size[int(v)] = int(b)
        if name != "_":
            named.add(int(v))
        at += 1
    forward, retained = [], {}
    for _ in range(functions):
        word = lines[at].strip()
        at += 1
        n_in, n_out = map(int, lines[at].split())
        rows = [lines[at + 1 + i].split() for i in range(n_in)]
        ins = [int(row[0]) for row in rows]
        outs = [int(lines[at + 1 + n_in + i].split()[0]) for i in range(n_out)]
        at += 1 + n_in + n_out
        kind = lines[at].strip()
        at += 1
        attrs = {}
        if at < len(lines) and lines[at].startswith("{"):
            attrs = json.loads(lines[at])
            at += 1
        if word == "forward":
            forward.append((attrs.get("rank", 0), ins, outs, kind))
        else:  # of the forward function that has these gradients, and this rank
            key = (attrs.get("rank", 0), kind, tuple(v for v, role in zip(ins, rows) if role[1] == "gradient"))
            retained[key] = [v for v, role in zip(ins, rows) if role[1] != "gradient"]
    maker = {o: k for k, f in enumerate(forward) for o in f[2]}
    missing = [sum(i in maker for i in set(f[1])) for f in forward]
    readers = {}
    for k, f in enumerate(forward):
        for i in set(f[1]):
            readers.setdefault(i, []).append(k)
    ready, order = [(f[0], k) for k, f in enumerate(forward) if missing[k] == 0], []
    heapq.heapify(ready)
    while ready:
        _, k = heapq.heappop(ready)
        order.append(k)
        for o in forward[k][2]:
            for r in readers.get(o, []):
                missing[r] -= 1
                if missing[r] == 0:
                    heapq.heappush(ready, (forward[r][0], r))
    assert len(order) == len(forward), path
    nodes, name, total = [], {}, 0
    for k in order:
        _, ins, outs, kind = forward[k]
        cost = 10 if "onvolution" in kind else 1
        total += cost
        nodes.append({"name": f"f{k}", "inputs": list(dict.fromkeys(name[i] for i in ins if i in name)),
                      "outputs": [size[o] for o in outs], "cost": cost})
        for j, o in enumerate(outs):
            name[o] = f"f{k}" if j == 0 else f"f{k}:{j}"
    gradient = {}
    for k in reversed(order):
        rank, ins, outs, kind = forward[k]
        last = not any(o in gradient for o in outs)
        if last and any(readers.get(o) for o in outs):
            continue
        kept = retained[rank, kind, tuple(outs)]
        node = {"name": f"b{k}", "inputs": [], "outputs": [], "cost": 0, "inplace": [], "recompute": False}
        for o in outs:
            if o in gradient:
                node["inputs"].append(gradient[o])
            elif last:
                node["inputs"].append(name[o])
        node["inputs"] += [name[v] for v in kept if v in name]
        node["inputs"] = list(dict.fromkeys(node["inputs"]))
        for i in dict.fromkeys(ins):
            if i not in name:
                continue
            if i in gradient:
                node["inputs"].append(gradient[i])
                node["inplace"].append([len(node["inputs"]) - 1, len(node["outputs"])])
            gradient[i] = f"b{k}" if not node["outputs"] else f"b{k}:{len(node['outputs'])}"
            node["outputs"].append(size[i])
        nodes.append(node)
    return {"nodes": nodes}, total
