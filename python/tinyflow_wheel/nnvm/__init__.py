"""`from nnvm import symbol` and `import nnvm.graph`: modules of weft.tinyflow."""

import sys

from weft.tinyflow import graph as graph
from weft.tinyflow import symbol as symbol

sys.modules["nnvm.graph"] = graph
sys.modules["nnvm.symbol"] = symbol
