/// declared.cc: types and shapes that a model declares, against those that its values have. Nothing
/// is taken from a declaration but what feeds the graph.
#include "importer.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/pass/provide.h"
#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

/// Another rank, or another number for a dimension that is known.
bool Contradicts(const pb::TensorShapeProto& declared, const Shape& shape) {
  if (!shape.has_rank()) return false;
  if (shape.rank() != declared.dim_size()) return true;
  for (int i = 0; i < shape.rank(); ++i) {
    const pb::TensorShapeProto::Dimension& d = declared.dim(i);
    const auto size = shape[i].known() ? shape[i].try_value() : std::nullopt;
    if (size && d.has_dim_value() && d.dim_value() >= 0 && *size != d.dim_value()) return true;
  }
  return false;
}

std::string TextOf(const pb::TensorShapeProto& shape) {
  std::vector<std::string> dims;
  for (const auto& d : shape.dim()) {
    dims.push_back(d.has_dim_value()       ? fmt::format("{}", d.dim_value())
                   : d.dim_param().empty() ? "?"
                                           : Printable(d.dim_param()));
  }
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

}  // namespace

std::string DeclaredShape::place() const {
  return fmt::format("main/{} {}", what, Printable(value->name()));
}

void DeclaredShape::Check(const Shape& found, Diagnostics* diag) const {
  const pb::TensorShapeProto& shape = value->type().tensor_type().shape();
  if (!Contradicts(shape, found)) return;
  diag->Tolerate(Oddity::kDeclaredShape, place(),
                 fmt::format("declared as {}, it is {}", TextOf(shape), found.ToString()));
}

void Importer::CheckDeclared(Scope* s, const pb::GraphProto& g) {
  const bool is_main = s->depth == 0;
  for (const auto& v : g.value_info()) CheckDeclared(s, v, "value_info", false);
  for (const auto& v : g.output()) CheckDeclared(s, v, "output", is_main);
}

void Importer::CheckDeclared(Scope* s, const pb::ValueInfoProto& v, const char* what,
                             bool is_interface) {
  const Value* value = Find(s, v.name());
  if (!value || !v.type().has_tensor_type()) return;
  const DType declared = TypeOfValue(v.type()).dtype, found = DTypeOf(s, v.name());
  if (declared != DType::kUnknown && found != DType::kUnknown && declared != found) {
    const std::string place = fmt::format("{}/{} {}", s->path, what, Printable(v.name()));
    const std::string text =
        fmt::format("declared as {}, it is {}", DTypeName(declared), DTypeName(found));
    // Who feeds or reads the model goes by the declaration.
    if (is_interface)
      diag_->Add(ErrorCode::kTypeMismatch, place, text);
    else
      diag_->Tolerate(Oddity::kDeclaredType, place, text);
  }
  if (s->depth > 0 || !v.type().tensor_type().has_shape()) return;
  const DeclaredShape shape{what, &v, value->entry};
  if (const Shape known = ShapeOf(s, v.name()); known.has_rank())
    shape.Check(known, diag_);
  else if (value->state == Value::kEntry)
    declared_shapes_.push_back(shape);
}

Graph CheckDeclaredShapes(Graph graph, const std::vector<DeclaredShape>& declared,
                          const Limits& limits, Diagnostics* diag) {
  if (declared.empty()) return graph;
  PassOptions options;
  options.limits = limits;
  try {
    Graph inferred = ProvideTypes(graph, options);
    const ShapeMap shapes = inferred.AttrOr<ShapeMap>("shape");
    for (const DeclaredShape& d : declared) d.Check(shapes[d.entry], diag);
    return inferred;
  } catch (const UserError&) {
    return graph;  // who compiles it is told why
  }
}

}  // namespace weft::onnx_import
