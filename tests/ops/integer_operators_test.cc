/// integer_operators_test.cc: every integer operator exhaustively in 8 bits and at the
/// corners of wider types, as vectors, scalars, constants and positions, and random graphs of
/// them: the interpreter, kernels of the CPU fused and alone, and kernels as C, against the
/// table of integer_table.h. CUDA: cuda_integer_test.cc.
///
///   WEFT_FUZZ_SEED=7000 WEFT_FUZZ_COUNT=10000 weft_tests -tc='integers: random*'
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/support/e2e_util.h"
#include "tests/support/integer_cases.h"

namespace {

using namespace weft;
using integers::Case;
using integers::Run;

std::vector<TensorPtr> InputsFor(const std::vector<std::string>& names, const Run& run) {
  std::vector<TensorPtr> in;
  for (const std::string& name : names) in.push_back(run.inputs.at(name));
  return in;
}

std::string CheckInterpreter(const Case& c, bool typed) {
  std::vector<std::string> names;
  for (NodePtr p : c.graph.AllInputs()) names.push_back(p->attrs.name);
  return integers::Check(c, [&](const Run& run) {
    EvalOptions options;
    options.typed = typed;
    return GetEvaluator()->Eval(c.graph, InputsFor(names, run), options);
  });
}

std::string CheckProgram(const Case& c, const std::shared_ptr<const Program>& program) {
  std::vector<std::string> names;
  for (const IoSpec& i : program->inputs()) names.push_back(i.name);
  Session session(program);
  return integers::Check(c, [&](const Run& run) { return session.Run(InputsFor(names, run)); });
}

/// Each operator as a kernel of its own, nothing simplified before.
constexpr const char* kAlone =
    "OrderMutation,ReadVariables,Fusion{max_ops=1},CodeGen,RTCGen,Schedule,PlanMemory";

std::string CheckEngines(const Case& c, bool alone) {
  std::string text;
  const auto engine = [&](const char* name, const std::function<std::string()>& check) {
    std::string why;
    try {
      why = check();
    } catch (const std::exception& e) {
      why = c.name + ": " + e.what();
    }
    if (!why.empty()) text += std::string(name) + ": " + why + "\n";
  };
  engine("interpreter", [&] { return CheckInterpreter(c, true); });
  if (!c.floats)
    engine("interpreter in double precision", [&] { return CheckInterpreter(c, false); });
  if (!e2e::HasCpu()) return text;
  engine("cpu", [&] { return CheckProgram(c, e2e::CompileFor(c.graph, "cpu")); });
  if (!alone) return text;
  engine("cpu without fusion",
         [&] { return CheckProgram(c, e2e::CompileFor(c.graph, "cpu", kAlone)); });
  return text;
}

}  // namespace

TEST_CASE("integers: every operator on the interpreter and the CPU") {
  for (const Case& c : integers::AllCases()) {
    const bool alone = c.name == "positions i64" || c.name == "constants i64";
    const std::string why = CheckEngines(c, alone);
    CHECK_MESSAGE(why.empty(), why);
  }
}

TEST_CASE("integers: random graphs, fused and alone") {
  const char* from = std::getenv("WEFT_FUZZ_SEED");
  const char* count = std::getenv("WEFT_FUZZ_COUNT");
  const uint64_t first = from ? std::strtoull(from, nullptr, 10) : 1,
                 end = first + (count ? std::strtoull(count, nullptr, 10) : 150);
  int failures = 0;
  for (uint64_t seed = first; seed < end && failures < 5; ++seed) {
    const Case c = integers::RandomIntegers(seed);
    const std::string why = CheckEngines(c, seed % 2 == 0);
    if (why.empty()) continue;
    ++failures;
    PrintOptions print;
    print.inline_all = true;
    FAIL_CHECK(why << PrintGraph(c.graph, print));
  }
}

namespace {

/// The outputs of a graph on the reference backend and the CPU are those wanted.
void CheckOutputs(const Graph& g, const std::vector<TensorPtr>& inputs,
                  const std::vector<std::vector<int64_t>>& want) {
  for (const char* backend : {"ref", "cpu"}) {
    if (std::string(backend) == "cpu" && !e2e::HasCpu()) continue;
    CAPTURE(backend);
    Session session(e2e::CompileFor(g, backend));
    const std::vector<TensorPtr> got = session.Run(inputs);
    REQUIRE(got.size() == want.size());
    for (size_t k = 0; k < want.size(); ++k) {
      std::vector<int64_t> values;
      for (int64_t i = 0; i < got[k]->num_elements(); ++i) values.push_back(got[k]->at_int(i));
      CHECK(values == want[k]);
    }
  }
}
void CheckOutputs(const std::string& text, const std::vector<TensorPtr>& inputs,
                  const std::vector<std::vector<int64_t>>& want) {
  CheckOutputs(e2e::FromText(text), inputs, want);
}

}  // namespace

TEST_CASE("integers: Div and fmod of what is not negative by negative divisors truncate") {
  CheckOutputs(R"(graph (%d: i64[5]) -> (%q, %r, %p) {
    %five = Constant() {value = tensor i64[] [5]}
    %q = Div(%five, %d)
    %r = Mod(%five, %d) {fmod = 1}
    %zero = Constant() {value = tensor i64[] [0]}
    %one = Constant() {value = tensor i64[] [1]}
    %at = Range(%zero, %five, %one)
    %p = Div(%at, %d)
  })",
               {Tensor::Ints({-9, -2, 2, -1, -3})},
               {{0, -2, 2, -5, -1}, {5, 1, 1, 0, 2}, {0, 0, 1, -3, -1}});
}

TEST_CASE("integers: what overflows is no followed value") {
  // 100 + 100 is -56 in 8 bits, whatever inference knows of the constants.
  CheckOutputs(R"(graph (%x: i8[2]) -> (%sum, %less, %product) {
    %c = Constant() {value = tensor i8[2] [100, 100]}
    %axis = Constant() {value = tensor i64[] [0]}
    %axes = Constant() {value = tensor i64[1] [0]}
    %sum = CumSum(%c, %axis)
    %less = Less(%sum, %x)
    %product = ReduceProd(%c, %axes)
  })",
               {integers::MakeTensor(DType::kI8, {2}, {127, 0})}, {{100, -56}, {1, 1}, {16}});
  CheckOutputs(R"(graph (%x: i64[2]) -> (%sum, %product) {
    %axis = Constant() {value = tensor i64[] [0]}
    %axes = Constant() {value = tensor i64[1] [0]}
    %sum = CumSum(%x, %axis)
    %product = ReduceProd(%x, %axes)
  })",
               {Tensor::Ints({INT64_MAX, INT64_MAX})}, {{INT64_MAX, -2}, {1}});
}

TEST_CASE("integers: a product of constants beyond 64 bits wraps") {
  constexpr int64_t kHalf = int64_t{1} << 62;
  const std::vector<std::pair<std::vector<int64_t>, int64_t>> rows{
      {{kHalf, 2}, INT64_MIN}, {{kHalf, 3}, -kHalf}, {{-kHalf, -2, 7}, INT64_MIN}, {{kHalf, 4}, 0}};
  for (const auto& [factors, want] : rows)
    for (const char* keepdims : {"0", "1"}) {
      Graph g;
      g.outputs = {NodeEntry(g.AddNode(
          "ReduceProd", {g.AddConstant(Tensor::Ints(factors)), g.AddConstant(Tensor::Ints({0}))},
          {{"keepdims", std::string(keepdims)}}))};
      CheckOutputs(g, {}, {{want}});
    }
}

TEST_CASE("integers: sizes times factors of 32 bits wrap in 32 bits") {
  // 5 * -2147483647 is 5 - 5 * 2^31, which is 5 - 2^31 in 32 bits.
  CheckOutputs(R"(graph (%x: f32[n]) -> (%y, %q) {
    %shape = Shape(%x)
    %size = Cast(%shape) {to = i32}
    %factor = Constant() {value = tensor i32[1] [-2147483647]}
    %product = Mul(%size, %factor)
    %y = Cast(%product) {to = i64}
    %q = Div(%product, %factor)
  })",
               {Tensor::FromDoubles(DType::kF32, {5}, {1, 2, 3, 4, 5})}, {{-2147483643}, {0}});
}

TEST_CASE("integers: constants of 64 bits without a sign keep the highest one") {
  // As at_int reads them: 2^63 - 1, 2^63, 2^64 - 1, 7.
  const std::vector<int64_t> bits{INT64_MAX, INT64_MIN, -1, 7};
  Graph g;
  const NodeEntry c = g.AddConstant(
                      integers::MakeTensor(DType::kU64, {4}, {bits.begin(), bits.end()})),
                  one = g.AddConstant(integers::ScalarOf(DType::kU64, 1)),
                  axes = g.AddConstant(Tensor::Ints({0}));
  for (const char* op : {"Max", "Min", "Clip"}) g.outputs.emplace_back(g.AddNode(op, {c, one}));
  for (const char* op : {"ReduceMax", "ReduceMin"})
    g.outputs.emplace_back(g.AddNode(op, {c, axes}));
  CheckOutputs(g, {}, {bits, {1, 1, 1, 1}, bits, {-1}, {7}});
}

TEST_CASE("integers: a diagonal beyond all positions") {
  for (int64_t k : {INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1}) {
    const std::vector<int64_t> all = {1, 2, 3, 4}, none = {0, 0, 0, 0};
    const std::string constant = std::to_string(k);
    CheckOutputs(
        "graph (%x: i64[2, 2], %k: i64[]) -> (%u, %l, %v) {\n"
        "  %u = Trilu(%x, %k) {upper = 1}\n"
        "  %l = Trilu(%x, %k) {upper = 0}\n"
        "  %c = Constant() {value = tensor i64[] [" +
            constant +
            "]}\n"
            "  %v = Trilu(%x, %c) {upper = 1}\n}",
        {Tensor::Reshaped(Tensor::Ints(all), {2, 2}), integers::ScalarOf(DType::kI64, k)},
        {k > 0 ? none : all, k > 0 ? all : none, k > 0 ? none : all});
  }
}
