#!/usr/bin/env python3
"""run_tests.py BUILD [--all]: the tests of a build; where all have passed before, those worth running again.

A complete run (--all, or as long as none has passed) runs everything, and keeps in BUILD/check/complete.json what the tree
held and how long each case took. Later runs compare the tree with that; what passes is kept in last.json:

    nothing changed since a run that passed    nothing runs
    a test is new                              it runs whole
    a file changed that a test looks at        it runs whole: below its LABELS, paths of the tree, or public headers of them
    another file changed                       it runs without its slow cases (SLOW_S); a script is one case

The last line says how many cases passed, how many failed, and how many were left out; --all has them all.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLOW_S = 0.5
COUNTS = re.compile(r"test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed")
DURATION = re.compile(r"^(\d+\.\d+) s: (.*)$", re.M)
KEPT_OUTPUT = "10000000"  # bytes of each test


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode() if done.returncode == 0 else ""


def tree(build):
    """{path: hash} of the files that git knows or would add, or of all files of a tree without git; and how it is configured."""
    if git("rev-parse", "--show-toplevel").rstrip("\n") == str(ROOT):
        listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    else:
        listed = [str(p.relative_to(ROOT)) for top in ROOT.iterdir() if not top.name.startswith("build")
                  for p in [top, *top.rglob("*")] if "__pycache__" not in p.parts]
    files = {name: ROOT / name for name in listed}
    files["(configuration)"] = build / "CMakeCache.txt"
    return {name: hashlib.sha1(path.read_bytes()).hexdigest() for name, path in files.items() if path.is_file()}


def tests_of(build):
    """{name: labels} of ctest."""
    shown = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, capture_output=True, check=True).stdout
    return {test["name"]: next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
            for test in json.loads(shown)["tests"]}


def is_near(path, labels):
    """Whether the file is below one of them; src/a/b has its public headers in include/weft/a/b."""
    for label in labels:
        for place in (label, re.sub("^src/", "include/weft/", label)):
            if path == place or path.startswith(place + "/"):
                return True
    return False


def choose(tests, known, changed):
    """({test: cases to leave out} of those that run, number of cases left out)."""
    chosen, left_out = {}, 0
    for test, labels in tests.items():
        seconds = known["cases"].get(test)
        if seconds is None or any(is_near(path, labels) for path in changed):
            chosen[test] = []
            continue
        slow = [case for case, s in seconds.items() if s > SLOW_S]
        left_out += len(slow)
        if len(slow) < len(seconds):
            chosen[test] = slow
    return chosen, left_out


def run(build, chosen):
    """Runs the chosen tests; (passed, failed, {test: {case: seconds}}). A doctest program counts by its cases."""
    report = build / "tests.xml"
    report.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as without:
        for test, cases in chosen.items():
            if cases:
                pathlib.Path(without, test).write_text("\n".join(cases) + "\n", encoding="utf-8")
        pattern = "^(" + "|".join(map(re.escape, chosen)) + ")$"
        subprocess.run(["ctest", "-j", str(len(os.sched_getaffinity(0))), "-R", pattern, "--output-on-failure",
                        "--output-junit", report, "--test-output-size-passed", KEPT_OUTPUT, "--test-output-size-failed", KEPT_OUTPUT],
                       cwd=build, env={**os.environ, "WEFT_TESTS_TIMED": "1", "WEFT_TESTS_WITHOUT": without},
                       stdin=subprocess.DEVNULL, check=False)
    passed = failed = 0
    seconds = {}
    for case in xml.parse(report).getroot().iter("testcase"):
        if case.get("status") == "disabled":
            continue
        ok, text, test = case.get("status") == "run", case.findtext("system-out") or "", case.get("name")
        counts = COUNTS.search(text)
        good, bad = map(int, counts.groups()[1:]) if counts else (int(ok), int(not ok))
        passed += good
        failed += bad if ok else max(bad, 1)  # a program that died after its last case failed as well
        timed = {name: float(s) for s, name in DURATION.findall(text)}
        # Of a program that counts cases but does not time them all are alike.
        seconds[test] = timed or {"": float(case.get("time")) / max(1, good + bad)}
    return passed, failed, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--all", action="store_true", help="all tests, whatever has passed before")
    args = parser.parse_args()
    complete, last = args.build / "check/complete.json", args.build / "check/last.json"
    now, tests = tree(args.build), tests_of(args.build)
    known = json.loads(complete.read_text()) if complete.is_file() and not args.all else None
    if known is None:
        chosen, left_out = {test: [] for test in tests}, 0
    elif last.is_file() and json.loads(last.read_text()) == now:
        chosen, left_out = {}, sum(map(len, known["cases"].values()))
    else:
        changed = {path for path in {*now, *known["tree"]} if now.get(path) != known["tree"].get(path)}
        chosen, left_out = choose(tests, known, changed)
    last.unlink(missing_ok=True)
    if known is None:
        complete.unlink(missing_ok=True)
    passed, failed, seconds = run(args.build, chosen) if chosen else (0, 0, {})
    if not failed:
        complete.parent.mkdir(exist_ok=True)
        last.write_text(json.dumps(now))
        if known is None and seconds:
            complete.write_text(json.dumps({"tree": now, "cases": seconds}))
    print(f"tests: {passed} passed, {failed} failed, {left_out} left out")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
