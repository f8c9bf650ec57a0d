#!/usr/bin/env python3
"""recompute_peers.py: `weft plan FILE.json` against the proven optimum and against the plans of others.

  recompute_peers.py checkmate [--first 0] [--count 100] [--seconds 60]   OR-tools of the Python index
  recompute_peers.py pfn FOLDER                               cg_*.txt of pfnet-research/recompute

checkmate: instances of recompute_graphs.py at three budgets; the oracle is the integer program of Checkmate (Jain et
al., 2020): in stage t node t runs first, any earlier node may run again before it, and values are carried between
stages. It is asked for anything cheaper than Weft's plan (or any plan, where Weft has none), to a proof.
pfn: what Weft needs to stay below the best of 60 plans of the paper's program (GT), figures of one simulator.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import recompute_graphs

WEFT = os.environ.get("WEFT") or pathlib.Path(__file__).resolve().parent.parent / "build/bin/weft"


def plan(path, budget):
    """The report of `weft plan`, and its seconds."""
    start = time.time()
    done = subprocess.run([WEFT, "plan", path, "--json"] + (["--memory-budget", str(budget)] if budget else []),
                          capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    return json.loads(done.stdout), time.time() - start


def checkmate(problem, budget, below, seconds):
    """The cost of what runs again in the cheapest plan of at most `budget` bytes and a cost < below (None: any):
    (status, cost), "optimal" or "infeasible" where it is proven."""
    from ortools.sat.python import cp_model
    nodes = problem["nodes"]
    values, names = [], {}
    for k, node in enumerate(nodes):
        for j, size in enumerate(node["outputs"]):
            names[node["name"] + (f":{j}" if j else "")] = len(values)
            values.append((k, size))
    unit = math.gcd(*(size for _, size in values)) or 1
    reads = [sorted({names[i] for i in node["inputs"]}) for node in nodes]
    makes = [[v for v, (m, _) in enumerate(values) if m == k] for k in range(len(nodes))]
    size = [s // unit for _, s in values]
    # (read, made) that share bytes, where the value dies.
    over = []
    for node in nodes:
        over.append([(names[node["inputs"][i]], names[node["name"] + (f":{o}" if o else "")])
                     for i, o in node.get("inplace", [])])
    limit = budget // unit
    n = len(nodes)
    model = cp_model.CpModel()
    runs = {(t, k): model.NewBoolVar("") for t in range(n) for k in range(t)}
    held = {(t, v): model.NewBoolVar("") for t in range(1, n) for v, (m, _) in enumerate(values) if m < t}
    one, zero = model.NewConstant(1), model.NewConstant(0)
    ran = lambda t, k: one if t == k else runs[t, k] if k < t else zero
    hold = lambda t, v: held.get((t, v), zero)
    for t in range(n):
        for k in range(t):
            if not nodes[k].get("recompute", True):
                model.Add(runs[t, k] == 0)
        for k in range(t + 1):
            for v in reads[k]:
                model.Add(ran(t, k) <= ran(t, values[v][0]) + hold(t, v))
        if t + 1 < n:
            for v, (m, _) in enumerate(values):
                if m <= t:
                    model.Add(hold(t + 1, v) <= hold(t, v) + ran(t, m))
        # Bytes after each run: what came in, what was made, less what nothing reads or carries any more.
        live = [(size[v], hold(t, v)) for v, (m, _) in enumerate(values) if m < t]
        for k in range(t + 1):
            live += [(size[v], ran(t, k)) for v in makes[k]]
            # What is written over a value that dies here does not count beside it.
            during = list(live)
            for i, o in over[k]:
                if size[i] != size[o]:
                    continue
                dies = model.NewBoolVar("")
                model.AddImplication(dies, ran(t, k))
                model.Add(dies + hold(t + 1, i) <= 1)
                for later in range(k + 1, t + 1):
                    if i in reads[later]:
                        model.Add(dies + ran(t, later) <= 1)
                during.append((-size[o], dies))
            model.Add(sum(s * x for s, x in during) <= limit)
            for v in set(reads[k]) | set(makes[k]):
                # Freed after its last run here: no later reader runs, and it is not carried on. It was there.
                freed = model.NewBoolVar("")
                model.Add(freed + hold(t + 1, v) <= 1)
                model.AddImplication(freed, ran(t, k))
                for later in range(k + 1, t + 1):
                    if v in reads[later]:
                        model.Add(freed + ran(t, later) <= 1)
                live.append((-size[v], freed))
        # A value that came in and was made again counts twice above: forbid it.
        for v, (m, _) in enumerate(values):
            if m < t and len(makes[m]) == 1:
                model.Add(hold(t, v) + ran(t, m) <= 1)
    cost = sum(nodes[k]["cost"] * x for (t, k), x in runs.items())
    if below is not None:
        model.Add(cost <= below - 1)
    model.Minimize(cost)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    status = solver.Solve(model)
    if status == cp_model.INFEASIBLE:
        return "infeasible", None
    if status == cp_model.OPTIMAL:
        return "optimal", round(solver.ObjectiveValue())
    return "open", round(solver.ObjectiveValue()) if status == cp_model.FEASIBLE else None


def run_checkmate(first, count, seconds):
    ratios, open_cases, missing, none, slowest = [], 0, 0, 0, 0
    kinds = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "problem.json"
        for name, problem in recompute_graphs.instances(first + count)[first:]:
            path.write_text(json.dumps(problem))
            full, _ = plan(path, None)
            least, _ = plan(path, "min")
            base = sum(node["cost"] for node in problem["nodes"])
            # From what is just below the least that Weft reaches up to no recomputation.
            low, high = least["peak"], full["peak"]
            for budget in sorted({low - 1, low + (high - low) // 4, low + (high - low) // 2}):
                ours, took = plan(path, budget)
                slowest = max(slowest, took)
                status, cost = checkmate(problem, budget, ours["extra_cost"] if ours["met"] else None, seconds)
                if status == "open":
                    open_cases += 1
                elif not ours["met"]:
                    missing += status == "optimal"
                    none += status == "infeasible"
                else:
                    best = ours["extra_cost"] if status == "infeasible" else cost
                    ratios.append((base + ours["extra_cost"]) / (base + best))
                    kinds.setdefault(name.split("-")[0], []).append(ratios[-1])
                print(name, len(problem["nodes"]), budget, "met" if ours["met"] else "-", ours["extra_cost"], status,
                      cost, flush=True)
    print(f"{count} problems at 3 budgets: whole step / optimum mean {sum(ratios) / len(ratios):.4f}, worst "
          f"{max(ratios):.4f} of {len(ratios)}; a plan missed {missing}, proven that there is none {none}, not proven "
          f"{open_cases}; slowest plan {slowest:.2f} s")
    for kind, of in kinds.items():
        print(f"  {kind}: mean {sum(of) / len(of):.4f}, worst {max(of):.4f} of {len(of)}")


# GT's best of 60 runs: peak in MB and recomputation in % of a forward part.
GT = {"vgg19": (1644, 88), "unet": (4365, 92), "googlenet": (334, 100), "resnet50": (951, 98), "pspnet": (958, 100),
      "resnet152": (1130, 100), "densenet": (1236, 94)}


def run_pfn(folder):
    print("| graph | nodes | none, MB | GT, MB (cost) | below GT | at 0.85 GT | least | floor | seconds |\n|---|" + "---|" * 8)
    peaks, costs = [], []
    with tempfile.TemporaryDirectory() as out:
        for name, (gt, gt_cost) in GT.items():
            problem, forward = recompute_graphs.pfn(pathlib.Path(folder) / f"cg_{name}.txt")
            path = pathlib.Path(out) / "problem.json"
            path.write_text(json.dumps(problem))
            full, _ = plan(path, None)
            said = lambda p: f"{p['peak'] / 1e6:.0f} ({100 * p['extra_cost'] / forward:.0f} %)"
            below, _ = plan(path, gt * 1000000)
            lower, took = plan(path, gt * 850000)
            least, _ = plan(path, "min")
            ours = lower if lower["met"] else below
            peaks.append(ours["peak"] / 1e6 / gt)
            costs.append(100 * ours["extra_cost"] / forward / gt_cost)
            print(f"| {name} | {len(problem['nodes'])} | {full['peak'] / 1e6:.0f} | {gt} ({gt_cost} %) | {said(below)} | "
                  f"{said(lower) if lower['met'] else '-'} | {said(least)} | {least['lower_bound'] / 1e6:.0f} | "
                  f"{took:.2f} |", flush=True)
    mean = lambda values: math.exp(sum(map(math.log, values)) / len(values))
    print(f"geometric mean at 0.85 GT (below GT where that is not met): peak {mean(peaks):.3f}, recomputation "
          f"{mean(costs):.3f} of GT's")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["checkmate", "pfn"])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    if args.what == "pfn":
        run_pfn(args.folder)
    else:
        run_checkmate(args.first, args.count, args.seconds)


if __name__ == "__main__":
    main()
