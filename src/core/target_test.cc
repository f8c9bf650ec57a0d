/// target_test.cc: targets, what their module declares, and modules that are not there.
#include "weft/core/target.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/code_of.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/op/op.h"
#include "weft/runtime/backend/compute.h"

namespace weft {
namespace {

const FCompute kCall = [](const ComputeRequest&) -> std::unique_ptr<PreparedCall> {
  return nullptr;
};
WEFT_REGISTER_OP(TargetCalled).set_num_inputs(1).set_attr<FCompute>("FCompute.target_lib", kCall);
WEFT_REGISTER_OP(TargetNotCalled).set_num_inputs(1);

TargetTraits Odd() {
  TargetTraits t;
  t.one_loop_copies = t.device_memory = true;
  t.default_arch = "v7";
  return t;
}
const bool registered = RegisterBackendModule(
    BackendModule("target_test").set_traits(Odd()).set_library("target_lib").set_report([] {
      return std::vector<ReportRow>{{"device 0", "a test"}};
    }));

TEST_CASE("a target is a family, perhaps an architecture, and a library") {
  REQUIRE(registered);
  CHECK(SplitTarget("a:b:c") == std::pair<std::string, std::string>("a", "b:c"));
  CHECK(SplitTarget("a") == std::pair<std::string, std::string>("a", ""));
  const Target t = "target_test:v8";
  CHECK(t.name() == "target_test:v8");
  CHECK(t.family() == "target_test");
  CHECK(t.arch() == "v8");
  CHECK(t.library() == "target_lib");
  CHECK(t.traits().device_memory);
  CHECK(t.traits().default_arch == "v7");
  CHECK(t.compute(Op::Get("TargetCalled")));
  CHECK(!t.compute(Op::Get("TargetNotCalled")));
  CHECK(!t.epilogue(Op::Get("TargetCalled")));
  CHECK(!t.layout(Op::Get("TargetCalled")));
  const Target other = t.WithLibrary("elsewhere");
  CHECK(other.traits().device_memory);
  CHECK(!other.compute(Op::Get("TargetCalled")));
  CHECK(!(other == t));
  CHECK(Target("target_test:v8") == t);
}

TEST_CASE("without a module: its own name as library, and the ordinary traits") {
  const Target none, unknown = "no_such_family:x";
  CHECK(none.none());
  CHECK(!none.compute(Op::Get("TargetCalled")));
  CHECK(unknown.library() == "no_such_family");
  CHECK(unknown.traits().kernels);
  CHECK(!unknown.traits().device_memory);
  std::string why;
  CHECK(!bool(FindBackendModule("no_such_family", &why)));
  CHECK(why.find("libweft_no_such_family.so") != std::string::npos);
  const std::vector<ReportRow> rows = ReportOfBackend("no_such_family");
  REQUIRE(rows.size() == 1);
  CHECK(!rows[0].ok);
}

TEST_CASE("a module is registered once, and lists itself") {
  const std::vector<std::string> names = ListBackendModules();
  CHECK(std::count(names.begin(), names.end(), "target_test") == 1);
  REQUIRE(ReportOfBackend("target_test").size() == 1);
  CHECK(ReportOfBackend("target_test")[0].found == "a test");
  RegisterBackendModule(BackendModule("target_test"));
  CHECK(CodeOf([] { FindBackendModule("target_test"); }) == ErrorCode::kDuplicate);
  CHECK(bool(FindBackendModule("target_test")));  // the error is told once
}

}  // namespace
}  // namespace weft
