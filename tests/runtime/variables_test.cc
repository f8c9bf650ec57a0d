/// variables_test.cc: state variables: what a run reads and writes is what the order of the program
/// says, whatever the backend, fused or not; and the storage plans by which it does.
#include <doctest/doctest.h>

#include <random>

#include "tests/support/code_of.h"
#include "tests/support/temp_folder.h"
#include "tests/support/variables_util.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/plan/storage.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/runtime/session/variable_store.h"

namespace {

using namespace weft;
using namespace weft::e2e;

/// A graph over f32[2] variables %v = [1, 2] and %u = [3, 4] and an input %x; what one run with
/// %x = [10, 20] must give.
struct Case {
  const char* outputs;
  const char* body;
  std::vector<Values> want;
  Values v, u;  ///< afterwards
};

/// `end`: another output, and what computes it.
std::string TextOf(const Case& c, const std::string& end_output = "", const std::string& end = "") {
  return std::string("graph (%x: f32[2], %v: f32[2] param = [1.0, 2.0] {state = 1}, ") +
         "%u: f32[2] param = [3.0, 4.0] {state = 1}) -> (" + c.outputs + end_output + ") {\n" +
         c.body + end + "}\n";
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      // Reads on both sides of a write.
      {"%a, %w, %b",
       "%a = Neg(%v) : ?\n%w = weft::Assign(%v, %x) : ?\n%b = Neg(%v) : ?\n",
       {{-1, -2}, {10, 20}, {-10, -20}},
       {10, 20},
       {3, 4}},
      // Two writes with a read between them; the result of the first is asked for at the end.
      {"%w1, %a, %w2",
       "%w1 = weft::Assign(%v, %x) : ?\n%a = Neg(%v) : ?\n%n = Add(%x, %x) : ?\n"
       "%w2 = weft::Assign(%v, %n) : ?\n",
       {{10, 20}, {-10, -20}, {20, 40}},
       {20, 40},
       {3, 4}},
      // A swap. The reads are gone after Simplify; what they read is not.
      {"%p, %q",
       "%a = Identity(%v) : ?\n%b = Identity(%u) : ?\n%p = weft::Assign(%v, %b) : ?\n"
       "%q = weft::Assign(%u, %a) : ?\n",
       {{3, 4}, {1, 2}},
       {3, 4},
       {1, 2}},
      // No swap: the second write reads what the first has written.
      {"%p, %q",
       "%p = weft::Assign(%v, %u) : ?\n%q = weft::Assign(%u, %v) : ?\n",
       {{3, 4}, {3, 4}},
       {3, 4},
       {3, 4}},
      // A view from before the write, read after it.
      {"%r",
       "%to = Constant() {value = tensor i64[2] [2, 1]} : ?\n%a = Reshape(%v, %to) : ?\n"
       "%w = weft::Assign(%v, %x) : ?\n%r = Neg(%a) : ?\n",
       {{-1, -2}},
       {10, 20},
       {3, 4}},
      // The same, where a rewrite would look through two movements.
      {"%r",
       "%to = Constant() {value = tensor i64[2] [1, 2]} : ?\n%a = Reshape(%v, %to) : ?\n"
       "%t = Transpose(%a) {perm = [1, 0]} : ?\n%w = weft::Assign(%v, %x) : ?\n"
       "%s = Transpose(%t) {perm = [1, 0]} : ?\n%r = Mul(%s, %s) : ?\n",
       {{1, 4}},
       {10, 20},
       {3, 4}},
      // Equal reads on both sides of a write are not equal.
      {"%d",
       "%a = Exp(%v) : ?\n%b = Log(%a) : ?\n%w = weft::Assign(%v, %v) : ?\n"
       "%a2 = Neg(%v) : ?\n%w2 = weft::Assign(%v, %x) : ?\n%a3 = Neg(%v) : ?\n"
       "%d = Sub(%a2, %a3) : ?\n",
       {{9, 18}},
       {10, 20},
       {3, 4}},
      // The variable itself as an output: its content after the run, wherever its node stands.
      {"%v, %w, %v as \"again\"",
       "%n = Add(%v, %x) : ?\n%w = weft::Assign(%v, %n) : ?\n",
       {{11, 22}, {11, 22}, {11, 22}},
       {11, 22},
       {3, 4}},
      // What was read before the write, as an output beside what was written.
      {"%old, %w",
       "%old = Identity(%v) : ?\n%n = Add(%v, %x) : ?\n%w = weft::Assign(%v, %n) : ?\n",
       {{1, 2}, {11, 22}},
       {11, 22},
       {3, 4}},
      // One value for two variables, and asked for as well.
      {"%n",
       "%n = Mul(%v, %x) : ?\n%w = weft::Assign(%v, %n) : ?\n%z = weft::Assign(%u, %n) : ?\n",
       {{10, 40}},
       {10, 40},
       {10, 40}},
      // The old value is read, by another computation, after the new one is there.
      {"%a",
       "%n = Mul(%v, %x) : ?\n%a = Sub(%n, %v) : ?\n%w = weft::Assign(%v, %n) : ?\n",
       {{9, 38}},
       {10, 40},
       {3, 4}},
      // An update with state of its own (momentum), both written from both.
      {"%done",
       "%h = Constant() {value = tensor f32[] [0.5]} : ?\n%m = Mul(%u, %h) : ?\n"
       "%m2 = Add(%m, %x) : ?\n%w = weft::Assign(%u, %m2) : ?\n%p = Sub(%v, %w) : ?\n"
       "%z = weft::Assign(%v, %p) : ?\n%done = weft::Group(%w, %z) : ?\n",
       {{}},
       {-10.5, -20},
       {11.5, 22}},
      // An element moves to another place of its own variable.
      {"%w",
       "%to = Constant() {value = tensor i64[1] [1]} : ?\n%z = Constant() {value = tensor i64[1] "
       "[0]} : ?\n%e = Constant() {value = tensor i64[1] [2]} : ?\n"
       "%last = Slice(%v, %to, %e, %z) : ?\n%first = Slice(%v, %z, %to, %z) : ?\n"
       "%n = Concat(%last, %first) {axis = 0} : ?\n%w = weft::Assign(%v, %n) : ?\n",
       {{2, 1}},
       {2, 1},
       {3, 4}},
      // Every element needs all old ones.
      {"%w",
       "%s = ReduceSum(%v) {keepdims = 0} : ?\n%n = Sub(%v, %s) : ?\n"
       "%w = weft::Assign(%v, %n) : ?\n",
       {{-2, -1}},
       {-2, -1},
       {3, 4}},
      // Nobody asks for the result, or for anything that depends on it.
      {"%x", "%w = weft::Assign(%v, %x) : ?\n", {{10, 20}}, {10, 20}, {3, 4}},
      // Groups of groups.
      {"%done",
       "%w = weft::Assign(%v, %x) : ?\n%g = weft::Group(%w) : ?\n"
       "%z = weft::Assign(%u, %v) : ?\n%done = weft::Group(%g, %z) : ?\n",
       {{}},
       {10, 20},
       {10, 20}},
      // Two writes, the first one read by a chain that ends after the second.
      {"%r",
       "%w = weft::Assign(%v, %x) : ?\n%a = Add(%w, %u) : ?\n%w2 = weft::Assign(%v, %u) : ?\n"
       "%b = Add(%w, %w2) : ?\n%r = Add(%a, %b) : ?\n",
       {{26, 48}},
       {3, 4},
       {3, 4}},
  };
  return cases;
}

void CheckCase(const Case& c, const std::shared_ptr<const Program>& program) {
  auto store = std::make_shared<VariableStore>();
  Session s(program, store);
  const std::vector<TensorPtr> got = s.Run({Vector({10, 20})});
  REQUIRE(got.size() >= c.want.size());
  for (size_t i = 0; i < c.want.size(); ++i) {
    INFO("output ", i);
    CHECK(Text(ValuesOf(*got[i])) == Text(c.want[i]));
  }
  CHECK(Text(ValuesOf(*store->Get("v"))) == Text(c.v));
  if (store->Has("u")) CHECK(Text(ValuesOf(*store->Get("u"))) == Text(c.u));
}

}  // namespace

TEST_CASE("variables: reads and writes happen in the order of the program") {
  for (const Case& c : Cases()) {
    INFO(std::string(c.body));
    for (const Way& way : Ways()) {
      INFO(std::string(way.backend), std::string(way.fusion ? " fused" : " not fused"));
      CheckCase(c, CompileWay(FromText(TextOf(c)), way));
    }
  }
}

TEST_CASE("variables: the same where sizes depend on data, so that the program is of regions") {
  for (const Case& c : Cases()) {
    INFO(std::string(c.body));
    const Graph g = FromText(TextOf(
        c, ", %all", "%late = NonZero(%x) : ?\n%all = ReduceSum(%late) {keepdims = 0} : ?\n"));
    for (const Way& way : Ways()) {
      INFO(std::string(way.backend), std::string(way.fusion ? " fused" : " not fused"));
      CheckCase(c, CompileWay(g, way));
    }
  }
}

TEST_CASE("variables: a value whose size data decide has to fit") {
  const Graph g = FromText(
      R"(graph (%x: f32[6], %c: bool[6], %v: f32[2] param = [1.0, 2.0] {state = 1}) -> (%a, %k) {
  %k = Compress(%x, %c) {axis = 0} : ?
  %a = weft::Assign(%v, %k) : ?
}
)");
  for (const char* backend : {"cpu", "ref"}) {
    CAPTURE(backend);
    auto store = std::make_shared<VariableStore>();
    store->Set("v", Tensor::FromDoubles(DType::kF32, {2}, {1, 2}));
    Session session(CompileFor(g, backend), store);
    const auto run = [&](const Values& which) {
      session.Run({Tensor::FromDoubles(DType::kF32, {6}, {3, 4, 5, 6, 7, 8}),
                   Tensor::FromDoubles(DType::kBool, {6}, which)});
    };
    CHECK(CodeOf([&] { run({1, 1, 1, 1, 1, 1}); }) == ErrorCode::kShapeMismatch);
    CHECK(CodeOf([&] { run({1, 0, 0, 0, 0, 0}); }) == ErrorCode::kShapeMismatch);
    CHECK(ValuesOf(*store->Get("v")) == Values{1, 2});
    run({0, 1, 0, 0, 1, 0});
    CHECK(ValuesOf(*store->Get("v")) == Values{4, 7});
  }
}

TEST_CASE("variables: a list that is a result holds what they were, not what they become") {
  const Graph g =
      FromText(R"(graph (%x: f32[2], %v: f32[2] param = [1.0, 2.0] {state = 1}) -> (%y, %a) {
  %o = weft::Read(%v) : ?
  %y = SequenceConstruct(%o, %x) : ?
  %a = weft::Assign(%v, %x) after(%o, %y) : ?
}
)");
  for (const char* backend : {"cpu", "ref"}) {
    CAPTURE(backend);
    Session session(CompileFor(g, backend));
    const auto y = session.Run({Tensor::FromDoubles(DType::kF32, {2}, {7, 8})})[0];
    REQUIRE(y->elements().size() == 2);
    CHECK(ValuesOf(*y->elements()[0]) == Values{1, 2});
  }
}

TEST_CASE("variables: a run of regions that fails leaves them as they were") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph (%x: f32[2], %s: i64[2], %v: f32[2] param = [1.0, 2.0] {state = 1}) -> (%y, %w) {\n"
      "  %n = Add(%v, %x) : ?\n  %w = weft::Assign(%v, %n) : ?\n  %i = NonZero(%w) : ?\n"
      "  %y = Reshape(%i, %s) : ?\n}\n");
  auto store = std::make_shared<VariableStore>();
  Session s(CompileFor(g, "cpu"), store);
  const auto shape = [](double a, double b) {
    return Tensor::FromDoubles(DType::kI64, {2}, {a, b});
  };
  s.Run({Vector({10, 20}), shape(2, 1)});
  CHECK(Text(ValuesOf(*store->Get("v"))) == Text({11, 22}));
  CHECK_THROWS(s.Run({Vector({10, 20}), shape(5, 5)}));
  CHECK(Text(ValuesOf(*store->Get("v"))) == Text({11, 22}));
  s.Run({Vector({-11, 1}), shape(1, 1)});  // another number of them
  CHECK(Text(ValuesOf(*store->Get("v"))) == Text({0, 23}));
}

TEST_CASE("variables: the order holds through text, JSON and saved programs") {
  const TempFolder dir;
  for (const Case& c : Cases()) {
    INFO(std::string(c.body));
    const Graph g = FromText(TextOf(c));
    const std::string text = PrintGraph(g);
    CHECK(PrintGraph(ParseGraph(text)) == text);
    CHECK(text.find("state = 1") != std::string::npos);
    CheckCase(c, CompileWay(ParseGraph(text), {"ref", true}));
    const Graph saved = ApplyPass(g, "SaveJSON");
    Graph back;
    back.attrs["json"] = saved.attrs.at("json");
    CheckCase(c, CompileWay(ApplyPass(std::move(back), "LoadJSON"), {"ref", true}));
    for (const Way& way : Ways()) {
      INFO(std::string(way.backend), std::string(way.fusion ? " fused" : " not fused"));
      SaveProgram(*CompileWay(g, way), dir / "a.weftx");
      const auto loaded = LoadProgram(dir / "a.weftx");
      CHECK(loaded->inputs().size() == 1);
      CheckCase(c, loaded);
    }
  }
}

TEST_CASE("variables: plans are right without the passes that order reads") {
  if (!HasCpu()) return;
  // A schedule alone decides; reads are of what is there then.
  const Case& c = Cases()[0];
  Graph g = ApplyPass(FromText(TextOf(c)), "OrderMutation");
  for (const char* pipeline : {"Fusion,CodeGen,RTCGen,Schedule,PlanMemory",
                               "ReadVariables,Fusion,CodeGen,RTCGen,PlanMemory",
                               "Schedule,PlanMemory", "Simplify,Schedule,PlanMemory"}) {
    INFO(pipeline);
    CheckCase(c, CompileFor(g, "cpu", pipeline));
  }
}

// ---- random programs ----

namespace {

/// Random reads and writes of three 4x4 variables, with the results that the order of the program
/// gives. All values are small integers, so that f32 is exact.
struct RandomProgram {
  Graph g;
  std::vector<Values> outputs, variables;
  std::vector<std::string> trace;

  explicit RandomProgram(uint64_t seed) : rng_(seed) {
    for (int k = 0; k < 3; ++k) {
      Values start;
      for (int i = 0; i < 16; ++i) start.push_back(double(int(rng_() % 7)) - 3);
      const NodePtr v = AddState(g, "v" + std::to_string(k), DType::kF32, Shape(),
                                 Tensor::FromDoubles(DType::kF32, {4, 4}, start));
      nodes_.emplace_back(v);
      variables.push_back(start);
    }
    const size_t steps = 4 + rng_() % 12;
    for (size_t i = 0; i < steps; ++i) Step();
    // Some results are outputs, in any order; all effects happen.
    std::vector<NodeEntry> out;
    for (const Known& k : values_)
      if (rng_() % 3 == 0) out.push_back(k.entry), outputs.push_back(k.value);
    if (out.empty()) {
      out.push_back(nodes_[0]);
      outputs.push_back(variables[0]);
    }
    g.outputs = out;
  }

 private:
  struct Known {
    NodeEntry entry;
    Values value;
  };
  /// A variable as it is now, or something computed before.
  Known Operand() {
    if (values_.empty() || rng_() % 2) {
      const size_t k = rng_() % 3;
      return {nodes_[k], variables[k]};
    }
    return values_[rng_() % values_.size()];
  }
  static double Hold(double x) { return std::min(8.0, std::max(-8.0, x)); }
  NodeEntry Held(const NodeEntry& e) {
    return ApplyOp("Min", {ApplyOp("Max", {e, ScalarLike(e, DType::kF32, -8)}),
                           ScalarLike(e, DType::kF32, 8)});
  }
  void Step() {
    const Known a = Operand(), b = Operand();
    Known r = a;
    const uint64_t what = rng_() % 12;
    trace.push_back(std::to_string(what));
    if (what >= 7) {  // writes, often of what was just computed
      const size_t k = rng_() % 3;
      const Known value = what >= 9 && !values_.empty() ? values_.back() : a;
      r = {Assign(nodes_[k], value.entry), value.value};
      variables[k] = value.value;
      values_.push_back(r);
      return;
    }
    switch (what) {
      case 0:
        r.entry = Held(a.entry + b.entry);
        for (int i = 0; i < 16; ++i) r.value[i] = Hold(a.value[i] + b.value[i]);
        break;
      case 1:
        r.entry = Held(a.entry * b.entry);
        for (int i = 0; i < 16; ++i) r.value[i] = Hold(a.value[i] * b.value[i]);
        break;
      case 2:
        r.entry = ApplyOp("Transpose", {a.entry}, {{"perm", Ints{1, 0}}});
        for (int i = 0; i < 16; ++i) r.value[i] = a.value[(i % 4) * 4 + i / 4];
        break;
      case 3:
        r.entry = ApplyOp("Reshape", {ApplyOp("Reshape", {a.entry, IntsLike(a.entry, {16})}),
                                      IntsLike(a.entry, {4, 4})});
        break;
      case 4:
        r.entry = ApplyOp("Identity", {a.entry});
        break;
      case 5: {
        const NodeEntry sum =
            ApplyOp("ReduceSum", {a.entry, IntsLike(a.entry, {1})}, {{"keepdims", 1}});
        r.entry = Held(b.entry - sum);
        for (int i = 0; i < 16; ++i) {
          double s = 0;
          for (int j = 0; j < 4; ++j) s += a.value[i / 4 * 4 + j];
          r.value[i] = Hold(b.value[i] - s);
        }
        break;
      }
      default:
        r.entry = Held(ApplyOp("MatMul", {a.entry, b.entry}));
        for (int i = 0; i < 16; ++i) {
          double s = 0;
          for (int j = 0; j < 4; ++j) s += a.value[i / 4 * 4 + j] * b.value[j * 4 + i % 4];
          r.value[i] = Hold(s);
        }
    }
    values_.push_back(r);
  }

  std::mt19937_64 rng_;
  std::vector<NodeEntry> nodes_;
  std::vector<Known> values_;
};

}  // namespace

TEST_CASE("variables: 200 random programs do what a plain interpreter of their order does") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomProgram p(seed);
    INFO("seed ", seed, "\n", PrintGraph(p.g));
    for (const Way& way : Ways()) {
      INFO(std::string(way.backend), std::string(way.fusion ? " fused" : " not fused"));
      Session s(CompileWay(p.g, way));
      const auto got = s.Run(std::vector<TensorPtr>{});
      bool same = got.size() == p.outputs.size();
      for (size_t i = 0; same && i < got.size(); ++i) same = ValuesOf(*got[i]) == p.outputs[i];
      for (size_t k = 0; same && k < p.variables.size(); ++k) {
        const std::string name = "v" + std::to_string(k);
        if (s.store()->Has(name)) same = ValuesOf(*s.store()->Get(name)) == p.variables[k];
      }
      REQUIRE(same);
    }
  }
}

// ---- plans ----

namespace {

struct Planned {
  Graph g;
  explicit Planned(const std::string& text, const char* pipeline)
      : g(ApplyPasses(FromText(text), pipeline)) {}
  const StoragePlan& plan() const { return g.GetAttr<StoragePlan>("storage"); }
  int block(const std::string& name) const {
    for (NodePtr n : g.TopoOrder())
      if (n->attrs.name == name) {
        const int* s = plan().of.find(NodeEntry(n));
        return s ? *s : -1;
      }
    return -2;
  }
};
constexpr const char* kPlan = "OrderMutation,ReadVariables,PlanMemory";

}  // namespace

TEST_CASE(
    "variables: a value is computed where its variable lies, unless the old content is needed") {
  const Planned direct(
      "graph (%x: f32[4], %k: f32[4, 4], %v: f32[4] free {state = 1}) -> (%w) {\n"
      "  %n = MatMul(%x, %k) : ?\n  %w = weft::Assign(%v, %n) : ?\n}",
      kPlan);
  CHECK(direct.block("n") == direct.block("v"));
  CHECK(direct.block("w") == direct.block("v"));
  CHECK(direct.plan().storages[size_t(direct.block("v"))].kind == StorageKind::kVariable);
  // The product reads all of the old content.
  const Planned old(
      "graph (%k: f32[4, 4], %v: f32[4] free {state = 1}) -> (%w) {\n"
      "  %n = MatMul(%v, %k) : ?\n  %w = weft::Assign(%v, %n) : ?\n}",
      kPlan);
  CHECK(old.block("n") != old.block("v"));
  CHECK(old.block("w") == old.block("v"));
  // A later reader of the old content, which comes before the write all the same.
  const Planned reader(
      "graph (%x: f32[4], %k: f32[4, 4], %v: f32[4] free {state = 1}) -> (%w, %a) {\n"
      "  %n = MatMul(%x, %k) : ?\n  %a = Sub(%v, %n) : ?\n  %w = weft::Assign(%v, %n) : ?\n}",
      kPlan);
  CHECK(reader.block("n") != reader.block("v"));
  // Two variables, one value: it lies in one of them.
  const Planned two(
      "graph (%x: f32[4], %v: f32[4] free {state = 1}, %u: f32[4] free {state = 1}) -> (%w, %z) {\n"
      "  %n = Exp(%x) : ?\n  %w = weft::Assign(%v, %n) : ?\n  %z = weft::Assign(%u, %n) : ?\n}",
      kPlan);
  CHECK((two.block("n") == two.block("v")) != (two.block("n") == two.block("u")));
  CHECK(two.block("w") != two.block("z"));
}

TEST_CASE("variables: the check of storage plans finds a content that is overwritten too early") {
  const char* text =
      "graph (%x: f32[4], %v: f32[4] free {state = 1}) -> (%a, %w) {\n"
      "  %r = weft::Read(%v) : ?\n  %n = Exp(%x) : ?\n  %w = weft::Assign(%v, %n) after(%r) : ?\n"
      "  %a = Neg(%r) after(%w) : ?\n}";
  Planned p(text, "PlanMemory");
  const auto& order = p.g.GetAttr<Order>("order").nodes;
  StoragePlan plan = p.plan();
  CHECK_NOTHROW(VerifyStorage(p.g, order, plan));
  // The read needs a copy here; a plan that lets it alias is wrong.
  CHECK(p.block("r") != p.block("v"));
  for (NodePtr n : p.g.TopoOrder())
    if (n->attrs.name == "r") plan.of.set(NodeEntry(n), p.block("v"));
  CHECK(Catch([&] { VerifyStorage(p.g, order, plan); })->code == ErrorCode::kInternal);
  // So is one in which the write goes elsewhere and never comes back.
  StoragePlan lost = p.plan();
  for (NodePtr n : p.g.TopoOrder())
    if (n->attrs.name == "v") lost.of.set(NodeEntry(n), p.block("x"));
  CHECK(Catch([&] { VerifyStorage(p.g, order, lost); })->code == ErrorCode::kInternal);
}

TEST_CASE(
    "variables: fused kernels write variables in place where they read them so, else beside") {
  if (!HasCpu()) return;
  const auto fused = [](const char* body) {
    return std::string("graph (%x: f32[4, 4], %v: f32[4, 4] free {state = 1}) -> (%y) {\n") +
           "  %y = weft::Fused(%v, %x) body (%a: f32[4, 4], %b: f32[4, 4]) -> (%w) {\n" + body +
           "    %w = weft::Assign(%a, %s) : f32[4, 4]\n  } : f32[4, 4]\n}";
  };
  Values start, x, sum, turned;
  for (int i = 0; i < 16; ++i) start.push_back(i), x.push_back(100 * i);
  for (int i = 0; i < 16; ++i) {
    sum.push_back(start[size_t(i)] + x[size_t(i)]);
    turned.push_back(start[size_t(i)] + start[size_t(i % 4 * 4 + i / 4)]);
  }
  const std::vector<std::pair<std::string, Values>> rows = {
      {fused("    %s = Add(%a, %b) : f32[4, 4]\n"), sum},
      {fused("    %t = Transpose(%a) {perm = [1, 0]} : f32[4, 4]\n"
             "    %s = Add(%a, %t) : f32[4, 4]\n"),
       turned}};
  for (const auto& row : rows) {
    const std::string& text = row.first;
    const Values& want = row.second;
    INFO(text);
    Graph g = FromText(text);
    const NodePtr node = g.outputs[0].node;
    CHECK(WrittenInputs(node) == std::vector<std::pair<int, int>>{{0, 0}});
    CHECK(HasEffect(node));
    // An effect stays though nobody asks for its result.
    g.outputs = {NodeEntry(g.inputs()[0])};
    CHECK(g.EraseDead() == 0);
    CHECK(g.TopoOrder().size() == 3);
    g.outputs = {NodeEntry(node)};
    for (const char* backend : {"cpu", "ref"}) {
      auto store = std::make_shared<VariableStore>();
      store->Set("v", Tensor::FromDoubles(DType::kF32, {4, 4}, start));
      Session s(CompileFor(g, backend, backend[0] == 'c' ? "Schedule,PlanMemory" : "InferShape"),
                store);
      CHECK(ValuesOf(*s.Run({Tensor::FromDoubles(DType::kF32, {4, 4}, x)})[0]) == want);
      CHECK(ValuesOf(*store->Get("v")) == want);
    }
  }
}

TEST_CASE("variables: a step's bytes count a variable once as read and once as written") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      R"(graph (%m: f32[1000] {state = 1}, %g: f32[1000] {state = 1}) -> (%d) {
  %a = Mul(%g, %g) : f32[1000]
  %b = Add(%m, %a) : f32[1000]
  %w = weft::Assign(%m, %b) : f32[1000]
  %d = weft::Group(%w) : bool[0]
}
)");
  auto store = std::make_shared<VariableStore>();
  for (const char* name : {"m", "g"})
    store->Set(name, std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{1000}));
  Session session(CompileFor(g, "cpu"), store);
  const std::vector<StepTime> steps = session.Profile({});
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].bytes == 3 * 4000);
  CHECK(session.bytes_moved() == 3 * 4000);
}
