/// found_sizes.cc: see found_sizes.h.
#include "found_sizes.h"

#include <algorithm>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/support/checked.h"
#include "weft/support/error.h"

namespace weft {
namespace {

bool Has(const std::vector<SymInt>& list, SymInt s) {
  return std::find(list.begin(), list.end(), s) != list.end();
}
int64_t Allowance(const std::vector<TensorPtr>& inputs) {
  int64_t fed = 0, bytes = FoundSizes::kAlways;
  for (const TensorPtr& t : inputs)
    if (t && t->is_tensor()) fed = CheckedAdd(fed, t->num_bytes());
  // In steps: a binding is made for each.
  while (bytes / FoundSizes::kTimesFed < fed) bytes = CheckedMul(bytes, 2);
  return bytes;
}

}  // namespace

FoundSizes::FoundSizes(const Graph& graph) : facts_(graph.AttrOr<Facts>("facts")) {
  const ShapeMap& shapes = graph.GetAttr<ShapeMap>("shape");
  for (const NodePtr& p : graph.AllInputs()) {
    inputs_.push_back(shapes[NodeEntry(p)]);
    for (SymInt d : inputs_.back().dims())
      if (d.known() && d.is_symbol() && !Has(symbols_, d)) symbols_.push_back(d);
  }
  for (SymInt s : UnbackedSizes(graph))
    if (!Has(symbols_, s)) unbacked_.push_back(s);
  for (const NodePtr& n : graph.TopoOrder()) {
    if (!IsOp(n, builtin::kSizes)) continue;
    for (uint32_t k = 0; k < n->num_outputs(); ++k)
      for (SymInt d : shapes[NodeEntry(n, k)].dims())
        for (SymInt s : d.known() ? d.Symbols() : std::vector<SymInt>()) told_.push_back(s);
  }
}

std::shared_ptr<const FoundSizes::Ahead> FoundSizes::At(
    const std::vector<TensorPtr>& inputs, const std::shared_ptr<const FrameBounds>& around,
    Last* last) const {
  if (!around && unbacked_.size() <= told_.size() &&
      std::all_of(unbacked_.begin(), unbacked_.end(), [&](SymInt s) { return Has(told_, s); }))
    return nullptr;
  const int64_t bytes = around ? around->bytes : Allowance(inputs);
  std::vector<int64_t> key(symbols_.size(), -1);
  for (size_t i = 0; i < inputs.size(); ++i)
    for (int d = 0; inputs[i] && inputs_[i].has_rank() && d < inputs_[i].rank(); ++d) {
      const auto it = std::find(symbols_.begin(), symbols_.end(), inputs_[i][d]);
      if (it != symbols_.end() && d < inputs[i]->rank())
        key[size_t(it - symbols_.begin())] = inputs[i]->dims()[size_t(d)];
    }
  const std::vector<int64_t> values = key;
  key.push_back(bytes);
  if (around)
    for (const auto& [size, most] : around->most) key.push_back(most);
  if (last->ahead && last->key == key) return last->ahead;
  last->key = std::move(key);
  std::lock_guard lock(mutex_);
  return last->ahead = known_.GetOrMake(last->key, [&] { return Compute(values, around, bytes); });
}

std::shared_ptr<const FoundSizes::Ahead> FoundSizes::Compute(
    const std::vector<int64_t>& values, const std::shared_ptr<const FrameBounds>& around,
    int64_t bytes) const {
  auto ahead = std::make_shared<Ahead>();
  ahead->bytes.assign(tensors_.size(), 0);
  auto bounds = std::make_shared<FrameBounds>();
  bounds->bytes = bytes;
  if (around) bounds->most = around->most;
  SymBindings known;
  for (size_t i = 0; i < symbols_.size(); ++i)
    if (values[i] >= 0 && !bounds->most.count(symbols_[i]))
      known[symbols_[i].symbol_name()] = values[i];
  try {
    SizeBounds sizes(facts_, known);
    for (const auto& [size, most] : bounds->most)
      if (Has(symbols_, size)) sizes.SetMost(size, most);
    sizes.Limit(unbacked_);
    for (const auto& [size, most] : sizes.limits())
      if (!Has(told_, size)) bounds->most[size] = most;
    if (bounds->most.empty()) return ahead;
    int64_t left = bytes;
    for (size_t k = 0; k < tensors_.size(); ++k) {
      const auto& [type, shape] = tensors_[k];
      if (!type.is_tensor() || DTypeBits(type.dtype) == 0 || !shape.has_rank()) continue;
      // Only what data tell: what operands tell is there before the memory is.
      bool found = false, told = false;
      for (SymInt d : shape.dims())
        for (SymInt s : d.known() ? d.Symbols() : std::vector<SymInt>()) {
          found = found || bounds->most.count(s) > 0;
          told = told || (!known.count(s.symbol_name()) && bounds->most.count(s) == 0);
        }
      if (!found || told) continue;
      int64_t count = 1;
      for (SymInt d : shape.dims()) {
        bool at_most = false;
        const int64_t most = sizes.Most(d, &at_most);
        if (most == SizeBounds::kNone || (most > 0 && count > left / most)) {
          count = -1;
          break;
        }
        count *= most;
      }
      if (count < 0) continue;
      const int64_t size = DTypeBytes(type.dtype, count);
      if (size > left) continue;
      ahead->bytes[k] = size;
      left -= size;
    }
    ahead->bounds = std::move(bounds);
  } catch (const UserError&) {
    // What does not fit together, or leaves 64 bits, is the business of who runs into it.
    ahead->bytes.assign(tensors_.size(), 0);
  }
  return ahead;
}

}  // namespace weft
