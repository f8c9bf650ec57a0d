/// device_tensors_test.cc: tensors in a device's memory, fed to programs of that device and given
/// for their results: used where they lie.
#include <doctest/doctest.h>

#include <map>

#include "tests/support/counting_device.h"
#include "tests/support/e2e_util.h"
#include "weft/runtime/backend/device_tensor.h"

namespace weft::e2e {
namespace {

constexpr MemoryPlace kThere{MemoryPlace::kExtension, 0};

std::shared_ptr<Backend> Device() { return GetBackend("counting"); }

/// Graphs of every kind of program, and what they take.
struct Case {
  const char* name;
  Graph graph;
  bool through_host = false;  ///< a node in it runs there
};
std::vector<Case> Cases() {
  return {
      {"plan", FromText("graph (%x: f32[n, 4], %w: f32[4, 8]) -> (%y, %s, %x) {\n"
                        "  %m = MatMul(%x, %w) : ?\n  %y = Relu(%m) : ?\n"
                        "  %s = Add(%x, %x) : ?\n}\n")},
      {"regions",
       FromText("graph (%x: f32[n, 4], %w: f32[4, 8]) -> (%y, %t, %x) {\n"
                "  %m = MatMul(%x, %w) : ?\n  %y = Relu(%m) : ?\n"
                "  %z = NonZero(%y) : ?\n  %f = Cast(%z) {to = f32} : ?\n"
                "  %t = Mul(%f, %f) : ?\n}\n"),
       true},
  };
}

TEST_CASE("what lies on the device is read and written there, with no copy by the host") {
  if (!StartCountingDevice()) return;
  CountingDevice& device = CountingDevice::Get();
  for (const Case& c : Cases()) {
    CAPTURE(std::string(c.name));
    Session session(CompileFor(c.graph, "counting"));
    session.set_result_allocator([](size_t, DType t, const std::vector<int64_t>& dims) {
      return NewTensorOn(Device(), t, dims);
    });
    for (const int n : {3, 5, 5, 5, 5}) {  // recorded and replayed, too
      const Reference r = RunReference(c.graph, uint64_t(n), {{"n", n}});
      std::vector<TensorPtr> in;
      for (const TensorPtr& t : r.inputs) in.push_back(CopyTo(Device(), *t));
      const int64_t copies_in = device.copies_in, copies_out = device.copies_out;
      const std::vector<TensorPtr> got = session.Run(in);
      if (!c.through_host) {
        CHECK(device.copies_in == copies_in);
        CHECK(device.copies_out == copies_out);
      }
      std::vector<TensorPtr> here;
      for (const TensorPtr& t : got) {
        CHECK(t->place() == kThere);
        here.push_back(CopyFrom(Device(), *t));
      }
      CHECK(Difference(here, r.outputs) <= 1);
      // Bound places, and some inputs of the host.
      std::vector<std::shared_ptr<Tensor>> bound;
      for (size_t i = 0; i < got.size(); ++i)
        bound.push_back(i == 1 ? std::make_shared<Tensor>(got[i]->dtype(), got[i]->dims())
                               : NewTensorOn(Device(), got[i]->dtype(), got[i]->dims()));
      in[1] = r.inputs[1];
      CHECK((session.RunBound(in, bound) == bound));
      here.clear();
      for (const auto& t : bound) here.push_back(t->on_host() ? t : CopyFrom(Device(), *t));
      CHECK(Difference(here, r.outputs) <= 1);
    }
    session.set_result_allocator(nullptr);
    const Reference r = RunReference(c.graph, 9, {{"n", 2}});
    const std::vector<TensorPtr> got =
        session.Run({CopyTo(Device(), *r.inputs[0]), CopyTo(Device(), *r.inputs[1])});
    for (const TensorPtr& t : got) CHECK(t->on_host());
    CHECK(Difference(got, r.outputs) <= 1);
    CHECK(device.strangers == 0);
  }
}

TEST_CASE("operands of calls that lie at odd addresses are moved on the device") {
  if (!StartCountingDevice()) return;
  const Graph g =
      FromText("graph (%x: f32[n, 4], %w: f32[4, 8]) -> (%y) {\n  %y = MatMul(%x, %w) : ?\n}\n");
  Session session(CompileFor(g, "counting"));
  const Reference r = RunReference(g, 1, {{"n", 3}});
  const auto odd = [](const Tensor& like) {
    const auto all = NewTensorOn(Device(), DType::kU8, {like.num_bytes() + 4});
    void* data = static_cast<char*>(all->mutable_data()) + 4;
    return std::make_shared<Tensor>(like.dtype(), like.dims(), data, all, kThere);
  };
  std::vector<TensorPtr> in;
  for (const TensorPtr& t : r.inputs) {
    const auto place = odd(*t);
    const auto stream = Device()->device()->NewStream();
    stream->CopyIn(place->mutable_data(), t->data(), t->num_bytes());
    stream->Wait();
    in.push_back(place);
  }
  for (int i = 0; i < 4; ++i) {
    const auto y = odd(*r.outputs[0]);
    session.RunBound(in, {y});
    CHECK(Difference({CopyFrom(Device(), *y)}, r.outputs) <= 1);
  }
  CHECK(CountingDevice::Get().strangers == 0);
}

TEST_CASE("a run that was started keeps what lies on the device until it has ended") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText("graph (%x: f32[n]) -> (%y) {\n  %y = Exp(%x) : ?\n}\n");
  Session session(CompileFor(g, "counting"));
  const Reference r = RunReference(g, 1, {{"n", 64}});
  std::shared_ptr<Tensor> x = CopyTo(Device(), *r.inputs[0]);
  const std::weak_ptr<Tensor> watch = x;
  PendingRun run = session.Start({x});
  x.reset();
  CHECK(Difference(run.Wait(), r.outputs) <= 1);
  CHECK(watch.expired());
  CHECK(CountingDevice::Get().strangers == 0);
}

TEST_CASE("what lies elsewhere is refused by name") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText("graph (%x: f32[2]) -> (%y) {\n  %y = Neg(%x) : ?\n}\n");
  const TensorPtr there = CopyTo(Device(), *Tensor::FromDoubles(DType::kF32, {2}, {1, 2}));
  const std::shared_ptr<Tensor> place = NewTensorOn(Device(), DType::kF32, {2});
  float memory[2] = {};
  const auto elsewhere = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{2}, memory,
                                                  nullptr, MemoryPlace{MemoryPlace::kCuda, 1});
  for (const std::string backend : {"cpu", "ref"}) {
    CAPTURE(backend);
    Session s(CompileFor(g, backend));
    auto e = Catch([&] { s.Run({there}); });
    REQUIRE(e);
    CHECK(e->code == ErrorCode::kBadInput);
    CHECK(e->says("input 'x' is on device 0 of kind 12, the program takes what is on the host"));
    const TensorPtr here = Tensor::FromDoubles(DType::kF32, {2}, {1, 2});
    e = Catch([&] { s.RunBound({here}, {place}); });
    REQUIRE(e);
    CHECK(e->says("the tensor for output 'y' is on device 0 of kind 12"));
    s.set_result_allocator([&](size_t, DType, const std::vector<int64_t>&) { return place; });
    e = Catch([&] { s.Run({here}); });
    REQUIRE(e);
    CHECK(e->says("gave a tensor on device 0 of kind 12 for output 0, the program is on the host"));
  }
  Session s(CompileFor(g, "counting"));
  auto e = Catch([&] { s.Run({elsewhere}); });
  REQUIRE(e);
  CHECK(
      e->says("is on CUDA device 1, the program takes what is on device 0 of kind 12 or the host"));
  e = Catch([&] { s.RunBound({there}, {std::const_pointer_cast<Tensor>(there)}); });
  REQUIRE(e);
  CHECK(e->says("shares memory with an input"));
  CHECK(Catch([&] { NewTensorOn(GetBackend("cpu"), DType::kF32, {2}); })->code ==
        ErrorCode::kUnsupported);
  CHECK(Catch([&] { NewTensorOn(Device(), DType::kString, {2}); })->code ==
        ErrorCode::kUnsupported);
  CHECK(Catch([&] { CopyFrom(Device(), *elsewhere); })->code == ErrorCode::kApiMisuse);
}

}  // namespace
}  // namespace weft::e2e
