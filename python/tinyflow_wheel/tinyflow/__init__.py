"""`import tinyflow as tf`: the package is weft.tinyflow, its modules included."""

import sys

from weft import tinyflow

for name in ("_base", "datasets", "nn", "train"):
    sys.modules[f"tinyflow.{name}"] = getattr(tinyflow, name)
sys.modules["tinyflow"] = tinyflow
