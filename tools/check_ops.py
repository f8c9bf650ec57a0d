#!/usr/bin/env python3
"""check_ops.py: an operator is one file.

An operator is registered by the statement that describes it; other statements that open it add attributes. Checked are,
tests apart, the sources of src/, plugins/ and tinyflow_demo/:

  - an operator is registered in one file;
  - another file sets nothing of it but FCompute, FSizedCompute, FLayout and FEpilogue, which are the backends'.

Calls of a macro that opens an operator are such statements, with what the macro says of it. Groups are no operators.
"""
import pathlib
import re
import sys

OF_BACKENDS = {"FCompute", "FSizedCompute", "FLayout", "FEpilogue", "FTakesDType"}
WORDLESS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:.*\\\n)*.*", re.M)
ATTRIBUTE = re.compile(r"\.\s*set_attr<(?:::)?(?:weft::)?(\w+)>")


def statements(text, macros):
    """(operator, line, is it described, its attributes) of every statement of `text` that opens one."""
    opening = rf"\b(?:WEFT_REGISTER_OP_IN\(\s*([\w.]+)\s*,|({'|'.join(macros)})\()\s*(\w+)\s*(?=[,)])"
    for m in re.finditer(opening, text):
        depth, end = 0, len(text)
        for c in re.compile(r"[(){};]").finditer(text, m.end(3)):
            depth += (c[0] in "({") - (c[0] in ")}")
            if c[0] == ";" and depth < 0:  # behind the bracket of the opening
                end = c.start()
                break
        domain, described, attributes = macros[m[2]] if m[2] else (m[1], False, set())
        body = text[m.end():end]
        yield ("::".join(filter(None, (domain, m[3]))), text.count("\n", 0, m.start()) + 1,
               described or ".describe(" in body, attributes | set(ATTRIBUTE.findall(body)))


def macros_of(texts):
    """{macro that opens an operator: (domain, does it describe it, the attributes that it sets)}."""
    macros, definitions = {"WEFT_REGISTER_OP": ("", False, set())}, {}
    for text in texts:
        definitions.update({m[1]: m[0][m.end(1) - m.start():] for m in DEFINE.finditer(text)})
    found = -1
    while found != len(macros):  # a macro may call another
        found = len(macros)
        for name, body in definitions.items():
            for op, _, described, attributes in statements(body, macros):
                macros.setdefault(name, (op.rpartition("::")[0], described, attributes))
    return macros


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../..").resolve()
    texts = {f.relative_to(root): WORDLESS.sub(lambda m: "\n" * m[0].count("\n"), f.read_text(encoding="utf-8"))
             for top in ("src", "plugins", "tinyflow_demo") for f in sorted((root / top).rglob("*"))
             if f.suffix in (".h", ".cc") and not f.name.endswith("_test.cc")}
    macros = macros_of(texts.values())
    found = [(op, file, *rest) for file, text in texts.items()
             for op, *rest in statements(DEFINE.sub(lambda m: "\n" * m[0].count("\n"), text), macros)]
    home, problems = {}, []
    for op, file, line, described, _ in found:
        if described and home.setdefault(op, file) != file:
            problems.append(f"{file}:{line}: {op} is registered in {home[op]} already")
    for op, file, line, _, attributes in found:
        others = sorted(attributes - OF_BACKENDS)
        if others and op in home and file != home[op]:
            problems.append(f"{file}:{line}: sets {', '.join(others)} of {op}, which {home[op]} registers")
        elif op not in home:
            problems.append(f"{file}:{line}: opens {op}, which no file registers")
    print("\n".join(problems) or f"operators: {len(home)}, each in the file that registers it")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
