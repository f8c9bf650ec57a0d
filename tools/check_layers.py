#!/usr/bin/env python3
"""check_layers.py: the floor plan of the tree, and what fails it.

A room is a folder of src/ (with its public headers in include/weft/), a sub-room a folder of a room. Checked are:

  - includes: a room and a sub-room include themselves, what the table lists, and all that is below those;
  - privacy: a header in src/ belongs to its room; other rooms and tests use include/weft/. What is shared on purpose
    is listed in OPEN;
  - size: at most 30 files a folder, 800 lines a file.
"""
import pathlib
import re
import sys

BELOW = {
    "support": [], "codecs": ["support"], "textproto": ["support"], "sym": ["support"], "core": ["sym"], "codegen": ["core"],
    "ops": ["codegen"], "passes": ["codegen"], "runtime": ["codegen"], "onnx": ["core"],
    "codegen/llvm": ["codegen"], "codegen/cuda": ["codegen"], "backends/shared": ["runtime"],
    "backends/ref": ["backends/shared"],
    "generate": ["runtime"],
    "api": ["runtime", "onnx", "generate"],
    "backends/cpu": ["backends/shared", "codegen/llvm"], "backends/cuda": ["backends/shared", "codegen/cuda"],
    "python": ["api"],
}
# Rooms that are not in src/: the extension module of the Python package.
ELSEWHERE = {"python": "python/src"}
# The sub-rooms of a room. "": what stands in the room's own folder, on top of them unless it says otherwise.
SUB_ROOMS = {
    "core": {
        "tensor": [], "graph": ["tensor"], "op": ["graph"], "text": ["op"], "gradient": ["op"], "plan": ["op"], "recompute": ["plan"],
        "": ["plan"], "module": [""], "pass": ["module", "text"], "json": ["text", "plan"],
    },
    "codegen": {
        "expr": [], "kernel": ["expr"], "lower": ["kernel"], "layouts": ["lower"], "interp": ["lower"],
        "ctext": ["lower"], "compiler": ["lower"], "passes": ["compiler", "layouts"],
    },
    "codegen/llvm": {"emit": [], "templates": ["emit"], "object": ["emit"], "compiler": ["templates", "object"]},
    "codegen/cuda": {"print": [], "nvrtc": ["print"], "emulator": ["print"]},
    "ops": {
        "util": [], **{family: ["util"] for family in (
            "control", "elementwise", "graph", "image", "linalg", "loss", "ml", "movement", "nn", "quant", "random",
            "recurrent", "reduce", "signal", "text", "training")},
    },
    "passes": {
        "infer": [], "rewrite": [], "rewrite/simplify": ["rewrite"], "control": ["rewrite"], "regions": [], "fusion": [], "memory": [],
        "delegate": [], "effects": [], "gradient": [], "io": [], "quantised": [],
    },
    "runtime": {
        "": [], "backend": [""], "plan": ["backend"], "binding": ["plan"], "memory": ["binding"], "program": ["memory"],
        "regions": ["program"], "own": ["program"], "compile": ["own", "inputs"], "saved": ["delegate"], "session": ["saved"],
        "plugin": ["backend"], "inputs": [""], "delegate": ["compile"], "quantise": ["compile"],
    },
    "backends/cpu": {
        "util": [], "launch": ["util"], "onednn": ["util"], "conv": ["onednn"], "pool": ["onednn"],
        "product": ["onednn"], "attention": ["util"], "misc": ["util"], "select": ["util"], "quantised": ["util"],
        "": ["launch"],
    },
    "backends/cuda": {
        "driver": [], "launch": ["driver"], "libraries": ["driver"], "": ["launch", "libraries"], "doubles": [""],
    },
    "onnx": {
        "": [], "proto": [""], "validate": ["proto"], "lift": ["proto"], "import": ["lift", "validate"],
        "export": ["lift"],
    },
}
# Where a source, never a header, knows more than its floor: a node names its operator and prints its values, an operator's
# parameters are read from text, and a target asks its module.
SOURCES_ALSO = {("core", "graph"): ["op", "text"], ("core", "op"): ["text"], ("core", ""): ["module"]}
# Private headers that others use on purpose: who may include what below this path of src/.
OPEN = {
    "codegen/expr/expr_pool.h": ["src/codegen/cuda", "src/codegen/llvm"],  # the printers of a target read expressions
    "codegen/expr/scalar.h": ["src/codegen/llvm"],
    "codegen/ctext": ["src/codegen/cuda"],
    "core/json/doc.h": ["src/generate"],  # the reader of JSON, for tokenizers
    "codegen/llvm": ["src/backends/cpu", "bench"],  # these two rooms are of one backend each and have no public headers
    "codegen/cuda": ["src/backends/cuda"],
    "backends/shared": ["src/backends"],
    "runtime/binding/kernel_call.h": ["src/backends/cuda"],
}
# A header directly in include/weft/ is for users: it may include any room and no room includes it, but for these, which
# belong to a room.
TOP_HEADERS = {"c_types.h": "support", "plugin.h": "core", "weft.h": "api"}
GENERATED = {"weft/abi_id.h"}  # by the build
MAX_LINES, MAX_FILES = 800, 30
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def closure(table, name):
    return {name}.union(*(closure(table, below) for below in table[name]))


class Tree:
    def __init__(self, root):
        self.root, self.tops = root, (root / "include/weft", root / "src")

    def place(self, file):
        """(room, sub-room, is it public) of a file; ("top", "", True) for a user header; None outside every room."""
        for room, folder in ELSEWHERE.items():
            if self.root / folder in file.parents:
                return room, "/".join(file.relative_to(self.root / folder).parts[:-1]), False
        top = next((t for t in self.tops if t in file.parents), None)
        if top is None:
            return None
        public, parts = top == self.tops[0], file.relative_to(top).parts
        if public and len(parts) == 1:
            return TOP_HEADERS.get(parts[0], "top"), None, True
        room = next((r for r in ("/".join(parts[:2]), parts[0]) if r in BELOW and len(parts) > r.count("/") + 1), None)
        return room and (room, "/".join(parts[room.count("/") + 1:-1]), public)

    def target(self, file, name):
        places = (p / name for p in (file.parent, self.root / "include", self.root / "src"))
        return next((p.resolve() for p in places if p.is_file()), None)


def is_test(file):
    return file.name.endswith(("_test.cc", "_test.c", "_test_util.h")) or file.name.startswith("test_") \
        or file.parent.name == "doubles"


def allowed(file, here, there):
    """May `file` at `here` include a header at `there`?"""
    (room, sub, _), (room2, sub2, public) = here, there
    if room not in BELOW:
        return True
    if room2 not in closure(BELOW, room) and not is_test(file):
        return False
    if room2 != room:
        return True
    table = SUB_ROOMS.get(room)
    if table is None or is_test(file) or sub2 is None or sub is None:
        return True
    if sub == "" and "" not in table:
        return True
    may = closure(table, sub)
    if file.suffix != ".h":
        may = may.union(*(closure(table, s) for s in SOURCES_ALSO.get((room, sub), [])))
    return sub2 in may


def is_open(root, file, target):
    """May `file` include the header `target` of src/ although it is in another room?"""
    user, private = str(file.relative_to(root)), str(target.relative_to(root / "src"))
    return any(private.startswith(path) and any(user.startswith(u + "/") for u in users) for path, users in OPEN.items())


def break_ins(tree, file):
    """Includes of private headers of rooms that `file` is not in."""
    here = tree.place(file)
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        name = INCLUDE.match(line) and INCLUDE.match(line)[1]
        target = tree.target(file, name) if name else None
        if target and tree.root / "src" in target.parents and (here is None or tree.place(target)[0] != here[0]) \
                and not is_open(tree.root, file, target):
            yield f"line {number}: {name} is private to {tree.place(target)[0]}"


def problems_of(tree, file):
    here, lines = tree.place(file), file.read_text(encoding="utf-8").splitlines()
    if here is None:
        yield "is in no room of the table"
        return
    if here[0] in SUB_ROOMS and here[1] not in SUB_ROOMS[here[0]] and here[1]:
        yield f"is in no sub-room of {here[0]}"
        return
    if len(lines) > MAX_LINES:
        yield f"{len(lines)} lines, the limit is {MAX_LINES}"
    for number, line in enumerate(lines, 1):
        name = INCLUDE.match(line) and INCLUDE.match(line)[1]
        target = tree.target(file, name) if name else None
        if target is None and name and name.startswith("weft/") and name not in GENERATED:
            yield f"line {number}: {name} does not exist"
        elif target and not allowed(file, here, tree.place(target)):
            yield f"line {number}: {'/'.join(filter(None, here[:2]))} may not include {name}"


def crowded(root):
    for folder in sorted({f.parent for top in ("include", "src", "tests", "tools", "python") for f in (root / top).rglob("*")
                          if f.is_file() and f.suffix in (".h", ".cc", ".c", ".inc")}):
        count = sum(f.is_file() for f in folder.iterdir())
        if count > MAX_FILES:
            yield f"{folder.relative_to(root)}: {count} files, the limit is {MAX_FILES}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../..").resolve()
    tree = Tree(root)
    files = [f for top in ("include/weft", "src", *ELSEWHERE.values()) for f in sorted((root / top).rglob("*"))
             if f.suffix in (".h", ".cc", ".inc")]
    users = [f for top in ("src", "tests", "tools", "bench", "examples", "plugins", "python", "tinyflow_demo")
             for f in sorted((root / top).rglob("*")) if f.suffix in (".h", ".c", ".cc", ".inc")
             and root / "tests/contributing" not in f.parents]  # files of rooms, until they are there
    problems = [f"{f.relative_to(root)}: {p}" for f in files for p in problems_of(tree, f)]
    problems += [f"{f.relative_to(root)}: {p}" for f in users for p in break_ins(tree, f)] + list(crowded(root))
    print("\n".join(problems) or f"layers: {len(files)} files, every include in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
