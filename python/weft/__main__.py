"""python -m weft ARGUMENTS: the command `weft`, which takes PyTorch's `.pt2` files here as well; no torch is needed for them."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence


def find_command() -> str | None:
    """The program of the wheel, of the build that this package is in, or of the system."""
    package = pathlib.Path(__file__).absolute().parent
    places = [package / "bin" / "weft", package.parents[1] / "bin" / "weft"]
    return next((str(p) for p in places if p.is_file()), None) or shutil.which("weft")


def _is_pt2(argument: str) -> bool:
    return argument.endswith(".pt2") and not argument.startswith("-")


def _translate(path: str, folder: str) -> str:
    """The model of a `.pt2` file in a format that the command reads."""
    import weft
    import weft.torch

    exported = weft.torch.export(path)
    place = pathlib.Path(folder) / pathlib.Path(path).stem
    try:
        exported.save(f"{place}.onnx")
        return f"{place}.onnx"
    except weft.UnsupportedError:  # it writes its buffers, say
        exported.save(f"{place}.weft")
        return f"{place}.weft"


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = find_command()
    if command is None or os.path.realpath(command) == os.path.realpath(sys.argv[0]):
        print("weft: this package has no command inside; install Weft's own", file=sys.stderr)
        return 3
    if not any(map(_is_pt2, arguments)):
        os.execv(command, [command, *arguments])
    import weft

    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        try:
            given = [_translate(a, folder) if _is_pt2(a) else a for a in arguments]
        except (weft.Error, ValueError, OSError, zipfile.BadZipFile) as error:
            print(f"weft: {error}", file=sys.stderr)
            return 4
        return subprocess.run([command, *given], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
