/// fixed_body.h: operators whose attribute `body` is a typed part of the graph around them, over
/// its symbols: weft::Fused, weft::Region, weft::Delegated.
#pragma once

#include "ops/util/host_util.h"
#include "ops/util/shape_util.h"
#include "weft/core/op/run_bodies.h"

namespace weft::ops {

/// Throws kBadAttribute where there is none.
const Graph& FixedBody(const NodeAttrs& attrs);
uint32_t FixedBodyOutputs(const NodeAttrs& attrs);
/// FRunBodies of an operator that is its body.
void RunFixedBody(const NodePtr& node, const Tensors& inputs, const BodyRunner& bodies,
                  ResultTensors* results);
/// As the body says; kTypeMismatch where an input is of another dtype.
void FixedBodyType(InferTypeContext& ctx);
/// As the body says, as long as every input has the shape that the body was made for; else unknown.
void FixedBodyShape(InferShapeContext& ctx);
/// The same for what may be given other dimensions than it was made for: those of the body are
/// expressions over the dimensions of its inputs.
void RenamedBodyShape(InferShapeContext& ctx);

}  // namespace weft::ops
