/// type_tracker.cc: see type_tracker.h.
#include "type_tracker.h"

#include "weft/core/op/op.h"

namespace weft::onnx_import {

Type TypeTracker::Of(const NodeEntry& e) const {
  if (!e) return Type();
  const auto it = types_.find(e.key());
  return it == types_.end() ? Type() : it->second;
}
void TypeTracker::Set(const NodeEntry& e, Type t) {
  if (t.known()) types_[e.key()] = t;
}
void TypeTracker::set_in(int i, Type t) {
  if (has_input(i) && !in(i).known()) Set(node_->inputs[size_t(i)], t);
}
void TypeTracker::Infer(NodePtr n) {
  static const auto& rules = Op::GetAttr<FInferType>("FInferType");
  const FInferType* rule = rules.find(n->op());
  if (!rule) return;
  node_ = n;
  (*rule)(*this);
}

}  // namespace weft::onnx_import
