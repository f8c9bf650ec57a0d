#!/usr/bin/env python3
"""Writes onnx_differentiable.txt: the operators of ONNX's own domain that its schemas call
differentiable, and whether they have a function body (then they need no operator here).

    python make_differentiable.py > onnx_differentiable.txt
"""
import onnx
from onnx import defs

newest = {}
for schema in defs.get_all_schemas():
    if schema.domain == "":
        newest[schema.name] = schema
differentiable = defs.OpSchema.DifferentiationCategory.Differentiable


def some(arguments):
    return any(a.differentiation_category == differentiable for a in arguments)


print("# Differentiable operators by the schemas of onnx", onnx.__version__ + "; written by make_differentiable.py.")
for name, schema in sorted(newest.items()):
    if some(schema.inputs) and some(schema.outputs):
        body = schema.has_function or schema.has_context_dependent_function
        print(name, "|", "body" if body else "operator")
