/// epilogue_test_util.h: operators behind a call, as the pass asks for them on a graph and as a
/// request for fixed extents holds them.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "epilogue.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"

namespace weft {

class EpilogueChain {
 public:
  EpilogueChain(const char* op, const std::vector<Shape>& inputs, Shape result, AttrDict attrs = {},
                DType type = DType::kF32)
      : type_(type) {
    std::vector<NodeEntry> entries;
    for (const Shape& s : inputs) entries.push_back(Input(s, type));
    anchor_ = graph_.AddNode(op, entries, std::move(attrs), "anchor");
    Know(NodeEntry(anchor_), std::move(result), type);
    last_ = NodeEntry(anchor_);
  }
  EpilogueChain& Unary(const char* op, AttrDict attrs = {}) {
    return Step(op, {last_}, 0, -1, attrs);
  }
  /// With a constant on the other side.
  EpilogueChain& Constant(const char* op, double value, int slot = 0) {
    const NodeEntry c = ScalarLike(last_, type_, value);
    return Step(op, slot == 0 ? std::vector{last_, c} : std::vector{c, last_}, slot, -1);
  }
  EpilogueChain& Clip(double low, double high) {
    return Step("Clip", {last_, ScalarLike(last_, type_, low), ScalarLike(last_, type_, high)}, 0,
                -1);
  }
  /// With another tensor on the other side.
  EpilogueChain& Tensor(const char* op, const Shape& s, int slot = 0, DType type = DType::kF32) {
    const NodeEntry e = Input(s, type);
    return Step(op, slot == 0 ? std::vector{last_, e} : std::vector{e, last_}, slot, 1 - slot);
  }

  size_t size() const { return steps_.size(); }
  const NodePtr& anchor() const { return anchor_; }
  /// Does the library take step `i`, behind those before it?
  bool TakenOnGraph(const FEpilogue& takes, size_t i) const {
    const std::vector<EpilogueStep> before(steps_.begin(), steps_.begin() + std::ptrdiff_t(i));
    return takes({anchor_, before, steps_[i], shapes_, types_});
  }
  /// The call with the first `steps` of them.
  ComputeRequest Request(size_t steps, const SymBindings& extents) const {
    ComputeRequest q;
    q.node = anchor_;
    for (const NodeEntry& e : anchor_->inputs) {
      q.input_dims.push_back(Dims(e, extents));
      q.input_types.push_back(type_);
      q.constants.push_back(nullptr);
    }
    q.output_dims = {Dims(NodeEntry(anchor_), extents)};
    q.output_types = {type_};
    int number = int(q.input_dims.size());
    for (size_t i = 0; i < steps; ++i) {
      const EpilogueStep& s = steps_[i];
      CallStep call;
      call.node = s.node;
      call.slot = s.slot;
      if (s.operand >= 0) {
        const NodeEntry e = s.node->inputs[size_t(s.operand)];
        call.operand = number++;
        call.operand_dims = Dims(e, extents);
        call.operand_type = types_[e].dtype;
      }
      q.epilogue.push_back(std::move(call));
    }
    return q;
  }
  std::string Names() const {
    std::string names;
    for (const EpilogueStep& s : steps_) names += " " + s.node->op()->name;
    return names;
  }

 private:
  NodeEntry Input(const Shape& s, DType type) {
    const NodeEntry e(graph_.AddInput("x", type, s));
    Know(e, s, type);
    return e;
  }
  void Know(const NodeEntry& e, Shape s, DType type) {
    shapes_.set(e, std::move(s));
    types_.set(e, type);
  }
  EpilogueChain& Step(const char* op, const std::vector<NodeEntry>& inputs, int slot, int operand,
                      AttrDict attrs = {}) {
    steps_.push_back({graph_.AddNode(op, inputs, std::move(attrs), "step"), slot, operand});
    last_ = NodeEntry(steps_.back().node);
    Know(last_, shapes_[NodeEntry(anchor_)], type_);
    return *this;
  }
  std::vector<int64_t> Dims(const NodeEntry& e, const SymBindings& extents) const {
    std::vector<int64_t> dims;
    for (SymInt d : shapes_[e].dims()) dims.push_back(Evaluate(d, extents));
    return dims;
  }

  Graph graph_;
  DType type_;
  NodePtr anchor_;
  NodeEntry last_;
  ShapeMap shapes_;
  TypeMap types_;
  std::vector<EpilogueStep> steps_;
};

/// Up to six random steps behind `chain`, most of which some library takes. `result`: its extents.
inline void AddRandomSteps(EpilogueChain* chain, const Shape& result, std::mt19937* random) {
  const auto pick = [&](int n) { return int((*random)() % uint32_t(n)); };
  const Shape row{result[result.rank() - 1]}, long_row{1, result[result.rank() - 1]};
  for (int left = 1 + pick(6); left > 0; --left) {
    const int slot = pick(2);
    switch (pick(14)) {
      case 0:
        chain->Tensor("Add", row, slot);
        break;
      case 1:
        chain->Tensor("Add", long_row, slot);
        break;
      case 2:
      case 3:
        chain->Tensor("Add", result, slot);
        break;
      case 4:
        chain->Tensor(pick(2) ? "Sub" : "Mul", result, slot);
        break;
      case 5:
        chain->Tensor("Add", Shape{result[0]}, slot);
        break;
      case 6:
        chain->Constant("Mul", 2, slot);
        break;
      case 7:
        chain->Constant("Div", pick(4) ? 4 : 0, slot);
        break;
      case 8:
        chain->Constant(pick(2) ? "Add" : "Sub", 0.5, slot);
        break;
      case 9:
        chain->Clip(pick(4) ? 0 : 9, 6);
        break;
      case 10:
        chain->Unary("Gelu", pick(2) ? AttrDict{{"approximate", "tanh"}} : AttrDict{});
        break;
      case 11:
        chain->Unary(pick(2) ? "Softplus" : "LeakyRelu");
        break;
      default:
        chain->Unary("Relu");
    }
  }
}

}  // namespace weft
