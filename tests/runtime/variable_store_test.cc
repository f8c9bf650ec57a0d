/// variable_store_test.cc: contents of state variables outlive runs, are shared by sessions and
/// threads, and survive in files.
#include "weft/runtime/session/variable_store.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "tests/support/temp_folder.h"
#include "tests/support/variables_util.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/support/file.h"

using namespace weft;
using namespace weft::e2e;

// ---- sessions and stores ----

namespace {

/// %n = v + x, written to v.
Graph Counter(bool with_value = true) {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({SymInt(3)})));
  const NodeEntry v(
      AddState(g, "v", DType::kF32, Shape({SymInt(3)}), with_value ? Vector({0, 0, 0}) : nullptr));
  g.outputs = {Assign(v, v + x)};
  return g;
}
/// 2 * v.
Graph Reader() {
  Graph g;
  const NodeEntry v(AddState(g, "v", DType::kF32, Shape({SymInt(3)})));
  g.outputs = {v * ScalarLike(v, DType::kF32, 2)};
  return g;
}

}  // namespace

TEST_CASE("variables: contents outlive runs and are shared by sessions of several programs") {
  for (const Way& way : Ways()) {
    INFO(std::string(way.backend), std::string(way.fusion ? " fused" : " not fused"));
    const auto counter = CompileWay(Counter(), way), reader = CompileWay(Reader(), way);
    REQUIRE(counter->variables().size() == 1);
    CHECK(counter->variables()[0].name == "v");
    CHECK(counter->variables()[0].dtype == DType::kF32);
    CHECK(counter->variables()[0].shape.ToString() == "[3]");
    CHECK(counter->inputs().size() == 1);
    CHECK(counter->writes_variables());
    CHECK(reader->inputs().empty());
    CHECK_FALSE(reader->writes_variables());
    auto store = std::make_shared<VariableStore>();
    Session a(counter, store), b(counter, store), r(reader, store);
    a.Run({Vector({1, 2, 3})});
    b.Run({Vector({10, 10, 10})});
    CHECK(ValuesOf(*r.Run(std::vector<TensorPtr>{})[0]) == Values{22, 24, 26});
    // A copy, which a run does not change; and what is set, a run sees.
    const auto before = store->Get("v");
    a.Run({Vector({1, 1, 1})});
    CHECK(ValuesOf(*before) == Values{11, 12, 13});
    store->Set("v", Vector({5, 5, 5}));
    CHECK(ValuesOf(*r.Run(std::vector<TensorPtr>{})[0]) == Values{10, 10, 10});
    // Another session has a store of its own.
    Session c(counter);
    CHECK(ValuesOf(*c.Run({Vector({1, 2, 3})})[0]) == Values{1, 2, 3});
    CHECK(ValuesOf(*store->Get("v")) == Values{5, 5, 5});
    // Erased: it begins anew where the graph says with what.
    CHECK(store->Erase("v"));
    CHECK_FALSE(store->Erase("v"));
    CHECK(Catch([&] { r.Run(std::vector<TensorPtr>{}); })->code == ErrorCode::kBadBinding);
    CHECK(ValuesOf(*a.Run({Vector({1, 2, 3})})[0]) == Values{1, 2, 3});
  }
}

TEST_CASE("variables: results of a run are the caller's, and fed tensors stay what they were") {
  for (const Way& way : Ways()) {
    Session s(CompileWay(Counter(), way));
    const TensorPtr x = Vector({1, 2, 3});
    const TensorPtr first = s.Run({x})[0], second = s.Run({x})[0];
    CHECK(ValuesOf(*first) == Values{1, 2, 3});
    CHECK(ValuesOf(*second) == Values{2, 4, 6});
    CHECK(ValuesOf(*x) == Values{1, 2, 3});
    CHECK(s.store()->Get("v")->ContentHash() == second->ContentHash());
  }
}

TEST_CASE("variables: a missing, ill-typed or ill-shaped variable is named") {
  for (const Way& way : Ways()) {
    const auto program = CompileWay(Counter(/*with_value=*/false), way);
    auto store = std::make_shared<VariableStore>();
    Session s(program, store);
    const auto run = [&] { return Catch([&] { s.Run({Vector({1, 2, 3})}); }); };
    store->Set("w", Vector({0, 0, 0}));
    auto e = run();
    REQUIRE(e);
    CHECK(e->code == ErrorCode::kBadBinding);
    CHECK(e->says("variable 'v' has no value"));
    store->Set("v", Tensor::FromDoubles(DType::kF64, {3}, {0, 0, 0}));
    e = run();
    REQUIRE(e);
    CHECK(e->code == ErrorCode::kBadBinding);
    CHECK(e->says("variable 'v': expected dtype f32, the store has f64"));
    store->Set("v", Vector({0, 0}));
    e = run();
    REQUIRE(e);
    CHECK(e->code == ErrorCode::kBadBinding);
    CHECK(e->says("variable 'v': expected shape [3], the store has [2]"));
    store->Set("v", Vector({0, 0, 0}));
    CHECK_FALSE(run().has_value());
  }
}

TEST_CASE("variables: symbolic extents are those of the store's tensors") {
  const char* text =
      "graph (%x: f32[n], %v: f32[n] free {state = 1}) -> (%w) {\n"
      "  %s = Add(%v, %x) : ?\n  %w = weft::Assign(%v, %s) : ?\n}\n";
  for (const Way& way : Ways()) {
    auto store = std::make_shared<VariableStore>();
    Session s(CompileWay(FromText(text), way), store);
    store->Set("v", Vector({1, 2, 3}));
    CHECK(ValuesOf(*s.Run({Vector({1, 1, 1})})[0]) == Values{2, 3, 4});
    store->Set("v", Vector({1, 2, 3, 4, 5}));
    CHECK(ValuesOf(*s.Run({Vector({1, 1, 1, 1, 1})})[0]) == Values{2, 3, 4, 5, 6});
    CHECK(Catch([&] { s.Run({Vector({1, 1})}); }).has_value());
  }
}

TEST_CASE("variables: what cannot be written is refused when the program is compiled") {
  const auto code = [](const std::string& text) {
    const auto e = Catch([&] { CompileFor(FromText(text), "ref"); });
    return e ? e->code : ErrorCode::kInternal;
  };
  // What the caller feeds is the caller's.
  CHECK(code("graph (%x: f32[2], %v: f32[2]) -> (%w) { %w = weft::Assign(%v, %x) : ? }") ==
        ErrorCode::kInvalidModel);
  CHECK(code("graph (%x: f32[2]) -> (%w) { %v = Neg(%x) : ?\n %w = weft::Assign(%v, %x) : ? }") ==
        ErrorCode::kInvalidModel);
  CHECK(code("graph (%x: f32[2], %v: f32[3] free {state = 1}) -> (%w) "
             "{ %w = weft::Assign(%v, %x) : ? }") == ErrorCode::kShapeMismatch);
  CHECK(code("graph (%x: f64[2], %v: f32[2] free {state = 1}) -> (%w) "
             "{ %w = weft::Assign(%v, %x) : ? }") == ErrorCode::kTypeMismatch);
  // Two of one name would be one in the store.
  Graph g;
  const NodeEntry a(AddState(g, "v", DType::kF32, Shape({SymInt(2)}))),
      b(AddState(g, "v", DType::kF32, Shape({SymInt(2)})));
  g.outputs = {a + b};
  CHECK(Catch([&] { CompileFor(g, "ref"); })->code == ErrorCode::kInvalidModel);
}

TEST_CASE("variables: state in a program whose shapes depend on values, from run to run") {
  if (!HasCpu()) return;
  auto store = std::make_shared<VariableStore>();
  Session s(
      CompileFor(
          FromText("graph (%x: f32[n], %v: f32[2] param = [1.0, 2.0] {state = 1}) -> (%i, %w) "
                   "{\n  %i = NonZero(%x) : ?\n  %m = Neg(%v) : ?\n"
                   "  %w = weft::Assign(%v, %m) : ?\n}"),
          "cpu"),
      store);
  for (int run = 1; run <= 3; ++run) {
    const auto got =
        s.Run({Tensor::FromDoubles(DType::kF32, {run}, std::vector<double>(size_t(run), 7))});
    CHECK(got[0]->dims() == std::vector<int64_t>{1, run});
    const double sign = run % 2 ? -1 : 1;
    for (const TensorPtr& t : {got[1], TensorPtr(store->Get("v"))}) {
      CHECK(t->at(0) == sign);
      CHECK(t->at(1) == 2 * sign);
    }
  }
}

TEST_CASE(
    "variables: a reader never sees the middle of a run, and no write of two sessions is lost") {
  constexpr int kRuns = 200, kElements = 3;
  for (const Way& way : Ways()) {
    const auto program = CompileWay(Counter(), way);
    auto store = std::make_shared<VariableStore>();
    std::atomic<bool> over{false}, torn{false};
    { const Session first(program, store); }
    std::thread reader([&] {
      while (!over) {
        const auto t = store->Get("v");
        for (int i = 1; i < kElements; ++i) torn = torn || t->at(i) != t->at(0);
      }
    });
    std::vector<std::thread> writers;
    for (int k = 0; k < 2; ++k)
      writers.emplace_back([&] {
        Session s(program, store);
        for (int i = 0; i < kRuns; ++i) s.Run({Vector({1, 1, 1})});
      });
    for (std::thread& t : writers) t.join();
    over = true;
    reader.join();
    CHECK_FALSE(torn);
    CHECK(ValuesOf(*store->Get("v")) == Values(kElements, 2 * kRuns));
  }
}

// ---- files ----

TEST_CASE(
    "variables: a checkpoint brings back every bit, and is refused whole where it is damaged") {
  const TempFolder dir;
  const std::string path = dir / "a.ckpt";
  VariableStore store;
  store.Set("w", Tensor::FromDoubles(DType::kF32, {2, 2}, {1, 2.5, -0.0, 1e-40}));
  store.Set("step", Tensor::Ints({7}));
  store.Set("half", Tensor::FromDoubles(DType::kF16, {0, 3}, {}));
  store.SetMetadata("epoch", "3");
  store.Save(path);

  VariableStore fresh;
  fresh.Load(path);
  CHECK(fresh.Names() == std::vector<std::string>{"half", "step", "w"});
  CHECK(fresh.Metadata("epoch") == "3");
  CHECK(fresh.Metadata("none").empty());
  for (const std::string& name : store.Names()) CHECK(fresh.Get(name)->Equals(*store.Get(name)));
  CHECK(fresh.num_bytes() == 24);
  fresh.Save(dir / "b.ckpt");
  CHECK(ReadFile(path) == ReadFile(dir / "b.ckpt"));

  const std::string good = ReadFile(path);
  const auto refused = [&](const std::string& bytes) {
    WriteFileAtomic(dir / "bad.ckpt", bytes);
    const auto e = Catch([&] { fresh.Load(dir / "bad.ckpt"); });
    return e && e->code == ErrorCode::kInvalidModel && e->says("bad.ckpt");
  };
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = char(bytes[i] ^ 0x10);
    CHECK_MESSAGE(refused(bytes), "byte ", i);
    CHECK_MESSAGE(refused(good.substr(0, i)), "cut at ", i);
  }
  CHECK(refused(good + "x"));
  CHECK(fresh.Metadata("epoch") == "3");
  for (const std::string& name : store.Names()) CHECK(fresh.Get(name)->Equals(*store.Get(name)));
  CHECK(Catch([&] { fresh.Load(dir / "none.ckpt"); })->code == ErrorCode::kIo);
  CHECK(Catch([&] { store.Save(dir / "no_folder/a.ckpt"); })->code == ErrorCode::kIo);

  // Of another model: a variable is missing, or is another one.
  VariableStore other;
  other.Set("w", Tensor::FromDoubles(DType::kF32, {2, 2}, {9, 9, 9, 9}));
  other.Set("b", Vector({1}));
  auto e = Catch([&] { other.Load(path); });
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kBadBinding);
  CHECK(e->says("no variable 'b'"));
  other.Erase("b");
  other.Set("w", Vector({9, 9, 9, 9}));
  e = Catch([&] { other.Load(path); });
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kBadBinding);
  CHECK(e->says("variable 'w' is f32[4]"));
  CHECK(ValuesOf(*other.Get("w")) == Values{9, 9, 9, 9});
  CHECK_FALSE(other.Has("step"));
}

TEST_CASE("variables: what cannot be a variable, and names that are not there") {
  VariableStore store;
  CHECK(Catch([&] { store.Set("", Vector({1})); })->code == ErrorCode::kApiMisuse);
  CHECK(Catch([&] { store.Set("v", nullptr); })->code == ErrorCode::kApiMisuse);
  store.Set("kernel", Vector({1}));
  const auto e = Catch([&] { store.Get("kernle"); });
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kBadBinding);
  CHECK(e->says("kernel"));
  CHECK_FALSE(store.SetIfAbsent("kernel", Vector({2})));
  CHECK(ValuesOf(*store.Get("kernel")) == Values{1});
  store.Set("text", std::make_shared<Tensor>(DType::kString, std::vector<int64_t>{1}));
  const TempFolder dir;
  CHECK(Catch([&] { store.Save(dir / "a"); })->code == ErrorCode::kUnsupported);
}

TEST_CASE("variables: saved half-way and continued, training gives the bits of one that went on") {
  const char* text =
      "graph (%x: f32[8], %w: f32[8] param = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8] {state = 1}, "
      "%m: f32[8] free {state = 1}) -> (%z) {\n"
      "  %b = Constant() {value = tensor f32[] [0.9]} : ?\n  %g = Tanh(%w) : ?\n"
      "  %d = Sub(%g, %x) : ?\n  %k = Mul(%m, %b) : ?\n  %n = Add(%k, %d) : ?\n"
      "  %p = weft::Assign(%m, %n) : ?\n  %q = Sub(%w, %p) : ?\n  %z = weft::Assign(%w, %q) : ?\n}";
  const TempFolder dir;
  const TensorPtr x = Vector({1, -1, 0.5, 0.25, 3, 2, -2, 0});
  for (const Way& way : Ways()) {
    const auto program = CompileWay(FromText(text), way);
    auto one = std::make_shared<VariableStore>(), two = std::make_shared<VariableStore>();
    one->Set("m", Vector(Values(8, 0)));
    Session first(program, one);
    for (int i = 0; i < 5; ++i) first.Run({x});
    one->Save(dir / "half");
    for (int i = 0; i < 5; ++i) first.Run({x});
    two->Load(dir / "half");
    Session second(program, two);
    for (int i = 0; i < 5; ++i) second.Run({x});
    for (const char* name : {"w", "m"}) CHECK(one->Get(name)->Equals(*two->Get(name)));
  }
}

TEST_CASE("variables: one program's threads are its own; equal runs give equal bits") {
  if (!HasCpu()) return;
  const int shared = GetBackend("cpu")->threads();
  const char* text =
      "graph (%x: f32[64, 1000], %w: f32[1000, 32] free {state = 1}) -> (%y, %z) {\n"
      "  %y = Softmax(%x) : ?\n  %p = MatMul(%y, %w) : ?\n  %z = ReduceSum(%p) : ?\n"
      "  %h = Mul(%w, %w) : ?\n  %s = weft::Assign(%w, %h) : ?\n}";
  std::vector<TensorPtr> first;
  Values draws;
  for (int i = 0; i < 64000; ++i) draws.push_back(std::sin(i * 0.37));
  const TensorPtr x = Tensor::FromDoubles(DType::kF32, {64, 1000}, draws);
  draws.resize(32000);
  const TensorPtr w = Tensor::FromDoubles(DType::kF32, {1000, 32}, draws);
  for (int threads : {1, 2, 1, 2}) {
    CompileOptions options;
    options.backend = "cpu";
    options.threads = threads;
    const auto program = Compile(FromText(text), options);
    CHECK(GetBackend("cpu")->threads() == shared);
    std::vector<TensorPtr> results;
    for (int round = 0; round < 2; ++round) {
      auto store = std::make_shared<VariableStore>();
      store->Set("w", w);
      Session s(program, store);
      const auto got = s.Run({x});
      if (results.empty()) results = got;
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i]->Equals(*results[i]));
      CHECK(s.live_bytes() > 0);
      CHECK(s.live_bytes() <= s.arena_bytes());
    }
  }
}
