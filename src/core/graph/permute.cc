/// permute.cc: see permute.h.
#include "weft/core/graph/permute.h"

#include <algorithm>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/variable.h"
#include "weft/support/check.h"

namespace weft {
namespace {

using Dims = std::vector<int64_t>;

/// False: it changes nothing.
bool Judge(const Dims& perm, const std::string& of) {
  Dims all(perm.size());
  for (size_t d = 0; d < all.size(); ++d) all[d] = int64_t(d);
  WEFT_CHECK(std::is_permutation(perm.begin(), perm.end(), all.begin()), kBadInput,
             "{}: [{}] is not a permutation", of, fmt::join(perm, ", "));
  return perm != all;
}

Dims Inverse(const Dims& perm) {
  Dims inverse(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) inverse[size_t(perm[d])] = int64_t(d);
  return inverse;
}

}  // namespace

NodeEntry PermuteInput(Graph* graph, NodePtr input, const Dims& perm) {
  const std::vector<NodePtr> inputs = graph->AllInputs();
  WEFT_CHECK(std::find(inputs.begin(), inputs.end(), input) != inputs.end(), kApiMisuse,
             "{} is not an input of the graph", input ? input->Describe() : "null");
  const NodeEntry fed(input);
  if (!Judge(perm, input->Describe())) return fed;
  if (const auto shape = DeclaredShape(input); shape && shape->has_rank()) {
    WEFT_CHECK(size_t(shape->rank()) == perm.size(), kBadInput,
               "{}: a permutation of {} dims for the shape {}", input->Describe(), perm.size(),
               shape->ToString());
    std::vector<SymInt> dims;
    for (const int64_t d : Inverse(perm)) dims.push_back((*shape)[int(d)]);
    graph->SetAttr(input, "shape", Shape(std::move(dims)));
  }
  const NodeEntry t = ApplyOp("Transpose", {fed}, {{"perm", Ints(perm)}});
  graph->ReplaceUses(fed, t);
  return t;
}

void PermuteOutput(Graph* graph, size_t index, const Dims& perm) {
  const NodeEntry y = graph->outputs.at(index);
  const std::string name = graph->OutputName(index);
  if (!Judge(perm, fmt::format("output '{}'", name))) return;
  graph->outputs.set(index, ApplyOp("Transpose", {y}, {{"perm", Ints(Inverse(perm))}}));
  graph->SetOutputName(index, name);
}

}  // namespace weft
