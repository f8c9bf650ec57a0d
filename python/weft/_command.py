"""The command `weft` of the wheel: the program beside the libraries."""

import os
import pathlib
import sys


def main() -> None:
    command = pathlib.Path(__file__).parent / "bin" / "weft"
    if not command.exists():
        sys.exit("weft: this package has no command inside; install Weft's own")
    os.execv(command, [str(command), *sys.argv[1:]])
