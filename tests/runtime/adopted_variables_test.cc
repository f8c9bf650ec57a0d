/// adopted_variables_test.cc: state variables in memory of the caller: read and written in place,
/// by every kind of program, through files and on devices.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/support/counting_device.h"
#include "tests/support/temp_folder.h"
#include "tests/support/variables_util.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/file.h"

namespace weft::e2e {
namespace {

using Floats = std::vector<float>;

/// An array of the caller, which he looks at himself. `offset`: not on the boundary of anything.
struct Array {
  std::vector<char> bytes;
  size_t offset, count;
  std::shared_ptr<Tensor> tensor;
  explicit Array(const Floats& values, size_t at = 4)
      : bytes(values.size() * 4 + at), offset(at), count(values.size()) {
    tensor = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{int64_t(count)}, data(),
                                      nullptr);
    Write(values);
  }
  char* data() { return bytes.data() + offset; }
  void Write(const Floats& values) { std::memcpy(data(), values.data(), count * 4); }
  Floats Read() {
    Floats values(count);
    std::memcpy(values.data(), data(), count * 4);
    return values;
  }
};

/// %n = v + x, written to v; and 2 * v, as it was.
Graph Counter() {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({SymInt(3)})));
  const NodeEntry v(AddState(g, "v", DType::kF32, Shape({SymInt(3)}), Vector({0, 0, 0})));
  const NodeEntry w(AddState(g, "w", DType::kF32, Shape({SymInt(3)}), Vector({1, 1, 1})));
  g.outputs = {Assign(v, v + x), w * x};
  return g;
}
/// The same where sizes depend on data.
Graph CounterOfRegions() {
  return FromText(
      "graph (%x: f32[3], %v: f32[3] free {state = 1}, %w: f32[3] free {state = 1}) -> (%n, %y, "
      "%z) {\n  %s = Add(%v, %x) : ?\n  %n = weft::Assign(%v, %s) : ?\n  %y = Mul(%w, %x) : ?\n"
      "  %z = NonZero(%y) : ?\n}\n");
}

std::vector<Graph> Graphs() { return {Counter(), CounterOfRegions()}; }

TEST_CASE("adopted variables: runs, the caller and Set read and write one memory") {
  for (const Way& way : Ways())
    for (const Graph& g : Graphs()) {
      CAPTURE(std::string(way.backend));
      const auto program = CompileWay(g, way);
      const auto store = std::make_shared<VariableStore>();
      Array v({1, 2, 3}), w({5, 5, 5}, 0);
      store->Adopt("v", v.tensor);
      store->Adopt("w", w.tensor);
      Session s(program, store), other(program, store);
      std::vector<TensorPtr> y = s.Run({Vector({10, 10, 10})});
      CHECK(v.Read() == Floats{11, 12, 13});
      CHECK(ValuesOf(*y[1]) == Values{50, 50, 50});
      v.Write({0, 0, 0});
      w.Write({1, 2, 3});
      y = other.Run({Vector({1, 1, 1})});
      CHECK(v.Read() == Floats{1, 1, 1});
      CHECK(ValuesOf(*y[1]) == Values{1, 2, 3});
      CHECK(y[0]->data() != v.data());  // results are copies
      store->Set("v", Vector({7, 8, 9}));
      CHECK(v.Read() == Floats{7, 8, 9});
      s.Run({Vector({1, 1, 1})});
      CHECK(v.Read() == Floats{8, 9, 10});
      CHECK(ValuesOf(*store->Get("v")) == Values{8, 9, 10});
      CHECK_FALSE(store->SetIfAbsent("v", Vector({0, 0, 0})));
      CHECK(store->Erase("v"));
      CHECK(v.tensor.use_count() == 1 + 2);  // the sessions look again when they run
      store->Set("v", Vector({0, 0, 0}));
      s.Run({Vector({1, 1, 1})});
      CHECK(v.Read() == Floats{8, 9, 10});
    }
}

TEST_CASE("adopted variables: what is refused, and named") {
  const auto store = std::make_shared<VariableStore>();
  Array v({1, 2, 3, 4});
  store->Adopt("v", v.tensor);
  const auto code = [](const auto& f) { return Catch(f)->code; };
  auto e = Catch([&] { store->Set("v", Vector({1, 2})); });
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kBadBinding);
  CHECK(e->says("variable 'v' is in memory of the caller as f32[4], the value is f32[2]"));
  CHECK(code([&] {
          store->Set("v", Tensor::FromDoubles(DType::kF64, {4}, {1, 2, 3, 4}));
        }) == ErrorCode::kBadBinding);
  CHECK(v.Read() == Floats{1, 2, 3, 4});
  // Two names for one memory, as a whole or in part.
  const auto part =
      std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{2}, v.data() + 8, nullptr);
  for (const auto& t : {v.tensor, part}) {
    e = Catch([&] { store->Adopt("w", t); });
    REQUIRE(e);
    CHECK(e->code == ErrorCode::kBadBinding);
    CHECK(e->says("variables 'v' and 'w' would share memory"));
  }
  CHECK_FALSE(store->Has("w"));
  store->Adopt("v", part);  // in place of the other one
  store->Adopt("w",
               std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{2}, v.data(), nullptr));
  CHECK(store->Names() == std::vector<std::string>{"v", "w"});
  const auto lent = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{2});
  lent->set_read_only();
  CHECK(code([&] { store->Adopt("u", lent); }) == ErrorCode::kBadBinding);
  CHECK(code([&] { store->Adopt("u", nullptr); }) == ErrorCode::kApiMisuse);
  CHECK(code([&] { store->Adopt("", part); }) == ErrorCode::kApiMisuse);
  CHECK(code([&] {
          store->Adopt("u", std::make_shared<Tensor>(DType::kString, std::vector<int64_t>{2}));
        }) == ErrorCode::kUnsupported);
}

TEST_CASE("adopted variables: inputs and results are apart from them") {
  for (const Way& way : Ways())
    for (const Graph& g : Graphs()) {
      CAPTURE(std::string(way.backend));
      const auto program = CompileWay(g, way);
      const auto store = std::make_shared<VariableStore>();
      Array v({1, 2, 3}), w({5, 5, 5});
      store->Adopt("v", v.tensor);
      store->Adopt("w", w.tensor);
      Session s(program, store);
      auto e = Catch([&] { s.Run({v.tensor}); });
      REQUIRE(e);
      CHECK(e->code == ErrorCode::kBadBinding);
      CHECK(e->says("input 'x' shares memory with variable 'v', which the run writes"));
      CHECK(v.Read() == Floats{1, 2, 3});
      CHECK(ValuesOf(*s.Run({w.tensor})[1]) == Values{25, 25, 25});  // only read: fine
      const auto view =
          std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{3}, w.data(), nullptr);
      std::vector<std::shared_ptr<Tensor>> bound(program->outputs().size());
      bound[1] = view;
      e = Catch([&] { s.RunBound({Vector({1, 1, 1})}, bound); });
      REQUIRE(e);
      CHECK(e->says("shares memory with variable 'w'"));
      // Also where the result would take the place of an input, before anything has run.
      const Floats before = v.Read();
      e = Catch([&] { s.RunBound({w.tensor}, bound); });
      REQUIRE(e);
      CHECK(e->says("shares memory with variable 'w'"));
      CHECK(v.Read() == before);
      s.set_result_allocator([&](size_t, DType t, const std::vector<int64_t>& dims) {
        return std::make_shared<Tensor>(t, dims, w.data(), nullptr);
      });
      e = Catch([&] { s.Run({Vector({1, 1, 1})}); });
      REQUIRE(e);
      CHECK(e->says("a variable"));
      s.set_result_allocator(nullptr);
      CHECK(w.Read() == Floats{5, 5, 5});
      CHECK(ValuesOf(*s.Run({Vector({2, 2, 2})})[1]) == Values{10, 10, 10});
    }
}

TEST_CASE("adopted variables: checkpoints are written from their memory and read into it") {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.ckpt";
  Array v({1, 2, 3});
  {
    VariableStore store;
    store.Adopt("v", v.tensor);
    store.Set("own", Vector({4}));
    store.Save(path);
    v.Write({0, 0, 0});
    store.Load(path);
    CHECK(v.Read() == Floats{1, 2, 3});
  }
  VariableStore store;
  Array longer({9, 9, 9, 9});
  store.Adopt("v", longer.tensor);
  CHECK(Catch([&] { store.Load(path); })->code == ErrorCode::kBadBinding);
  CHECK(longer.Read() == Floats{9, 9, 9, 9});
  CHECK(v.tensor.use_count() == 1);
}

TEST_CASE("adopted variables: on a device memory has what runs wrote when it is synchronised") {
  if (!StartCountingDevice()) return;
  const auto program = CompileFor(Counter(), "counting");
  auto store = std::make_shared<VariableStore>();
  Array v({1, 2, 3});
  store->Adopt("v", v.tensor);
  {
    Session s(program, store);
    s.Run({Vector({1, 1, 1})});
    s.Run({Vector({1, 1, 1})});
    CHECK(v.Read() == Floats{1, 2, 3});  // nobody has asked
    store->Sync();
    CHECK(v.Read() == Floats{3, 4, 5});
    v.Write({0, 0, 0});
    s.Run({Vector({1, 1, 1})});
    store->Sync();
    CHECK(v.Read() == Floats{1, 1, 1});
    s.Run({Vector({1, 1, 1})});
    CHECK(store->Erase("v"));
    CHECK(v.Read() == Floats{2, 2, 2});
    store->Adopt("v", v.tensor);
    s.Run({Vector({1, 1, 1})});
  }
  store.reset();
  CHECK(v.Read() == Floats{3, 3, 3});
}

}  // namespace
}  // namespace weft::e2e
