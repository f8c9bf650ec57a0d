#!/usr/bin/env python3
"""chart.py --write|--check: the opening of README.md from a results page: its table of networks, and the same as a bar chart,
docs/peers.svg. With --check nothing is written, and the exit status says whether both are what would be.

The first column of the page's table names the rows; every column called `PEER / Weft` is a series of ratios. Of a cell with
several runs the median is taken."""
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, HEADING = "bench/results/2026-11-22-networks-cpu.md", "Inference"
BEGIN, END = "<!-- peers: written by bench/chart.py --write -->\n", "<!-- end of peers -->"
ROW, BAR, LABELS, WIDTH, RIGHT = 17, 13, 300, 520, 60
COLOURS = ("#3b6ea8", "#c98a3d", "#6b9e5f", "#9a6fb0")


def table(page, heading):
    """Names of the series, and for each row its name and ratios."""
    lines = (ROOT / page).read_text().split("\n")
    start = next(i for i, line in enumerate(lines) if line.lstrip("# ") == heading and line.startswith("#"))
    rows = []
    for line in lines[start + 1:]:
        if line.startswith("|"):
            rows.append([c.strip() for c in line.strip("|").split("|")])
        elif rows:
            break
    head, body = rows[0], rows[2:]
    columns = [k for k, name in enumerate(head) if name.endswith("/ Weft") and not name.startswith("best")]
    values = [[statistics.median(float(v) for v in re.findall(r"\d+\.\d+", row[k])) for k in columns] for row in body]
    names = [re.sub(r", (two|three) runs$", "", row[0]) for row in body]
    return [head[k].removesuffix(" / Weft") for k in columns], list(zip(names, values))


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def chart(series, rows):
    top = max(2.0, *(v for _, values in rows for v in values))
    x = lambda v: LABELS + WIDTH * v / top
    group = ROW * len(series) + 12
    height = 46 + group * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABELS + WIDTH + RIGHT}" height="{height}" '
           'font-family="sans-serif" font-size="13">',
           f'<rect width="100%" height="100%" fill="#ffffff"/>']
    at = LABELS
    for k, name in enumerate(series):
        out.append(f'<rect x="{at}" y="10" width="{BAR}" height="{BAR}" fill="{COLOURS[k]}"/>')
        out.append(f'<text x="{at + 18}" y="21">time of {escaped(name)} / time of Weft</text>')
        at += 40 + 7 * len(f"time of {name} / time of Weft")
    for i, (name, values) in enumerate(rows):
        y = 38 + group * i
        out.append(f'<text x="{LABELS - 10}" y="{y + ROW * len(series) / 2 + 4:.0f}" text-anchor="end">{escaped(name)}</text>')
        for k, v in enumerate(values):
            out.append(f'<rect x="{LABELS}" y="{y + ROW * k}" width="{x(v) - LABELS:.1f}" height="{BAR}" fill="{COLOURS[k]}"/>')
            out.append(f'<text x="{x(v) + 5:.1f}" y="{y + ROW * k + 11}">{v:.2f}</text>')
    out.append(f'<line x1="{x(1):.1f}" y1="32" x2="{x(1):.1f}" y2="{height - 8}" stroke="#000000" stroke-dasharray="4 3"/>')
    return "\n".join(out + ["</svg>", ""])


def readme(series, rows):
    """The text of README.md with that table."""
    text = (ROOT / "README.md").read_text()
    lines = ["| network | " + " | ".join(f"{s} / Weft" for s in series) + " |", "|---" * (len(series) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(f"{v:.2f}" for v in values) + " |" for name, values in rows]
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + "\n".join(lines) + "\n" + text[end:]


def main(mode):
    series, rows = table(PAGE, HEADING)
    wanted = {ROOT / "docs/peers.svg": chart(series, rows), ROOT / "README.md": readme(series, rows)}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if mode == "--write":
            path.write_text(wanted[path])
        else:
            print(f"{path.relative_to(ROOT)} is not what bench/chart.py writes")
    return bool(stale) and mode != "--write"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
