/// random_graph_builder.h: the state of one random graph that grows, shared by the rules that add
/// nodes to it.
#pragma once

#include <functional>
#include <optional>
#include <random>

#include "random_graph.h"

namespace weft::fuzz {

/// An entry that later nodes may read.
struct Item {
  NodeEntry entry;
  DType dtype = DType::kUnknown;
  std::vector<SymInt> dims;
  Values v;
  int rank() const { return int(dims.size()); }
  double magnitude() const;
  bool exact() const { return v.error == 0; }
};

/// Relative rounding error of one operation in that dtype; 0 for integers and bool.
double Epsilon(DType t);
/// Of the dtype that sums are formed in.
inline double AccumulatorEpsilon(DType t) { return Epsilon(AccumulatorOf(t)); }

class Builder {
 public:
  explicit Builder(RandomGraph* out);

  // Randomness: the same numbers on every platform.
  int Int(int lo, int hi) {
    return lo + int(rng_() % uint64_t(hi - lo + 1));
  }  ///< both ends included
  bool Chance(double p) { return double(rng_() >> 11) * 0x1p-53 < p; }
  template <class T>
  const T& Pick(const std::vector<T>& v) {
    return v[rng_() % v.size()];
  }
  /// A random item that `ok` accepts, later ones more often; null when a few tries find none.
  const Item* Find(const std::function<bool(const Item&)>& ok);

  // Extents under the bindings.
  int64_t MinExtent(SymInt d) const { return Extreme(d, false); }
  int64_t MaxExtent(SymInt d) const { return Extreme(d, true); }
  int64_t MinElements(const std::vector<SymInt>& dims) const;
  int64_t MaxElements(const std::vector<SymInt>& dims) const;
  /// Numpy broadcasting holds for every binding.
  bool Broadcasts(const std::vector<SymInt>& a, const std::vector<SymInt>& b) const;

  // Leaves.
  DType RandomFloat();
  std::vector<SymInt> RandomDims(int max_rank = 4);
  Item NewInput(DType t, std::vector<SymInt> dims);
  Item NewInput(DType t, std::vector<SymInt> dims, double lo, double hi);
  /// A parameter of static extents with random values.
  Item NewParam(DType t, const std::vector<int64_t>& dims, double lo, double hi);
  NodeEntry Ints(const std::vector<int64_t>& v) { return graph().AddConstant(Tensor::Ints(v)); }
  NodeEntry Scalar(DType t, double v) { return graph().AddConstant(Tensor::Scalar(t, v)); }
  /// An operand of dtype t that broadcasts against `a`: an item, or a fresh leaf.
  Item Partner(const Item& a, DType t);

  /// Adds a node, has its types and shapes inferred, and makes items of its outputs, as far as
  /// values are given: nothing reads the others. False (and no node) where a shape stays unknown,
  /// tensors become too large, or values leave the range that the dtype is good for.
  bool Add(const char* op, const std::vector<NodeEntry>& inputs, AttrDict attrs,
           const std::vector<Values>& values);
  bool Add(const char* op, const std::vector<NodeEntry>& inputs, AttrDict attrs,
           const Values& value) {
    return Add(op, inputs, std::move(attrs), std::vector<Values>{value});
  }

  Graph& graph() { return out_.graph; }
  RandomGraph& out() { return out_; }
  std::vector<Item>& items() { return items_; }

 private:
  int64_t Extreme(SymInt d, bool max) const;
  Item Remember(NodeEntry e, DType t, std::vector<SymInt> dims, Values v);
  RandomGraph& out_;
  std::mt19937_64 rng_;
  std::vector<Item> items_;
  int next_name_ = 0;
};

/// One way to add a node; false where it found no fitting operands.
using Rule = bool (*)(Builder&);
/// random_graph_math.cc: element-wise operators, casts, comparisons, selection.
std::vector<std::pair<double, Rule>> MathRules();
/// random_graph_shape.cc: data movement, reductions, normalisations, products.
std::vector<std::pair<double, Rule>> ShapeRules();
/// random_graph_vision.cc: convolutions, pooling, resizing and what surrounds them.
std::vector<std::pair<double, Rule>> VisionRules();
/// [batch, channels, spatial...], extents symbolic where the graph has symbols.
std::vector<SymInt> RandomImageDims(Builder& b);

}  // namespace weft::fuzz
