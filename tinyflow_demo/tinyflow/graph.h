/// graph.h: what a program is written with: tensors of a graph under
/// construction, variables, name scopes.
///
/// A `Tensor` is one result of one node of a graph that is not run yet; operators on tensors add
/// nodes. Nodes go to the default graph of the thread. A tensor shares the ownership of its
/// graph, so it stays valid whatever happens to the default. What a graph computes, and when, is
/// decided by Session::run alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"

namespace tf {

using weft::DType;
inline constexpr DType float32 = DType::kF32, float64 = DType::kF64, int32 = DType::kI32,
                       int64 = DType::kI64, uint8 = DType::kU8, boolean = DType::kBool,
                       bfloat16 = DType::kBF16, float16 = DType::kF16;
using Ints = std::vector<int64_t>;
/// A value: what is fed and what is fetched.
using Array = weft::TensorPtr;

/// An extent that is known when values are fed. As the first extent of a placeholder it is the
/// batch, one number for all placeholders; elsewhere every None is a number of its own.
inline constexpr int64_t None = -1;

/// Which of two branches a run takes where a layer differs (batch_normalization, dropout,
/// when_training).
enum class Mode { kTraining, kInference };

struct GraphState;
using GraphPtr = std::shared_ptr<GraphState>;

class Tensor {
 public:
  Tensor() = default;
  Tensor(GraphPtr graph, weft::NodeEntry entry, DType dtype)
      : graph_(std::move(graph)), entry_(entry), dtype_(dtype) {}
  explicit operator bool() const { return bool(entry_); }
  DType dtype() const { return dtype_; }
  const weft::NodeEntry& entry() const { return entry_; }
  const GraphPtr& graph() const { return graph_; }
  /// Name of the node that computes it.
  const std::string& name() const;
  /// As inference knows it now; extents may be symbols.
  weft::Shape shape() const;

 private:
  GraphPtr graph_;
  weft::NodeEntry entry_;
  DType dtype_ = DType::kUnknown;
};

/// Asks for the shapes of tensors and says what the shape of a variable has to be; unknown where
/// it cannot be told.
using ShapeOf = std::function<weft::Shape(const Tensor&)>;
using ShapeRule = std::function<weft::Shape(const ShapeOf&)>;

struct VariableInfo {
  Tensor tensor;
  Tensor initial;  ///< null where the user assigns the first value, or the shape is not known yet
  std::function<Tensor(const Ints&)> make_initial;
  bool trainable = true;
  /// For a variable that was declared without a shape: what its shape has to be, given the
  /// shapes of other tensors.
  ShapeRule rule;
};

/// A graph under construction, with what the framework knows about it besides its nodes.
struct GraphState {
  weft::Graph graph;
  std::vector<VariableInfo> variables;
  std::vector<Tensor> updates;  ///< run with every training step: running statistics
  std::string scope;            ///< "conv1/", or empty
  std::map<std::string, int> names;
  uint64_t seed = 0;
  int64_t random_ops = 0;
  Tensor random_state;  ///< i64[2]: seed and step of what is drawn anew in every run
  /// Of the body of a loop (loop.h): the graph around it, and the values of that one which the body
  /// reads, each with the input that stands for it.
  GraphPtr outer;
  std::vector<std::pair<Tensor, Tensor>> captured;
  bool closed = false;  ///< the loop is built; nothing is added any more
};

/// What stands for `t` in `g`: itself, or an input of `g` where that is the body of a loop and `t`
/// of a graph around it. Throws kApiMisuse for a tensor of any other graph.
Tensor inside(const Tensor& t, const GraphPtr& g);

/// The graph that new nodes without operands go to.
const GraphPtr& default_graph();
/// The same, or the graph around all loops whose bodies are being built: variables are there.
const GraphPtr& root_graph();
/// Starts an empty default graph; tensors of the old one stay valid.
void reset_default_graph();
/// Makes another graph the default while it lives.
class GraphScope {
 public:
  explicit GraphScope(GraphPtr graph = std::make_shared<GraphState>());
  ~GraphScope();
  const GraphPtr& graph() const { return default_graph(); }
  GraphScope(const GraphScope&) = delete;
  GraphScope& operator=(const GraphScope&) = delete;

 private:
  GraphPtr previous_;
};
/// Puts a prefix before the names of what is built while it lives.
class NameScope {
 public:
  explicit NameScope(const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  GraphPtr graph_;
  std::string previous_;
};

/// Seed of everything that is drawn at random in the default graph. Call it before
/// the graph is built.
void set_random_seed(uint64_t seed);

/// An input that Session::run is fed. No shape: any.
Tensor placeholder(DType dtype, const std::string& name = "x");
Tensor placeholder(DType dtype, const Ints& shape, const std::string& name = "x");
inline Tensor placeholder(DType dtype, std::initializer_list<int64_t> shape,
                          const std::string& name = "x") {
  return placeholder(dtype, Ints(shape), name);
}

/// State that lives in a session. `initial` is computed by initialize_all_variables(). In the body
/// of a loop, it has to be built outside.
Tensor Variable(const Tensor& initial, const std::string& name = "variable", bool trainable = true);
/// A variable of a shape that follows from other tensors by `rule`. `initial`, where given, makes
/// the first value once the shape is known; else the user assigns it (see infer_variable_shapes).
Tensor Variable(DType dtype, const ShapeRule& rule,
                const std::function<Tensor(const Ints& shape)>& initial, const std::string& name,
                bool trainable = true);

/// All variables of the default graph, and those that training changes, in the order in
/// which they were made.
std::vector<Tensor> all_variables();
std::vector<Tensor> trainable_variables();
/// One fetch that gives every variable with an initial value that value. Any number of
/// sessions may run it.
Tensor initialize_all_variables();

/// A variable without a declared shape, and what its shape has to be.
struct InferredVariable {
  Tensor variable;
  std::string name;
  Ints shape;
};
/// Given the shapes of placeholders, decides the shapes of the variables that were declared without
/// one and on which `of` depends, in the order in which they were made. Throws kShapeMismatch
/// naming those that stay unknown.
std::vector<InferredVariable> infer_variable_shapes(
    const Tensor& of, const std::vector<std::pair<Tensor, Ints>>& known);

/// A node of any registered operator: how the functions of ops.h and nn.h are made, and how users
/// add their own. The result has dtype `dtype`, by default that of the first operand. In the body
/// of a loop operands may be of the graph around it.
Tensor make_node(const std::string& op, const std::vector<Tensor>& inputs,
                 weft::AttrDict attrs = {}, DType dtype = DType::kUnknown,
                 const std::string& name = {});

}  // namespace tf
