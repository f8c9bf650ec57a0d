/// recurrent.cc: RNN, GRU, LSTM.
///
///   RNN   h' = f(x W^T + h R^T + b)
///   GRU   z, r = f(..);  g = g(x Wh^T + (r h) Rh^T + b),
///         or with linear_before_reset r (h Rh^T + Rb);  h' = (1 - z) g + z h
///   LSTM  i, o, f = f(.. + p c);  c' = f c + i g(..);  h' = o h(c')
/// What FHostEval runs: one step after the other, sums in double precision. Programs run what the
/// operators are made of (recurrent_scan.cc).
///   throws  kShapeMismatch; kBadAttribute for an activation that ONNX does not know
#include "recurrent.h"

#include <algorithm>
#include <cmath>

#include "ops/util/host_util.h"
#include "weft/support/request.h"

namespace weft::ops {

WEFT_REGISTER_OP_PARAM(RecurrentParam);

namespace {

using Vector = std::vector<double>;
using Activation = std::function<double(double)>;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Activation FunctionOf(const ActivationSpec& spec) {
  const std::string& name = spec.name;
  const double a = spec.alpha, b = spec.beta;
  if (name == "Tanh") return [](double x) { return std::tanh(x); };
  if (name == "Sigmoid") return Sigmoid;
  if (name == "Relu") return [](double x) { return std::max(x, 0.0); };
  if (name == "Softsign") return [](double x) { return x / (1 + std::fabs(x)); };
  if (name == "Softplus")
    return [](double x) { return std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0); };
  if (name == "Elu") return [a](double x) { return x < 0 ? a * std::expm1(x) : x; };
  if (name == "LeakyRelu") return [a](double x) { return x < 0 ? a * x : x; };
  if (name == "ThresholdedRelu") return [a](double x) { return x > a ? x : 0; };
  if (name == "Affine") return [a, b](double x) { return a * x + b; };
  if (name == "ScaledTanh") return [a, b](double x) { return a * std::tanh(b * x); };
  WEFT_ICHECK(name == "HardSigmoid", "activation \"{}\"", name);
  return [a, b](double x) { return std::clamp(a * x + b, 0.0, 1.0); };
}

}  // namespace

int64_t DirectionsOf(const NodePtr& n) {
  const std::string& d = ParamOf<RecurrentParam>(n).direction;
  WEFT_CHECK(d == "forward" || d == "reverse" || d == "bidirectional", kBadAttribute,
             "{}: direction \"{}\"", n->Describe(), d);
  return d == "bidirectional" ? 2 : 1;
}

std::vector<ActivationSpec> ActivationsOf(const NodePtr& n, Cell cell, int64_t direction) {
  struct Known {
    const char* name;
    std::vector<double> defaults;  // of alpha and beta, as far as it has them
  };
  static const Known kKnown[] = {{"Tanh", {}},
                                 {"Sigmoid", {}},
                                 {"Relu", {}},
                                 {"Softsign", {}},
                                 {"Softplus", {}},
                                 {"Elu", {1}},
                                 {"LeakyRelu", {0.01}},
                                 {"ThresholdedRelu", {1}},
                                 {"Affine", {1, 0}},
                                 {"ScaledTanh", {1, 1}},
                                 {"HardSigmoid", {0.2, 0.5}}};
  const auto& p = ParamOf<RecurrentParam>(n);
  const size_t directions = size_t(DirectionsOf(n));
  const size_t each = cell == Cell::kRNN ? 1 : cell == Cell::kGRU ? 2 : 3;
  std::vector<std::string> names(p.activations.begin(), p.activations.end());
  for (size_t i = 0; p.activations.empty() && i < each * directions; ++i)
    names.push_back(cell != Cell::kRNN && i % each == 0 ? "Sigmoid" : "Tanh");
  WEFT_CHECK(names.size() >= each * directions, kBadAttribute, "{}: {} activations, {} are needed",
             n->Describe(), names.size(), each * directions);
  std::vector<ActivationSpec> specs;
  // The lists hold the values of those that have one, in order.
  size_t alphas = 0, betas = 0;
  for (size_t i = 0; i < each * size_t(direction + 1); ++i) {
    const Known* known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                      [&](const Known& k) { return names[i] == k.name; });
    WEFT_CHECK(known != std::end(kKnown), kBadAttribute, "{}: activation \"{}\"", n->Describe(),
               names[i]);
    ActivationSpec spec{names[i]};
    const auto next = [](const Floats& list, size_t* at, double otherwise) {
      return *at < list.size() ? list[(*at)++] : otherwise;
    };
    if (known->defaults.size() > 0)
      spec.alpha = next(p.activation_alpha, &alphas, known->defaults[0]);
    if (known->defaults.size() > 1) spec.beta = next(p.activation_beta, &betas, known->defaults[1]);
    if (i >= each * size_t(direction)) specs.push_back(std::move(spec));
  }
  return specs;
}

namespace {

void RecurrentType(InferTypeContext& ctx) {
  CheckInputType(ctx, 4, DTypeSet{DType::kI32});
  Type t;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (i == 4 || !ctx.has_input(i)) continue;
    CheckInputType(ctx, i, kFloats);
    if (!t.known()) t = ctx.in(i);
    WEFT_CHECK(!t.known() || !ctx.in(i).known() || t == ctx.in(i), kTypeMismatch,
               "{}: input {} is {} and X is {}", ctx.node()->Describe(), i, ctx.in(i).ToString(),
               t.ToString());
  }
  for (int i = 0; t.known() && i < ctx.num_outputs(); ++i) ctx.set_out(i, t);
}
FInferShape RecurrentShape(Cell cell) {
  return [cell](InferShapeContext& ctx) {
    const auto& p = ParamOf<RecurrentParam>(ctx.node());
    const int64_t directions = DirectionsOf(ctx.node());
    if (!CheckRank(ctx, 0, 3, "X") || !CheckRank(ctx, 2, 3, "R"))
      return Unknown(ctx, 0, "the rank of X or R is unknown");
    const Shape &x = ctx.in(0), &r = ctx.in(2);
    const SymInt hidden = p.hidden_size > 0 ? SymInt(p.hidden_size) : r[2];
    UnifyDims(ctx, r[2], hidden, "the hidden size and R");
    UnifyDims(ctx, r[1], hidden * SymInt(GatesOf(cell)), "the gates and R");
    UnifyDims(ctx, r[0], SymInt(directions), "the directions and R");
    if (CheckRank(ctx, 1, 3, "W")) {
      UnifyDims(ctx, ctx.in(1)[2], x[2], "the input size and W");
      UnifyDims(ctx, ctx.in(1)[1], hidden * SymInt(GatesOf(cell)), "the gates and W");
    }
    const SymInt time = p.layout ? x[1] : x[0], batch = p.layout ? x[0] : x[1], d(directions);
    for (int i = 5; i <= (cell == Cell::kLSTM ? 6 : 5); ++i)
      if (ctx.has_input(i) && CheckRank(ctx, i, 3, "an initial state"))
        UnifyDims(ctx, ctx.in(i)[p.layout ? 0 : 1], batch, "the batch and an initial state");
    ctx.set_out(0, p.layout ? Shape({batch, time, d, hidden}) : Shape({time, d, batch, hidden}));
    for (int i = 1; i < ctx.num_outputs(); ++i)
      ctx.set_out(i, p.layout ? Shape({batch, d, hidden}) : Shape({d, batch, hidden}));
  };
}

Vector Values(const TensorPtr& t) {
  Vector v(size_t(t ? t->num_elements() : 0));
  for (size_t i = 0; i < v.size(); ++i) v[i] = t->at(int64_t(i));
  return v;
}

/// One direction of one run.
class Runner {
 public:
  Runner(Cell cell, const NodePtr& n, const Tensors& in, int64_t direction)
      : cell_(cell), p_(ParamOf<RecurrentParam>(n)), direction_(direction) {
    const Dims &x = in[0]->dims(), &r = in[2]->dims();
    time_ = p_.layout ? x[1] : x[0];
    batch_ = p_.layout ? x[0] : x[1];
    width_ = x[2];
    hidden_ = r[2];
    directions_ = r[0];
    const int64_t gates = GatesOf(cell);
    x_ = Values(in[0]);
    w_ = Part(Values(in[1]), gates * hidden_ * width_);
    r_ = Part(Values(in[2]), gates * hidden_ * hidden_);
    b_ = InputAt(in, 3) ? Part(Values(in[3]), 2 * gates * hidden_)
                        : Vector(size_t(2 * gates * hidden_), 0);
    const TensorPtr lengths = InputAt(in, 4);
    WEFT_CHECK(!lengths || lengths->num_elements() == batch_, kShapeMismatch,
               "{}: {} lengths for a batch of {}", n->Describe(),
               lengths ? lengths->num_elements() : 0, batch_);
    for (int64_t b = 0; b < batch_; ++b) {
      lengths_.push_back(lengths ? std::clamp<int64_t>(lengths->at_int(b), 0, time_) : time_);
    }
    h_ = Initial(InputAt(in, 5));
    if (cell == Cell::kLSTM) {
      c_ = Initial(InputAt(in, 6));
      peephole_ =
          InputAt(in, 7) ? Part(Values(in[7]), 3 * hidden_) : Vector(size_t(3 * hidden_), 0);
    }
    for (const ActivationSpec& spec : ActivationsOf(n, cell, direction))
      f_.push_back(FunctionOf(spec));
  }

  /// Writes Y, Y_h, Y_c, null ones left out.
  void Run(Tensor* y, Tensor* y_h, Tensor* y_c) {
    const bool backward = p_.direction == "reverse" || direction_ == 1;
    for (int64_t b = 0; b < batch_; ++b) {
      for (int64_t s = 0; s < lengths_[size_t(b)]; ++s) {
        RequestScope::Poll();
        const int64_t t = backward ? lengths_[size_t(b)] - 1 - s : s;
        Step(b, t);
        for (int64_t j = 0; y && j < hidden_; ++j)
          y->set(p_.layout ? ((b * time_ + t) * directions_ + direction_) * hidden_ + j
                           : ((t * directions_ + direction_) * batch_ + b) * hidden_ + j,
                 h_[At(b, j)]);
      }
      for (int64_t j = 0; j < hidden_; ++j) {
        if (y_h) y_h->set(StateAt(b) + j, h_[At(b, j)]);
        if (y_c) y_c->set(StateAt(b) + j, c_[At(b, j)]);
      }
    }
  }

 private:
  Vector Part(const Vector& all, int64_t size) const {
    WEFT_CHECK(int64_t(all.size()) >= (direction_ + 1) * size, kShapeMismatch,
               "a weight of {} elements, {} a direction are needed", all.size(), size);
    return Vector(all.begin() + direction_ * size, all.begin() + (direction_ + 1) * size);
  }
  int64_t StateAt(int64_t b) const {
    return (p_.layout ? b * directions_ + direction_ : direction_ * batch_ + b) * hidden_;
  }
  size_t At(int64_t b, int64_t j) const { return size_t(b * hidden_ + j); }
  Vector Initial(const TensorPtr& t) const {
    Vector v(size_t(batch_ * hidden_), 0);
    WEFT_CHECK(!t || t->num_elements() == directions_ * batch_ * hidden_, kShapeMismatch,
               "a state of {} elements, {} are needed", t ? t->num_elements() : 0,
               directions_ * batch_ * hidden_);
    for (int64_t b = 0; t && b < batch_; ++b)
      for (int64_t j = 0; j < hidden_; ++j) v[At(b, j)] = t->at(StateAt(b) + j);
    return v;
  }
  double Clip(double v) const { return p_.clip > 0 ? std::clamp(v, -p_.clip, p_.clip) : v; }
  /// x W^T of gate g, hidden unit j.
  double FromInput(int64_t b, int64_t t, int64_t g, int64_t j) const {
    const double* x = x_.data() + (p_.layout ? b * time_ + t : t * batch_ + b) * width_;
    const double* w = w_.data() + (g * hidden_ + j) * width_;
    double sum = b_[size_t(g * hidden_ + j)];
    for (int64_t k = 0; k < width_; ++k) sum += x[k] * w[k];
    return sum;
  }
  double RecurrentBias(int64_t g, int64_t j) const {
    return b_[size_t((GatesOf(cell_) + g) * hidden_ + j)];
  }
  /// h R^T of gate g, hidden unit j.
  double FromState(const double* h, int64_t g, int64_t j) const {
    const double* r = r_.data() + (g * hidden_ + j) * hidden_;
    double sum = 0;
    for (int64_t k = 0; k < hidden_; ++k) sum += h[k] * r[k];
    return sum;
  }
  void Step(int64_t b, int64_t t) {
    const Vector h(h_.begin() + b * hidden_, h_.begin() + (b + 1) * hidden_);
    const auto gate = [&](int64_t g, int64_t j) {
      return FromInput(b, t, g, j) + FromState(h.data(), g, j) + RecurrentBias(g, j);
    };
    if (cell_ == Cell::kRNN) {
      for (int64_t j = 0; j < hidden_; ++j) h_[At(b, j)] = f_[0](Clip(gate(0, j)));
      return;
    }
    if (cell_ == Cell::kGRU) return StepGru(b, t, h, gate);
    for (int64_t j = 0; j < hidden_; ++j) {
      const double c = c_[At(b, j)];
      const auto peep = [&](int64_t g) { return peephole_[size_t(g * hidden_ + j)]; };
      const double i = f_[0](Clip(gate(0, j) + peep(0) * c));
      const double f = p_.input_forget ? 1 - i : f_[0](Clip(gate(2, j) + peep(2) * c));
      const double fresh = f * c + i * f_[1](Clip(gate(3, j)));
      const double o = f_[0](Clip(gate(1, j) + peep(1) * fresh));
      c_[At(b, j)] = fresh;
      h_[At(b, j)] = o * f_[2](fresh);
    }
  }
  template <class Gate>
  void StepGru(int64_t b, int64_t t, const Vector& h, Gate gate) {
    Vector z(h.size()), reset(h.size()), kept(h.size());
    for (int64_t j = 0; j < hidden_; ++j) {
      z[size_t(j)] = f_[0](Clip(gate(0, j)));
      reset[size_t(j)] = f_[0](Clip(gate(1, j)));
      kept[size_t(j)] = reset[size_t(j)] * h[size_t(j)];
    }
    for (int64_t j = 0; j < hidden_; ++j) {
      const double state =
          p_.linear_before_reset
              ? reset[size_t(j)] * (FromState(h.data(), 2, j) + RecurrentBias(2, j))
              : FromState(kept.data(), 2, j) + RecurrentBias(2, j);
      const double g = f_[1](Clip(FromInput(b, t, 2, j) + state));
      h_[At(b, j)] = (1 - z[size_t(j)]) * g + z[size_t(j)] * h[size_t(j)];
    }
  }

  const Cell cell_;
  const RecurrentParam& p_;
  const int64_t direction_;
  int64_t time_ = 0, batch_ = 0, width_ = 0, hidden_ = 0, directions_ = 0;
  Vector x_, w_, r_, b_, h_, c_, peephole_;
  Dims lengths_;
  std::vector<Activation> f_;
};

FHostEval RecurrentHost(Cell cell) {
  return [cell](const NodePtr& n, const Tensors& in) -> Tensors {
    const auto& p = ParamOf<RecurrentParam>(n);
    const Dims &x = in[0]->dims(), &r = in[2]->dims();
    const int64_t time = p.layout ? x[1] : x[0], batch = p.layout ? x[0] : x[1];
    const int64_t directions = r[0], hidden = r[2];
    const DType t = in[0]->dtype();
    auto y = NewTensor(t, p.layout ? Dims{batch, time, directions, hidden}
                                   : Dims{time, directions, batch, hidden});
    const Dims state = p.layout ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
    auto y_h = NewTensor(t, state);
    const auto y_c = cell == Cell::kLSTM ? NewTensor(t, state) : nullptr;
    for (int64_t d = 0; d < directions; ++d)
      Runner(cell, n, in, d).Run(y.get(), y_h.get(), y_c.get());
    if (cell == Cell::kLSTM) return {y, y_h, y_c};
    return {y, y_h};
  };
}

}  // namespace

#define WEFT_REGISTER_RECURRENT(Name, Doc, Kind, Gates, Outputs, ...)                              \
  WEFT_REGISTER_OP(Name)                                                                           \
      .describe(Doc                                                                                \
                " Sequences shorter than the longest keep their state and give zeros. "            \
                "Gradient: that of a Scan of ordinary operators, which computes the steps again. " \
                "Errors: shapes that do not fit (kShapeMismatch). Source: ONNX " #Name "-22.")     \
      .input("X", TypeDoc(kFloats), "[time, batch, input], layout 1: [batch, time, input]")        \
      .input("W", "T", "[directions, " Gates " * hidden, input]")                                  \
      .input("R", "T", "[directions, " Gates " * hidden, hidden]")                                 \
      .optional_input("B", "T", "[directions, 2 * " Gates " * hidden]: of W, then of R")           \
      .optional_input("sequence_lens", "i32", "[batch]")                                           \
      .optional_input("initial_h", "T", "[directions, batch, hidden]")                             \
          __VA_ARGS__.output("Y", "T", "[time, directions, batch, hidden]")                        \
      .output("Y_h", "T", "[directions, batch, hidden]")                                           \
      .set_num_outputs(Outputs)                                                                    \
      .param<RecurrentParam>()                                                                     \
      .set_attr<FInferType>("FInferType", RecurrentType)                                           \
      .set_attr<FInferShape>("FInferShape", RecurrentShape(Kind))                                  \
      .set_attr<FGradient>("FGradient", RecurrentGradient(Kind))                                   \
      .set_attr<FDecompose>("FDecompose", RecurrentDecompose(Kind))                                \
      .set_attr<FHostEval>("FHostEval", RecurrentHost(Kind))

WEFT_REGISTER_RECURRENT(RNN, "h' = f(x W^T + h R^T + b).", Cell::kRNN, "1", 2)
    .example({"f32[3, 2, 4]", "f32[1, 5, 4]", "f32[1, 5, 5]"});
WEFT_REGISTER_RECURRENT(GRU, "h' = (1 - z) g + z h, gates in the order z, r, h.", Cell::kGRU, "3",
                        2)
    .set_num_inputs(3, 6)
    .example({"f32[3, 2, 4]", "f32[1, 15, 4]", "f32[1, 15, 5]"});
WEFT_REGISTER_RECURRENT(LSTM, "c' = f c + i g, h' = o h(c'), gates in the order i, o, f, c.",
                        Cell::kLSTM, "4", 3,
                        .optional_input("initial_c", "T", "[directions, batch, hidden]")
                            .optional_input("P", "T", "[directions, 3 * hidden]: of i, o, f"))
    .output("Y_c", "T", "[directions, batch, hidden]")
    .set_num_inputs(3, 8)
    .example({"f32[3, 2, 4]", "f32[1, 20, 4]", "f32[1, 20, 5]"});

}  // namespace weft::ops
