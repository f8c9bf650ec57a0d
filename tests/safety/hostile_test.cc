/// hostile_test.cc: every hostile model is answered: within two seconds of processor time and
/// one gibibyte of address space, with a code, and with the name of what is at fault. None of
/// them costs the process.
#include <doctest/doctest.h>

#include <algorithm>

#include "hostile_models.h"
#include "limited_child.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"
#include "weft/core/pass/evaluator.h"
#include "weft/onnx/import.h"
#include "weft/runtime/program/program.h"

namespace weft::safety {
namespace {

using e2e::kSanitized;

// The build for fuzzing has no kernels: 200,000 operators go through the
// interpreter, and through sanitizers.
constexpr double kSeconds = kSanitized ? 120 : 2;
constexpr int64_t kBytes = kSanitized ? 0 : int64_t{1} << 30;  // a sanitizer's shadow is larger

/// "ran", or "<number of the code> <the whole message>".
std::string Answer(const std::string& bytes, const std::string& folder,
                   const std::string& backend) {
  try {
    ImportOptions import;
    import.external_data_dir = folder;
    Graph graph = ImportOnnxBytes(bytes, import);
    CompileOptions options;
    options.backend = backend;
    options.threads = 1;
    const auto program = Compile(std::move(graph), options);
    Session(program).Run(RandomProgramInputs(*program, 1, {}));
    return "ran";
  } catch (const Error& e) {
    return std::to_string(int(e.code())) + " " + e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
}

std::string BackendOfThisBuild() {
  for (const char* name : {"cpu", "ref"}) {
    try {
      GetBackend(name);
      return name;
    } catch (const Error&) {
    }
  }
  return {};
}

TEST_CASE("hostile models are answered") {
  REQUIRE(HostileModels().size() >= 40);
  ChildReport backend = RunLimited(
      {}, [] {}, BackendOfThisBuild);
  REQUIRE_MESSAGE(!backend.died, backend.how);
  double slowest = 0;
  std::string slowest_name;
  for (const HostileModel& m : HostileModels()) {
    CAPTURE(m.name);
    const e2e::TempFolder folder;
    const std::string bytes = m.make(folder.path());
    const ChildReport r = RunLimited(
        {kSeconds, kBytes}, [&] { GetBackend(backend.text); },
        [&] { return Answer(bytes, folder.path(), backend.text); });
    CHECK_MESSAGE(!r.died, r.how);
    if (r.died) continue;
    CAPTURE(r.text);
    CHECK(r.cpu_seconds < kSeconds);
    if (r.cpu_seconds > slowest) slowest = r.cpu_seconds, slowest_name = m.name;
    if (r.text == "ran") {
      CHECK(m.may_run);
      continue;
    }
    const int code = std::atoi(r.text.c_str());
    const bool right =
        std::any_of(m.codes.begin(), m.codes.end(), [&](ErrorCode c) { return int(c) == code; });
    CHECK(right);
    CHECK(r.text.find(m.says) != std::string::npos);
  }
  MESSAGE(HostileModels().size() << " models, the slowest answer: " << slowest_name << ", "
                                 << slowest << " s");
}

}  // namespace
}  // namespace weft::safety
