#!/usr/bin/env python3
"""control_flow.py [--all | --seeds A:B] [--gradients] [--jobs N] [--keep FOLDER]: random programs with control flow
(random_programs.py), each at 5 bindings in one session: the engines cpu, cpu:no-fusion and ref give what ONNX's reference
evaluator gives (reference_ops.py), at the first binding again the same bits, and nothing is compiled once the program is made.

With --gradients: programs of differentiable operators in double precision. `weft grad` and the three engines give what central
differences of the reference evaluator give, along random directions.

Without options it runs some of the seeds from 0 to 199; --all runs all of them. A worker process that dies is a fault of its seed.
Where an engine and the evaluator differ, the line says with whom ONNX Runtime agrees; --keep writes models and inputs there.
Needs numpy, onnx, onnxruntime and the library of the tree (WEFT_LIBRARY, else build/lib/libweft.so)."""
import argparse
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

import numpy as np

import peer
import random_programs
import reference_ops
import weft_library

SEEDS, EVERY = 200, 8
GRADIENTS, EVERY_GRADIENT = 100, 10
BINDINGS = 5
ENGINES = ("cpu", "cpu:no-fusion", "ref")


def apart(want, got, tolerance):
    """What is wrong, or None."""
    if want is None or got is None:
        return None if want is got else "nothing for something, or something for nothing"
    if isinstance(want, list):
        if not isinstance(got, list) or len(want) != len(got):
            return f"{len(got) if isinstance(got, list) else 'no'} elements for {len(want)}"
        return next((f"[{i}]: {e}" for i, (w, g) in enumerate(zip(want, got)) if (e := apart(w, g, tolerance))), None)
    if isinstance(got, list) or want.shape != got.shape or want.dtype != got.dtype:
        return f"{'a list' if isinstance(got, list) else f'{got.dtype}{list(got.shape)}'} for {want.dtype}{list(want.shape)}"
    if want.dtype.kind not in "f":
        wrong = np.argwhere(want != got)
        return f"{want[tuple(wrong[0])]} is {got[tuple(wrong[0])]} at {list(map(int, wrong[0]))}" if len(wrong) else None
    with np.errstate(all="ignore"):
        error = np.abs(got.astype("f8") - want.astype("f8"))
        good = (want == got) | (np.isnan(want) & np.isnan(got)) | (error <= tolerance * (1 + np.max(np.abs(want), initial=0, where=np.isfinite(want))))
    wrong = np.argwhere(~good)
    return f"{want[tuple(wrong[0])]} is {got[tuple(wrong[0])]} at {list(map(int, wrong[0]))}" if len(wrong) else None


def first_apart(program, want, got, tolerance):
    return next((f"{v.name}: {e}" for v, w, g in zip(program.outputs, want, got) if (e := apart(w, g, tolerance))), None)


def single(program):
    """Some values have been of single precision."""
    return "f4" in program.dtypes


def onnxruntime_runs(model, feeds):
    """The outputs, or the text of an error; in a process of its own, since it may die."""
    feeds = {k: (v[0] if v else None) if isinstance(v, reference_ops.Opt) else v for k, v in feeds.items()}
    done = subprocess.run([sys.executable, __file__, "--onnxruntime"], input=pickle.dumps((model.SerializeToString(), feeds)), capture_output=True)
    return pickle.loads(done.stdout) if done.returncode == 0 else f"died ({done.returncode})"


def answer_as_onnxruntime():
    import onnxruntime as ort
    model, feeds = pickle.load(sys.stdin.buffer)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        out = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    except Exception as e:  # ONNX Runtime's errors have no base of their own
        out = str(e)
    sys.stdout.buffer.write(pickle.dumps(out))


def third_voice(program, feeds, want, got, tolerance):
    out = onnxruntime_runs(program.model, feeds)
    if isinstance(out, str):
        return f"ONNX Runtime: {out[:80]}"
    out = [reference_ops.Opt([] if o is None else [o]) if v.kind == "optional" else o for v, o in zip(program.outputs, out)]
    return "ONNX Runtime agrees with " + (
        "the evaluator" if not first_apart(program, want, out, tolerance) else "Weft" if not first_apart(program, out, got, tolerance) else "nobody")


def keep(folder, program, feeds):
    if folder:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        path = pathlib.Path(folder, f"{program.seed}{'s' if program.smooth else ''}")
        path.with_suffix(".onnx").write_bytes(program.model.SerializeToString())
        path.with_suffix(".pickle").write_bytes(pickle.dumps(feeds))


def faults_of(seed, folder):
    """Lines about what is wrong."""
    p = random_programs.Program(seed)
    evaluator = reference_ops.evaluator(p.model)
    feeds = list(p.bindings(BINDINGS))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wants = [evaluator.run(None, f) for f in feeds]
    tolerance = 1e-4
    faults = []
    for engine in ENGINES:
        try:
            program = weft_library.Program(p.model, engine)
        except weft_library.WeftError as e:
            faults.append(f"{engine}: not compiled: {str(e)[:400]}")
            keep(folder, p, feeds[0])
            continue
        for k in [*range(BINDINGS), 0]:
            try:
                got = program.run(feeds[k])
            except weft_library.WeftError as e:
                faults.append(f"{engine}, binding {k}: {str(e)[:400]}")
                keep(folder, p, feeds[k])
                break
            error = first_apart(p, wants[k], got, tolerance)
            if error:
                faults.append(f"{engine}, binding {k}: {error}; {third_voice(p, feeds[k], wants[k], got, tolerance)}")
                keep(folder, p, feeds[k])
                break
        if program.compiled:
            faults.append(f"{engine}: compiled {program.compiled} in runs")
    return faults


def directions(feeds, inputs, rng):
    """Steps of all inputs at once, and of single ones."""
    floats = [v.name for v in inputs if v.dtype == "f8" and v.kind == "tensor" and feeds[v.name].size]
    for names in [floats] + [[n] for n in floats]:
        yield {n: rng.choice([-1.0, 1.0], feeds[n].shape) for n in names}


def gradient_faults_of(seed, folder):
    p = random_programs.Program(seed, smooth=True)
    evaluator = reference_ops.evaluator(p.model)
    floats = [v for v in p.top.inputs if v.dtype == "f8" and v.kind == "tensor"]
    with tempfile.TemporaryDirectory() as scratch:
        source, out = pathlib.Path(scratch, "m.onnx"), pathlib.Path(scratch, "g.weft")
        source.write_bytes(p.model.SerializeToString())
        done = subprocess.run([peer.WEFT, "grad", str(source), "--seed-inputs", "--xs", ",".join(v.name for v in floats), "-o", str(out)],
                              capture_output=True, text=True)
        if done.returncode:
            keep(folder, p, {})
            return [f"weft grad: {done.stderr.strip()[:400]}"]
        text = out.read_bytes()
    rng = np.random.default_rng(seed)
    faults, step, asked = [], 2e-4, []
    for feeds in p.bindings(BINDINGS):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want = evaluator.run(None, feeds)
            seeds = [rng.uniform(-1, 1, w.shape) for w in want]

            def moved(by, sign):
                out = evaluator.run(None, {n: v + sign * step * by[n] if n in by else v for n, v in feeds.items()})
                return [np.sum(s * o) if s.shape == o.shape else np.nan for s, o in zip(seeds, out)]
            slopes = []
            for by in directions(feeds, p.top.inputs, rng):
                # Of fourth order: what the step leaves is far below what doubles round.
                coarse, fine = ((sum(w * np.sum(moved(by, k * h)) for k, w in ((1, 8), (-1, -8), (2, -1), (-2, 1))) / (12 * h * step))
                                for h in (1, 0.25))
                slopes.append((by, fine, np.nan_to_num(abs(fine - coarse))))  # the wider step may leave where sizes stay
        asked.append((feeds, want, seeds, slopes))
    for engine in ENGINES:
        try:
            program = weft_library.Program(text, engine, format="weft")
        except weft_library.WeftError as e:
            faults.append(f"{engine}: not compiled: {str(e)[:400]}")
            continue
        names = [o[0] for o in program.outputs]
        for k, (feeds, want, seeds, slopes) in enumerate(asked):
            with_seeds = {**feeds, **{f"grad_{v.name}": s for v, s in zip(p.outputs, seeds)}}
            try:
                got = program.run(with_seeds)
            except weft_library.WeftError as e:
                faults.append(f"{engine}, binding {k}: {str(e)[:400]}")
                keep(folder, p, with_seeds)
                break
            error = first_apart(p, want, got, 1e-9)
            by_name = dict(zip(names, got))
            for by, slope, unsure in slopes:
                found = sum(np.sum(by_name[f"grad_{n}"] * d) for n, d in by.items())
                scale = 1 + max(abs(slope), sum(np.sum(np.abs(by_name[f"grad_{n}"])) for n in by))
                if not error and not abs(found - slope) <= 1e-6 * scale + 2 * unsure:
                    error = f"gradient along {', '.join(by)}: {slope} is {found}"
            if error:
                faults.append(f"{engine}, binding {k}: {error}")
                keep(folder, p, with_seeds)
                break
        if program.compiled:
            faults.append(f"{engine}: compiled {program.compiled} in runs")
    return faults


def work(seeds, gradients, folder):
    """A worker: a line when a seed is begun, and one when it is done."""
    for seed in seeds:
        print(json.dumps({"begin": seed}), flush=True)
        begin = time.perf_counter()
        try:
            faults = (gradient_faults_of if gradients else faults_of)(seed, folder)
        except Exception:
            faults = [f"of the test: {traceback.format_exc(limit=-3)}"]
        print(json.dumps({"seed": seed, "faults": faults, "seconds": time.perf_counter() - begin}), flush=True)


def run_all(seeds, jobs, gradients, folder, seconds):
    """The faults by seed; what does not end within `seconds` is one."""
    waiting, faults = [seeds[k::jobs] for k in range(jobs)], {}
    running = {}

    def start(k):
        command = [sys.executable, str(pathlib.Path(__file__).parent / "run"), "control_flow.py", "--work", json.dumps(waiting[k])]
        command += ["--gradients"] * gradients + (["--keep", folder] if folder else [])
        running[k] = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT), b"", None, time.monotonic(), ""]
        os.set_blocking(running[k][0].stdout.fileno(), False)
    for k in range(jobs):
        if waiting[k]:
            start(k)
    while running:
        time.sleep(0.02)
        for k in list(running):
            process, buffer, now, since, said = running[k]
            ended = process.poll() is not None
            lines = (buffer + (process.stdout.read() or b"")).split(b"\n")
            running[k][1] = lines.pop()
            for line in lines:
                try:
                    item = json.loads(line)
                except ValueError:
                    running[k][4] += line.decode(errors="replace") + " "
                    continue
                if "begin" in item:
                    running[k][2:4] = item["begin"], time.monotonic()
                    continue
                waiting[k].remove(item["seed"])
                running[k][2] = None
                if item["faults"]:
                    faults[item["seed"]] = item["faults"]
                    for f in item["faults"]:
                        print(f"{item['seed']}: {f}", flush=True)
            now, since, said = running[k][2:]
            late = now is not None and time.monotonic() - since > seconds
            if late:
                process.kill()
                process.wait()
            if late or ended:
                del running[k]
                if now is None and not waiting[k]:
                    continue
                seed = now if now is not None else waiting[k][0]
                faults[seed] = [f"does not end in {seconds} s" if late else f"died ({process.returncode}): {said[-300:]}"]
                print(f"{seed}: {faults[seed][0]}", flush=True)
                waiting[k].remove(seed)
                if waiting[k]:
                    start(k)
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seeds")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--work", type=json.loads)
    parser.add_argument("--onnxruntime", action="store_true")
    args = parser.parse_args()
    if args.onnxruntime:
        return answer_as_onnxruntime()
    if args.work is not None:
        return work(args.work, args.gradients, args.keep)
    begin = time.perf_counter()
    if args.seeds:
        first, end = args.seeds.split(":")
        parts = [(list(range(int(first), int(end))), args.gradients)]
    else:
        parts = [(list(range(0, SEEDS, 1 if args.all else EVERY)), False), (list(range(0, GRADIENTS, 1 if args.all else EVERY_GRADIENT)), True)]
    wrong = 0
    for seeds, gradients in parts:
        faults = run_all(seeds, args.jobs, gradients, args.keep, args.seconds)
        wrong += len(faults)
        print(f"{len(seeds) - len(faults)} of {len(seeds)} {'gradients of ' * gradients}programs right, at {BINDINGS} bindings each, "
              f"by {', '.join(ENGINES)}; {time.perf_counter() - begin:.0f} s")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
