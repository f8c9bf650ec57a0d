"""Bytes of the arena of models and their gradients, by two builds of `weft`, as a table.

    python3 bench/schedule_peaks.py BEFORE NOW DIR

BEFORE and NOW are paths of the command; DIR holds models (.onnx) or graphs with gradients
(`weft grad MODEL --seed-inputs --xs PARAMETERS`). Sizes: 4 pictures of 224, or 8 x 128 tokens.
"""
import json
import pathlib
import subprocess
import sys

SIZES = {"tv": ["--bind", "N=4", "--bind-all", "224"],
         "hf": ["--bind", "batch=8", "--bind-all", "128"]}


def find(report, key):
    """The value of `key`, however deep."""
    if not isinstance(report, dict):
        return None
    if key in report:
        return report[key]
    found = (find(value, key) for value in report.values())
    return next((value for value in found if value is not None), None)


def peak(weft, model):
    sizes = SIZES.get(model.name[:2], [])
    run = subprocess.run([weft, "inspect", str(model), "--json", *sizes], capture_output=True, text=True)
    return find(json.loads(run.stdout), "peak_bytes") if run.returncode == 0 else None


def main():
    before, now, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    print("| model | before, MB | now, MB | ratio |\n|---|---|---|---|")
    for model in sorted(folder.iterdir()):
        a, b = peak(before, model), peak(now, model)
        if a and b:
            print(f"| {model.stem} | {a / 1e6:.1f} | {b / 1e6:.1f} | {b / a:.3f} |", flush=True)


if __name__ == "__main__":
    main()
