/// shape_tracker.cc: see shape_tracker.h.
#include "shape_tracker.h"

#include "weft/core/graph/variable.h"
#include "weft/core/op/op.h"
#include "weft/core/tensor/followed_value.h"
#include "weft/support/error.h"
#include "weft/support/request.h"

namespace weft::onnx_import {
namespace {

const Shape& Unknown() {
  static const Shape unknown;
  return unknown;
}

template <class Map>
auto FindOr(const Map& map, const EntryKey& key, const typename Map::mapped_type& otherwise)
    -> const typename Map::mapped_type& {
  const auto it = map.find(key);
  return it == map.end() ? otherwise : it->second;
}

}  // namespace

const Shape& ShapeTracker::Of(const NodeEntry& e) {
  if (!e) return Unknown();
  // Post-order with a stack of its own: models are deeper than the stack of a thread.
  std::vector<std::pair<NodePtr, bool>> stack{{e.node, false}};
  while (!stack.empty()) {
    const auto [n, ready] = stack.back();
    stack.pop_back();
    if (done_.count(n->id())) continue;
    if (ready) {
      Infer(n);
      done_.insert(n->id());
      continue;
    }
    stack.emplace_back(n, true);
    for (const NodeEntry& in : n->inputs)
      if (in && !done_.count(in.node->id())) stack.emplace_back(in.node, false);
  }
  return FindOr(shapes_, e.key(), Unknown());
}

void ShapeTracker::Know(NodePtr variable, Shape shape) {
  shapes_[NodeEntry(variable).key()] = std::move(shape);
  done_.insert(variable->id());
}

void ShapeTracker::Infer(NodePtr n) {
  RequestScope::Poll();
  static const auto& rules = Op::GetAttr<FInferShape>("FInferShape");
  node_ = n;
  if (n->is_variable()) {
    if (std::optional<Shape> declared = DeclaredShape(n)) set_out(0, std::move(*declared));
    return;
  }
  const FInferShape* rule = rules.find(n->op());
  if (!rule) return;
  try {
    (*rule)(*this);
  } catch (const UserError&) {
    // The pass says it, with what is known by then.
  }
}

const Shape& ShapeTracker::in(int i) const {
  return has_input(i) ? FindOr(shapes_, node_->inputs[size_t(i)].key(), Unknown()) : Unknown();
}
Type ShapeTracker::in_type(int i) const {
  return has_input(i) ? types_.Of(node_->inputs[size_t(i)]) : Type();
}
TensorPtr ShapeTracker::in_constant(int i) {
  return has_input(i) ? Graph::ConstantOf(node_->inputs[size_t(i)]) : nullptr;
}
SymTensorPtr ShapeTracker::in_value(int i) {
  if (const TensorPtr t = in_constant(i)) return FollowedValueOf(*t);
  return has_input(i) ? FindOr(values_, node_->inputs[size_t(i)].key(), nullptr) : nullptr;
}
void ShapeTracker::set_out_value(int i, SymTensor v) {
  if (SymTensorPtr followed = AsFollowed(std::move(v))) values_[Key(i)] = std::move(followed);
}

}  // namespace weft::onnx_import
