/// nnvm_test.cc: code in the manner of 2016 against weft/nnvm.h: operators and ten passes, fused
/// and run like native ones.
#include "weft/nnvm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "weft/runtime/program/program.h"

namespace {

using namespace nnvm;

using FCountCost = std::function<int(const NodeAttrs&)>;

NNVM_REGISTER_OP_GROUP(N16Elementwise).set_attr<bool>("IsElementWise", true);

NNVM_REGISTER_OP(n16_add)
    .describe("a + b")
    .set_num_inputs(2)
    .set_num_outputs(1)
    .add_argument("lhs", "Tensor", "left")
    .add_argument("rhs", "Tensor", "right")
    .include("N16Elementwise")
    .set_attr<FCountCost>("FCountCost", [](const NodeAttrs&) { return 1; })
    .set_attr<FCodeGen>("FCodeGen", [](const NodePtr&, const std::vector<ASTPtr>& inputs) {
      return std::vector<ASTPtr>{inputs[0] + inputs[1]};
    });

NNVM_REGISTER_OP(n16_mul)
    .set_num_inputs(2)
    .add_argument("lhs", "Tensor", "left")
    .add_argument("rhs", "Tensor", "right")
    .include("N16Elementwise")
    .set_attr<FCodeGen>("FCodeGen", [](const NodePtr&, const std::vector<ASTPtr>& inputs) {
      return std::vector<ASTPtr>{ASTPtr(new BinaryAST('*', inputs[0], inputs[1]))};
    });

NNVM_REGISTER_OP(n16_add_scalar)
    .set_num_inputs(1)
    .include("N16Elementwise")
    .set_attr_parser([](NodeAttrs* attrs) { attrs->parsed = std::stof(attrs->dict.at("scalar")); })
    .set_attr<FCodeGen>("FCodeGen", [](const NodePtr& n, const std::vector<ASTPtr>& inputs) {
      return std::vector<ASTPtr>{inputs[0] + ASTPtr(new FloatAST(get<float>(n->attrs.parsed)))};
    });

NNVM_REGISTER_OP(n16_identity)
    .set_num_inputs(1)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<ASTPtr>& inputs) { return inputs; });

NNVM_REGISTER_OP(n16_split_terms)
    .set_num_inputs(1)
    .set_num_outputs(2)
    .set_attr<FCodeGen>("FCodeGen", [](const NodePtr&, const std::vector<ASTPtr>& inputs) {
      ASTPtr one(new FloatAST(1));
      return std::vector<ASTPtr>{inputs[0] * inputs[0], one / (one + inputs[0] * inputs[0])};
    });

Symbol Var(const char* name) { return Symbol::CreateVariable(name); }
Symbol Make(const char* op, std::vector<const Symbol*> args, const char* name,
            std::unordered_map<std::string, std::string> attrs = {}) {
  Symbol s = Symbol::CreateFunctor(Op::Get(op), std::move(attrs));
  s.Compose(args, {}, name);
  return s;
}

/// y = (x * w + b) + 0.5, with an identity in the middle.
Graph Example() {
  Symbol x = Var("x"), w = Var("w"), b = Var("b");
  Symbol m = Make("n16_mul", {&x, &w}, "m");
  Symbol i = Make("n16_identity", {&m}, "i");
  Symbol a = Make("n16_add", {&i, &b}, "a");
  Symbol y = Make("n16_add_scalar", {&a}, "y", {{"scalar", "0.5"}});
  Graph g;
  g.outputs = y.outputs;
  return g;
}

// ---- ten passes in the manner of 2016 ----

Graph N16CountOps(Graph src) {
  std::map<std::string, int> count;
  DFSVisit(src.outputs, [&](const NodePtr& n) {
    if (!n->is_variable()) ++count[n->op()->name];
  });
  src.attrs["n16_count"] = std::make_shared<any>(count);
  return src;
}
NNVM_REGISTER_PASS(N16CountOps)
    .describe("counts operators")
    .set_body(N16CountOps)
    .set_change_graph(false)
    .provide_graph_attr("n16_count");

Graph N16DropIdentity(Graph src) {
  std::unordered_map<Node*, NodeEntry> moved;  // identity -> what it passes on
  auto follow = [&](NodeEntry e) {
    auto it = moved.find(e.node.get());
    return it == moved.end() ? e : it->second;
  };
  DFSVisit(src.outputs, [&](const NodePtr& n) {
    std::vector<NodeEntry> inputs;
    for (const NodeEntry& e : n->inputs) inputs.push_back(follow(e));
    if (!n->is_variable()) n->inputs = inputs;
    if (n->op() == Op::Get("n16_identity")) moved[n.get()] = n->inputs[0];
  });
  std::vector<NodeEntry> outputs;
  for (const NodeEntry& e : src.outputs) outputs.push_back(follow(e));
  Graph ret;
  ret.outputs = outputs;
  return ret;
}
NNVM_REGISTER_PASS(N16DropIdentity)
    .describe("removes identities")
    .set_body(N16DropIdentity)
    .set_change_graph(true);

Graph N16Rebuild(Graph src) {
  std::unordered_map<Node*, NodePtr> copy;
  DFSVisit(src.outputs, [&](const NodePtr& n) {
    NodePtr c = Node::Create();
    c->attrs = n->attrs;
    for (const NodeEntry& e : n->inputs)
      c->inputs.push_back(NodeEntry{copy.at(e.node.get()), e.index, 0});
    copy[n.get()] = c;
  });
  Graph ret;
  for (const NodeEntry& e : src.outputs) ret.outputs.push_back({copy.at(e.node.get()), e.index, 0});
  return ret;
}
NNVM_REGISTER_PASS(N16Rebuild)
    .describe("copies every node")
    .set_body(N16Rebuild)
    .set_change_graph(true);

Graph N16FoldScalar(Graph src) {
  DFSVisit(src.outputs, [&](const NodePtr& n) {
    if (n->op() != Op::Get("n16_add_scalar") || n->inputs[0].node->op() != n->op()) return;
    NodePtr inner = n->inputs[0].node;
    n->attrs.dict["scalar"] =
        std::to_string(get<float>(n->attrs.parsed) + get<float>(inner->attrs.parsed));
    n->op()->attr_parser(&n->attrs);
    n->inputs = std::vector<NodeEntry>{inner->inputs[0]};
  });
  return src;
}
NNVM_REGISTER_PASS(N16FoldScalar)
    .describe("adds scalars")
    .set_body(N16FoldScalar)
    .set_change_graph(true);

Graph N16Gradient(Graph src) {
  static const auto& fgradient = Op::GetAttr<FGradient>("FGradient");
  const auto& ys = src.GetAttr<std::vector<NodeEntry>>("grad_ys");
  const auto& xs = src.GetAttr<std::vector<NodeEntry>>("grad_xs");
  const auto& seeds = src.GetAttr<std::vector<NodeEntry>>("grad_ys_out_grad");
  std::vector<NodePtr> topo;
  DFSVisit(ys, [&](const NodePtr& n) { topo.push_back(n); });
  std::unordered_map<Node*, NodeEntry> grad;
  auto add = [&](NodeEntry to, NodeEntry g) {
    auto it = grad.find(to.node.get());
    grad[to.node.get()] = it == grad.end() ? g : MakeNode("n16_add", "sum", {it->second, g});
  };
  for (size_t i = 0; i < ys.size(); ++i) add(ys[i], seeds[i]);
  for (auto n = topo.rbegin(); n != topo.rend(); ++n) {
    if ((*n)->is_variable() || !grad.count(n->get())) continue;
    const std::vector<NodeEntry> in = fgradient[(*n)->op()](*n, {grad.at(n->get())});
    for (size_t i = 0; i < in.size(); ++i) add((*n)->inputs[i], in[i]);
  }
  Graph ret;
  std::vector<NodeEntry> outputs;
  for (const NodeEntry& x : xs) outputs.push_back(grad.at(x.node.get()));
  ret.outputs = outputs;
  return ret;
}
NNVM_REGISTER_PASS(N16Gradient)
    .describe("reverse mode")
    .set_body(N16Gradient)
    .set_change_graph(true)
    .depend_graph_attr("grad_ys")
    .depend_graph_attr("grad_xs")
    .depend_graph_attr("grad_ys_out_grad");

Graph N16Report(Graph src) {
  std::string text;
  for (const auto& [name, n] : src.GetAttr<std::map<std::string, int>>("n16_count"))
    text += name + "=" + std::to_string(n) + ";";
  src.attrs["n16_report"] = std::make_shared<any>(text);
  return src;
}
NNVM_REGISTER_PASS(N16Report)
    .describe("prints the counts")
    .set_body(N16Report)
    .set_change_graph(false)
    .depend_graph_attr("n16_count")
    .provide_graph_attr("n16_report");

Graph N16Depth(Graph src) {
  const IndexedGraph& idx = src.indexed_graph();
  std::vector<int> depth(idx.num_nodes(), 0);
  for (uint32_t nid = 0; nid < idx.num_nodes(); ++nid)
    for (const auto& e : idx[nid].inputs) depth[nid] = std::max(depth[nid], depth[e.node_id] + 1);
  src.attrs["n16_depth"] = std::make_shared<any>(depth);
  return src;
}
NNVM_REGISTER_PASS(N16Depth)
    .describe("depth of every node")
    .set_body(N16Depth)
    .set_change_graph(false)
    .provide_graph_attr("n16_depth");

Graph N16Cost(Graph src) {
  static const auto& cost = Op::GetAttr<FCountCost>("FCountCost");
  int total = 0;
  DFSVisit(src.outputs, [&](const NodePtr& n) {
    if (!n->is_variable() && cost.count(n->op())) total += cost[n->op()](n->attrs);
  });
  src.attrs["n16_cost"] = std::make_shared<any>(total);
  return src;
}
NNVM_REGISTER_PASS(N16Cost)
    .describe("sums a user's own attribute")
    .set_body(N16Cost)
    .set_change_graph(false)
    .provide_graph_attr("n16_cost")
    .depend_op_attr("FCodeGen");

Graph N16Serialise(Graph src) {
  NodePtr before;
  DFSVisit(src.outputs, [&](const NodePtr& n) {
    if (n->is_variable()) return;
    if (before) n->control_deps.push_back(before);
    before = n;
  });
  return src;
}
NNVM_REGISTER_PASS(N16Serialise)
    .describe("orders all operators by control edges")
    .set_body(N16Serialise)
    .set_change_graph(true);

Graph N16Double(Graph src) {
  std::vector<NodeEntry> outputs;
  for (const NodeEntry& e : src.outputs) outputs.push_back(MakeNode("n16_add", "twice", {e, e}));
  src.outputs = outputs;
  return src;
}
NNVM_REGISTER_PASS(N16Double)
    .describe("doubles the outputs")
    .set_body(N16Double)
    .set_change_graph(true);

// ---- running ----

std::vector<double> RunOn(const std::string& backend, Graph g,
                          const std::map<std::string, std::vector<double>>& values,
                          int* kernels = nullptr) {
  weft::CompileOptions options;
  options.backend = backend;
  // 2016 graphs say nothing about their inputs: they are declared here.
  for (NodePtr p : g.AllInputs()) {
    p->attrs.dict["dtype"] = weft::DType::kF32;
    p->attrs.dict["shape"] = weft::Shape{weft::SymInt::Symbol("n")};
  }
  auto program = weft::Compile(std::move(g), options);
  if (kernels) *kernels = program->stats().kernels;
  std::map<std::string, weft::TensorPtr> in;
  for (const auto& [name, v] : values)
    in[name] = weft::Tensor::FromDoubles(weft::DType::kF32, {int64_t(v.size())}, v);
  auto out = weft::Session(program).Run(in)[0];
  std::vector<double> result;
  for (int64_t i = 0; i < out->num_elements(); ++i) result.push_back(out->at(i));
  return result;
}

const std::map<std::string, std::vector<double>> kValues = {
    {"x", {1, 2, 3}}, {"w", {2, 2, 2}}, {"b", {0.25, 0.5, 1}}};

TEST_CASE("ops of 2016 fuse into one kernel and run on both backends") {
  int kernels = 0;
  CHECK(RunOn("cpu", Example(), kValues, &kernels) == std::vector<double>{2.75, 5, 7.5});
  CHECK(kernels == 1);
  CHECK(RunOn("ref", Example(), kValues) == std::vector<double>{2.75, 5, 7.5});
}

TEST_CASE("ApplyPasses chains a missing dependency, and refuses it in strict mode") {
  Graph g = ApplyPasses(Example(), {"N16Report"});
  CHECK(g.GetAttr<std::string>("n16_report") ==
        "n16_add=1;n16_add_scalar=1;n16_identity=1;n16_mul=1;");
  weft::PassOptions strict;
  strict.strict = true;
  CHECK_THROWS_AS(ApplyPasses(Example(), {"N16Report"}, strict), weft::UserError);
  CHECK(ApplyPasses(Example(), "N16CountOps,N16Report").HasAttr("n16_report"));
}

TEST_CASE("passes that rebuild the graph keep its meaning") {
  for (const char* pass : {"N16DropIdentity", "N16Rebuild", "N16FoldScalar", "N16Serialise"}) {
    CAPTURE(pass);
    CHECK(RunOn("cpu", ApplyPass(Example(), pass), kValues) == std::vector<double>{2.75, 5, 7.5});
  }
  CHECK(RunOn("cpu", ApplyPass(Example(), "N16Double"), kValues) ==
        std::vector<double>{5.5, 10, 15});
  CHECK(ApplyPass(Example(), "N16DropIdentity").num_nodes() == 6);
}

TEST_CASE("gradients by FGradient, from attributes set as shared any") {
  Symbol x = Var("x"), w = Var("w");
  Symbol m = Make("n16_mul", {&x, &w}, "m");
  Symbol y = Make("n16_mul", {&m, &x}, "y");  // y = x * w * x, dy/dx = 2 x w
  Graph g;
  Symbol seed = Var("seed");
  g.outputs = Symbol::CreateGroup({y, x, seed}).outputs;
  std::vector<NodeEntry> ys{g.outputs[0]}, xs{g.outputs[1]}, seeds{g.outputs[2]};
  g.attrs["grad_ys"] = std::make_shared<any>(ys);
  g.attrs["grad_xs"] = std::make_shared<any>(xs);
  g.attrs["grad_ys_out_grad"] = std::make_shared<any>(seeds);
  Graph d = ApplyPass(std::move(g), "N16Gradient");
  CHECK(RunOn("cpu", d, {{"x", {1, 2}}, {"w", {3, 4}}, {"seed", {1, 1}}}) ==
        std::vector<double>{6, 16});
}

TEST_CASE("own attributes, IndexedGraph, depth") {
  Graph g = ApplyPasses(Example(), {"N16Depth", "N16Cost"});
  CHECK(g.GetAttr<int>("n16_cost") == 1);
  const auto& depth = g.GetAttr<std::vector<int>>("n16_depth");
  CHECK(depth.back() == 4);
  CHECK(Op::GetAttr<bool>("IsElementWise")[Op::Get("n16_mul")]);
}

TEST_CASE("text of expressions: literals keep their decimals and take the other operand's type") {
  ASTPtr x(new VariableAST("x")), eps(new FloatAST(1e-8f));
  const std::string text = (x + eps)->CodeGen();
  CHECK(text.find("1e-08f") != std::string::npos);
  CHECK((x * x)->CodeGen() == "(x * x)");
  ASTPtr d = weft::Expr::Variable("d", weft::DType::kF64);
  ASTPtr sum = d + eps;
  CHECK(sum->operand(1)->dtype() == weft::DType::kF64);
  CHECK(sum->operand(1)->const_value() == 1e-8);
  CHECK_THROWS_AS(BinaryAST('^', x, x), weft::UserError);
}

TEST_CASE("several outputs of one op of 2016") {
  Symbol x = Var("x");
  Symbol s = Make("n16_split_terms", {&x}, "s");
  Symbol first = s[0], second = s[1];
  Symbol y = Make("n16_add", {&first, &second}, "y");
  Graph g;
  g.outputs = y.outputs;
  const std::vector<double> got = RunOn("cpu", g, {{"x", {0, 1, 3}}}), want{1, 1.5, 9.1};
  for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]));
}

TEST_CASE("composition: names, automatic variables, copies") {
  Symbol y = Symbol::CreateFunctor(Op::Get("n16_add"));
  Symbol x = Var("x");
  y.Compose({}, {{"rhs", &x}}, "sum");
  CHECK(y.ListInputNames() == std::vector<std::string>{"sum_lhs", "x"});
  CHECK(y.ListOutputNames() == std::vector<std::string>{"sum_output"});
  Symbol z = y.Copy();
  CHECK(z.outputs[0].node != y.outputs[0].node);
  CHECK(z.GetInternals().outputs.size() == 3);
  CHECK_THROWS_AS(y.Compose({&x, &x}, {}, "again"), weft::UserError);
}

TEST_CASE("a symbol made from another holds the graph of its nodes") {
  std::vector<Symbol> kept;
  {
    Symbol x = Var("kept_x");
    Symbol y = Make("n16_add_scalar", {&x}, "kept_y", {{"scalar", "1"}});
    weft::ResetAmbientGraph();  // from here on the symbols alone hold the old graph
    kept = {y[0], y.GetInternals(), Symbol::CreateGroup({x, y}), y.Copy()};
  }
  weft::ResetAmbientGraph();
  for (const Symbol& s : kept) CHECK(s.outputs.back().node->attrs.name == "kept_y");
  CHECK(kept[2].ListInputNames() == std::vector<std::string>{"kept_x"});
}

TEST_CASE("a composition that throws leaves the functor usable") {
  Symbol x = Var("x"), f = Symbol::CreateFunctor(Op::Get("n16_add"));
  CHECK_THROWS_AS(f.Compose({&x, &x, &x}, {}, "wrong"), weft::UserError);
  CHECK_THROWS_AS(f.Compose({&x}, {{"nothing", &x}}, "wrong"), weft::UserError);
  CHECK(f.outputs[0].node->attrs.name.empty());
  f.Compose({&x, &x}, {}, "right");
  CHECK(f.outputs[0].node->inputs.size() == 2);
}

TEST_CASE("small words of 2016: version, MakeNode without inputs, cleared inputs") {
  Symbol x = Var("x");
  NodeEntry e = x.outputs[0];
  CHECK(e.version == 0u);
  NodeEntry sum = MakeNode("n16_add", "sum", {e, e});
  sum.node->inputs.clear();
  CHECK(sum.node->inputs.empty());
  CHECK_THROWS_AS(MakeNode("n16_add", "none"),
                  weft::UserError);  // compiles; the operator takes two
}

}  // namespace
