/// layout.h: in which order the elements of a tensor lie in memory: the attribute "layout" that the
/// pass Layout provides, and what library calls wish for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/core/graph/graph_attr.h"

namespace weft {

enum class Layout : uint8_t {
  kPlain,         ///< row-major
  kChannelsLast,  ///< [n, c, spatial ..] lies as [n, spatial .., c]
};

/// Attribute "layout". Entries without a row are plain. Shapes, and so the meaning of every
/// operator, stay as they are.
using LayoutMap = EntryMap<Layout>;

/// Both layouts of such a tensor are the same memory: it has no spatial axes, or one channel, or
/// one position an image.
WEFT_API bool LiesAlikeInAll(const Shape& shape);

/// Layouts that save a library call a transposition; what the lists leave out is taken plain. A
/// call that wishes for a layout must take the plain one as well.
struct LayoutWish {
  std::vector<Layout> inputs, outputs;
};
/// Operator attribute "FLayout.<library>", beside "FCompute.<library>". `dtype`:
/// of the first result.
using FLayout = std::function<LayoutWish(const NodePtr&, DType dtype)>;

namespace builtin {
/// (x): x, in the layout that its result is to have.
inline constexpr const char* kReorder = "weft::Reorder";
}  // namespace builtin

/// The constant that a weft::Reorder reads, which is reordered when the program is made and not
/// when it runs. Null for every other node.
WEFT_API TensorPtr ReorderedConstant(const NodePtr& node);
/// Copies the elements of a tensor from one layout to another.
WEFT_API void CopyLayout(DType dtype, const std::vector<int64_t>& dims, const void* from, void* to,
                         Layout from_layout, Layout to_layout);

}  // namespace weft
