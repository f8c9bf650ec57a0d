#!/usr/bin/env python3
"""check_names.py: fails where a fact that has a home is spelled somewhere else, and where a function's name says too little.

  - the name of a pass stands in the file that registers it and in src/runtime/pipelines.cc; others ask for what they need
    (core/pass/provide.h) or for a part of the standard pipeline;
  - the name of a backend stands in its room; others ask a Target for its traits;
  - what a kernel's template means is asked by the predicates of weft/codegen/kernel/kernel_form.h; where code differs by
    template it is a switch without default, so that the compiler names what a new one misses;
  - "FCompute.<library>" and its likes are put together, and a target's name is taken apart, in src/core/target.cc;
  - f16 and bf16 stand in the files of FORMATS; others read DTypeTraits, ask a predicate of core/tensor/dtype.h or use
    VisitElement. A switch over FloatFormat has no default, so that the compiler names what a new format lacks;
  - a function outside of classes is not named by a bare verb (BARE): grep finds ReadSteps, not Read. Members have their class.

Tests, documentation and what registers may spell them. What is left on purpose is listed in KEPT, with its reason.
"""
import pathlib
import re
import sys

TOPS = ("include/weft", "python/src", "src", "tools/weft")
KEPT = {
    # The whole tree's default, and what people type.
    "include/weft/runtime/backend/backend.h": "kDefaultBackend",
    "include/weft/core/pass/pass.h": "the default target",
    "src/onnx/import/import_gradient.cc": "an operator of ONNX that is called as a pass",
    "src/passes/effects/place_device.cc": "the default device is an option's text",
    # ONNX has an operator of the name of the pass.
    "src/onnx/lift/lift_attention.cc": "Attention of the standard",
    "src/onnx/import/import_gradient.cc": "Gradient of ai.onnx.preview.training",
    "src/onnx/lift/lift_contrib.cc": "Attention of com.microsoft",
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
    "tools/weft/quantise/quantise.cc": "defaults of options",
    "src/runtime/quantise/quantise_model.cc": "two passes with options, and the statistics of a third",
    "src/runtime/plugin/backend.cc": "a backend of the C tier wraps cpu",
    "src/runtime/plugin/op.cc": "registers a library's attribute",
    # Infer again what an edit has added to rows that are complete.
    "src/passes/rewrite/simplify/simplify.cc": "what its rules add",
    "src/passes/gradient/gradient.cc": "what it adds",
    "src/onnx/export/export.cc": "goes on without the passes where they are not linked in",
    # Words that mean something else.
    "src/backends/cpu/onednn/onednn_adapter.h": "ref is one of oneDNN's implementations",
}
# What a float that kernels compute with adds to.
FORMATS = {
    "include/weft/core/tensor/dtype_traits.h": "the table",
    "include/weft/core/tensor/visit_element.h": "C++ types",
    "src/core/tensor/dtype.cc": "conversions",
    "src/core/pass/evaluator.cc": "tolerances of comparisons",
    "src/codegen/ctext/helpers.cc": "conversions in C and CUDA",
    "src/codegen/llvm/emit/memory.cc": "conversions in LLVM IR",
    "src/codegen/llvm/emit/node_info.cc": "what they cost",
    "src/backends/cpu/util/half_call.cc": "conversions by vectors",
    "src/backends/cuda/libraries/cublaslt.cc": "codes of a library",
    "src/backends/cuda/libraries/cudnn_graph.cc": "codes of a library",
    "tools/weft/check/check_verdict.cc": "tolerances of engines",
    "python/src/arrays.cc": "numbers of numpy, names of ml_dtypes",
    # And one that it does not.
    "src/core/json/nnvm.cc": "NNVM's numbers of dtypes, which are fixed",
}
FORMAT = re.compile(r"\b(?:DType|FloatFormat)::kB?F16\b")
COMPARED = re.compile(r"[!=]= *KernelTemplate::|KernelTemplate::\w+ *[!=]=")
SWITCH = re.compile(r"^( *)switch \([^\n]*(?:FormatOf\(|\.format\b|tmpl\b)[^\n]*\{[^\n]*\n(?:(?:\1 [^\n]*)?\n)*?\1  default:", re.M)
BARE = set("""Add Apply Build Call Check Choose Create Describe Do Fill Find Finish Fold Get Handle Init Keep Load Look Lower
Make Of Open Parse Place Prepare Print Process Put Read Remember Remove Replace Report Rewrite Run Save Set Store Take Text Update
Write""".split())
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'', re.S | re.M)
FUNCTION = re.compile(r"(?<!operator)(?<![\w:~.>])([A-Z]\w*)\s*\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
PASS = re.compile(r"WEFT_REGISTER_PASS\((\w+)\)")
LISTED = re.compile(r"^[A-Za-z]\w*(?:\{[^}]*\})?(?:,[A-Za-z]\w*(?:\{[^}]*\})?)*$")


def files(root):
    for top in TOPS:
        for f in sorted((root / top).rglob("*")):
            if f.suffix in (".h", ".cc") and f.parent.name != "doubles" \
                    and not re.search(r"_test\.cc$|_test_util\.h$|fuzz_util\.h$|^test_", f.name):
                yield f


def strip_comment(line):
    return re.sub(r'("(?:[^"\\]|\\.)*")|//.*|/\*.*', lambda m: m[1] or "", line)


def free_functions(text):
    """(line, name) of each function that is declared or defined outside of classes and of other functions."""
    code = NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    start = parens = 0
    inside = []  # of each open brace: is it a namespace's?
    for m in re.finditer(r"[(){};]", code):
        c, head = m[0], code[start:m.start()]
        parens += {"(": 1, ")": -1}.get(c, 0)
        if parens or c in "()":
            continue
        if c in "{;" and all(inside):
            name = FUNCTION.search(head)
            if name and not re.search(r"\b(class|struct|enum|using|namespace)\b|[^=!<>]=[^=]", head[:name.start()]):
                yield code.count("\n", 0, start + name.start()) + 1, name[1]
        if c == "{":
            inside.append(bool(re.search(r"\bnamespace\b[^()]*$|\bextern\s*$", head)))
        elif c == "}" and inside:
            inside.pop()
        start = m.end()


def problems(root):
    sources = {f: f.read_text(encoding="utf-8") for f in files(root)}
    homes = {name: f for f, text in sources.items() for name in PASS.findall(text)}
    backends = {p.name for p in (root / "src/backends").iterdir() if p.is_dir() and p.name != "shared"}
    yield from (f"{path}: is listed here and does not exist" for path in {**KEPT, **FORMATS} if not (root / path).is_file())
    for f, text in sources.items():
        path = str(f.relative_to(root))
        for match in SWITCH.finditer(text):
            yield f"{path}:{text[:match.start()].count(chr(10)) + 1}: hides a new enumerator behind a default"
        for number, name in free_functions(text):
            if name in BARE:
                yield f"{path}:{number}: the function {name} needs a name that says what"
        for number, line in enumerate(text.splitlines(), 1):
            code = strip_comment(line)
            if FORMAT.search(code) and path not in FORMATS:
                yield f"{path}:{number}: lists dtypes; read the table of core/tensor/dtype_traits.h"
            if re.search(r'"F(Compute|Epilogue|Layout)\." *\+', code) and path != "src/core/target.cc" and path not in KEPT:
                yield f"{path}:{number}: asks for a library's attribute by its name; ask the Target"
            if COMPARED.search(code):
                yield f"{path}:{number}: compares the template of a kernel; ask KernelForm"
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
    print("\n".join(found) or "names: passes, backends, libraries, dtypes and templates are spelled at home, functions say what they do")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
