#!/usr/bin/env python3
"""check_words.py: the width of C++ here, and the words of its messages.

Checked are:

  - width: a line of C++ has at most 100 columns, but for raw strings and tables behind `// clang-format off`;
  - words: string literals with a space in src/, include/, python/, tools/ and tinyflow_demo/ (tests apart) hold no phrase of
    WORDS. docs/words.md shows these rows to readers and has to hold each of them.
"""
import pathlib
import re
import sys

WIDTH = 100
# The pattern that is looked for, the phrase as readers know it, and what to write instead.
WORDS = [
    (r"\b(cannot|could not|to) be had\b", "X cannot be had", "cannot allocate X; X is not available (reason)"),
    (r"\bgave no memory\b", "gave no memory for X", "could not allocate X"),
    (r"\bmemory ran out\b", "memory ran out", "out of memory"),
    (r"\bat hand\b", "X is not at hand", "X is not available"),
    (r"(?<![Tt]here )\bis no (?!longer|more)", "is no X", "is not a X"),
    (r"\bha(s|ve) not(?=$|[,.;:]| and | which )", "X, which it has not", "X, which it does not have"),
    (r"\bneeds the graph attribute\b", "needs the graph attribute X", "requires the graph attribute X"),
    (r"\b([Nn]o|[Ss]ome|[Ee]very)body\b", "nobody, somebody", "no pass, another node, the caller: who is meant"),
    (r"\b(lies?|lay) (at|in|on|over|so|otherwise|where)\b", "lies in memory", "is in memory"),
    (r"\bliving\b", "a living node", "a live node"),
    (r"\b[Ee]xtents?\b", "extent", "dimension (of a shape), size (of an axis)"),
    (r"\bof a product\b|\bthis product\b|\bproducts and conv|\bmatrix products?\b", "product (of matrices)", "matmul"),
    (r"\bpictures?\b", "picture", "image"),
    (r"\} tolerances|\bDIFFERENT\b", "DIFFERENT: N tolerances", "differs: error is Nx the tolerance"),
    (r"\bmoved \{", "moved X a run", "memory traffic X per run"),
    (r"\b(calls|images|kernels|launches|ms|scratch) a (run|step|thread)\b", "X launches a run", "X launches per run"),
    (r"\bleaves? 64 bits\b", "leaves 64 bits", "overflows 64 bits"),
    (r"\b(not tell|doctor tells)\b", "does not tell X", "does not report X"),
    (r"\b(only|that) a run tells\b", "X that only a run tells", "X that is known only at run time"),
    (r"\bis wanted\b", "X is wanted", "X is required"),
    (r"\bnothing any more\b", "does nothing any more", "is unusable"),
]
# (file, phrase): rows of graph attributes, which are text IR; golden files hold them.
ALLOWED = {("src/passes/infer/infer_shape.cc", "extent")}
ANY = re.compile("|".join(f"(?:{pattern})" for pattern, _, _ in WORDS), re.M)
LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|\'(?:\\.|[^\'\\\n])+\'|"((?:\\.|[^"\\\n])*)"', re.S)
LONG = re.compile(rf"^.{{{WIDTH + 1}}}", re.M)
RAW_STRING = re.compile(r'R"(\w*)\(')


def too_wide(text):
    """Numbers of the lines that are."""
    if not LONG.search(text):
        return
    raw_end, table = None, False
    for number, line in enumerate(text.split("\n"), 1):
        begin = RAW_STRING.search(line)
        in_raw = raw_end is not None or begin is not None
        if raw_end is not None and raw_end in line:
            raw_end = None
        if begin and f'){begin[1]}"' not in line[begin.end():]:
            raw_end = f'){begin[1]}"'
        table = "clang-format on" not in line and (table or "clang-format off" in line)
        if len(line) > WIDTH and not in_raw and not table:
            yield number


def literals(text):
    """(line, content) of the string literals; adjacent ones are one."""
    start, end, content = 0, None, ""
    for m in LITERAL.finditer(text):
        if m[2] is None:
            continue
        if end is None or text[end:m.start()].replace("\\\n", "").strip():
            if end is not None:
                yield text.count("\n", 0, start) + 1, content
            start, content = m.start(), ""
        end, content = m.end(), content + m[2]
    if end is not None:
        yield text.count("\n", 0, start) + 1, content


def banned(text):
    """(line, phrase, what to write instead) of the messages in a source."""
    for line, content in literals(text):
        if " " in content and ANY.search(content):
            yield from ((line, old, new) for pattern, old, new in WORDS if re.search(pattern, content))


def has_messages(path):
    return path.startswith(("src/", "include/", "python/", "tools/", "tinyflow_demo/")) and "_test." not in path \
        and "/tests/" not in path and "/doubles/" not in path


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/../..").resolve()
    tops = ("bench", "examples", "include", "plugins", "python", "src", "tests", "tinyflow_demo", "tools")
    files = [f for top in tops for f in sorted((root / top).rglob("*")) if f.suffix in (".c", ".cc", ".h", ".inc")]
    page = (root / "docs/words.md").read_text(encoding="utf-8")
    problems = [f"docs/words.md: lacks the row | {old} | {new} |" for _, old, new in WORDS
                if f"| {old} | {new} |" not in page]
    for file in files:
        path, text = str(file.relative_to(root)), file.read_text(encoding="utf-8")
        problems += [f"{path}:{line}: more than {WIDTH} columns" for line in too_wide(text)]
        problems += [f"{path}:{line}: a message says '{old}'; write: {new}" for line, old, new in
                     (banned(text) if has_messages(path) else ()) if (path, old) not in ALLOWED]
    print("\n".join(problems) or f"words: {len(files)} files, {len(WORDS)} rows, nothing to mend")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
