/// text.h: the text form of graphs (`.weft`): printing and parsing. Golden tests, dumps,
/// reproducers and bug reports use it. Law: print(parse(print(g))) == print(g).
///
///   weft 1
///   graph @mlp<batch>(%x: f32[batch, 784], %w: f32[784, 10] param, %b: f32[2] param = [0.5, -1.0])
///   -> (%y as "out:0") {
///     %h = MatMul(%x, %w) : f32[batch, 10] #layout = "nchw"
///     %0 = Reshape(%h, _) {allowzero = 0} after(%h) : f32[?, 5]
///     %a, %a:1 = Split(%0) {axis = 0} : f32[?, 5], ?
///     %y = weft::Fused(%a, %a:1) body (%0: f32[?, 5], %1: ?) -> (%2) {
///       %2 = Add(%0, %1) : ?
///     } : ?
///   }
///   #peak_bytes = 81920
///
/// Header. `@name` is left out for an unnamed graph, `<...>` lists the symbols of all dims (checked
/// against nothing: it is for the reader). Variables: declared inputs in order (one with a default
/// value: `= [..]`); then, marked `param`, those with a value; then, marked `free`, the others. `->
/// (..)` are the outputs, with `as "name"` where an output is called otherwise than its node.
///
/// Types. `f32[2, n]` dtype and shape; `f32[?, 4]` an unknown dim; `f32?` unknown rank; `?[2, n]`
/// unknown dtype; `?` both unknown; `f32[]` is a scalar. `seq(f32)[..]`, `opt(f32)[..]`, `opaque`.
/// Types stand for the graph attributes "dtype" and "shape"; a variable shows what was declared of
/// it where inference has said nothing, and what is read is declared.
///
/// Nodes. `%name`; other names than [A-Za-z_][A-Za-z0-9_.$/-]* are quoted (`%"a b"`); nodes without
/// a name are numbered in the order of printing (`%0`); a name that is taken gets `.2`, `.3` ...
/// The outputs of a node are `%n`, `%n:1`, `%n:2` ...; those after the first may have names of
/// their own (value_name.h). `_` is an absent input. Op attributes in `{}` sorted by name: integers
/// `1`, floats `1.0`, strings, dtypes `f32`, shapes `shape[2, n]`, lists `[1, 2]` `[1.0]` `["a"]`
/// `floats[]` `strings[]`, tensors `tensor f32[2] [1.0, 2.0]`, graphs `graph (..) -> (..) { .. }`.
/// The attribute `body` of weft::Fused follows the attributes instead.
///
/// Tensors of up to 16 elements are inline, larger ones say `#hash=<16 hex digits>` (data in
/// `side_data`), or with `inline_all` the bytes as `#hex=...` (strings: a list). A parameter reads
/// `param = <the same without dtype and shape>`.
///
/// Attributes. `#name = text` in the text form of the registered type (graph_attr.h); a row without
/// a text form prints `#name = <opaque>`, which the parser refuses. Rows of output k > 0 are
/// `#name:k = text`. Texts other than plain numbers, words and lists are quoted. Texts that name
/// nodes use the numbers that the nodes have after reading: variables in order from 0, then nodes
/// in order. `after(%n)` are control edges, `#origin = ["a"]` what a node stands for. Comments go
/// from `//` to the end of the line.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// Tensors by content hash: what a text refers to by `#hash=`.
using SideData = std::map<uint64_t, TensorPtr>;

struct PrintOptions {
  bool origins = false;            ///< `#origin = ["a", "b"]` of every node that has one
  bool attributes = true;          ///< registered attributes that are `printed`
  bool hidden_attributes = false;  ///< the others too
  bool inline_all = false;         ///< large tensors inline
  int inline_elements = 16;        ///< tensors of up to this many elements are inline
  SideData* side_data = nullptr;   ///< collects the tensors that are not inline
};

struct ParseOptions {
  std::string source_name = "<text>";  ///< in messages
  const SideData* side_data = nullptr;
  /// A tensor whose data is in no side data: an error, or zeros (enough to read a dump), or
  /// what `make_missing` makes in its place.
  bool allow_missing_data = false;
  std::function<TensorPtr(DType dtype, const std::vector<int64_t>& dims)> make_missing;
  /// An op that is not registered: an error (kUnknownOp), or a placeholder op of that name.
  bool allow_unknown = false;
  /// `#name = <opaque>` (an attribute without a text form): an error, or left out.
  bool allow_opaque = false;
  int max_depth = 64;  ///< of nested bodies
};

WEFT_API std::string PrintGraph(const Graph& graph, const PrintOptions& options = {});
/// Throws kSyntax with line and column and the line itself, kUnknownOp, kBadAttribute, kArity,
/// kInvalidModel.
WEFT_API Graph ParseGraph(std::string_view text, const ParseOptions& options);
WEFT_API Graph ParseGraph(std::string_view text, const std::string& source_name = "<text>");

}  // namespace weft
