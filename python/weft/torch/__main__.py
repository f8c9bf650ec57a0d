"""python -m weft.torch export MODULE:FACTORY -o FILE: the factory gives (model, args) or (model,
args, kwargs). A `.pt2` file stands for MODULE:FACTORY, and then no torch is needed.

    python -m weft.torch lint MODULE:FACTORY
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

import weft
from weft.torch.exporting import Exported, export
from weft.torch.linting import lint


def _make(place: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    module, _, factory = place.partition(":")
    if not factory:
        raise SystemExit(f"'{place}' is not MODULE:FACTORY")
    sys.path.insert(0, os.getcwd())
    made = getattr(importlib.import_module(module), factory)()
    model, args, *rest = made
    return model, tuple(args), dict(rest[0]) if rest else {}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m weft.torch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    writer = commands.add_parser("export", help="write a model as .onnx, .weft, .json or .weftx")
    writer.add_argument("model", help="MODULE:FACTORY, or a .pt2 file")
    writer.add_argument("-o", "--output", required=True)
    checker = commands.add_parser("lint", help="name all obstacles; exit code 3 where there are")
    checker.add_argument("model", help="MODULE:FACTORY")
    options = parser.parse_args(argv)
    try:
        if options.command == "lint":
            model, args, kwargs = _make(options.model)
            found = lint(model, args, kwargs)
            for obstacle in found:
                print(obstacle)
            return 3 if found else 0
        exported: Exported
        if options.model.endswith(".pt2"):
            exported = export(options.model)
        else:
            model, args, kwargs = _make(options.model)
            exported = export(model, args, kwargs)
        exported.save(options.output)
    except (weft.Error, ValueError) as error:
        print(f"{options.model}: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
