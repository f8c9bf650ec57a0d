#!/usr/bin/env python3
"""accelerator_layouts.py: cycles of whole networks under planned layouts, and under those of simpler choices.

  bench/accelerator_layouts.py --weft build/bin/weft --plugin ./libhsimd.so [--machine tree64] MODEL[@n=8] ...

Each model is compiled by the plugin hsimd with the layouts of its planner, and with those that one would choose
without it: each node for itself, greedy in the order of the graph, the best single split for all nodes, axis 0 (a
batch) over all levels. Cycles are the simulator's, which are the predicted ones; nothing is timed. Prints a table in
Markdown: cycles of the plan, the others as multiples of them; `-`: it has no room, or no way, under that choice.
"""
import argparse
import json
import os
import subprocess

CHOICES = ["plan", "each", "greedy", "single", "batch"]


def bench(args, model, binds, choice):
    """The fields of `weft bench --json`, or None where the choice does not compile."""
    command = [args.weft, "--plugin", args.plugin, "bench", model, "--iterations", "1", "--json"]
    command += ["--backend", "hsimd:%s,layouts=%s" % (args.machine, choice)]
    for bind in binds:
        command += ["--bind", bind]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--machine", default="tree64")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    print("| network | cycles | bound | MAT busy | ALU busy | layout_gap | each | greedy | single | batch |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for text in args.models:
        model, *binds = text.split("@")
        results = {choice: bench(args, model, binds, choice) for choice in CHOICES}
        plan = results["plan"]
        name = " ".join([os.path.splitext(os.path.basename(model))[0]] + binds)
        if not plan:
            print("| %s | - |" % name, flush=True)
            continue
        cycles = plan["cycles"]
        row = [name, "{:,}".format(cycles), "{:,}".format(plan["bound_cycles"])]
        row += ["%.2f" % (plan["busy"].get(unit, 0) / cycles) for unit in ("MAT", "ALU")]
        row.append("%.3f" % plan["layout_gap"])
        for choice in CHOICES[1:]:
            row.append("%.2f" % (results[choice]["cycles"] / cycles) if results[choice] else "-")
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
