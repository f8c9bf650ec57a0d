/// bad_runs_test.cc: what only a run can tell to be wrong: loops that never end, sizes that turn
/// out negative or too large, positions outside of a sequence. Each is one error, which names the
/// node, the value and the extents; the session goes on, and however many runs go wrong, memory
/// does not grow.
#include <doctest/doctest.h>

#include <chrono>

#include "tests/support/e2e_util.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

using e2e::Catch;
using e2e::HeldBytes;

std::vector<std::string> Backends() {
  std::vector<std::string> names = {"ref"};
  if (e2e::HasCpu()) names.push_back("cpu");
  return names;
}
CompileOptions OptionsFor(const std::string& backend, const Limits& limits) {
  CompileOptions options;
  options.backend = backend;
  options.threads = 1;
  options.passes.limits = limits;
  return options;
}

TensorPtr Int(int64_t v) {
  auto t = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{});
  t->set_int(0, v);
  return t;
}
TensorPtr IntList(const std::vector<int64_t>& values) {
  auto t = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{int64_t(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t->set_int(int64_t(i), values[i]);
  return t;
}
TensorPtr Bool(bool v) { return Tensor::Scalar(DType::kBool, v); }
TensorPtr F32(std::vector<int64_t> dims) {
  auto t = std::make_shared<Tensor>(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, double(i % 7) - 3);
  return t;
}

/// A graph, inputs that run, and inputs that do not.
struct Case {
  std::string graph;
  std::vector<TensorPtr> good;
  struct Bad {
    std::vector<TensorPtr> inputs;
    ErrorCode code;
    std::vector<std::string> says;
  };
  std::vector<Bad> bad;
  Limits limits = {};
};

void CheckCase(const Case& c, int repeats = 3) {
  CAPTURE(c.graph);
  for (const std::string& backend : Backends()) {
    CAPTURE(backend);
    Session session(Compile(e2e::FromText(c.graph), OptionsFor(backend, c.limits)));
    const std::vector<TensorPtr> want = session.Run(c.good);
    for (const Case::Bad& bad : c.bad) {
      for (int i = 0; i < repeats; ++i) {
        const auto caught = Catch([&] { session.Run(bad.inputs); });
        REQUIRE(caught.has_value());
        CAPTURE(caught->text);
        CHECK(caught->code == bad.code);
        for (const std::string& part : bad.says) {
          CAPTURE(part);
          CHECK(caught->says(part));
        }
        CHECK(caught->text.size() < 600);
        if (caught->code != bad.code) break;
      }
      CHECK(e2e::Difference(session.Run(c.good), want, 0, 0) == 0);
    }
  }
}

/// An endless one where %go stays true.
const char* const kEndless = R"(graph (%go: bool[], %x: f32[n]) -> (%y, %all) {
  %y, %all = Loop(_, %go, %x) {
    body = graph (%i: i64[], %c: bool[], %v: f32[n]) -> (%c, %w, %w) {
      %w = Neg(%v) : ?
    }
  } : ?, ?
})";

}  // namespace

TEST_CASE("a Loop that never ends meets the limit of iterations") {
  Limits limits;
  limits.iterations = 1000;
  CheckCase({kEndless,
             {Bool(false), F32({3})},
             {{{Bool(true), F32({3})},
               ErrorCode::kLimit,
               {"Loop", "iteration 1000", "the limit of 1000 iterations", "f32[3]"}}},
             limits});
  // A Scan over slices without elements is as long, and costs no memory to ask for.
  CheckCase({R"(graph (%s: f32[2], %n: i64[2]) -> (%y) {
    %x = ConstantOfShape(%n) : f32?
    %y = Scan(%s, %x) {
      num_scan_inputs = 1,
      body = graph (%h: f32[2], %v: f32[k]) -> (%w) { %w = Neg(%h) : ? }
    } : ?
  })",
             {F32({2}), IntList({5, 0})},
             {{{F32({2}), IntList({int64_t{1} << 40, 0})},
               ErrorCode::kLimit,
               {"Scan", "iteration 1000", "f32[2]"}}},
             limits});
}

TEST_CASE("a Loop that never ends meets the deadline, alone and in a body") {
  Limits limits;
  limits.deadline_s = 0.2;
  CheckCase(
      {kEndless,
       {Bool(false), F32({3})},
       {{{Bool(true), F32({3})}, ErrorCode::kLimit, {"Loop", "iteration ", "deadline", "f32[3]"}}},
       limits},
      1);
  CheckCase({R"(graph (%go: bool[], %x: f32[n]) -> (%y) {
    %y = If(%go, %go, %x) {
      num_captures = 2,
      then_branch = graph (%g: bool[], %v: f32[n]) -> (%z) {
        %z = Loop(_, %g, %v) {
          body = graph (%i: i64[], %c: bool[], %a: f32[n]) -> (%c, %b) { %b = Neg(%a) : ? }
        } : ?
      },
      else_branch = graph (%g: bool[], %v: f32[n]) -> (%z) { %z = Abs(%v) : ? }
    } : ?
  })",
             {Bool(false), F32({3})},
             {{{Bool(true), F32({3})},
               ErrorCode::kLimit,
               {"'y' (If)", "then_branch", "'z' (Loop)", "iteration ", "deadline"}}},
             limits},
            1);
}

TEST_CASE("what a Loop collects is bounded") {
  Limits limits;
  limits.tensor_bytes = 1 << 20;
  CheckCase(
      {kEndless,
       {Bool(false), F32({1000})},
       {{{Bool(true), F32({1000})}, ErrorCode::kLimit, {"Loop", "iteration ", "tensor_bytes"}}},
       limits});
  // As a sequence.
  CheckCase(
      {R"(graph (%go: bool[], %x: f32[n]) -> (%y) {
    %e = SequenceEmpty() {dtype = f32} : ?
    %s = SequenceInsert(%e, %x) : ?
    %all = Loop(_, %go, %s, %x) {
      num_captures = 1,
      body = graph (%i: i64[], %c: bool[], %l: seq(f32), %v: f32[n]) -> (%c, %m) {
        %m = SequenceInsert(%l, %v) : ?
      }
    } : ?
    %y = ConcatFromSequence(%all) {axis = 0} : ?
  })",
       {Bool(false), F32({1000})},
       {{{Bool(true), F32({1000})}, ErrorCode::kLimit, {"Loop", "iteration ", "tensor_bytes"}}},
       limits});
  // A state that doubles.
  CheckCase({R"(graph (%go: bool[], %x: f32[n]) -> (%y) {
    %y = Loop(_, %go, %x) {
      body = graph (%i: i64[], %c: bool[], %v: f32?) -> (%c, %w) {
        %w = Concat(%v, %v) {axis = 0} : ?
      }
    } : ?
  })",
             {Bool(false), F32({1000})},
             {{{Bool(true), F32({1000})},
               ErrorCode::kLimit,
               {"Loop", "iteration 8", "Concat", "tensor_bytes"}}},
             limits});
}

TEST_CASE("strings that double are bounded") {
  Limits limits;
  limits.tensor_bytes = 1 << 20;
  auto word = std::make_shared<Tensor>(DType::kString, std::vector<int64_t>{2});
  word->mutable_strings() = {"ab", "c"};
  CheckCase({R"(graph (%n: i64[], %x: str[2]) -> (%y) {
    %y = Loop(%n, _, %x) {
      body = graph (%i: i64[], %c: bool[], %v: str[2]) -> (%c, %w) {
        %w = StringConcat(%v, %v) : ?
      }
    } : ?
  })",
             {Int(3), word},
             {{{Int(100), word},
               ErrorCode::kLimit,
               {"'y' (Loop)", "iteration 18", "StringConcat", "tensor_bytes"}}},
             limits});
}

TEST_CASE("a state that changes until the body cannot take it") {
  CheckCase({R"(graph (%n: i64[], %x: f32[a, b]) -> (%y) {
    %y = Loop(%n, _, %x) {
      body = graph (%i: i64[], %c: bool[], %v: f32?) -> (%c, %w) {
        %axis = Constant() {value = tensor i64[1] [0]} : ?
        %w = ReduceSum(%v, %axis) {keepdims = 0} : ?
      }
    } : ?
  })",
             {Int(1), F32({2, 3})},
             {{{Int(4), F32({2, 3})},
               ErrorCode::kBadAttribute,
               {"'y' (Loop)", "iteration 2", "ReduceSum", "axis 0"}}}});
}

TEST_CASE("sizes that data decide turn out negative, too large, or do not fit") {
  Limits limits;
  limits.tensor_bytes = 1 << 20;
  const int64_t huge = int64_t{1} << 40;
  CheckCase(
      {"graph (%x: f32[n], %s: i64[2]) -> (%y) {\n  %r = Reshape(%x, %s) : ?\n"
       "  %y = Exp(%r) : ?\n}",
       {F32({6}), IntList({2, 3})},
       {{{F32({6}), IntList({4, 2})}, ErrorCode::kShapeMismatch, {"Reshape", "'r'", "6", "[4, 2]"}},
        {{F32({6}), IntList({-2, 3})}, ErrorCode::kShapeMismatch, {"Reshape", "'r'", "-2"}},
        {{F32({6}), IntList({-1, -1})}, ErrorCode::kShapeMismatch, {"Reshape", "'r'", "-1"}},
        {{F32({6}), IntList({huge, huge})}, ErrorCode::kOverflow, {"Reshape", "'r'"}}},
       limits});
  CheckCase(
      {"graph (%x: f32[1], %s: i64[2]) -> (%y) {\n  %r = Expand(%x, %s) : ?\n"
       "  %y = Exp(%r) : ?\n}",
       {F32({1}), IntList({2, 3})},
       {{{F32({1}), IntList({-1, 3})}, ErrorCode::kShapeMismatch, {"Expand", "'r'", "-1"}},
        {{F32({1}), IntList({huge, 3})},
         ErrorCode::kLimit,
         {"'r'", "tensor_bytes is 13194139533312"}}},
       limits});
  CheckCase({"graph (%s: i64[2]) -> (%y) {\n  %r = ConstantOfShape(%s) : ?\n  %y = Exp(%r) : ?\n}",
             {IntList({2, 3})},
             {{{IntList({2, -3})}, ErrorCode::kShapeMismatch, {"ConstantOfShape", "'r'", "-3"}},
              {{IntList({huge, 3})}, ErrorCode::kLimit, {"'r'", "tensor_bytes is 13194139533312"}}},
             limits});
  CheckCase(
      {"graph (%x: f32[n], %s: i64[1]) -> (%y) {\n  %r = Tile(%x, %s) : ?\n"
       "  %y = Exp(%r) : ?\n}",
       {F32({2}), IntList({3})},
       {{{F32({2}), IntList({-3})}, ErrorCode::kShapeMismatch, {"Tile", "'r'", "-"}},
        {{F32({2}), IntList({huge})}, ErrorCode::kLimit, {"'r'", "tensor_bytes is "}}},
       limits});
  CheckCase(
      {"graph (%a: i64[], %b: i64[], %d: i64[]) -> (%y) {\n  %r = Range(%a, %b, %d) : ?\n"
       "  %y = Neg(%r) : ?\n}",
       {Int(0), Int(5), Int(2)},
       {{{Int(0), Int(5), Int(0)}, ErrorCode::kInvalidModel, {"Range", "'r'", "delta is 0"}},
        {{Int(0), Int(huge), Int(1)}, ErrorCode::kLimit, {"'r'", "tensor_bytes is 8796093022208"}},
        {{Int(INT64_MIN), Int(INT64_MAX), Int(1)}, ErrorCode::kOverflow, {"Range", "'r'"}}},
       limits});
  CheckCase(
      {"graph (%x: f32[n], %k: i64[1]) -> (%y) {\n  %v, %at = TopK(%x, %k) : ?, ?\n"
       "  %y = Exp(%v) : ?\n}",
       {F32({6}), IntList({2})},
       {{{F32({6}), IntList({7})}, ErrorCode::kShapeMismatch, {"TopK", "'v'", "7", "6"}},
        {{F32({6}), IntList({-1})}, ErrorCode::kShapeMismatch, {"TopK", "'v'", "-1"}}},
       limits});
}

TEST_CASE("the same inside of a body: the loop and the iteration are named") {
  Limits limits;
  limits.tensor_bytes = 1 << 20;
  CheckCase({R"(graph (%n: i64[], %x: f32[k]) -> (%y) {
    %y = Loop(%n, _, %x) {
      body = graph (%i: i64[], %c: bool[], %v: f32[k]) -> (%c, %w) {
        %five = Constant() {value = tensor i64[] [5]} : ?
        %left = Sub(%five, %i) : ?
        %axis = Constant() {value = tensor i64[1] [0]} : ?
        %dims = Unsqueeze(%left, %axis) : ?
        %ones = ConstantOfShape(%dims) {value = tensor f32[1] [1]} : ?
        %s = ReduceSum(%ones) {keepdims = 0} : ?
        %w = Add(%v, %s) : ?
      }
    } : ?
  })",
             {Int(5), F32({3})},
             {{{Int(9), F32({3})},
               ErrorCode::kShapeMismatch,
               {"'y' (Loop)", "iteration 6", "ConstantOfShape", "-1"}}},
             limits});
}

TEST_CASE("positions outside of a sequence, elements of another dtype, an empty optional") {
  CheckCase(
      {"graph (%x: f32[n], %i: i64[]) -> (%y) {\n"
       "  %s = SequenceConstruct(%x, %x, %x) : ?\n  %e = SequenceAt(%s, %i) : ?\n"
       "  %y = Exp(%e) : ?\n}",
       {F32({2}), Int(-3)},
       {{{F32({2}), Int(3)}, ErrorCode::kIndexRange, {"SequenceAt", "position 3", "of 3"}},
        {{F32({2}), Int(-4)}, ErrorCode::kIndexRange, {"SequenceAt", "position -4", "of 3"}}}});
  CheckCase(
      {"graph (%s: seq(f32), %i: i64[]) -> (%y) {\n  %t = SequenceErase(%s, %i) : ?\n"
       "  %y = SequenceLength(%t) : ?\n}",
       {Tensor::List(Type(TypeKind::kSequence, DType::kF32), {F32({2})}), Int(0)},
       {{{Tensor::List(Type(TypeKind::kSequence, DType::kF32), {}), Int(0)},
         ErrorCode::kIndexRange,
         {"SequenceErase", "empty"}}}});
  const auto mixed = Catch([] {
    Compile(e2e::FromText("graph (%x: f32[2], %z: f64[2]) -> (%y) {\n"
                          "  %y = SequenceConstruct(%x, %z) : ?\n}"),
            OptionsFor("ref", {}));
  });
  REQUIRE(mixed.has_value());
  CHECK(mixed->code == ErrorCode::kTypeMismatch);
  CHECK(mixed->says("SequenceConstruct"));
  CheckCase(
      {"graph (%o: opt(f32)) -> (%y) {\n  %e = OptionalGetElement(%o) : ?\n"
       "  %y = Exp(%e) : ?\n}",
       {Tensor::List(Type(TypeKind::kOptional, DType::kF32), {F32({2})})},
       {{{Tensor::List(Type(TypeKind::kOptional, DType::kF32), {})},
         ErrorCode::kBadInput,
         {"OptionalGetElement", "empty"}}}});
}

TEST_CASE("a branch gives another shape than what stands behind it was promised") {
  // No shapes are known in front: the region behind takes what the branch that is planned gives.
  CheckCase({R"(graph (%c: bool[], %x: f32[2, 3], %s: i64[?]) -> (%y) {
    %r = If(%c, %x, %s) {
      num_captures = 2,
      then_branch = graph (%a: f32[2, 3], %t: i64[?]) -> (%b) { %b = Exp(%a) : ? },
      else_branch = graph (%a: f32[2, 3], %t: i64[?]) -> (%b) { %b = Reshape(%a, %t) : ? }
    } : ?
    %w = Constant() {value = tensor f32[3, 2] [1, 2, 3, 4, 5, 6]} : ?
    %y = MatMul(%r, %w) : ?
  })",
             {Bool(true), F32({2, 3}), IntList({6})},
             {{{Bool(false), F32({2, 3}), IntList({3, 2})},
               ErrorCode::kShapeMismatch,
               {"MatMul", "'y'", "2 and 3"}}}});
}

TEST_CASE("a thousand bad runs leave nothing behind") {
  Limits limits;
  limits.iterations = 20;
  limits.tensor_bytes = 1 << 20;
  const Graph g = e2e::FromText(R"(graph (%go: bool[], %x: f32[n], %s: i64[2]) -> (%y, %z, %all) {
    %i = NonZero(%x) : ?
    %t = Transpose(%i) : ?
    %v = GatherND(%x, %t) : ?
    %y, %all = Loop(_, %go, %v) {
      body = graph (%k: i64[], %c: bool[], %a: f32?) -> (%c, %b, %b) { %b = Neg(%a) : ? }
    } : ?, ?
    %r = Reshape(%x, %s) : ?
    %z = Softmax(%r) {axis = -1} : ?
  })");
  for (const std::string& backend : Backends()) {
    CAPTURE(backend);
    Session session(Compile(g, OptionsFor(backend, limits)));
    const std::vector<TensorPtr> good = {Bool(false), F32({4096}), IntList({64, 64})};
    session.Run(good);
    const int64_t arena = session.arena_bytes();
    const auto run_bad = [&](int64_t k) {
      const int64_t n = 4096 - k % 50;
      const bool endless = k % 2 == 0;
      const auto caught = Catch([&] {
        session.Run({Bool(endless), F32({n}), IntList({endless ? 1 : 7 + n, n})});
      });
      return caught.has_value();
    };
    const int runs = backend == "ref" ? 100 : 1000;
    for (int k = 0; k < 60; ++k) CHECK(run_bad(k));
    const int64_t before = HeldBytes();
    int bad = 0;
    for (int k = 0; k < runs; ++k) bad += run_bad(k);
    CHECK(bad == runs);
    CHECK(HeldBytes() - before < (8 << 20));
    session.Run(good);
    CHECK(session.arena_bytes() == arena);
  }
}

TEST_CASE("a failed run holds nothing of the caller's") {
  const Graph g = e2e::FromText(
      "graph (%x: f32[n], %s: i64[2]) -> (%y, %i) {\n  %i = NonZero(%x) : ?\n"
      "  %r = Reshape(%x, %s) : ?\n  %y = Exp(%r) : ?\n}");
  for (const std::string& backend : Backends()) {
    CAPTURE(backend);
    Session session(Compile(g, OptionsFor(backend, {})));
    const TensorPtr x = F32({6});
    CHECK(Catch([&] { session.Run({x, IntList({4, 2})}); }));
    CHECK(x.use_count() == 1);
  }
}

}  // namespace weft
