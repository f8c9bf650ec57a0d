/// main.cc: weft_docs DIR: writes the reference pages ops.md, passes.md, math.md and
/// disagreements.md into DIR.
///
/// The registries, and a table that a test runs, are the only sources, so the pages cannot disagree
/// with the library. The build runs it once after libweft.so and the loadable backends are linked.
/// A page is replaced only when its text has changed.
#include <fmt/format.h>

#include <filesystem>

#include "pages.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/op/op.h"
#include "weft/support/error.h"
#include "weft/support/file.h"

namespace weft::docs {
namespace {

void Write(const std::string& path, const std::string& text) {
  if (FileExists(path) && ReadFile(path) == text) return;
  WriteFileAtomic(path, text);
}

int Main(const std::string& dir) {
  CheckRegistrations();
  // Library implementations register while the backend's module loads.
  if (std::string why; !FindBackendModule("cpu", &why))
    fmt::print(stderr, "weft_docs: without the backend 'cpu': {}\n", why);
  std::filesystem::create_directories(dir);
  Write(dir + "/ops.md", OpsPage());
  Write(dir + "/passes.md", PassesPage());
  Write(dir + "/math.md", MathPage());
  Write(dir + "/disagreements.md", DisagreementsPage());
  return 0;
}

}  // namespace
}  // namespace weft::docs

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: weft_docs DIR\n");
    return 2;
  }
  try {
    return weft::docs::Main(argv[1]);
  } catch (const weft::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return weft::ExitCode(e.code());
  } catch (const std::exception& e) {
    fmt::print(stderr, "weft_docs: {}\n", e.what());
    return 70;
  }
}
