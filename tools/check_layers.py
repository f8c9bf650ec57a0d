#!/usr/bin/env python3
"""check_layers.py: fails on an #include that runs against the rooms' order, and on a file too long.

The table is the rule: a room may include itself, the rooms listed, and all that is below those.
"""
import pathlib
import re
import sys

BELOW = {
    "support": [], "sym": ["support"], "core": ["sym"], "codegen": ["core"],
    "ops": ["codegen"], "passes": ["codegen"], "runtime": ["codegen"], "onnx": ["core"],
    "codegen/llvm": ["codegen"], "codegen/cuda": ["codegen"], "backends": ["runtime"],
    "backends/ref": ["backends"],
    "api": ["runtime", "onnx"],
    "backends/cpu": ["backends", "codegen/llvm"], "backends/cuda": ["backends", "codegen/cuda"],
}
# A header directly in include/weft/ is for users: it may include any room and no room includes it,
# but for these, which belong to a room.
TOP_HEADERS = {"op_param.h": "core", "c_types.h": "support", "plugin.h": "core", "weft.h": "api"}
GENERATED = {"weft/abi_id.h"}  # by the build
MAX_LINES = 800
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def below(room):
    return {room}.union(*map(below, BELOW[room]))


def room_of(root, file):
    """The room a file is in; "top" for a user header; None outside every room."""
    tops = (root / "include/weft", root / "src")
    top = next((t for t in tops if t in file.parents), None)
    parts = file.relative_to(top).parts if top else ()
    if top == tops[0] and len(parts) == 1:
        return TOP_HEADERS.get(parts[0], "top")
    return next((r for r in ("/".join(parts[:2]), "/".join(parts[:1])) if r in BELOW), None)


def problems_of(root, file):
    room, lines = room_of(root, file), file.read_text(encoding="utf-8").splitlines()
    if room is None:
        yield "is in no room of the table"
    if len(lines) > MAX_LINES:
        yield f"{len(lines)} lines, the limit is {MAX_LINES}"
    for number, line in enumerate(lines, 1):
        name = INCLUDE.match(line) and INCLUDE.match(line)[1]
        places = [p / name for p in (file.parent, root / "include", root / "src")] if name else []
        target = next((p.resolve() for p in places if p.is_file()), None)
        if target is None and name and name.startswith("weft/") and name not in GENERATED:
            yield f"line {number}: {name} does not exist"
        elif target and room in BELOW and room_of(root, target) not in below(room):
            yield f"line {number}: {room} may not include {name} of {room_of(root, target)}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../..").resolve()
    files = [f for top in ("include/weft", "src") for f in sorted((root / top).rglob("*"))
             if f.suffix in (".h", ".cc", ".inc")]
    problems = [f"{f.relative_to(root)}: {p}" for f in files for p in problems_of(root, f)]
    print("\n".join(problems) or f"layers: {len(files)} files, every include in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
