/// rtc_gen_test.cc: RTCGen with compilers that fail: the warning names the operators and what happens then.
#include <doctest/doctest.h>

#include <unistd.h>

#include "weft/codegen/attr_types.h"
#include "weft/codegen/kernel_compilers.h"
#include "weft/core/pass.h"
#include "weft/core/text.h"
#include "weft/support/log.h"

namespace weft {
namespace {

/// Refuses kernels with three buffers; of those with two it says something.
class Choosy final : public KernelCompiler {
 public:
  /// Of this process alone: its kernels may not be found in the user's cache, which other tests may have opened.
  std::string target() const override { return Target(); }
  static std::string Target() { return "choosy:" + std::to_string(getpid()); }
  std::string Source(const Kernel& kernel) const override { return kernel.CanonicalText(); }
  std::string source_extension() const override { return ".txt"; }
  std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>* errors) override {
    ++calls();
    std::vector<std::string> binaries;
    for (const KernelPtr& k : kernels) {
      const bool refused = k->buffers.size() == 3;
      binaries.push_back(refused ? "" : "code");
      errors->push_back(refused ? "line 7: I do not like it" : "12 bytes in memory");
    }
    return binaries;
  }
  KernelStats Stats(const Kernel&, const std::string&) const override { return {}; }
  static int& calls() {
    static int calls = 0;
    return calls;
  }
};

TEST_CASE("RTCGen: what does not compile is told by the names of its operators") {
  RegisterKernelCompiler("choosy", [](const std::string&) { return std::make_shared<Choosy>(); });
  const Graph g = ParseGraph(R"(weft 1
graph (%x: f32[4, 5], %y: f32[4, 5]) -> (%r, %s) {
  %total = Add(%x, %y) : f32[4, 5]
  %r = Relu(%total) : f32[4, 5]
  %s = ReduceSum(%y) : f32[1, 1]
}
)");
  std::vector<std::string> warnings;
  const LogSink before = SetLogSink([&](LogLevel level, const char*, int, std::string_view text) {
    if (level >= LogLevel::kWarning) warnings.emplace_back(text);
  });
  PassOptions options;
  options.target = Choosy::Target();
  options.faults = Faults::kReport;
  const Graph compiled =
      ApplyPasses(g, Pipeline::Parse("Fusion{max_ops=2},CodeGen,RTCGen"), options);
  CHECK(Choosy::calls() == 1);
  // What did not compile is tried again, what did is at hand.
  ApplyPasses(g, Pipeline::Parse("Fusion{max_ops=2},CodeGen,RTCGen"), options);
  SetLogSink(before);
  CHECK(Choosy::calls() == 2);
  const Graph fine = ParseGraph(R"(weft 1
graph (%y: f32[4, 5]) -> (%s) {
  %s = Neg(%y) : f32[4, 5]
}
)");
  SetLogSink([](LogLevel, const char*, int, std::string_view) {});
  for (int run = 0; run < 3; ++run)
    ApplyPasses(fine, Pipeline::Parse("Fusion,CodeGen,RTCGen"), options);
  SetLogSink(before);
  CHECK(Choosy::calls() == 3);
  std::string all;
  for (const std::string& w : warnings) all += w + "\n";
  CAPTURE(all);
  REQUIRE(warnings.size() == 3);
  for (const std::string& part :
       {std::string("(Add, Relu of 'total', 'r') does not compile for choosy:"),
        std::string("its operators run in the interpreter: line 7: I do not like it"),
        "(ReduceSum of 's') for " + Choosy::Target() + ": 12 bytes in memory"})
    CHECK(all.find(part) != std::string::npos);
}

}  // namespace
}  // namespace weft
