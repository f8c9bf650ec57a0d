/// region_report.cc: see region_report.h.
#include "region_report.h"

#include <algorithm>
#include <set>

#include "runtime/program/predict_parts.h"
#include "runtime/program/tensors_at.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/body_types.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

/// Bytes of constants, of bodies too, each tensor once.
int64_t ConstantBytes(const Graph& g, std::set<const void*>* seen) {
  int64_t bytes = 0;
  for (const NodePtr& n : g.TopoOrder()) {
    if (const TensorPtr t = Graph::ConstantOf(NodeEntry(n)); t && seen->insert(t->data()).second)
      bytes = CheckedAdd(bytes, t->num_bytes());
    if (!n->is_variable() && !IsOp(n, builtin::kFused))
      for (const std::string& body : BodyNames(n))
        bytes = CheckedAdd(bytes, ConstantBytes(*n->attr<GraphPtr>(body), seen));
  }
  return bytes;
}

}  // namespace

MemoryReport ReportRegions(const Program::Impl& program, Backend& backend,
                           const std::vector<TensorPtr>& tensors) {
  const Graph& g = program.graph_;
  MemoryReport r;
  const SymBindings bindings = SymbolsOf(program, tensors);
  for (size_t i = 0; i < tensors.size(); ++i)
    (i < program.inputs_.size() ? r.input_bytes : r.variable_bytes) += tensors[i]->num_bytes();
  const ArenaParts parts = PredictParts(g, backend, program.call_options_, bindings, &r);
  r.arena_bytes = parts.sum();
  r.at_most = parts.at_most;
  std::set<const void*> seen;
  r.constant_bytes = ConstantBytes(g, &seen);
  int steps = 0;
  for (const MemoryHolder& h : r.blocks) steps = std::max(steps, h.end);
  r.live.assign(size_t(steps), 0);
  r.steps.resize(size_t(steps));
  for (const MemoryHolder& h : r.blocks) {
    r.steps[size_t(h.begin)] = h.name;
    for (int k = h.begin; k < h.end; ++k)
      r.live[size_t(k)] = CheckedAdd(r.live[size_t(k)], h.bytes);
  }
  const auto most = std::max_element(r.live.begin(), r.live.end());
  if (most != r.live.end()) {
    r.at_step = int(most - r.live.begin());
    r.bound_bytes = *most;
  }
  for (size_t i = 0; i < program.outputs_.size(); ++i) {
    const IoSpec& spec = program.outputs_[i];
    int64_t bytes = 0;
    if (spec.kind == TypeKind::kTensor && spec.shape.has_rank() && DTypeBits(spec.dtype) > 0) {
      try {
        int64_t count = 1;
        for (SymInt d : spec.shape.dims()) count = CheckedMul(count, Evaluate(d, bindings));
        bytes = DTypeBytes(spec.dtype, count);
      } catch (const UserError&) {
        r.unbounded.push_back(spec.name);
      }
    }
    r.output_bytes = CheckedAdd(r.output_bytes, bytes);
  }
  r.peak_bytes = CheckedAdd(r.arena_bytes, r.output_bytes);
  r.floor_bytes = r.peak_bytes;
  return r;
}

}  // namespace weft
