#!/usr/bin/env python3
"""check_tests.py: every source of src/ has a test that one finds.

x.cc, and a part of it, x_part.cc, have x_test.cc beside them. A pass has its golden folder below tests/passes, named as its
file or as the folder that it stands in. Operators are run by their examples (src/ops/examples_test.cc), so a file that
registers one needs no more. Anything else is a line of tests/tested_by.txt, which says where to look; a line is wrong where
its test or its source does not exist, and where its source has a test without it.
"""
import pathlib
import re
import sys

LIST = "tests/tested_by.txt"
PASSES = ("src/passes/", "src/codegen/passes/")


def sources(root):
    """Paths without .cc of what is tested: no tests, and no doubles."""
    return {str(f.relative_to(root).with_suffix("")): f for f in sorted((root / "src").rglob("*.cc"))
            if not f.name.endswith("_test.cc") and f.parent.name != "doubles"}


def has_test(root, path, file):
    """By its name or its place."""
    parts = file.stem.split("_")
    if any((file.parent / ("_".join(parts[:n]) + "_test.cc")).exists() for n in range(1, len(parts) + 1)):
        return True
    if path.startswith(PASSES):
        return any(list((root / "tests/passes" / name).glob("*.weft")) for name in (file.stem, file.parent.name))
    return path.startswith("src/ops/") and "WEFT_REGISTER_OP" in file.read_text(encoding="utf-8")


def listed(root):
    """(number, test, source, reason) of every source of the list."""
    for number, line in enumerate((root / LIST).read_text(encoding="utf-8").splitlines(), 1):
        test, _, rest = line.partition(":")
        names, _, reason = rest.partition("#")
        if line and not line.startswith("#"):
            for name in names.split():
                yield number, test, name, reason.strip()


def problems(root):
    known, told = sources(root), set()
    for number, test, name, reason in listed(root):
        beside = f"{pathlib.PurePosixPath(test).parent}/{name}"
        path = beside if beside in known else f"src/{name}"
        if not (reason if test == "none" else (root / test).exists()):
            yield f"{LIST}:{number}: {'says no reason' if test == 'none' else test + ' does not exist'}"
        if path not in known:
            yield f"{LIST}:{number}: {name} is not a source"
        elif path in told:
            yield f"{LIST}:{number}: {name} is listed twice"
        elif has_test(root, path, known[path]):
            yield f"{LIST}:{number}: {name} has a test without this line"
        told.add(path)
    for path, file in known.items():
        if path not in told and not has_test(root, path, file):
            yield f"{path}.cc: has no test beside it, no golden folder and no line in {LIST}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../..").resolve()
    found = list(problems(root))
    print("\n".join(found) or f"tests: {len(sources(root))} sources, each with a test that one finds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
