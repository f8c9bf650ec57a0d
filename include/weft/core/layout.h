/// layout.h: in which order the elements of a tensor lie in memory: the attribute "layout" that the pass Layout provides,
/// and what library calls wish for.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/core/graph_attr.h"

namespace weft {

enum class Layout : uint8_t {
  kPlain,         ///< row-major
  kChannelsLast,  ///< [n, c, spatial ..] lies as [n, spatial .., c]
};

/// Attribute "layout". Entries without a row are plain. Shapes, and so the meaning of every operator, stay as they are.
using LayoutMap = EntryMap<Layout>;

/// Layouts that save a library call a transposition; what the lists leave out is taken plain. A call that wishes for a
/// layout must take the plain one as well.
struct LayoutWish {
  std::vector<Layout> inputs, outputs;
};
/// Operator attribute "FLayout.<library>", beside "FCompute.<library>".
using FLayout = std::function<LayoutWish(const NodePtr&)>;

namespace builtin {
/// (x): x, in the layout that its result is to have.
inline constexpr const char* kReorder = "weft::Reorder";
}  // namespace builtin

}  // namespace weft
