/// random_extents.cc: see random_extents.h. Every rule holds for matrices of any extents, so that
/// no choice of values is an error.
#include "random_extents.h"

#include <random>

#include "weft/core/tensor/tensor.h"

namespace weft::fuzz {
namespace {

constexpr int64_t kColumns = 8;

class Grower {
 public:
  explicit Grower(ExtentGraph* out) : out_(*out), rng_(out->seed * 0x9e3779b97f4a7c15ull + 11) {}

  void Run() {
    const SymInt n = SymInt::Symbol("n");
    x_ = Input(DType::kF32, {n, kColumns}, -16, 16);
    matrices_.push_back(x_);
    for (int i = Int(2, 5); i-- > 0;) Grow();
    for (const NodeEntry& y : matrices_)
      if (y != x_ && Chance(0.7)) results_.push_back(y);
    results_.push_back(matrices_.back());
    Graph& g = out_.graph;
    g.outputs = results_;
    for (size_t i = 0; i < results_.size(); ++i) g.SetOutputName(i, "o" + std::to_string(i));
    // What is many decides by its content, and is read where it lies; what is few
    // may become a literal.
    const int64_t many = Chance(0.5) ? 300 : 24;
    out_.bindings = {{{"n", 4}, {"m", many}}, {{"n", 1}, {"m", 3}}, {{"n", 6}, {"m", many + 1}}};
  }

 private:
  int Int(int lo, int hi) { return lo + int(rng_() % uint64_t(hi - lo + 1)); }
  bool Chance(double p) { return double(rng_() >> 11) * 0x1p-53 < p; }
  const NodeEntry& Any() { return matrices_[size_t(Int(0, int(matrices_.size()) - 1))]; }

  NodeEntry Node(const char* op, const std::vector<NodeEntry>& inputs, AttrDict attrs = {}) {
    return NodeEntry(
        out_.graph.AddNode(op, inputs, std::move(attrs), "v" + std::to_string(next_++)));
  }
  NodeEntry Ints(const std::vector<int64_t>& v) { return out_.graph.AddConstant(Tensor::Ints(v)); }
  NodeEntry Float(const NodeEntry& e) { return Node("Cast", {e}, {{"to", DType::kF32}}); }
  NodeEntry Scalar(const NodeEntry& e) { return Node("Reshape", {e, Ints({})}); }
  /// As a matrix of one row.
  NodeEntry AsRow(const NodeEntry& e) { return Node("Reshape", {e, Ints({1, -1})}); }

  NodeEntry Input(DType t, std::vector<SymInt> dims, int64_t lo, int64_t hi) {
    out_.inputs.push_back({t, dims, lo, hi, {}, false});
    return NodeEntry(
        out_.graph.AddInput("i" + std::to_string(out_.inputs.size()), t, Shape(std::move(dims))));
  }
  /// An input that decides, mostly with something beside it that computes from it.
  NodeEntry Deciding(DType t, std::vector<SymInt> dims, int64_t lo, int64_t hi,
                     std::vector<std::vector<int64_t>> choices = {}) {
    const NodeEntry e = Input(t, dims, lo, hi);
    out_.inputs.back().decides = true;
    out_.inputs.back().choices = std::move(choices);
    if (Chance(0.8)) ReadToo(e, dims);
    return e;
  }
  NodeEntry Few(int64_t count, int64_t lo, int64_t hi) {
    return Deciding(DType::kI64, {count}, lo, hi);
  }
  NodeEntry OneOf(std::vector<std::vector<int64_t>> choices) {
    const int64_t count = int64_t(choices[0].size());
    return Deciding(DType::kI64, {count}, 0, 0, std::move(choices));
  }
  void ReadToo(const NodeEntry& e, const std::vector<SymInt>& dims) {
    switch (Int(0, 3)) {
      case 0: {  // beside
        const NodeEntry other = Input(DType::kI64, dims, 0, 100);
        results_.push_back(Node("Add", {Node("Cast", {e}, {{"to", DType::kI64}}), other}));
        return;
      }
      case 1:  // gathered from
        results_.push_back(Node("Gather", {e, Input(DType::kI64, {3}, 0, 0)}));
        return;
      case 2:  // given out as it is
        results_.push_back(Node("Identity", {e}));
        return;
      default:  // behind: where the extents are known that it decided
        later_.push_back(Node("ReduceMax", {Float(e)}, {{"keepdims", int64_t{0}}}));
        return;
    }
  }

  void Grow() {
    NodeEntry y = Decided();
    if (!later_.empty() && Chance(0.6)) {
      y = Node(Chance(0.5) ? "Max" : "Add", {y, later_.back()});
      later_.pop_back();
    }
    if (Chance(0.6)) y = Node(Chance(0.5) ? "Neg" : "Abs", {y});
    if (Chance(0.3)) y = Node("Relu", {y});
    matrices_.push_back(y);
  }
  /// A matrix whose extents an input decided.
  NodeEntry Decided() {
    const NodeEntry y = Any();
    switch (Int(0, 11)) {
      case 0:
        return Node("TopK", {x_, Few(1, 1, kColumns)});
      case 1: {
        // What is many.
        const NodeEntry mask = Deciding(DType::kI64, {many_}, -1, 1);
        return Float(Node("NonZero", {mask}));
      }
      case 2: {
        const NodeEntry mask = Deciding(DType::kBool, {many_}, 0, 1);
        const NodeEntry data = Input(DType::kF32, {many_, 2}, -16, 16);
        return Node("Compress", {data, mask}, {{"axis", int64_t{0}}});
      }
      case 3:
        return Node("Tile", {y, Few(2, 1, 3)});
      case 4:
        return Node("Slice", {y, Few(2, -2, 2), Few(2, 1, 9)});
      case 5:
        return Node("Reshape", {x_, OneOf({{-1, 8}, {-1, 4}, {2, -1}, {4, -1}, {-1, 1}})});
      case 6:
        return Node("Pad", {y, Few(4, 0, 2)});
      case 7: {
        const NodeEntry from = Scalar(Few(1, -3, 2)), to = Scalar(Few(1, 4, 20)),
                        step = Scalar(Few(1, 1, 3));
        return AsRow(Float(Node("Range", {from, to, step})));
      }
      case 8: {
        const NodeEntry wide =
            Node("Expand", {Node("Unsqueeze", {y, Ints({0})}), OneOf({{2, 1, 1}, {1, 1, 1}})});
        return Node("ReduceMax", {wide, Ints({0})}, {{"keepdims", int64_t{0}}});
      }
      case 9: {
        // A value that is computed from what is fed.
        const NodeEntry k = Node("Min", {Few(1, 1, 9), Ints({kColumns})});
        return Node("TopK", {x_, Node("Max", {k, Ints({2})})});
      }
      case 10: {
        const NodeEntry at = Input(DType::kI64, {5}, 0, 3);
        auto values = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{2});
        values->set(1, 2);
        return Node("OneHot", {at, Scalar(Few(1, 1, 6)), out_.graph.AddConstant(values)});
      }
      default: {
        const NodeEntry k = Few(1, 0, 8);
        const NodeEntry parts =
            Node("Concat", {k, Node("Sub", {Ints({kColumns}), k})}, {{"axis", int64_t{0}}});
        return Node("Split", {x_, parts}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}});
      }
    }
  }

  ExtentGraph& out_;
  std::mt19937_64 rng_;
  NodeEntry x_;
  const SymInt many_ = SymInt::Symbol("m");
  std::vector<NodeEntry> matrices_, later_, results_;
  int next_ = 0;
};

}  // namespace

ExtentGraph MakeExtentGraph(uint64_t seed) {
  ExtentGraph out;
  out.seed = seed;
  Grower(&out).Run();
  return out;
}

std::vector<TensorPtr> MakeInputs(const ExtentGraph& g, size_t binding, uint64_t data,
                                  uint64_t values) {
  std::mt19937_64 by_data(g.seed * 31 + binding + 1000 * data),
      by_values(g.seed * 37 + binding + 1000 * values);
  std::vector<TensorPtr> out;
  for (const FedInput& in : g.inputs) {
    std::vector<int64_t> dims;
    for (SymInt d : in.dims) dims.push_back(Evaluate(d, g.bindings[binding]));
    auto t = std::make_shared<Tensor>(in.dtype, dims);
    std::mt19937_64& rng = in.decides ? by_values : by_data;
    const auto* choice = in.choices.empty() ? nullptr : &in.choices[rng() % in.choices.size()];
    for (int64_t i = 0; i < t->num_elements(); ++i) {
      const int64_t v =
          choice ? (*choice)[size_t(i)] : in.lo + int64_t(rng() % uint64_t(in.hi - in.lo + 1));
      if (IsFloat(in.dtype))
        t->set(i, double(v) / 8);
      else
        t->set_int(i, v);
    }
    out.push_back(t);
  }
  return out;
}

}  // namespace weft::fuzz
