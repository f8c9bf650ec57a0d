#!/usr/bin/env python3
"""chart.py RESULTS.md HEADING OUT.svg [--check]: the table below a heading of a results page as a bar chart.

The first column names the rows; every column called `PEER / Weft` is a series of ratios. Of a cell with several runs the
median is drawn. With --check nothing is written, and the exit status says whether OUT.svg is what would be."""
import pathlib
import re
import statistics
import sys

ROW, BAR, LABELS, WIDTH, RIGHT = 17, 13, 300, 520, 60
COLOURS = ("#3b6ea8", "#c98a3d", "#6b9e5f", "#9a6fb0")


def table(page, heading):
    """Names of the series, and for each row its name and ratios."""
    lines = pathlib.Path(page).read_text().split("\n")
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


def main(page, heading, out, *flags):
    svg = chart(*table(page, heading))
    path = pathlib.Path(out)
    if "--check" in flags:
        return not path.exists() or path.read_text() != svg
    path.write_text(svg)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
