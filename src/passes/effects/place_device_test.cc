/// place_device_test.cc: hints in dictionaries of 2016, what cannot be placed, many readers.
#include <doctest/doctest.h>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/device.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft {
namespace {

WEFT_REGISTER_OP_IN(test, Layer)
    .describe("takes any attribute, as ops of 2016 do")
    .set_num_inputs(1);

std::string DeviceOf(const Graph& g, NodePtr n) {
  const std::string* device = g.GetAttr<DeviceMap>("device").find(g.at(n));
  return device ? *device : "none";
}
int Copies(const Graph& g) {
  int n = 0;
  for (NodePtr node : g.TopoOrder()) n += IsOp(node, "weft::CopyTo");
  return n;
}
template <class F>
std::string MessageOf(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("place device: groups in the attributes of nodes, under a name of one's own") {
  Graph g;
  const NodePtr x = g.AddInput("x", DType::kF32, Shape{2});
  g.SetAttr(x, "stage", "first");
  const NodePtr a = g.AddNode("test::Layer", {NodeEntry(x)}),
                b = g.AddNode("test::Layer", {NodeEntry(a)}, {{"stage", "second"}});
  g.outputs = {NodeEntry(b)};
  const Graph out = ApplyPasses(
      g, Pipeline{{"PlaceDevice", {{"key", "stage"}, {"groups", "first = cpu; second = cuda:0"}}}});
  CHECK(DeviceOf(out, x) == "cpu");
  CHECK(DeviceOf(out, a) == "cpu");
  CHECK(DeviceOf(out, b) == "cuda:0");
  CHECK(Copies(out) == 1);
  // Without the key nothing is hinted.
  CHECK(Copies(ApplyPass(g, "PlaceDevice")) == 0);
  CHECK(DeviceOf(ApplyPass(g, "PlaceDevice"), b) == "cpu");
  const auto with = [&](const char* groups) {
    return MessageOf([&] {
      ApplyPasses(g, Pipeline{{"PlaceDevice", {{"key", "stage"}, {"groups", groups}}}});
    });
  };
  CHECK(with("first=cpu").find("in the group 'second'") != std::string::npos);
  CHECK(with("first").find("expected NAME=DEVICE") != std::string::npos);
  CHECK(with("first=cpu;first=gpu;second=gpu").find("given twice") != std::string::npos);
}

TEST_CASE("place device: one copy for many readers, one for each reader of a state") {
  constexpr int kReaders = 5000;
  for (const bool state : {false, true}) {
    CAPTURE(state);
    Graph g;
    const NodePtr v = g.AddParam("v", Tensor::Ints({1}));
    DeviceMap hints;
    hints.set(v, "a");
    std::vector<NodeEntry> outputs;
    for (int i = 0; i < kReaders; ++i) {
      const NodePtr n = g.AddNode("Neg", {NodeEntry(v)});
      hints.set(n, "b");
      outputs.emplace_back(n);
    }
    if (state) {
      const NodePtr x = g.AddInput("x", DType::kI64, Shape{1});
      hints.set(x, "a");
      g.AddNode(builtin::kAssign, {NodeEntry(v), NodeEntry(x)});
    }
    g.outputs = outputs;
    g.SetAttr("device_hint", hints);
    CHECK(Copies(ApplyPass(std::move(g), "PlaceDevice")) == (state ? kReaders : 1));
  }
}

}  // namespace
}  // namespace weft
