/// typed_edit.cc: see typed_edit.h.
#include "weft/core/graph/typed_edit.h"

#include "attr_value.h"
#include "store.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"

namespace weft {

namespace {

/// What is incomplete stays in the graph, where edits go on clearing it.
template <class Map>
Map Taken(Graph& g, const char* name) {
  return g.IsComplete(name) ? g.MoveCopyAttr<Map>(name) : Map();
}

}  // namespace

TypedEdit::TypedEdit(Graph& g)
    : g_(g),
      first_new_(g.id_bound()),
      has_shapes_(g.num_nodes() == 0 || g.IsComplete("shape")),
      has_types_(g.num_nodes() == 0 || g.IsComplete("dtype")),
      has_values_(g.num_nodes() == 0 || g.IsComplete("value")),
      shapes_(Taken<ShapeMap>(g, "shape")),
      types_(Taken<TypeMap>(g, "dtype")),
      values_(Taken<ValueMap>(g, "value")) {}

TypedEdit::~TypedEdit() {
  if (open_) Finish();
}

void TypedEdit::Finish() {
  open_ = false;
  if (has_shapes_) g_.SetAttr("shape", std::move(shapes_));
  if (has_types_) g_.SetAttr("dtype", std::move(types_));
  if (has_values_) g_.SetAttr("value", std::move(values_));
}

NodeEntry TypedEdit::Add(std::string_view op, const std::vector<NodeEntry>& inputs, AttrDict attrs,
                         const NodeEntry& like, std::string name) {
  return KnowAs(NodeEntry(g_.AddNode(op, inputs, std::move(attrs), std::move(name))), like);
}
NodeEntry TypedEdit::Add(std::string_view op, const std::vector<NodeEntry>& inputs, AttrDict attrs,
                         KnownRow known, std::string name) {
  return Know(NodeEntry(g_.AddNode(op, inputs, std::move(attrs), std::move(name))),
              std::move(known));
}

NodeEntry TypedEdit::AddConstant(TensorPtr t) {
  KnownRow known{t->shape(), Type(t->dtype()), nullptr};
  return Know(g_.AddConstant(std::move(t)), std::move(known));
}
NodeEntry TypedEdit::AddParam(const std::string& name, TensorPtr t) {
  KnownRow known{t->shape(), Type(t->dtype()), nullptr};
  return Know(NodeEntry(g_.AddParam(name, std::move(t))), std::move(known));
}

NodeEntry TypedEdit::AddExtents(const Shape& extents) {
  const NodeEntry e = extents.is_static()
                          ? g_.AddConstant(Tensor::Ints(extents.ints()))
                          : NodeEntry(g_.AddNode(builtin::kShapeTensor, {}, {{"dims", extents}}));
  const int64_t rank = extents.rank();
  return Know(e, {Shape{SymInt(rank)}, Type(DType::kI64),
                  std::make_shared<SymTensor>(SymTensor{{rank}, extents.dims()})});
}

NodeEntry TypedEdit::AddReshape(const NodeEntry& x, const Shape& extents, std::string name) {
  if (extents.same(shape(x))) return x;
  const NodeEntry target = AddExtents(extents);
  // 0 is an extent here, not "as before".
  return Add("Reshape", {x, target}, {{"allowzero", int64_t{1}}}, {extents, type(x), nullptr},
             std::move(name));
}

NodeEntry TypedEdit::Know(const NodeEntry& e, KnownRow known) {
  shapes_.set(e, std::move(known.shape));
  types_.set(e, known.type);
  if (known.value) values_.set(e, std::move(known.value));
  return e;
}

NodeEntry TypedEdit::KnowAs(const NodeEntry& e, const TypedEdit& other, const NodeEntry& like) {
  // Copies: the rows of `like` may be in the very maps that grow.
  shapes_.set(e, Shape(other.shapes_[like]));
  types_.set(e, Type(other.types_[like]));
  if (const SymTensorPtr* v = other.values_.find(like)) values_.set(e, SymTensorPtr(*v));
  return e;
}

void TypedEdit::Replace(NodePtr n, const std::vector<NodeEntry>& to) {
  for (uint32_t i = 0; i < to.size(); ++i) {
    if (!to[i].node || to[i].node == n) continue;
    if (!shapes_.find(to[i])) KnowAs(to[i], NodeEntry(n, i));
    const bool made_here = to[i].node->id() >= first_new_;
    if (made_here && to.size() == 1 && to[i].index == 0) CopyClaimed(n->id(), to[i].node->id());
  }
  g_.ReplaceNode(n, to);
}

void TypedEdit::CopyClaimed(NodeId from, NodeId to) {
  for (const std::string& name : g_.store()->preserved) {
    const AttrType* t = FindAttrType(name);
    const auto it = g_.attrs.find(name);
    if (!t || t->scope != AttrScope::kEntry || it == g_.attrs.end() || !it->second) continue;
    std::any& rows = OwnValue(it->second);
    t->copy_rows(rows, from, rows, to);
  }
}

void TypedEdit::MoveRows(NodeId from, TypedEdit& other, NodeId to) {
  shapes_.move_rows(from, other.shapes_, to);
  types_.move_rows(from, other.types_, to);
  values_.move_rows(from, other.values_, to);
}

void TypedEdit::Reserve(NodeId bound) {
  shapes_.reserve(bound);
  types_.reserve(bound);
}

}  // namespace weft
