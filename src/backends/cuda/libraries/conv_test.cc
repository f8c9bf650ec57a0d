/// conv_test.cc: convolutions and their gradients on the backend "cuda": which of them go to the
/// library, as what, and what is generated where it has no way to do them. Library calls are
/// emulated (emulated_conv.cc), kernels run on emulated threads; the oracle is the interpreter in
/// double precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/doubles/emulated_libraries.h"
#include "backends/cuda/doubles/failing_driver.h"
#include "tests/support/e2e_util.h"
#include "tests/support/emulated_gpu.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

enum Way { kLibrary, kFollowed, kEither, kGenerated };

struct Case {
  std::string what;
  Graph graph;
  Way way = kLibrary;
  std::string layout = "Layout";
  bool refuse = false, refuse_epilogues = false;
  SymBindings bind = {};
  /// Of the largest element; 0: as one operator is compared. Several of them round in between.
  double tolerance = 0;
};

/// The library has no way to do some of it, where the case says so.
struct Switches {
  explicit Switches(const Case& c) {
    EmulatedGpu::libraries()->refuse = c.refuse;
    EmulatedGpu::libraries()->refuse_epilogues = c.refuse_epilogues;
  }
  ~Switches() {
    EmulatedGpu::libraries()->refuse = EmulatedGpu::libraries()->refuse_epilogues = false;
  }
};

int CountHow(const std::vector<StepTime>& steps, const std::string& part) {
  int n = 0;
  for (const StepTime& s : steps) n += s.how.find(part) != std::string::npos;
  return n;
}

double Largest(const Tensor& t) {
  double largest = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) largest = std::max(largest, std::fabs(t.at(i)));
  return largest;
}

void Check(const std::vector<Case>& cases) {
  if (!EmulatedGpu::Start()) return;
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  for (const Case& c : cases) {
    const Switches switches(c);
    const auto program = EmulatedGpu::Compile(c.graph, c.layout);
    // Kernels in the place of calls are asked for by the first run, which does not find them.
    Catch([&] { Session(program).Run(RunReference(c.graph, 7, c.bind).inputs); });
  }
  EmulatedGpu::BuildKernels(8);
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const Switches switches(c);
    const auto program = EmulatedGpu::Compile(c.graph, c.layout);
    CHECK(program->stats().library_calls > 0);
    const Reference r = RunReference(c.graph, 7, c.bind);
    Session session(program);
    for (int run = 0; run < 4; ++run) {
      const std::vector<TensorPtr> got = session.Run(r.inputs);
      if (c.tolerance == 0) CHECK(Difference(got, r.outputs) <= 1);
      for (size_t i = 0; i < got.size() && c.tolerance > 0; ++i)
        CHECK(CompareTensors(*got[i], *r.outputs[i], 0, c.tolerance * Largest(*r.outputs[i])) <= 1);
    }
    const std::vector<StepTime> steps = session.Profile(r.inputs);
    for (const StepTime& s : steps) CHECK(s.kind != "interpreter");
    CHECK((CountHow(steps, "emulated conv") > 0) == (c.way != kGenerated));
    if (c.way == kGenerated) CHECK(CountHow(steps, "generated") > 0);
    if (c.way != kEither) CHECK((CountHow(steps, ", then kernels") > 0) == (c.way == kFollowed));
  }
  SetLogLevel(before);
  CHECK(FailingDriver::Get().calls["GraphLaunch"] >= int64_t(cases.size()));
  EmulatedGpu::CheckClean();
}

std::string Join(const std::vector<int64_t>& dims) {
  std::string text;
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text;
}

struct Form {
  const char* what;
  std::vector<int64_t> x, w;
  const char* attrs;
};
const std::vector<Form>& Forms() {
  static const std::vector<Form> forms{
      {"1-D", {2, 3, 11}, {5, 3, 4}, "pads = [2, 1], strides = [2]"},
      {"2-D", {2, 4, 9, 7}, {6, 4, 3, 3}, "pads = [1, 1, 1, 1]"},
      {"3-D", {1, 2, 5, 4, 6}, {3, 2, 2, 3, 2}, "pads = [0, 1, 1, 1, 1, 0], strides = [2, 1, 1]"},
      {"groups", {2, 6, 8, 8}, {9, 2, 3, 3}, "group = 3, pads = [1, 1, 1, 1], strides = [2, 2]"},
      {"depthwise", {2, 5, 7, 9}, {5, 1, 3, 3}, "group = 5, pads = [0, 1, 2, 1]"},
      {"dilated", {1, 3, 13, 11}, {4, 3, 3, 2}, "dilations = [3, 2], strides = [1, 2]"},
      {"SAME_UPPER", {2, 3, 10, 9}, {4, 3, 3, 2}, "auto_pad = \"SAME_UPPER\", strides = [2, 2]"},
      {"1 x 1", {3, 7, 5, 3}, {2, 7, 1, 1}, "strides = [2, 1]"},
      {"a row that fills", {2, 3, 1, 12}, {4, 3, 1, 5}, "pads = [0, 2, 0, 2]"},
  };
  return forms;
}
std::string Text(const Form& f, const std::string& type, bool bias, const std::string& behind = {},
                 const std::string& more = {}) {
  return "graph (%x: " + type + "[" + Join(f.x) + "], %w: " + type + "[" + Join(f.w) + "]" +
         (bias ? ", %b: " + type + "[" + std::to_string(f.w[0]) + "]" : "") + more +
         ") -> (%y) {\n  " + (behind.empty() ? "%y" : "%c") + " = Conv(%x, %w" +
         (bias ? ", %b" : "") + ") {" + f.attrs + "} : ?\n" + behind + "}";
}

/// With the gradients for all of its inputs as its results.
Graph WithGradients(Graph g) {
  std::vector<NodeEntry> xs;
  for (const NodePtr& p : g.inputs()) xs.emplace_back(p);
  const std::vector<NodeEntry> ys(g.outputs.begin(), g.outputs.end());
  std::vector<NodeEntry> all = ys;
  for (const NodeEntry& e : Gradients(g, ys, xs)) all.push_back(e);
  g.outputs = all;
  return g;
}

const char* const kTypes[] = {"f32", "f16", "bf16"};

}  // namespace

TEST_CASE("cuda conv: forms, types, layouts") {
  std::vector<Case> cases;
  for (const Form& f : Forms())
    for (const std::string type : kTypes)
      for (const bool bias : {false, true}) {
        const Graph g = FromText(Text(f, type, bias));
        cases.push_back({std::string(f.what) + " " + type + (bias ? " bias" : ""), g});
        cases.push_back({cases.back().what + " last", g, kLibrary, "Layout{force=last}"});
      }
  const int before = EmulatedGpu::libraries()->convs_channels_last;
  Check(cases);
  CHECK(EmulatedGpu::libraries()->convs_channels_last - before > 20);
}

TEST_CASE("cuda conv: gradients") {
  std::vector<Case> cases;
  for (const Form& f : Forms())
    for (const std::string type : kTypes) {
      const Graph g = WithGradients(FromText(Text(f, type, true)));
      cases.push_back({std::string(f.what) + " " + type, g});
      if (type != "f32")
        cases.push_back({cases.back().what + " last", g, kLibrary, "Layout{force=last}"});
    }
  Check(cases);
}

TEST_CASE("cuda conv: what the library has no way to do is generated, in any layout") {
  std::vector<Case> cases;
  for (const Form& f : Forms()) {
    for (const std::string type : {"f32", "f16"})
      for (const char* layout : {"Layout", "Layout{force=last}", "Layout{force=odd}"})
        cases.push_back({std::string(f.what) + " " + type + " " + layout,
                         WithGradients(FromText(Text(f, type, true))), kGenerated, layout, true});
    cases.push_back({std::string(f.what) + " f64", FromText(Text(f, "f64", true)), kGenerated});
  }
  Check(cases);
}

TEST_CASE("cuda conv: epilogues") {
  const Form f{"2-D", {2, 4, 9, 7}, {6, 4, 3, 3}, "pads = [1, 1, 1, 1]"};
  struct Behind {
    const char* what;
    std::string text;
  };
  const Behind behind[] = {
      {"relu", "  %y = Relu(%c) : ?\n"},
      {"residual", "  %y = Add(%c, %r) : ?\n"},
      {"residual, relu", "  %s = Add(%r, %c) : ?\n  %y = Relu(%s) : ?\n"},
      {"row", "  %y = Add(%c, %q) : ?\n"},
      {"gelu", "  %y = Gelu(%c) {approximate = \"tanh\"} : ?\n"},
  };
  std::vector<Case> cases;
  for (const Behind& b : behind)
    for (const std::string type : kTypes)
      for (const bool bias : {false, true})
        for (const char* layout : {"Layout", "Layout{force=last}", "Layout{force=odd}"}) {
          const Graph g = FromText(
              Text(f, type, bias, b.text, ", %r: " + type + "[2, 6, 9, 7], %q: " + type + "[7]"));
          const std::string what = std::string(b.what) + (bias ? " bias " : " ") + type + layout;
          // Kernels add what lies otherwise than the result, and all that the library has
          // no way to do.
          const bool odd = std::string(layout) == "Layout{force=odd}";
          cases.push_back({what, g, odd ? kEither : kLibrary, layout});
          if (!odd) {
            cases.push_back({what + " in two parts", g, bias ? kFollowed : kLibrary, layout});
            cases.back().refuse_epilogues = true;
          }
          cases.push_back({what + " generated", g, kGenerated, layout, true});
        }
  const int before = EmulatedGpu::libraries()->convs_followed;
  Check(cases);
  CHECK(EmulatedGpu::libraries()->convs_followed - before > 20);
}

TEST_CASE("cuda conv: an addend that lies where the result goes") {
  std::vector<Case> cases;
  const Form f{"", {2, 4, 9, 7}, {6, 4, 3, 3}, "pads = [1, 1, 1, 1]"};
  for (const std::string type : kTypes)
    for (const bool apart : {false, true}) {
      cases.push_back({type,
                       FromText(Text(f, type, true,
                                     "  %n = Tanh(%r) : ?\n  %s = Add(%c, %n) : ?\n"
                                     "  %t = Relu(%s) : ?\n  %y = Tanh(%t) : ?\n",
                                     ", %r: " + type + "[2, 6, 9, 7]")),
                       apart ? kFollowed : kLibrary});
      cases.back().refuse_epilogues = apart;
      if (apart) cases.push_back({type, cases.back().graph, kGenerated, "Layout", true});
    }
  Check(cases);
  CHECK(FailingDriver::Get().calls["MemcpyDtoDAsync"] > 0);
  CHECK(FailingDriver::Get().calls["GraphAddMemcpyNode"] > 0);
}

TEST_CASE("cuda conv: only what one call does is taken out of a graph") {
  if (!EmulatedGpu::Start()) return;
  const Form f{"", {2, 4, 9, 7}, {6, 4, 3, 3}, "pads = [1, 1, 1, 1]"};
  const auto steps = [&](const std::string& behind, bool bias) {
    const auto program =
        EmulatedGpu::Compile(FromText(Text(f, "f32", bias, behind, ", %r: f32[2, 6, 9, 7]")));
    return program->stats().library_calls * 10 + program->stats().kernels;
  };
  // The library's Relu drops NaN.
  CHECK(steps("  %y = Relu(%c) : ?\n", true) == 11);
  CHECK(steps("  %y = Relu(%c) : ?\n", false) == 11);
  CHECK(steps("  %y = Add(%c, %r) : ?\n", true) == 10);
  CHECK(steps("  %s = Add(%c, %r) : ?\n  %y = Relu(%s) : ?\n", true) == 11);
  CHECK(steps("  %s = Relu(%c) : ?\n  %y = Add(%s, %r) : ?\n", true) == 11);
  CHECK(steps("  %s = Add(%c, %r) : ?\n  %y = Add(%s, %r) : ?\n", true) == 11);
  CHECK(steps("  %s = Add(%c, %c) : ?\n  %y = Relu(%s) : ?\n", true) == 11);
  CHECK(steps("  %y = Sigmoid(%c) : ?\n", true) == 11);
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda conv: transposed") {
  struct Transposed {
    const char* what;
    std::vector<int64_t> x, w;
    int64_t maps;
    const char* attrs;
    bool taken;
  };
  const Transposed forms[] = {
      {"plain", {2, 3, 5, 4}, {3, 4, 3, 3}, 4, "pads = [0, 0, 0, 0]", true},
      {"1-D", {2, 3, 7}, {3, 2, 4}, 2, "pads = [1, 2], strides = [3]", true},
      {"3-D", {1, 2, 3, 4, 3}, {2, 3, 2, 3, 2}, 3, "strides = [1, 2, 2]", true},
      {"groups",
       {2, 6, 5, 5},
       {6, 2, 3, 3},
       6,
       "group = 3, strides = [2, 2], pads = [1, 1, 1, 1]",
       true},
      {"output_padding",
       {2, 3, 5, 5},
       {3, 4, 3, 3},
       4,
       "strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]",
       true},
      {"SAME_LOWER",
       {1, 3, 5, 5},
       {3, 4, 3, 3},
       4,
       "auto_pad = \"SAME_LOWER\", strides = [2, 2]",
       true},
      {"dilated", {1, 3, 6, 5}, {3, 4, 2, 3}, 4, "dilations = [2, 2], pads = [0, 1, 1, 0]", true},
      // More than one position behind the last window: no convolution takes that back.
      {"output_padding of the dilation's size",
       {1, 2, 4, 4},
       {2, 3, 2, 2},
       3,
       "dilations = [3, 3], strides = [1, 1], output_padding = [1, 1]",
       false},
  };
  std::vector<Case> cases;
  for (const Transposed& f : forms)
    for (const std::string type : kTypes)
      for (const bool bias : {false, true}) {
        const Graph g =
            FromText("graph (%x: " + type + "[" + Join(f.x) + "], %w: " + type + "[" + Join(f.w) +
                     "]" + (bias ? ", %b: " + type + "[" + std::to_string(f.maps) + "]" : "") +
                     ") -> (%y) {\n  %y = ConvTranspose(%x, %w" + (bias ? ", %b" : "") + ") {" +
                     f.attrs + "} : ?\n}");
        const Way way = !f.taken ? kGenerated : bias ? kFollowed : kLibrary;
        for (const char* layout : {"Layout", "Layout{force=last}"})
          cases.push_back({std::string(f.what) + (bias ? " bias " : " ") + type, g, way, layout});
      }
  Check(cases);
}

TEST_CASE("cuda conv: batches that are known when the program runs, and empty ones") {
  std::vector<Case> cases;
  const std::string body =
      ") -> (%y) {\n  %c = Conv(%x, %w, %b) {pads = [1, 1, 1, 1]} : ?\n  %y = Relu(%c) : ?\n}";
  for (const std::string type : kTypes)
    for (const int64_t n : {1, 5}) {
      const Graph g = FromText("graph (%x: " + type + "[n, 3, 6, 5], %w: " + type +
                               "[4, 3, 3, 3], %b: " + type + "[4]" + body);
      for (const bool apart : {false, true}) {
        cases.push_back({type + " n=" + std::to_string(n), g, apart ? kFollowed : kLibrary});
        cases.back().refuse_epilogues = apart;
        cases.back().bind = {{"n", n}};
      }
      cases.push_back({type + " gradients", WithGradients(g), kLibrary});
      cases.back().bind = {{"n", n}};
    }
  Check(cases);
  if (!EmulatedGpu::Start()) return;
  {
    const Graph g = FromText("graph (%x: f32[n, 3, 6, 5], %w: f32[4, 3, 3, 3], %b: f32[4]" + body);
    const Reference r = RunReference(g, 7, {{"n", 0}});
    const auto program = EmulatedGpu::Compile(g);
    Catch([&] { Session(program).Run(r.inputs); });
    EmulatedGpu::BuildKernels();
    CHECK(Session(EmulatedGpu::Compile(g)).Run(r.inputs)[0]->dims() ==
          std::vector<int64_t>{0, 4, 6, 5});
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda conv: networks of 16-bit types lie with their channels last") {
  // What rounds to one side or the other of zero changes a gradient: it has no Relu, no maximum.
  const auto network = [](const std::string& t, bool smooth) {
    const std::string relu = smooth ? "Identity" : "Relu", pool = smooth ? "Average" : "Max";
    return FromText("graph (%x: " + t + "[2, 3, 12, 12], %a: " + t + "[16, 3, 3, 3], %b: " + t +
                    "[16], %c: " + t + "[16, 16, 3, 3], %d: " + t + "[8, 16, 1, 1], %e: " + t +
                    "[8]) -> (%y) {\n"
                    "  %1 = Conv(%x, %a, %b) {pads = [1, 1, 1, 1]} : ?\n"
                    "  %2 = " +
                    relu +
                    "(%1) : ?\n"
                    "  %3 = Conv(%2, %c, %b) {pads = [1, 1, 1, 1]} : ?\n"
                    "  %4 = Add(%3, %2) : ?\n"
                    "  %5 = " +
                    relu +
                    "(%4) : ?\n"
                    "  " +
                    (smooth ? "%6" : "%6, %7") + " = " + pool +
                    "Pool(%5) {kernel_shape = [2, 2], strides = [2, 2]} : ?" +
                    (smooth ? "" : ", ?") + "\n  %y = Conv(%6, %d, %e) : ?\n}");
  };
  const auto count = [&](const std::string& type, double tolerance) {
    const int before = EmulatedGpu::libraries()->convs_channels_last;
    std::vector<Case> cases{{type, network(type, false)},
                            {type + " gradients", WithGradients(network(type, true))}};
    for (Case& c : cases) c.tolerance = tolerance;
    Check(cases);
    return EmulatedGpu::libraries()->convs_channels_last - before;
  };
  CHECK(count("f32", 1e-6) == 0);
  CHECK(count("f16", 2e-3) > 0);
  CHECK(count("bf16", 2e-2) > 0);
}
