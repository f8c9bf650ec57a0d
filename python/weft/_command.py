"""The command `weft` of the wheel: the program beside the libraries."""

from weft.__main__ import main as main
