/// value.h: types, tensors and attribute texts of the text IR, both ways. Private to the text
/// printer and parser.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lexer.h"
#include "weft/core/tensor/dtype.h"
#include "weft/core/tensor/shape.h"
#include "weft/core/text/text.h"

namespace weft {

/// "f32[2, n]", "f32?", "?[2]", "?", "seq(f32)", "seq(f32)[n]".
void AppendType(std::string* out, Type type, const Shape& shape);
/// "[1.0, 2.0]", "#hash=..." or "#hex=...".
void AppendTensorData(std::string* out, const TensorPtr& tensor, const PrintOptions& options);
/// Text of a registered attribute, quoted unless it is a plain number, word or list.
void AppendAttrText(std::string* out, std::string_view text);
inline constexpr std::string_view kOpaqueText = "<opaque>";

/// What is read over and over: shapes by their text.
struct TextCache {
  std::unordered_map<std::string_view, Shape> shapes;
};

struct TypeAndShape {
  Type type;
  Shape shape;
};
TypeAndShape ReadType(TextCursor& in, TextCache* cache);
/// "[2, n]" or "?".
Shape ReadShape(TextCursor& in, TextCache* cache);
/// The data of a tensor of this type (the inverse of AppendTensorData).
TensorPtr ReadTensorData(TextCursor& in, const TypeAndShape& type, const ParseOptions& options);
/// The inverse of AppendAttrText; kOpaqueText comes back as such and is told by `opaque`.
std::string ReadAttrText(TextCursor& in, bool* opaque);
/// "{axis = 1, perm = [1, 0]}"; `nested` reads a graph.
AttrDict ReadAttrDict(TextCursor& in, TextCache* cache, const ParseOptions& options,
                      const std::function<GraphPtr()>& nested);
/// ["a", "b"]
Strings ReadStringList(TextCursor& in);

}  // namespace weft
