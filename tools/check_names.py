#!/usr/bin/env python3
"""check_names.py: fails where a fact that has a home is spelled somewhere else.

  - the name of a pass stands in the file that registers it and in src/runtime/pipelines.cc; others ask for what they need
    (core/pass/provide.h) or for a part of the standard pipeline;
  - the name of a backend stands in its room; others ask a Target for its traits;
  - "FCompute.<library>" and its likes are put together, and a target's name is taken apart, in src/core/target.cc.

Tests, documentation and what registers may spell them. What is left on purpose is listed in KEPT, with its reason.
"""
import pathlib
import re
import sys

TOPS = ("include/weft", "src", "tools/weft")
KEPT = {
    # The whole tree's default, and what people type.
    "include/weft/runtime/backend/backend.h": "kDefaultBackend",
    "include/weft/core/pass/pass.h": "the default target",
    "src/passes/effects/place_device.cc": "the default device is an option's text",
    # Commands that are about a pass or an engine by name.
    "tools/weft/commands/grad.cc": "weft grad runs Gradient",
    "tools/weft/commands/bisect.cc": "defaults of options",
    "tools/weft/commands/opt.cc": "defaults of options",
    "tools/weft/check/check.cc": "defaults of options",
    "tools/weft/check/check_engines.h": "the reference",
    "tools/weft/check/check_report.cc": "the reference",
    "tools/weft/commands/compile.cc": "reads the statistics of RTCGen",
    "tools/weft/commands/doctor.cc": "a row about the processor",
    "tools/weft/command_line.cc": "examples of what to type",
    "src/runtime/plugin/backend.cc": "a backend of the C tier wraps cpu",
    "src/runtime/plugin/op.cc": "registers a library's attribute",
    # Infer again what an edit has added to rows that are complete.
    "src/passes/rewrite/simplify/simplify.cc": "what its rules add",
    "src/passes/gradient/gradient.cc": "what it adds",
    "src/onnx/export/export.cc": "goes on without the passes where they are not linked in",
    # Words that mean something else.
    "tools/weft_docs/disagreements.cc": "Attention is an operator",
    "src/backends/cpu/onednn/onednn_adapter.h": "ref is one of oneDNN's implementations",
}
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
PASS = re.compile(r"WEFT_REGISTER_PASS\((\w+)\)")
LISTED = re.compile(r"^[A-Za-z]\w*(?:\{[^}]*\})?(?:,[A-Za-z]\w*(?:\{[^}]*\})?)*$")


def files(root):
    for top in TOPS:
        for f in sorted((root / top).rglob("*")):
            if f.suffix in (".h", ".cc") and not f.name.endswith(("_test.cc", "_test_util.h")) and f.parent.name != "doubles":
                yield f


def strip_comment(line):
    return re.sub(r'("(?:[^"\\]|\\.)*")|//.*|/\*.*', lambda m: m[1] or "", line)


def problems(root):
    sources = {f: f.read_text(encoding="utf-8") for f in files(root)}
    homes = {name: f for f, text in sources.items() for name in PASS.findall(text)}
    backends = {p.name for p in (root / "src/backends").iterdir() if p.is_dir() and p.name != "shared"}
    for f, text in sources.items():
        path = str(f.relative_to(root))
        for number, line in enumerate(text.splitlines(), 1):
            code = strip_comment(line)
            if re.search(r'"F(Compute|Epilogue|Layout)\." *\+', code) and path != "src/core/target.cc" and path not in KEPT:
                yield f"{path}:{number}: asks for a library's attribute by its name; ask the Target"
            if re.search(r"target[^;]*find\(':'\)", code):
                yield f"{path}:{number}: takes a target apart; ask the Target"
            if path in KEPT or path == "src/runtime/pipelines.cc":
                continue
            for literal in LITERAL.findall(code):
                if LISTED.match(literal):
                    for name in re.findall(r"\w+", re.sub(r"\{[^}]*\}", "", literal)):
                        if name in homes and homes[name] != f and not code.lstrip().startswith("#include"):
                            yield f"{path}:{number}: spells the pass {name}"
                if literal.partition(":")[0] in backends and not path.startswith(
                        (f"src/backends/{literal.partition(':')[0]}", f"src/codegen/{literal.partition(':')[0]}")) \
                        and not path.startswith("src/codegen/llvm"):
                    yield f"{path}:{number}: spells the backend '{literal}'"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../..").resolve()
    found = list(problems(root))
    print("\n".join(found) or "names: passes, backends and libraries are spelled at home")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
