#!/usr/bin/env python3
"""draw_rooms.py: the picture of the rooms and of the way of a model through them.

    tools/draw_rooms.py DIR       writes DIR/rooms.svg and DIR/walk.svg
    tools/draw_rooms.py --write   puts the picture for readers of the text into docs/ARCHITECTURE.md
    tools/draw_rooms.py --check   does docs/ARCHITECTURE.md say what the tree is?

The rooms come from the table in tools/check_layers.py, which every include is checked against; the way from the numbered
list in docs/ARCHITECTURE.md. --check compares the page's picture and its table of rooms with that table, looks up file and
function of each stay of the list, lets the list grow no longer, and no call of it go up but through a registry. Equal input
gives equal bytes.
"""
import pathlib
import re
import sys
from html import escape

sys.dont_write_bytecode = True
from check_layers import BELOW, SUB_ROOMS, Tree, closure  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = Tree(ROOT)
PAGE = ROOT / "docs/ARCHITECTURE.md"
BEGIN, END = "<!-- rooms: written by tools/draw_rooms.py --write -->\n", "<!-- end of rooms -->\n"
MOST_STAYS = 15
STAY = re.compile(r"^(\d+)\. \*\*(.+?)\*\*(?:, from (\d+))?(, through the registry of \w+)?: `([^`]+)`: (.*)$")
TAKEN = re.compile(r"`([\w/]+\.cc)` ((?:`[\w:]+`(?:, )?)+)")
ROW = re.compile(r"^\| (\*\*)?([a-z_/]+)(?:\*\*)? \| (.+?) \| (.*?) ?\|$")


def section(text, title):
    """The lines below the heading `title`, up to the next heading of its level."""
    lines = text.splitlines()
    start = lines.index("## " + title) + 1
    return lines[start:next((i for i in range(start, len(lines)) if lines[i].startswith("## ")), len(lines))]


def stays(text):
    """(number, name, number of the caller, is the call through a registry, folder, [(file, function)]) of every stay."""
    found = []
    for line in section(text, "The way of a model"):
        stay = STAY.match(line)
        if stay:
            number, name, caller, registry, folder, words = stay.groups()
            taken = [(f"{folder}/{file}", function) for file, functions in TAKEN.findall(words)
                     for function in re.findall(r"[\w:]+", functions)]
            found.append((int(number), name, int(caller or int(number) - 1), registry is not None, folder, taken))
    return found


def described(text):
    """{room or room/sub-room: (what it holds, set of what it may include)} of the page's table."""
    out = {}
    for line in section(text, "Rooms and sub-rooms"):
        row = ROW.match(line)
        if row and row[2] != "place":
            if row[2] in out:
                raise SystemExit(f"draw_rooms: the table of rooms has {row[2]} twice")
            out[row[2]] = (row[3].replace("`", ""), set(filter(None, row[4].replace("nothing of Weft", "").split(", "))))
    return out


def planned():
    """The same places of the floor plan, without words. What stands in a room's own folder has no row."""
    out = {room: set(below) for room, below in BELOW.items()}
    for room, table in SUB_ROOMS.items():
        out.update({f"{room}/{sub}": {f"{room}/{b}" for b in below if b} for sub, below in table.items() if sub})
    return out


def floors(table):
    """The keys of a table of what is below what, in floors, the lowest first."""
    level = {}

    def of(name):
        if name not in level:
            level[name] = 1 + max((of(b) for b in table[name]), default=-1)
        return level[name]
    for name in table:
        of(name)
    return [[n for n in table if level[n] == k] for k in range(max(level.values(), default=-1) + 1)]


def mermaid():
    """The rooms for a page: sub-rooms as words, arrows to what a room may include."""
    lines = ["```mermaid", "flowchart TD"]
    for floor in reversed(floors(BELOW)):
        for room in floor:
            subs = [s for row in floors(SUB_ROOMS.get(room, {})) for s in row if s]
            inside = "".join(f"<br/>{' · '.join(subs[i:i + 5])}" for i in range(0, len(subs), 5))
            lines.append(f'  {room.replace("/", "_")}["<b>{room}</b>{inside}"]')
    for room, below in BELOW.items():
        lines += [f'  {room.replace("/", "_")} --> {b.replace("/", "_")}' for b in below]
    return "\n".join(lines + ["```"]) + "\n"


# Drawing. Sizes are in pixels of a text of 12; widths of words are estimated, and boxes are wide enough for the estimate.
STYLE = """<style>
 text { font: 12px ui-sans-serif, system-ui, 'DejaVu Sans', sans-serif; fill: #1f2328 }
 .name { font-weight: 600; font-size: 13px } .small { font-size: 10.5px; fill: #57606a }
 .page { fill: #ffffff } .room { fill: #f6f8fa; stroke: #8c959f } .sub { fill: #ddf4ff; stroke: #54aeff }
 .stay { fill: #fff8c5; stroke: #bf8700 } .lane { fill: #f6f8fa } .line { stroke: #6e7781; fill: none; stroke-width: 1.2 }
 .registry { stroke-dasharray: 4 3 }
 .head { fill: #6e7781 }
 @media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9ea7b3 } .page { fill: #0d1117 } .room { fill: #161b22; stroke: #6e7681 }
  .sub { fill: #0c2d6b; stroke: #388bfd } .stay { fill: #4b2900; stroke: #d29922 } .lane { fill: #161b22 }
  .line { stroke: #8b949e } .head { fill: #8b949e }
 }
</style>"""
MARKER = ('<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
          '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>')
CHIP, GAP, PAD, HEAD, SPACE = 20, 6, 8, 24, 26


def width_of(text, size=12):
    return int(len(text) * size * 0.6) + 1


def svg(width, height, title, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}" role="img"><title>{escape(title)}</title>', STYLE, MARKER,
                      f'<rect class="page" width="{width}" height="{height}"/>', *parts, "</svg>"]) + "\n"


def box(kind, x, y, w, h, text, hint, name="", dy=14):
    tip = f"<title>{escape(hint)}</title>" if hint else ""
    return (f'<g>{tip}<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="5"/>'
            f'<text {name}x="{x + w // 2}" y="{y + dy}" text-anchor="middle">{escape(text)}</text></g>')


def rows_of(room):
    """The sub-rooms of a room in rows, the highest first; a floor of many takes several rows."""
    rows = []
    for floor in reversed(floors(SUB_ROOMS.get(room, {}))):
        floor = [s for s in floor if s]
        rows += [floor[i:i + 5] for i in range(0, len(floor), 5)]
    return [row for row in rows if row]


def size_of(room):
    rows = rows_of(room)
    widths = [sum(width_of(s) + 10 for s in row) + GAP * (len(row) - 1) for row in rows]
    return max([width_of(room, 14) + 12, *widths]) + 2 * PAD, HEAD + len(rows) * (CHIP + GAP) + (PAD if rows else 4)


def draw_room(room, x, y, w, h, words):
    parts = [box("room", x, y, w, h, room, words.get(room, ("",))[0], 'class="name" ', 17)]
    for k, row in enumerate(rows_of(room)):
        at = x + (w - sum(width_of(s) + 10 for s in row) - GAP * (len(row) - 1)) // 2
        for sub in row:
            parts.append(box("sub", at, y + HEAD + k * (CHIP + GAP), width_of(sub) + 10, CHIP, sub,
                             words.get(f"{room}/{sub}", ("",))[0]))
            at += width_of(sub) + 10 + GAP
    return parts


def shaft(x, boxes, width):
    """The place nearest to x where a line passes between boxes [(left, right)]."""
    places = [x] + [right + SPACE // 2 for _, right in boxes] + [left - SPACE // 2 for left, _ in boxes]
    return min((p for p in places if 4 < p < width - 4 and all(p < l - 3 or p > r + 3 for l, r in boxes)),
               key=lambda p: (abs(p - x), p))


def rooms_svg(words):
    plan, spot = list(reversed(floors(BELOW))), {}  # spot: left, width, height
    totals = [sum(size_of(r)[0] for r in floor) + SPACE * (len(floor) - 1) for floor in plan]
    width = max(totals) + 100
    for floor, total in zip(plan, totals):
        x = (width - total) // 2
        for room in floor:
            spot[room] = (x, *size_of(room))
            x += size_of(room)[0] + SPACE
    level = {room: k for k, floor in enumerate(plan) for room in floor}
    comes = {room: sorted((u for u, below in BELOW.items() if room in below), key=lambda u: spot[u][0]) for room in BELOW}
    # Each arrow goes down, across in the aisle below its room, down a shaft past the floors between, across in the aisle
    # above its aim. What goes across in an aisle has a track of its own.
    arrows, tracks = [], [0] * len(plan)
    for room in sorted(BELOW, key=lambda r: (level[r], spot[r][0])):
        below = sorted(BELOW[room], key=lambda r: spot[r][0])
        for i, aim in enumerate(below):
            start = spot[room][0] + spot[room][1] * (i + 1) // (len(below) + 1)
            end = spot[aim][0] + spot[aim][1] * (comes[aim].index(room) + 1) // (len(comes[aim]) + 1)
            between = [(spot[r][0], spot[r][0] + spot[r][1]) for k in range(level[room] + 1, level[aim]) for r in plan[k]]
            down = shaft(start, between, width) if between else end
            stops = [(level[room], start, down)] + ([(level[aim] - 1, down, end)] if between else [])
            stops = [(aisle, to) for aisle, come, to in stops if abs(come - to) > 2]
            arrows.append((room, aim, start, [(aisle, tracks[aisle], to) for aisle, to in stops]))
            for aisle, _ in stops:
                tracks[aisle] += 1
    top, y = [], 12
    for k, floor in enumerate(plan):
        top.append(y)
        y += max(spot[r][2] for r in floor) + 2 * CHIP + 6 * tracks[k]
    parts = []
    for room, aim, start, across in arrows:
        path = f"M{start} {top[level[room]] + spot[room][2]}"
        for aisle, track, to in across:
            path += f" V{top[aisle + 1] - CHIP - 6 * track} H{to}"
        parts.append(f'<path class="line" marker-end="url(#arrow)" d="{path} V{top[level[aim]] - 1}"/>')
    for room in BELOW:
        x, w, h = spot[room]
        parts += draw_room(room, x, top[level[room]], w, h, words)
    return svg(width, y - 2 * CHIP + 12, "The rooms of Weft, higher ones on what they may include", parts)


def place_of(folder):
    """(room, sub-room) of a folder; outside of the rooms (part of the tree, None)."""
    place = TREE.place(ROOT / folder / "any.cc")
    return place[:2] if place else ("/".join(folder.split("/")[:2]), None)


def lane_of(folder):
    return place_of(folder)[0]


def may_call(caller, callee):
    """Whether the one folder may include what is in the other, which is another place."""
    (room, sub), (other, other_sub) = place_of(caller), place_of(callee)
    if room == other:
        return sub != other_sub and other_sub in closure(SUB_ROOMS[room], sub)
    return other in BELOW and (room not in BELOW or other in closure(BELOW, room))


def walk_svg(walk):
    """The stays from top to bottom, each in the column of its room; columns from the tool down to the lowest room."""
    order = [r for floor in reversed(floors(BELOW)) for r in floor]
    lanes = sorted({lane_of(f) for *_, f, _ in walk}, key=lambda r: (r in order, order.index(r) if r in order else 0, r))
    words = max(width_of(f"{n}. {name}") for n, name, *_ in walk) + 24
    wide = {lane: max([width_of(lane, 13), *(width_of(t[0][1], 10.5) for *_, f, t in walk if lane_of(f) == lane)]) + 14
            for lane in lanes}
    left, at = {}, words
    for lane in lanes:
        left[lane], at = at, at + wide[lane] + 8
    step, top = 34, 40
    height, parts = top + step * len(walk) + 8, []
    for lane in lanes:
        parts.append(f'<rect class="lane" x="{left[lane]}" y="6" width="{wide[lane]}" height="{height - 12}" rx="5"/>')
        parts.append(f'<text class="name" x="{left[lane] + wide[lane] // 2}" y="24" text-anchor="middle">{escape(lane)}</text>')
    boxes, spot = [], {}  # spot: middle and lower end of a stay
    for k, (number, name, caller, registry, folder, taken) in enumerate(walk):
        lane, y = lane_of(folder), top + step * k
        middle = left[lane] + wide[lane] // 2
        if caller in spot:
            start, end = spot[caller]
            # Calls of one stay side by side, the later ones more to the right.
            start += 4 * sum(c == caller for _, _, c, *_ in walk[:k])
            way = f"V{y - 1}" if start == middle else f"V{y - 6} H{middle} V{y - 1}"
            kind = "line registry" if registry else "line"
            parts.append(f'<path class="{kind}" marker-end="url(#arrow)" d="M{start} {end} {way}"/>')
        boxes.append(f'<text x="12" y="{y + 14}">{escape(f"{number}. {name}")}</text>')
        boxes.append(box("stay", left[lane] + 3, y, wide[lane] - 6, CHIP, taken[0][1], folder, 'class="small" '))
        spot[number] = (middle, y + CHIP)
    return svg(at + 6, height, "The way of a model from the command line to its results", parts + boxes)


def problems(text):
    picture = text[text.index(BEGIN) + len(BEGIN):text.index(END)]
    if picture != mermaid():
        yield "the picture is not that of tools/check_layers.py: run tools/draw_rooms.py --write"
    table, plan = described(text), planned()
    yield from (f"the table of rooms lacks {place}" for place in plan if place not in table)
    yield from (f"the table of rooms has {place}, which tools/check_layers.py has not" for place in table if place not in plan)
    for place in plan:
        if place in table and table[place][1] != plan[place]:
            yield f"{place} may include {sorted(plan[place])}, the table of rooms says {sorted(table[place][1])}"
    walk = stays(text)
    if [int(n) for n, *_ in walk] != list(range(1, len(walk) + 1)) or not walk:
        yield "the stays of a model are not numbered from 1 on"
    if len(walk) > MOST_STAYS:
        yield f"the way of a model has {len(walk)} stays, the limit is {MOST_STAYS}"
    folders = {number: folder for number, *_, folder, _ in walk}
    inside = []  # the stays that have called and not returned
    for number, name, caller, registry, folder, taken in walk:
        if number > 1 and caller not in inside:
            yield f"stay {number}: stay {caller}, which is to call it, has returned"
            continue
        inside = inside[:inside.index(caller) + 1] + [number] if number > 1 else [number]
        if number > 1 and not registry and not may_call(folders[caller], folder):
            yield f"stay {number}: {folders[caller]} may not call up to {folder}"
        if not taken:
            yield f"stay {number}: {name} names no file and function"
        for file, function in taken:
            path = ROOT / file
            if not path.is_file():
                yield f"stay {number}: {file} does not exist"
            elif not re.search(rf"\b{re.escape(function.split('::')[-1])}\b", path.read_text(encoding="utf-8")):
                yield f"stay {number}: {file} has no {function}"


def replace_if_changed(path, text):
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    text = PAGE.read_text(encoding="utf-8")
    if sys.argv[1] == "--write":
        replace_if_changed(PAGE, text[:text.index(BEGIN) + len(BEGIN)] + mermaid() + text[text.index(END):])
        return 0
    if sys.argv[1] == "--check":
        found = list(problems(text))
        print("\n".join(f"docs/ARCHITECTURE.md: {p}" for p in found) or "rooms: the page says what the tree is")
        return 1 if found else 0
    if sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    replace_if_changed(out / "rooms.svg", rooms_svg(described(text)))
    replace_if_changed(out / "walk.svg", walk_svg(stays(text)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
