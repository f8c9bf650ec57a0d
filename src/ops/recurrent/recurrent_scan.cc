/// recurrent_scan.cc: RNN, GRU and LSTM as Scans of ordinary operators.
///
///   (X, W, R, B, lens, h0, c0, P) -> LSTM -> (Y, Y_h, Y_c)
///     for each direction d
///       xw = X W[d]^T + b                         one product for all steps
///       h, c, Y_d = Scan(h0[d], c0[d], xw, R[d]^T, P[d], lens)
///     Y = the Y_d side by side, Y_h = the h, Y_c = the c
///
/// A direction that runs from the end slices from the end. A step t of a sequence shorter than
/// t + 1 hands the states on and gives zeros, which is also what makes the reverse direction begin
/// at the end of each sequence.
#include "ops/util/body_gradient.h"
#include "recurrent.h"

namespace weft::ops {
namespace {

NodeEntry Transposed(const NodeEntry& x, Ints perm) {
  return ApplyOp("Transpose", {x}, {{"perm", std::move(perm)}});
}
std::vector<NodeEntry> SplitInto(const NodeEntry& x, int64_t axis, int64_t parts) {
  const NodePtr n = ApplyOp("Split", {x}, {{"axis", axis}, {"num_outputs", parts}}).node;
  std::vector<NodeEntry> out;
  for (int64_t i = 0; i < parts; ++i) out.emplace_back(n, uint32_t(i));
  return out;
}
NodeEntry Extent(const NodeEntry& x, int64_t axis) {
  return ApplyOp("Shape", {x}, {{"start", axis}, {"end", axis + 1}});
}

NodeEntry Activated(const ActivationSpec& f, NodeEntry x, double clip) {
  if (clip > 0) x = ApplyOp("Clip", {x, ScalarOf(x, -clip), ScalarOf(x, clip)});
  if (f.name == "Affine") return x * ScalarOf(x, f.alpha) + ScalarOf(x, f.beta);
  if (f.name == "ScaledTanh")
    return ApplyOp("Tanh", {x * ScalarOf(x, f.beta)}) * ScalarOf(x, f.alpha);
  AttrDict attrs;
  if (f.name == "HardSigmoid") attrs = {{"alpha", f.alpha}, {"beta", f.beta}};
  if (f.name == "Elu" || f.name == "LeakyRelu" || f.name == "ThresholdedRelu")
    attrs = {{"alpha", f.alpha}};
  return ApplyOp(f.name.c_str(), {x}, attrs);
}

/// One direction of a recurrent operator.
class Direction {
 public:
  /// `in`: its operands in the graph to build in, X with the time first.
  Direction(Cell cell, const NodePtr& n, const std::vector<NodeEntry>& in, int64_t number)
      : cell_(cell),
        p_(ParamOf<RecurrentParam>(n)),
        in_(in),
        number_(number),
        directions_(DirectionsOf(n)),
        backwards_(p_.direction == "reverse" || number == 1),
        f_(ActivationsOf(n, cell, number)) {}

  struct Result {
    NodeEntry y;                    ///< [time, batch, hidden]
    std::vector<NodeEntry> states;  ///< [batch, hidden]: h, of an LSTM c
  };
  Result Build() {
    const NodeEntry x = in_[0];
    NodeEntry xw = ApplyOp("MatMul", {x, Transposed(Own(in_[1], 0), {1, 0})});
    NodeEntry of_state;  // the bias of R, where it is not one with that of W
    if (in_[3]) {
      const std::vector<NodeEntry> b = SplitInto(Own(in_[3], 0), 0, 2);
      xw = xw + (cell_ == Cell::kGRU ? b[0] : b[0] + b[1]);
      if (cell_ == Cell::kGRU) of_state = b[1];
    }
    std::vector<NodeEntry> states{Initial(in_[5])};
    if (cell_ == Cell::kLSTM) states.push_back(Initial(in_[6]));
    std::vector<NodeEntry> slices{xw}, captures;
    const NodeEntry r = Own(in_[2], 0);
    for (const NodeEntry& part : Products(r)) captures.push_back(Transposed(part, {1, 0}));
    if (of_state)
      for (const NodeEntry& part : Products(of_state)) captures.push_back(part);
    if (cell_ == Cell::kLSTM && in_[7])
      for (const NodeEntry& part : SplitInto(Own(in_[7], 0), 0, 3)) captures.push_back(part);
    if (in_[4]) {
      const NodeEntry steps = ApplyOp("Squeeze", {Extent(x, 0)});
      slices.push_back(
          ApplyOp("Range", {ScalarLike(x, DType::kI64, 0), steps, ScalarLike(x, DType::kI64, 1)}));
      captures.push_back(ApplyOp("Cast", {in_[4]}, {{"to", DType::kI64}}));
    }
    std::vector<NodeEntry> operands = states;
    operands.insert(operands.end(), slices.begin(), slices.end());
    operands.insert(operands.end(), captures.begin(), captures.end());
    const Ints from_the_end(slices.size(), backwards_ ? 1 : 0);
    const NodePtr scan = ApplyOp("Scan", operands,
                                 {{"body", Body(states.size(), slices.size(), captures.size())},
                                  {"num_scan_inputs", int64_t(slices.size())},
                                  {"num_captures", int64_t(captures.size())},
                                  {"scan_input_directions", from_the_end},
                                  {"scan_output_directions", Ints(1, backwards_ ? 1 : 0)}})
                             .node;
    Result result{NodeEntry(scan, uint32_t(states.size())), {}};
    for (uint32_t k = 0; k < states.size(); ++k) result.states.emplace_back(scan, k);
    return result;
  }

 private:
  /// What is of this direction, without the axis of directions. Of one direction it is a view, and
  /// so is the gradient.
  NodeEntry Own(const NodeEntry& all, int64_t axis) const {
    if (directions_ == 1) return ApplyOp("Squeeze", {all, IntsLike(all, {axis})});
    const NodeEntry number = ConstantLike(all, Tensor::Scalar(DType::kI64, double(number_)));
    return ApplyOp("Gather", {all, number}, {{"axis", axis}});
  }
  NodeEntry Initial(const NodeEntry& all) const {
    if (all) return Own(all, p_.layout ? 1 : 0);
    const NodeEntry shape =
        ApplyOp("Concat", {Extent(in_[0], 1), Extent(in_[2], 2)}, {{"axis", int64_t{0}}});
    return ApplyOp("Expand", {ScalarOf(in_[0], 0), shape});
  }
  /// `all` gates along its first axis, by products of the state: the last gate of a GRU multiplies
  /// another one.
  std::vector<NodeEntry> Products(const NodeEntry& all) const {
    if (cell_ != Cell::kGRU || p_.linear_before_reset) return {all};
    const std::vector<NodeEntry> gates = SplitInto(all, 0, 3);
    return {ApplyOp("Concat", {gates[0], gates[1]}, {{"axis", int64_t{0}}}), gates[2]};
  }
  NodeEntry F(size_t i, const NodeEntry& x) const { return Activated(f_[i], x, p_.clip); }

  /// One step: (states, xw_t [, t], captures) -> (states, y_t).
  GraphPtr Body(size_t states, size_t slices, size_t captures) const {
    Graph g;
    std::vector<NodeEntry> s, x, c;
    for (size_t i = 0; i < states; ++i) s.emplace_back(g.AddInput(i ? "c" : "h"));
    for (size_t i = 0; i < slices; ++i) x.emplace_back(g.AddInput(i ? "t" : "xw"));
    for (size_t i = 0; i < captures; ++i) c.emplace_back(g.AddInput(fmt::format("w{}", i)));
    std::vector<NodeEntry> next = cell_ == Cell::kRNN   ? StepRnn(s[0], x[0], c)
                                  : cell_ == Cell::kGRU ? StepGru(s[0], x[0], c)
                                                        : StepLstm(s[0], s[1], x[0], c);
    NodeEntry y = next[0];
    if (in_[4]) {
      const NodeEntry runs =
          ApplyOp("Unsqueeze", {ApplyOp("Less", {x[1], c.back()}), IntsLike(y, {1})});
      y = ApplyOp("Where", {runs, y, ScalarOf(y, 0)});
      for (size_t i = 0; i < states; ++i) next[i] = ApplyOp("Where", {runs, next[i], s[i]});
    }
    next.push_back(y);
    g.outputs = next;
    return std::make_shared<const Graph>(std::move(g));
  }
  std::vector<NodeEntry> StepRnn(const NodeEntry& h, const NodeEntry& xw,
                                 const std::vector<NodeEntry>& w) const {
    return {F(0, xw + ApplyOp("MatMul", {h, w[0]}))};
  }
  std::vector<NodeEntry> StepGru(const NodeEntry& h, const NodeEntry& xw,
                                 const std::vector<NodeEntry>& w) const {
    const bool joint = p_.linear_before_reset != 0;
    const std::vector<NodeEntry> x = SplitInto(xw, -1, 3);
    const auto product = [&](const NodeEntry& state, size_t i) {
      const NodeEntry y = ApplyOp("MatMul", {state, w[i]});
      return in_[3] ? y + w[(joint ? 1 : 2) + i] : y;
    };
    const std::vector<NodeEntry> of_state = SplitInto(product(h, 0), -1, joint ? 3 : 2);
    const NodeEntry z = F(0, x[0] + of_state[0]), reset = F(0, x[1] + of_state[1]);
    const NodeEntry fresh = F(1, x[2] + (joint ? reset * of_state[2] : product(reset * h, 1)));
    return {(ScalarOf(z, 1) - z) * fresh + z * h};
  }
  std::vector<NodeEntry> StepLstm(const NodeEntry& h, const NodeEntry& c, const NodeEntry& xw,
                                  const std::vector<NodeEntry>& w) const {
    const std::vector<NodeEntry> gates = SplitInto(xw + ApplyOp("MatMul", {h, w[0]}), -1, 4);
    const auto gate = [&](size_t i, size_t peephole, const NodeEntry& cell) {
      return F(0, in_[7] ? gates[i] + w[1 + peephole] * cell : gates[i]);
    };
    const NodeEntry i = gate(0, 0, c);
    const NodeEntry f = p_.input_forget ? ScalarOf(i, 1) - i : gate(2, 2, c);
    const NodeEntry fresh = f * c + i * F(1, gates[3]);
    const NodeEntry o = gate(1, 1, fresh);
    return {o * Activated(f_[2], fresh, 0), fresh};
  }

  const Cell cell_;
  const RecurrentParam& p_;
  const std::vector<NodeEntry>& in_;
  const int64_t number_, directions_;
  const bool backwards_;
  const std::vector<ActivationSpec> f_;
};

}  // namespace

std::vector<NodeEntry> AsScans(Cell cell, const NodePtr& n, std::vector<NodeEntry> operands) {
  const bool batch_first = ParamOf<RecurrentParam>(n).layout != 0;
  operands.resize(8);
  if (batch_first) operands[0] = Transposed(operands[0], {1, 0, 2});
  std::vector<NodeEntry> y, states[2];
  for (int64_t d = 0; d < DirectionsOf(n); ++d) {
    const Direction::Result r = Direction(cell, n, operands, d).Build();
    y.push_back(ApplyOp("Unsqueeze", {r.y, IntsLike(r.y, {1})}));
    for (size_t k = 0; k < r.states.size(); ++k)
      states[k].push_back(ApplyOp("Unsqueeze", {r.states[k], IntsLike(r.y, {0})}));
  }
  const auto joined = [&](const std::vector<NodeEntry>& parts, int64_t axis, const Ints& perm) {
    const NodeEntry all = parts.size() == 1 ? parts[0] : ApplyOp("Concat", parts, {{"axis", axis}});
    return batch_first ? Transposed(all, perm) : all;
  };
  std::vector<NodeEntry> out{joined(y, 1, {2, 0, 1, 3}), joined(states[0], 0, {1, 0, 2})};
  if (cell == Cell::kLSTM) out.push_back(joined(states[1], 0, {1, 0, 2}));
  return out;
}

FDecompose RecurrentDecompose(Cell cell) {
  return [cell](const NodePtr& n) {
    return AsScans(cell, n, {n->inputs.begin(), n->inputs.end()});
  };
}

}  // namespace weft::ops
