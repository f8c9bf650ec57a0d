/// value_numbers.cc: see value_numbers.h.
#include "value_numbers.h"

#include <string>

#include "weft/core/graph/repeatable.h"
#include "weft/core/op/attr_hash.h"
#include "weft/core/op/op.h"
#include "weft/support/hash.h"

namespace weft {

uint32_t ValueNumbers::Of(const NodePtr& n, const std::vector<uint32_t>& operands) {
  if (const TensorPtr value = Graph::ConstantOf(NodeEntry(n))) return Of(value);
  const auto number = [&] {
    const uint32_t first = next_;
    next_ += n->num_outputs();
    return first;
  };
  if (!IsRepeatable(n) || !n->control_deps.empty()) return number();
  Hasher h;
  h.Add(AttrHash(n));
  for (uint32_t operand : operands) h.Add(uint64_t{operand});
  std::vector<Known>& same_hash = known_[h.Finish().lo];
  for (const Known& k : same_hash)
    if (k.node->op() == n->op() && k.operands == operands && k.node->attrs.dict == n->attrs.dict)
      return k.first;
  same_hash.push_back({n, operands, number()});
  return same_hash.back().first;
}

uint32_t ValueNumbers::Of(const TensorPtr& value) {
  // Nothing is read of a tensor that has no equal in dtype and extents.
  auto& alike = values_[{value->dtype(), value->dims()}];
  for (const auto& [known, number] : alike)
    if (known == value || (known->ContentHash() == value->ContentHash() && known->Equals(*value)))
      return number;
  alike.emplace_back(value, New());
  return alike.back().second;
}

uint64_t ValueNumbers::AttrHash(const NodePtr& n) {
  uint64_t& hash = hashes_[n.get()];
  return hash != 0 ? hash : hash = HashOfAttrs(n);
}

}  // namespace weft
