/// rtc_gen_test.cc: RTCGen with compilers that fail: the fault names the operators
/// and what happens then.
#include <doctest/doctest.h>
#include <unistd.h>

#include "tests/support/temp_folder.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/pass/pass.h"
#include "weft/core/pass/reproducer.h"
#include "weft/core/text/text.h"
#include "weft/support/error.h"
#include "weft/support/log.h"

namespace weft {
namespace {

/// Refuses kernels with three buffers; of those with two it says something.
class Choosy final : public KernelCompiler {
 public:
  /// Of this process alone: its kernels may not be found in the user's cache, which other tests may
  /// have opened.
  std::string target() const override { return TargetName(); }
  static std::string TargetName() { return "choosy:" + std::to_string(getpid()); }
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
  RegisterBackendModule(BackendModule("choosy").set_compiler(
      [](const Target&) { return std::make_shared<Choosy>(); }));
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
  options.target = Choosy::TargetName();
  options.faults = FaultPolicy::kReport;
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
        "(ReduceSum of 's') for " + Choosy::TargetName() + ": 12 bytes in memory"})
    CHECK(all.find(part) != std::string::npos);
}

TEST_CASE("RTCGen: a kernel that does not compile is a fault: counted, recorded, or thrown") {
  RegisterBackendModule(BackendModule("choosy2").set_compiler(
      [](const Target&) { return std::make_shared<Choosy>(); }));
  const Graph g = ParseGraph(R"(weft 1
graph (%x: f32[7], %y: f32[7]) -> (%r) {
  %r = Sub(%x, %y) : f32[7]
}
)");
  const Pipeline pipeline = Pipeline::Parse("Fusion,CodeGen,RTCGen");
  const e2e::TempFolder folder;
  std::vector<PassRecord> records;
  PassOptions options;
  options.target = "choosy2:" + std::to_string(getpid());
  options.records = &records;
  options.reproducer = folder / "r.weft";
  options.faults = FaultPolicy::kReport;
  const LogSink before = SetLogSink([](LogLevel, const char*, int, std::string_view) {});
  ApplyPasses(g, pipeline, options);
  SetLogSink(before);
  REQUIRE(records.back().faults.size() == 1);
  CHECK(records.back().faults[0].find("(Sub of 'r') does not compile") != std::string::npos);
  const Reproducer r = ParseReproducer(e2e::Slurp(options.reproducer));
  CHECK(r.pass == "RTCGen");
  CHECK(r.error == "WEFT-E0901");
  // As the tests have it, by the environment and by the option.
  for (const FaultPolicy faults : {FaultPolicy::kDefault, FaultPolicy::kThrow}) {
    options.faults = faults;
    CHECK_THROWS_AS(ApplyPasses(g, pipeline, options), InternalError);
  }
}

/// There, but for the library that it calls.
class Missing final : public KernelCompiler {
 public:
  std::string target() const override { return "missing"; }
  std::string Source(const Kernel&) const override { return {}; }
  std::string source_extension() const override { return ".txt"; }
  std::string WhyUnavailable() const override { return "no such library"; }
  std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>* errors) override {
    errors->assign(kernels.size(), WhyUnavailable());
    return std::vector<std::string>(kernels.size());
  }
  KernelStats Stats(const Kernel&, const std::string&) const override { return {}; }
};

TEST_CASE("RTCGen: a compiler that is not installed is no fault") {
  RegisterBackendModule(BackendModule("missing").set_compiler(
      [](const Target&) { return std::make_shared<Missing>(); }));
  std::vector<PassRecord> records;
  PassOptions options;
  options.target = "missing";
  options.records = &records;
  options.faults = FaultPolicy::kThrow;
  const LogSink before = SetLogSink([](LogLevel, const char*, int, std::string_view) {});
  ApplyPasses(ParseGraph("weft 1\ngraph (%x: f32[7]) -> (%r) {\n  %r = Exp(%x) : f32[7]\n}\n"),
              Pipeline::Parse("Fusion,CodeGen,RTCGen"), options);
  SetLogSink(before);
  CHECK(records.back().faults.empty());
  REQUIRE(records.back().warnings.size() == 1);
  CHECK(records.back().warnings[0].find("no such library") != std::string::npos);
}

}  // namespace
}  // namespace weft
