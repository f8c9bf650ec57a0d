/// resize_test.cc: Resize as kernels of the cpu backend gives what the interpreter gives: modes,
/// coordinates, odd, single and absent elements, one to three axes, channels last, several threads;
/// its constants are numbers in the code.
#include <doctest/doctest.h>

#include "backends/cpu/util/call_test_util.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/plan/layout.h"
#include "weft/runtime/program/program.h"

namespace weft::cpu {
namespace {

TensorPtr Floats(const std::vector<float>& v) {
  auto t = std::make_shared<Tensor>(DType::kF32, Ns{int64_t(v.size())});
  std::copy(v.begin(), v.end(), t->mutable_data_as<float>());
  return t;
}

/// Resize of x by scales or to sizes (the other one empty), and what `then` makes of it.
struct Resized {
  std::vector<SymInt> dims;
  std::vector<float> scales;
  std::vector<int64_t> sizes;
  AttrDict attrs;
  DType dtype = DType::kF32;

  Graph Make() const {
    Graph g;
    const NodeEntry x(g.AddInput("x", dtype, Shape(dims)));
    std::vector<NodeEntry> in{x, NodeEntry()};
    if (!scales.empty()) {
      in.push_back(ConstantLike(x, Floats(scales)));
    } else {
      in.push_back(NodeEntry());
      in.push_back(ConstantLike(x, Tensor::Ints(sizes)));
    }
    g.outputs = std::vector<NodeEntry>{ApplyOp("Resize", in, attrs)};
    return g;
  }
};

void Check(const Graph& g, const SymBindings& bind = {}) {
  CompileOptions ref, cpu;
  ref.backend = "ref";
  cpu.backend = "cpu";
  const auto want_program = Compile(g, ref);
  const auto inputs = RandomProgramInputs(*want_program, 7, bind);
  const auto want = Session(want_program).Run(inputs);
  for (const int threads : {1, 3}) {
    cpu.threads = threads;
    const auto program = Compile(g, cpu);
    CHECK(program->stats().interpreted == 0);
    const auto got = Session(program).Run(inputs);
    for (size_t i = 0; i < want.size(); ++i) CHECK(CompareTensors(*got[i], *want[i]) <= 1);
    for (const NodePtr& n : program->graph().TopoOrder())
      for (size_t i = 0; IsOp(n, builtin::kFused) && i < n->num_inputs(); ++i)
        CHECK_FALSE((Graph::ConstantOf(n->inputs[i]) &&
                     IsFloat(Graph::ConstantOf(n->inputs[i])->dtype())));  // the scales
  }
}

TEST_CASE("Resize on the cpu: all modes and coordinates, up and down") {
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* coordinates : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                    "align_corners", "asymmetric"})
      for (const std::vector<float>& s :
           {std::vector<float>{2, 2}, {0.5f, 0.5f}, {1.7f, 3}, {0.3f, 2.6f}, {1, 2}}) {
        CAPTURE(mode);
        CAPTURE(coordinates);
        CAPTURE(s[0]);
        Check(Resized{{2, 3, 19, 21},
                      {1, 1, s[0], s[1]},
                      {},
                      {{"mode", mode}, {"coordinate_transformation_mode", coordinates}}}
                  .Make());
      }
}

TEST_CASE("Resize on the cpu: sizes, one to three axes, single elements, none, other types") {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const AttrDict attrs{{"mode", mode}};
    CAPTURE(mode);
    Check(Resized{{2, 3, 50}, {}, {2, 3, 131}, attrs}.Make());
    Check(Resized{{1, 2, 5, 6, 7}, {}, {1, 2, 9, 5, 20}, attrs}.Make());
    Check(Resized{{1, 64, 1, 1}, {}, {1, 64, 20, 30}, attrs}.Make());
    Check(Resized{{1, 64, 9, 30}, {}, {1, 64, 1, 1}, attrs}.Make());
    Check(Resized{{2, 0, 9, 8}, {1, 1, 2, 2}, {}, attrs}.Make());
    Check(Resized{{2, 3, 9, 8}, {1, 1, 0.05f, 2}, {}, attrs}.Make());
    for (DType t : {DType::kF64, DType::kF16, DType::kU8, DType::kI32})
      Check(Resized{{1, 3, 17, 30}, {1, 1, 1.5f, 2.5f}, {}, attrs, t}.Make());
    AttrDict wide = attrs;
    if (std::string(mode) != "nearest") {
      wide["antialias"] = 1;
      wide["exclude_outside"] = 1;
      Check(Resized{{1, 3, 33, 40}, {1, 1, 0.4f, 1.5f}, {}, wide}.Make());
    }
  }
}

TEST_CASE("Resize on the cpu: extents that come with the run") {
  const SymInt h = SymInt::Symbol("h"), w = SymInt::Symbol("w");
  for (const char* mode : {"nearest", "linear"})
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {17, 40}, {30, 9}})
      Check(Resized{{1, 20, h, w}, {1, 1, 2, 1.5f}, {}, {{"mode", mode}}}.Make(),
            {{"h", rows}, {"w", columns}});
}

TEST_CASE("Resize on the cpu: between convolutions, with what follows it") {
  for (const char* mode : {"nearest", "linear"})
    for (const int64_t channels : {5, 32}) {
      Graph g;
      const NodeEntry x(g.AddInput("x", DType::kF32, Shape{1, 3, 14, 15}));
      const auto conv = [&](const NodeEntry& in, int64_t from) {
        return ApplyOp("Conv", {in, ConstantLike(x, RandomTensor({channels, from, 1, 1}, 3))});
      };
      const NodeEntry a = conv(x, 3);
      const NodeEntry r = ApplyOp("Resize", {a, NodeEntry(), ConstantLike(x, Floats({1, 1, 2, 2}))},
                                  {{"mode", mode}});
      const NodeEntry b = ApplyOp("Relu", {ApplyOp("Add", {r, r})});
      g.outputs = std::vector<NodeEntry>{conv(b, channels)};
      CompileOptions ref, cpu;
      ref.backend = "ref";
      cpu.backend = "cpu";
      const auto want_program = Compile(g, ref), got_program = Compile(g, cpu);
      const auto inputs = RandomProgramInputs(*want_program, 7, {});
      const auto want = Session(want_program).Run(inputs), got = Session(got_program).Run(inputs);
      CHECK(CompareTensors(*got[0], *want[0]) <= 1);
      CHECK(got_program->stats().interpreted == 0);
    }
}

}  // namespace
}  // namespace weft::cpu
