/// random_control_flow.cc: see random_control_flow.h. A scope is a graph or a body; control flow
/// is made of scopes.
#include "random_control_flow.h"

#include <algorithm>
#include <optional>
#include <random>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/op.h"
#include "weft/core/tensor/tensor.h"

namespace weft::fuzz {
namespace {

constexpr int64_t kColumns = 8;
constexpr int kMaxDepth = 3;

/// Shapes of values: what rules need to know of them.
enum class Form : uint8_t {
  kMatrix,  ///< f32[n, kColumns]
  kRow,     ///< f32[kColumns]
  kScalar,  ///< f32[]
  kSome,    ///< f32[?, kColumns]: how many rows depends on values
  kFlag,    ///< bool[]
  kCount,   ///< i64[], small
};
bool IsFloatForm(Form f) { return f != Form::kFlag && f != Form::kCount; }

struct Item {
  NodeEntry entry;
  Form form;
  Drawn drawn = Drawn::kNothing;
};
/// What is computed of an item.
Drawn After(Drawn a) { return a == Drawn::kNothing ? a : Drawn::kSomehow; }
Drawn After(Drawn a, Drawn b) {
  return a == Drawn::kNothing && b == Drawn::kNothing ? a : Drawn::kSomehow;
}

using Random = std::mt19937_64;

class Scope {
 public:
  Scope(Random& rng, bool draws, int depth) : rng_(rng), draws_(draws), depth_(depth) {}

  Graph& graph() { return graph_; }
  std::vector<Item>& items() { return items_; }

  int Int(int lo, int hi) { return lo + int(rng_() % uint64_t(hi - lo + 1)); }
  bool Chance(double p) { return double(rng_() >> 11) * 0x1p-53 < p; }

  NodeEntry Node(const char* op, const std::vector<NodeEntry>& inputs, AttrDict attrs = {}) {
    return NodeEntry(graph_.AddNode(op, inputs, std::move(attrs), "v" + std::to_string(next_++)));
  }
  NodeEntry Number(double v) { return graph_.AddConstant(Tensor::Scalar(DType::kF32, v)); }
  Item Put(NodeEntry e, Form form, Drawn drawn) {
    items_.push_back({e, form, drawn});
    return items_.back();
  }
  /// An input of a body; its type comes with the operands.
  Item Formal(Form form, Drawn drawn) {
    const DType t = form == Form::kFlag    ? DType::kBool
                    : form == Form::kCount ? DType::kI64
                                           : DType::kF32;
    const NodePtr n = graph_.AddInput("b" + std::to_string(next_++), t, Shape());
    return Put(NodeEntry(n), form, drawn);
  }

  /// Any item that `fits`.
  template <class Fits>
  std::optional<Item> FindIf(Fits&& fits) {
    std::vector<const Item*> found;
    for (const Item& i : items_)
      if (fits(i.form)) found.push_back(&i);
    if (found.empty()) return std::nullopt;
    return *found[size_t(Int(0, int(found.size()) - 1))];
  }
  std::optional<Item> Find(Form form) {
    return FindIf([form](Form f) { return f == form; });
  }
  Item AnyFloat() { return *FindIf(IsFloatForm); }

  /// An item of that form, made where there is none. Every scope has a matrix, for how many rows it
  /// has is not known inside.
  Item Make(Form form) {
    if (auto i = Find(form)) return *i;
    switch (form) {
      case Form::kFlag:
        return Flag();
      case Form::kCount:
        return Put(graph_.AddConstant(Tensor::Scalar(DType::kI64, Int(0, 3))), form,
                   Drawn::kNothing);
      case Form::kScalar:
        return Put(Number(Int(-8, 8) / 4.0), form, Drawn::kNothing);
      default: {
        std::vector<int64_t> dims{kColumns};
        if (form == Form::kSome) dims.insert(dims.begin(), Int(1, 4));
        auto t = std::make_shared<Tensor>(DType::kF32, dims);
        for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, Int(-16, 16) / 8.0);
        return Put(graph_.AddConstant(t), form, Drawn::kNothing);
      }
    }
  }
  /// A condition: constant, there already, or computed.
  Item Flag() {
    const int kind = Int(0, 3);
    if (kind == 0)
      return Put(graph_.AddConstant(Tensor::Scalar(DType::kBool, Int(0, 1))), Form::kFlag,
                 Drawn::kNothing);
    if (kind == 1)
      if (auto given = Find(Form::kFlag)) return *given;
    const Item x = AnyFloat();
    const NodeEntry most = Node("ReduceMax", {x.entry}, {{"keepdims", int64_t{0}}});
    return Put(Node(Chance(0.5) ? "Less" : "Greater", {most, Number(Int(-4, 8) / 2.0)}),
               Form::kFlag, After(x.drawn));
  }

  /// Adds something.
  void Grow() {
    const int kind = Int(0, 99);
    const bool inner = depth_ >= kMaxDepth;
    if (kind < (draws_ ? 35 : 50)) return Compute();
    if (draws_ && kind < 55) return Draw();
    if (kind < 62) return Select();
    if (inner) return Compute();
    const size_t before = items_.size();
    if (kind < 78)
      If();
    else if (kind < 89)
      Loop();
    else
      Scan();
    if (Chance(0.4)) Twin(before);
  }

  /// Makes results of a body, of those forms, and says of each what is drawn.
  std::vector<Drawn> Finish(const std::vector<Form>& forms) {
    std::vector<Drawn> drawn;
    std::vector<NodeEntry> outputs;
    for (Form f : forms) {
      Item i = Make(f);
      // Mostly a late one, so that bodies are about what they compute.
      for (const Item& x : items_)
        if (x.form == f && Chance(0.7)) i = x;
      const bool again = std::find(outputs.begin(), outputs.end(), i.entry) != outputs.end();
      outputs.push_back(i.entry);
      drawn.push_back(again ? After(i.drawn) : i.drawn);
    }
    graph_.outputs = outputs;
    return drawn;
  }
  GraphPtr Body() { return std::make_shared<const Graph>(std::move(graph_)); }

 private:
  /// What broadcasts to `a`.
  Item Partner(const Item& a) {
    if (a.form == Form::kScalar) return Make(Form::kScalar);
    if (a.form == Form::kMatrix && Chance(0.5)) return Make(Form::kMatrix);
    return Make(Chance(0.6) ? Form::kRow : Form::kScalar);
  }
  void Compute() {
    const Item a = AnyFloat();
    const auto put = [&](const NodeEntry& e, Drawn drawn) { Put(e, a.form, drawn); };
    switch (Int(0, 8)) {
      case 0:
        return put(Node("Neg", {a.entry}), After(a.drawn));
      case 1:
        return put(Node("Abs", {a.entry}), After(a.drawn));
      case 2:
        return put(Node("Clip", {a.entry, Number(-4), Number(Int(0, 16) / 4.0)}), After(a.drawn));
      case 3: {
        if (a.form != Form::kMatrix && a.form != Form::kSome) break;
        const NodeEntry axes = graph_.AddConstant(Tensor::Ints({0}));
        Put(Node(Chance(0.5) ? "ReduceMin" : "ReduceMax", {a.entry, axes},
                 {{"keepdims", int64_t{0}}}),
            Form::kRow, After(a.drawn));
        return;
      }
      case 4: {
        const Item c = Flag(), b = Partner(a);
        return put(Node("Where", {c.entry, a.entry, b.entry}),
                   After(After(a.drawn, b.drawn), c.drawn));
      }
      case 5: {
        if (a.form != Form::kMatrix) break;
        // Integers, so that no order of sums rounds.
        auto w = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{kColumns, kColumns});
        for (int64_t i = 0; i < w->num_elements(); ++i) w->set(i, Int(-2, 2));
        const NodeEntry whole = Node("Floor", {Node("Clip", {a.entry, Number(-4), Number(4)})});
        return put(Node("MatMul", {whole, graph_.AddConstant(w)}), After(a.drawn));
      }
      default:
        break;
    }
    static constexpr const char* kBinary[] = {"Add", "Sub", "Mul", "Max", "Min"};
    const Item b = Partner(a);
    const NodeEntry y = Node(kBinary[Int(0, 4)], {a.entry, b.entry});
    // Iterations make values grow.
    put(Node("Clip", {y, Number(-64), Number(64)}), After(a.drawn, b.drawn));
  }

  void Draw() {
    const Form form = Chance(0.5) ? Form::kMatrix : Form::kRow;
    const Item like = Make(form);
    switch (Int(0, 5)) {
      case 0:
        Put(Node("RandomUniform", {}, {{"shape", Ints{kColumns}}}), Form::kRow, Drawn::kUniform);
        return;
      case 1:
        Put(Node("RandomUniform", {}, {{"shape", Ints{4, kColumns}}}), Form::kSome,
            Drawn::kUniform);
        return;
      case 2:
        Put(Node("RandomUniformLike", {like.entry}), form, Drawn::kUniform);
        return;
      case 3:
        Put(Node("weft::RandomUniform", {like.entry, Node("weft::RandomState", {})}), form,
            Drawn::kUniform);
        return;
      case 4: {
        // A ratio may be a vector of one element, too.
        auto ratio = std::make_shared<Tensor>(
            DType::kF32, Chance(0.5) ? std::vector<int64_t>{} : std::vector<int64_t>{1});
        ratio->set(0, 0.5);
        Put(Node("Dropout", {like.entry, graph_.AddConstant(ratio),
                             graph_.AddConstant(Tensor::Scalar(DType::kBool, 1))}),
            form, Drawn::kSomehow);
        return;
      }
      default:
        // With a seed it is the same everywhere.
        Put(Node("RandomUniformLike", {like.entry}, {{"seed", double(Int(1, 3))}}), form,
            Drawn::kNothing);
        return;
    }
  }

  /// Rows that values choose.
  void Select() {
    const Item x = Make(Form::kMatrix);
    const auto ints = [&](std::vector<int64_t> v) { return graph_.AddConstant(Tensor::Ints(v)); };
    const NodeEntry rows = Node("Reshape", {Node("Shape", {x.entry}, {{"end", int64_t{1}}}),
                                            graph_.AddConstant(Tensor::Ints({}))});
    const int kind = Int(0, 2);
    if (kind == 0) {
      const Item count = Make(Form::kCount);
      const NodeEntry k = Node("Reshape", {Node("Min", {count.entry, rows}), ints({1})});
      Put(Node("TopK", {x.entry, k}, {{"axis", int64_t{0}}}), Form::kSome,
          After(x.drawn, count.drawn));
      return;
    }
    const NodeEntry most = Node("ReduceMax", {x.entry, ints({1})}, {{"keepdims", int64_t{0}}});
    const NodeEntry keep = Node("Greater", {most, Number(Int(-4, 8) / 2.0)});
    if (kind == 1) {
      Put(Node("Compress", {x.entry, keep}, {{"axis", int64_t{0}}}), Form::kSome, After(x.drawn));
      return;
    }
    const NodeEntry at = Node("Reshape", {Node("NonZero", {keep}), ints({-1})});
    Put(Node("Gather", {x.entry, at}, {{"axis", int64_t{0}}}), Form::kSome, After(x.drawn));
  }

  Form SomeForm(bool changes_shape) {
    const Form f = Form(Int(0, 5));
    return f == Form::kSome && !changes_shape ? Form::kRow : f;
  }
  /// Operands for what bodies read from outside: a matrix always.
  std::vector<Item> Captures() {
    std::vector<Item> out{Make(Form::kMatrix)};
    for (int i = Int(1, 4); i-- > 0;) out.push_back(items_[size_t(Int(0, int(items_.size()) - 1))]);
    return out;
  }
  /// A body over `formals`, then the captured values, with those results.
  GraphPtr MakeBody(const std::vector<Item>& formals, const std::vector<Item>& captures,
                    const std::vector<Form>& results, std::vector<Drawn>* drawn) {
    Scope body(rng_, draws_, depth_ + 1);
    for (const Item& i : formals) body.Formal(i.form, i.drawn);
    for (const Item& i : captures) body.Formal(i.form, After(i.drawn));
    for (int i = Int(1, depth_ == 0 ? 5 : 3); i-- > 0;) body.Grow();
    *drawn = body.Finish(results);
    return body.Body();
  }
  void If() {
    const Item condition = Flag();
    const std::vector<Item> captures = Captures();
    std::vector<Form> results;
    for (int i = Int(1, 3); i-- > 0;) results.push_back(SomeForm(true));
    std::vector<Drawn> yes, no;
    const GraphPtr then_branch = MakeBody({}, captures, results, &yes),
                   else_branch = MakeBody({}, captures, results, &no);
    std::vector<NodeEntry> operands{condition.entry};
    for (const Item& i : captures) operands.push_back(i.entry);
    const NodeEntry y = Node("If", operands,
                             {{"then_branch", then_branch},
                              {"else_branch", else_branch},
                              {"num_captures", int64_t(captures.size())}});
    for (size_t k = 0; k < results.size(); ++k) {
      const bool uniform = yes[k] == Drawn::kUniform && no[k] == Drawn::kUniform;
      Put({y.node, uint32_t(k)}, results[k],
          uniform ? Drawn::kUniform : After(After(yes[k], no[k]), condition.drawn));
    }
  }
  /// What goes round: drawn as soon as anything is.
  std::vector<Item> States(bool changes_shape) {
    std::vector<Item> out;
    for (int i = Int(1, 2); i-- > 0;) out.push_back(Make(SomeForm(changes_shape)));
    return out;
  }
  std::vector<Item> Inside(std::vector<Item> states) const {
    for (Item& i : states)
      if (draws_) i.drawn = Drawn::kSomehow;
    return states;
  }
  void Loop() {
    const Item trips = Make(Form::kCount);
    const bool endless = Chance(0.5);
    const Item go = Flag();
    const std::vector<Item> states = States(true), captures = Captures();
    std::vector<Item> formals{{{}, Form::kCount, Drawn::kNothing},
                              {{}, Form::kFlag, draws_ ? Drawn::kSomehow : Drawn::kNothing}};
    std::vector<Form> results{Form::kFlag};
    for (const Item& i : Inside(states)) {
      formals.push_back(i);
      results.push_back(i.form);
    }
    for (int i = Int(0, 2); i-- > 0;) results.push_back(Form::kRow);
    std::vector<Drawn> drawn;
    const GraphPtr body = MakeBody(formals, captures, results, &drawn);
    std::vector<NodeEntry> operands{trips.entry, endless ? NodeEntry() : go.entry};
    for (const Item& i : states) operands.push_back(i.entry);
    for (const Item& i : captures) operands.push_back(i.entry);
    const NodeEntry y =
        Node("Loop", operands, {{"body", body}, {"num_captures", int64_t(captures.size())}});
    // How often it runs may depend on what is drawn, and then what is collected does too.
    Drawn how_often = After(trips.drawn, drawn[0]);
    if (!endless) how_often = After(how_often, go.drawn);
    for (size_t k = 0; k + 1 < results.size(); ++k) {
      const bool state = k < states.size();
      Drawn d = drawn[k + 1];
      if (state) d = After(d, states[k].drawn);
      if (how_often != Drawn::kNothing || d != Drawn::kUniform) d = After(d, how_often);
      Put({y.node, uint32_t(k)}, state ? states[k].form : Form::kSome, d);
    }
  }
  void Scan() {
    const std::vector<Item> states = States(false), captures = Captures();
    const Form sliced = Chance(0.3) ? Form::kSome : Form::kMatrix;
    std::vector<Item> slices{Make(sliced)};
    if (sliced == Form::kMatrix && Chance(0.4)) slices.push_back(Make(sliced));
    std::vector<Item> formals = Inside(states);
    std::vector<Form> results;
    for (const Item& i : states) results.push_back(i.form);
    Ints backward, written_backward;
    std::vector<NodeEntry> operands;
    for (const Item& i : states) operands.push_back(i.entry);
    Drawn data = Drawn::kNothing;
    for (const Item& i : slices) {
      formals.push_back({{}, Form::kRow, After(i.drawn)});
      operands.push_back(i.entry);
      backward.push_back(Int(0, 1));
      data = After(data, i.drawn);
    }
    for (int i = Int(0, 2); i-- > 0;) {
      results.push_back(Form::kRow);
      written_backward.push_back(Int(0, 1));
    }
    for (const Item& i : captures) operands.push_back(i.entry);
    std::vector<Drawn> drawn;
    const GraphPtr body = MakeBody(formals, captures, results, &drawn);
    const NodeEntry y = Node("Scan", operands,
                             {{"body", body},
                              {"num_scan_inputs", int64_t(slices.size())},
                              {"num_captures", int64_t(captures.size())},
                              {"scan_input_directions", backward},
                              {"scan_output_directions", written_backward}});
    // Rows that values chose are as many as those say.
    const bool of_draws = sliced == Form::kSome && data != Drawn::kNothing;
    for (size_t k = 0; k < results.size(); ++k) {
      const bool state = k < states.size();
      Drawn d = drawn[k];
      if (state) d = After(d, states[k].drawn);
      if (of_draws) d = Drawn::kSomehow;
      Put({y.node, uint32_t(k)}, state ? states[k].form : sliced, d);
    }
  }
  /// The control flow whose results are the items from `first` on, once more.
  void Twin(size_t first) {
    NodePtr node;
    for (size_t i = first; i < items_.size(); ++i) {
      const NodePtr n = items_[i].entry.node;
      if (n->op() && (n->op()->name == "If" || n->op()->name == "Loop" || n->op()->name == "Scan"))
        node = n;
    }
    if (!node) return;
    const NodeEntry twin = Node(node->op()->name.c_str(), node->inputs, node->attrs.dict);
    for (size_t i = first, end = items_.size(); i < end; ++i) {
      const Item was = items_[i];
      if (was.entry.node == node) Put({twin.node, was.entry.index}, was.form, was.drawn);
    }
  }

  Random& rng_;
  Graph graph_;
  std::vector<Item> items_;
  bool draws_;
  int depth_, next_ = 0;
};

}  // namespace

ControlFlowGraph MakeControlFlowGraph(uint64_t seed, bool draws) {
  Random rng(seed * 0x9e3779b97f4a7c15ull + (draws ? 7 : 3));
  Scope top(rng, draws, 0);
  ControlFlowGraph out;
  out.seed = seed;
  const SymInt n = SymInt::Symbol("n");
  const auto input = [&](const char* name, DType t, std::vector<SymInt> dims, Form form) {
    top.Put(NodeEntry(top.graph().AddInput(name, t, Shape(std::move(dims)))), form,
            Drawn::kNothing);
  };
  input("x", DType::kF32, {n, kColumns}, Form::kMatrix);
  if (top.Chance(0.5)) input("y", DType::kF32, {n, kColumns}, Form::kMatrix);
  if (top.Chance(0.5))
    input("row", DType::kF32, {kColumns}, Form::kRow);
  else
    top.Make(Form::kRow);
  if (top.Chance(0.6)) input("flag", DType::kBool, {}, Form::kFlag);
  if (top.Chance(0.6)) input("count", DType::kI64, {}, Form::kCount);
  top.Make(Form::kScalar);
  const size_t given = top.items().size();
  for (int i = top.Int(3, 9); i-- > 0;) top.Grow();
  std::vector<NodeEntry> outputs;
  for (size_t i = given; i < top.items().size(); ++i) {
    const Item& item = top.items()[i];
    const bool drawn = item.drawn == Drawn::kUniform;
    if (!drawn && i + 3 < top.items().size() && !top.Chance(0.4)) continue;
    outputs.push_back(item.entry);
    out.outputs.push_back(item.drawn);
  }
  top.graph().outputs = outputs;
  for (size_t i = 0; i < outputs.size(); ++i) top.graph().SetOutputName(i, "o" + std::to_string(i));
  out.graph = std::move(top.graph());
  out.graph.EraseDead();
  for (int64_t rows : {4, 1, top.Chance(0.2) && !draws ? 0 : 6, 2, 9})
    out.bindings.push_back({{"n", rows}});
  return out;
}

std::vector<TensorPtr> MakeInputs(const ControlFlowGraph& g, size_t binding, uint64_t round) {
  Random rng(g.seed * 31 + binding + 1000 * round);
  std::vector<TensorPtr> out;
  for (const NodePtr& p : g.graph.AllInputs()) {
    std::vector<int64_t> dims;
    const std::optional<Shape> shape = DeclaredShape(p);
    for (SymInt d : shape->dims()) dims.push_back(Evaluate(d, g.bindings[binding]));
    const DType t = DeclaredType(p).dtype;
    auto value = std::make_shared<Tensor>(t, dims);
    for (int64_t i = 0; i < value->num_elements(); ++i) {
      const int64_t v = int64_t(rng() % 33);
      if (t == DType::kF32)
        value->set(i, double(v - 16) / 8);  // few bits: products and sums are exact for a while
      else
        value->set_int(i, t == DType::kBool ? v & 1 : v % 4);
    }
    out.push_back(value);
  }
  return out;
}

}  // namespace weft::fuzz
