/// value_numbers.h: numbers of values, equal where the values are.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// Numbers for what nodes compute, of one graph or of several. Equal operators of equal attributes
/// and equal operands have equal numbers; what gives something else each time it runs has its own.
///   source  value numbering: Cocke, Schwartz 1970
class ValueNumbers {
 public:
  /// One that nothing else has.
  uint32_t New() { return next_++; }
  /// Numbers the outputs of `n`, an operator: the first one, the others behind it. `operands`: the
  /// numbers of its inputs. A Constant has the number of its value.
  uint32_t Of(const NodePtr& n, const std::vector<uint32_t>& operands);
  /// Of the value of a parameter or a Constant.
  uint32_t Of(const TensorPtr& value);

 private:
  struct Known {
    NodePtr node;
    std::vector<uint32_t> operands;
    uint32_t first;
  };
  uint64_t AttrHash(const NodePtr& n);
  uint32_t next_ = 0;
  std::unordered_map<uint64_t, std::vector<Known>> known_;  // looked up only
  std::unordered_map<const Node*, uint64_t> hashes_;
  using Extents = std::pair<DType, std::vector<int64_t>>;
  std::map<Extents, std::vector<std::pair<TensorPtr, uint32_t>>> values_;
};

}  // namespace weft
