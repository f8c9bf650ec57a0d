/// device_program_test.cc: programs on a device with memory of its own, against the same programs
/// on the host: equal bits. The device is the one of counting_device.h.
#include <doctest/doctest.h>

#include <cstring>
#include <thread>

#include "tests/support/counting_device.h"
#include "tests/support/random/random_graph.h"
#include "tests/support/variables_util.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

std::shared_ptr<const Program> OnDevice(const Graph& g) { return CompileFor(g, "counting"); }

bool EqualBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         (a.num_bytes() == 0 || std::memcmp(a.data(), b.data(), size_t(a.num_bytes())) == 0);
}

const char* const kCounting =
    R"(graph (%x: f32[4], %v: f32[4] param = [0.0, 0.0, 0.0, 0.0] {state = 1}) -> (%y) {
  %s = Add(%v, %x) : f32[4]
  %a = weft::Assign(%v, %s) : f32[4]
  %y = Mul(%a, %a) : f32[4]
}
)";

}  // namespace

TEST_CASE("device: random graphs give the bits of the host, run after run") {
  if (!StartCountingDevice()) return;
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    CAPTURE(seed);
    const fuzz::RandomGraph g = fuzz::MakeRandomGraph(seed);
    Session host(CompileFor(g.graph, "cpu")), device(OnDevice(g.graph));
    for (int round = 0; round < 2; ++round) {
      for (size_t b = 0; b < g.bindings.size(); ++b) {
        const std::vector<TensorPtr> in =
            round == 0 ? fuzz::MakeInputs(g, b) : fuzz::MakeSpecialInputs(g, b);
        const std::vector<TensorPtr> want = host.Run(in);
        for (int run = 0; run < 4; ++run) {
          const std::vector<TensorPtr> got = device.Run(in);
          REQUIRE(got.size() == want.size());
          for (size_t i = 0; i < got.size(); ++i) CHECK(EqualBits(*got[i], *want[i]));
        }
      }
    }
  }
  SetLogLevel(before);
  const CountingDevice& d = CountingDevice::Get();
  CHECK(d.strangers == 0);
  CHECK(d.launches > 0);
  CHECK(d.calls > 0);
  CHECK(d.replays > d.recordings);
}

TEST_CASE("device: a recording is made at the third run in one place, and follows the places") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(R"(graph (%x: f32[n]) -> (%y) {
  %e = Exp(%x) : f32[n]
  %y = Add(%e, %x) : f32[n]
}
)");
  Session s(OnDevice(g)), host(CompileFor(g, "cpu"));
  const CountingDevice& d = CountingDevice::Get();
  const auto run = [&](int64_t n, double first) {
    const TensorPtr x = Tensor::FromDoubles(DType::kF32, {n}, Values(size_t(n), first));
    CHECK(EqualBits(*s.Run({x})[0], *host.Run({x})[0]));
  };
  run(5, 1);
  run(5, 2);
  CHECK(d.recordings == 0);
  run(5, 3);
  run(5, 4);
  CHECK(d.recordings == 1);
  CHECK(d.replays == 2);
  CHECK(d.launches == 3);
  run(3000, 1);  // its memory has to grow
  CHECK(d.replays == 2);
}

TEST_CASE("device: state variables stay there; the store fetches what is asked for") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(kCounting);
  auto store = std::make_shared<VariableStore>();
  Session device(OnDevice(g), store), host(CompileFor(g, "cpu"), store);
  const TensorPtr one = Vector({1, 2, 3, 4});
  const CountingDevice& d = CountingDevice::Get();
  for (int i = 0; i < 5; ++i) device.Run({one});
  const int64_t before = d.copies_in;
  device.Run({one});
  CHECK(d.copies_in == before + 1);  // what is fed
  CHECK(ValuesOf(*store->Get("v")) == Values{6, 12, 18, 24});
  // The host goes on from there, and the device from there.
  CHECK(ValuesOf(*host.Run({one})[0]) == Values{49, 14 * 14, 21 * 21, 28 * 28});
  CHECK(ValuesOf(*device.Run({one})[0]) == Values{64, 256, 24 * 24, 32 * 32});
  store->Set("v", Vector({0, 0, 0, 1}));
  CHECK(ValuesOf(*device.Run({one})[0]) == Values{1, 4, 9, 25});
  // A variable that was replaced by another, and one that is gone and begins again.
  store->Erase("v");
  CHECK(ValuesOf(*device.Run({one})[0]) == Values{1, 4, 9, 16});
  Session second(OnDevice(g), store);
  CHECK(ValuesOf(*second.Run({one})[0]) == Values{4, 16, 36, 64});
  CHECK(ValuesOf(*device.Run({one})[0]) == Values{9, 36, 81, 144});
  CHECK(d.strangers == 0);
}

TEST_CASE("device: what leaves the axis is found, also in a replay") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(R"(graph (%x: f32[4], %i: i64[2]) -> (%y) {
  %y = Gather(%x, %i) : f32[2]
}
)");
  Session s(OnDevice(g));
  const TensorPtr x = Vector({1, 2, 3, 4});
  const auto at = [](double a, double b) { return Tensor::FromDoubles(DType::kI64, {2}, {a, b}); };
  for (int i = 0; i < 5; ++i) {
    CHECK(ValuesOf(*s.Run({x, at(3, -4)})[0]) == Values{4, 1});
    const auto caught = Catch([&] { s.Run({x, at(0, 4)}); });
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kIndexRange);
  }
}

TEST_CASE("device: a failure anywhere is told, and the next run is right again") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(kCounting);
  CountingDevice& d = CountingDevice::Get();
  bool failed = true;
  for (int64_t n = 0; failed; ++n) {
    REQUIRE(n < 100);
    auto store = std::make_shared<VariableStore>();
    Session s(OnDevice(g), store);
    d.fail_at = n;
    const auto caught = Catch([&] {
      for (int i = 0; i < 4; ++i) s.Run({Vector({1, 1, 1, 1})});
    });
    failed = caught.has_value();
    if (failed) CHECK(caught->code == ErrorCode::kDevice);
    d.fail_at = -1;
    store->Set("v", Vector({1, 2, 3, 4}));
    CHECK(ValuesOf(*s.Run({Vector({1, 1, 1, 1})})[0]) == Values{4, 9, 16, 25});
  }
}

TEST_CASE("device: profiles name every step") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(R"(graph (%x: f32[8, 8], %w: f32[8, 8]) -> (%y) {
  %e = Exp(%x) : f32[8, 8]
  %y = MatMul(%e, %w) : f32[8, 8]
}
)");
  Session s(OnDevice(g));
  const TensorPtr x = Tensor::FromDoubles(DType::kF32, {8, 8}, Values(64, 1));
  const std::vector<StepTime> steps = s.Profile({x, x});
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].kind == "kernel");
  CHECK(steps[1].kind == "library");
}

TEST_CASE(
    "device: recordings of several extents are kept, and brought up to date when memory moves") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(R"(graph (%x: f32[n]) -> (%y) {
  %y = Exp(%x) : f32[n]
}
)");
  Session s(OnDevice(g));
  const CountingDevice& d = CountingDevice::Get();
  const auto run = [&](int64_t n, int times) {
    for (int i = 0; i < times; ++i)
      s.Run({Tensor::FromDoubles(DType::kF32, {n}, Values(size_t(n), i))});
  };
  run(7, 3);
  run(5, 3);
  CHECK(d.recordings == 2);
  for (int i = 0; i < 3; ++i) {
    run(7, 1);
    run(5, 1);
  }
  CHECK(d.recordings == 2);
  CHECK(d.replays == 8);
  run(3000, 1);  // what is fed lies elsewhere now
  run(5, 3);
  CHECK(d.recordings == 3);
  CHECK(d.updates == 1);
  CHECK(d.strangers == 0);
}

TEST_CASE("device: runs that are started end in their order, whoever waits") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(kCounting);
  auto store = std::make_shared<VariableStore>();
  auto a = std::make_unique<Session>(OnDevice(g), store);
  Session b(OnDevice(g), store);
  const TensorPtr one = Vector({1, 1, 1, 1});
  auto mine = std::make_shared<Tensor>(*one);
  std::vector<PendingRun> runs;
  for (int i = 0; i < 6; ++i) {
    runs.push_back(a->Start({mine}));
    for (int k = 0; k < 4; ++k) mine->set(k, i + 2);  // what is fed has been taken
    for (int k = 0; k < 4; ++k) mine->set(k, 1);
  }
  CHECK(!runs[5].ready());
  CHECK(ValuesOf(*runs[2].Wait()[0]) == Values(4, 9));
  CHECK(runs[0].ready());
  CHECK(!runs[3].ready());
  CHECK(ValuesOf(*runs[0].Wait()[0]) == Values(4, 1));
  // The store, and another session, see what has been started.
  CHECK(ValuesOf(*store->Get("v")) == Values(4, 6));
  runs.push_back(a->Start({one}));
  CHECK(ValuesOf(*b.Run({one})[0]) == Values(4, 64));
  runs.push_back(a->Start({one}));
  a.reset();
  CHECK(ValuesOf(*runs.back().Wait()[0]) == Values(4, 81));
  runs.clear();  // nobody asks for the others
  CHECK(ValuesOf(*b.Start({one}).Wait()[0]) == Values(4, 100));
  CHECK(CountingDevice::Get().strangers == 0);
}

TEST_CASE("device: what goes wrong in a run that was started is told to who waits for it") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(R"(graph (%x: f32[n], %i: i64[1]) -> (%y) {
  %y = Gather(%x, %i) : f32[1]
}
)");
  Session s(OnDevice(g));
  const auto start = [&](int64_t n, double at) {
    return s.Start({Tensor::FromDoubles(DType::kF32, {n}, Values(size_t(n), double(n))),
                    Tensor::FromDoubles(DType::kI64, {1}, {at})});
  };
  PendingRun first = start(4, 3), bad = start(4, 4), larger = start(5000, 4999);
  CHECK(ValuesOf(*larger.Wait()[0]) == Values{5000});
  const auto caught = Catch([&] { bad.Wait(); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kIndexRange);
  CHECK(ValuesOf(*first.Wait()[0]) == Values{4});
}

TEST_CASE("device: a recording is made anew when the scratch memory of its calls has moved") {
  if (!StartCountingDevice()) return;
  CountingDevice& d = CountingDevice::Get();
  d.greedy_calls = true;
  const Graph g = FromText(R"(graph (%x: f32[n, k], %w: f32[k, 4]) -> (%y) {
  %y = MatMul(%x, %w) : f32[n, 4]
}
)");
  Session s(OnDevice(g)), host(CompileFor(g, "cpu"));
  const auto run = [&](int64_t n, int64_t k, int times) {
    for (int i = 0; i < times; ++i) {
      const TensorPtr x = Tensor::FromDoubles(DType::kF32, {n, k}, Values(size_t(n * k), i)),
                      w = Tensor::FromDoubles(DType::kF32, {k, 4}, Values(size_t(4 * k), 1));
      CHECK(EqualBits(*s.Run({x, w})[0], *host.Run({x, w})[0]));
    }
  };
  run(2, 1000, 4);
  CHECK(d.recordings == 1);
  run(100, 3, 1);  // what is fed has room where it was, the scratch memory has not
  run(2, 1000, 4);
  CHECK(d.recordings == 2);
  CHECK(d.strangers == 0);
}

TEST_CASE("device: where steps cannot be recorded they are given one by one") {
  if (!StartCountingDevice()) return;
  CountingDevice& d = CountingDevice::Get();
  d.refuses_to_record = true;
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  const Graph g = FromText(R"(graph (%x: f32[4], %i: i64[2]) -> (%y, %z) {
  %y = Gather(%x, %i) : f32[2]
  %z = Gather(%i, %i) : i64[2]
}
)");
  Session s(OnDevice(g));
  const auto at = [](double a, double b) { return Tensor::FromDoubles(DType::kI64, {2}, {a, b}); };
  for (int i = 0; i < 6; ++i)
    CHECK(ValuesOf(*s.Run({Vector({1, 2, 3, 4}), at(1, 0)})[0]) == Values{2, 1});
  CHECK(d.recordings == 1);
  CHECK(d.replays == 0);
  CHECK(Catch([&] { s.Run({Vector({1, 2, 3, 4}), at(3, 0)}); })->code == ErrorCode::kIndexRange);
  SetLogLevel(before);
}

TEST_CASE("device: a call that cannot be recorded splits a recording, the rest is replayed") {
  if (!StartCountingDevice()) return;
  CountingDevice& d = CountingDevice::Get();
  d.refuses_calls = true;
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  const Graph g = FromText(R"(graph (%x: f32[n, 4], %w: f32[4, 4]) -> (%y) {
  %e = Sin(%x) : f32[n, 4]
  %m = MatMul(%e, %w) : f32[n, 4]
  %s = Sin(%m) : f32[n, 4]
  %o = MatMul(%s, %w) : f32[n, 4]
  %y = Sin(%o) : f32[n, 4]
}
)");
  const auto program = OnDevice(g);
  Session s(program), host(CompileFor(g, "cpu"));
  const ProgramStats& stats = program->stats();
  CHECK(stats.kernels == 3);
  CHECK(stats.library_calls == 2);
  const auto run = [&](int64_t n, int times) {
    for (int i = 0; i < times; ++i) {
      const TensorPtr x = Tensor::FromDoubles(DType::kF32, {n, 4}, Values(size_t(4 * n), 0.25 * i)),
                      w = Tensor::FromDoubles(DType::kF32, {4, 4}, Values(16, 0.5));
      CHECK(EqualBits(*s.Run({x, w})[0], *host.Run({x, w})[0]));
    }
  };
  run(3, 2);
  CHECK(stats.launches == 10);
  CHECK(stats.replays == 0);
  run(3, 4);
  CHECK(stats.launches == 10 + 4 * 2);
  CHECK(stats.replays == 4 * 3);
  CHECK(stats.host_waits == 0);
  const int64_t recordings = d.recordings;
  run(3, 2);
  CHECK(d.recordings == recordings);
  // Other extents and places: no call is tried again, and recordings are brought up to date.
  run(5000, 4);
  run(3, 4);
  CHECK(d.recordings == recordings + 3 + 3);
  CHECK(d.updates == 3);
  CHECK(d.strangers == 0);
  SetLogLevel(before);
}

TEST_CASE("device: steps before and behind one on the host are replayed, with flags of their own") {
  if (!StartCountingDevice()) return;
  CountingDevice& d = CountingDevice::Get();
  const Graph g = FromText(
      R"(graph (%x: f32[4], %i: i64[3], %j: i64[1], %s: i64[3] param = [3, 1, 1]) -> (%y, %z) {
  %a = Gather(%x, %i) : f32[3]
  %m = Reshape(%a, %s) : f32[3, 1, 1]
  %d = Det(%m) : f32[3]
  %y = Gather(%d, %j) : f32[1]
  %z = Sin(%d) : f32[3]
}
)");
  const auto program = OnDevice(g);
  Session s(program);
  const ProgramStats& stats = program->stats();
  REQUIRE(stats.interpreted == 1);
  const TensorPtr x = Vector({4, 3, 2, 1});
  const auto run = [&](std::initializer_list<int64_t> i, int64_t j) {
    return ValuesOf(*s.Run({x, Tensor::Ints(i), Tensor::Ints({j})})[0]);
  };
  for (const bool before : {true, false}) {
    const int64_t launches = stats.launches, replays = stats.replays, waits = stats.host_waits;
    d.recordings = 0;
    for (int i = 0; i < 5; ++i) CHECK(run({0, 3, 2}, 2) == Values{2});
    CHECK(run({3, 2, 1}, 2) == Values{3});
    // The flag of the one, or of the other.
    const auto caught = Catch([&] { before ? run({0, 4, 2}, 1) : run({0, 3, 2}, 3); });
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kIndexRange);
    CHECK(d.recordings == 2);
    CHECK(stats.launches == launches + 2 * stats.kernels);
    // Nothing is given behind what has left its axis before the host looks.
    CHECK(stats.replays == replays + 5 * 2 - int64_t(before));
    CHECK(stats.host_waits == waits + 7);
  }
  CHECK(d.strangers == 0);
}

TEST_CASE("device: extents in turn, more than recordings are kept") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(
      R"(graph (%x: f32[n], %v: f32[4] param = [0.0, 0.0, 0.0, 0.0] {state = 1}) -> (%y, %z) {
  %s = ReduceSum(%x) {keepdims = 0} : f32[]
  %t = Add(%v, %s) : f32[4]
  %y = weft::Assign(%v, %t) : f32[4]
  %z = Exp(%x) : f32[n]
}
)");
  auto store = std::make_shared<VariableStore>(), other = std::make_shared<VariableStore>();
  Session s(OnDevice(g), store), host(CompileFor(g, "cpu"), other);
  for (int round = 0; round < 5; ++round)
    for (int64_t n = 3; n <= 1200; n += 57) {
      const TensorPtr x = Tensor::FromDoubles(DType::kF32, {n}, Values(size_t(n), round));
      const auto got = s.Run({x}), want = host.Run({x});
      for (size_t i = 0; i < 2; ++i) CHECK(EqualBits(*got[i], *want[i]));
    }
  for (int64_t n : {3, 900})
    for (int i = 0; i < 4; ++i)
      s.Run({Tensor::FromDoubles(DType::kF32, {n}, Values(size_t(n), 0))});
  CHECK(CountingDevice::Get().replays > 0);
  CHECK(CountingDevice::Get().strangers == 0);
}

TEST_CASE("device: a run that cannot be given leaves those before it as they are") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(R"(graph (%x: f32[4], %i: i64[2]) -> (%y) {
  %e = Exp(%x) : f32[4]
  %y = Gather(%e, %i) : f32[2]
}
)");
  CountingDevice& d = CountingDevice::Get();
  const auto at = [](double a, double b) { return Tensor::FromDoubles(DType::kI64, {2}, {a, b}); };
  bool failed = true;
  for (int64_t n = 0; failed; ++n) {
    REQUIRE(n < 100);
    Session s(OnDevice(g));
    PendingRun first = s.Start({Vector({0, 0, 0, 0}), at(0, 1)}),
               bad = s.Start({Vector({0, 0, 0, 0}), at(0, 5)});
    d.fail_at = n;
    const auto caught = Catch([&] { s.Start({Vector({1, 1, 1, 1}), at(0, 1)}); });
    failed = caught.has_value();
    d.fail_at = -1;
    CHECK(ValuesOf(*first.Wait()[0]) == Values{1, 1});
    CHECK(Catch([&] { bad.Wait(); })->code == ErrorCode::kIndexRange);
  }
}

TEST_CASE("device: stores, sessions and programs may go while runs are under way") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(kCounting);
  const TensorPtr one = Vector({1, 1, 1, 1});
  for (const char* order : {"program", "store", "erase", "set"}) {
    CAPTURE(std::string(order));
    auto program = OnDevice(g);
    auto store = std::make_shared<VariableStore>();
    auto s = std::make_unique<Session>(program, store);
    PendingRun first = s->Start({one}), second = s->Start({one});
    PendingRun moved = std::move(first);
    CHECK(!moved.ready());
    const std::string what = order;
    if (what == "program") {
      program.reset();
      s.reset();
    } else if (what == "store") {
      s.reset();
      store.reset();
    } else if (what == "erase") {
      store->Erase("v");
      CHECK(ValuesOf(*s->Run({one})[0]) == Values(4, 1));
    } else {
      store->Set("v", Vector({5, 6, 7, 8}));
      CHECK(ValuesOf(*s->Run({one})[0]) == Values{36, 49, 64, 81});
    }
    CHECK(ValuesOf(*second.Wait()[0]) == Values(4, 4));
    CHECK(ValuesOf(*moved.Wait()[0]) == Values(4, 1));
  }
  CHECK(CountingDevice::Get().strangers == 0);
}

TEST_CASE("device: sessions of one program on several threads, some with one store") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(kCounting);
  const auto program = OnDevice(g);
  const auto shared = std::make_shared<VariableStore>();
  constexpr int kRuns = 40;
  std::vector<std::thread> threads;
  std::vector<double> last(2);
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&] {  // adds to the shared variables
      Session s(program, shared);
      for (int i = 0; i < kRuns; i += 2) {
        PendingRun run = s.Start({Vector({1, 1, 1, 1})});
        s.Run({Vector({1, 1, 1, 1})});
        run.Wait();
      }
    });
    threads.emplace_back([&, t] {  // has some of its own
      Session s(program);
      for (int i = 0; i < kRuns; ++i) last[t] = s.Run({Vector({1, 1, 1, 1})})[0]->at(0);
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < kRuns; ++i) {
      // The state before or after a run: all elements are equal.
      if (!shared->Has("v")) continue;
      const std::vector<double> v = ValuesOf(*shared->Get("v"));
      if (v != Values(4, v[0])) ++CountingDevice::Get().strangers;
    }
  });
  for (std::thread& t : threads) t.join();
  CHECK(ValuesOf(*shared->Get("v")) == Values(4, 2 * kRuns));
  for (const double y : last) CHECK(y == kRuns * kRuns);
  CHECK(CountingDevice::Get().strangers == 0);
}

TEST_CASE("on the host a run that is started is done") {
  if (!HasCpu()) return;
  Session s(CompileFor(FromText(kCounting), "cpu"));
  PendingRun run = s.Start({Vector({1, 2, 3, 4})});
  CHECK(run.ready());
  CHECK(ValuesOf(*run.Wait()[0]) == Values{1, 4, 9, 16});
}
