/// input_role.h: what the values of an input mean to those that read it.
///
/// An input is followed through operators that only move elements, and into the bodies of nodes;
/// where it is computed with, it may still decide a size.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "weft/runtime/inputs/sample_inputs.h"

namespace weft {

struct InputRole {
  bool index = false, negative_index = true;
  int64_t extent = std::numeric_limits<int64_t>::max();  ///< least of the axes that it selects from
  bool shape = false;
  std::optional<std::vector<int64_t>> shaped;  ///< dimensions of what gets the shape
  /// Its values decide sizes or iterations, or are computed with before they select.
  bool sizes = false;
  std::vector<int64_t> compared;  ///< constants that it is tested to equal
  bool free() const { return !index && !shape && !sizes; }
};

/// The graph with numbers as dimensions of its inputs, its shapes inferred. Throws what inference
/// throws, and kBadBinding for a symbol without a value.
WEFT_API Graph AtDims(const Graph& graph, const SymBindings& bindings, const InputDims& dims = {});

class WEFT_API InputRoles {
 public:
  /// Of a graph with types and shapes, which must outlive this.
  explicit InputRoles(const Graph& at_dims);
  ~InputRoles();
  InputRole Of(const NodePtr& input) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
