/// doctest_main.cc: the one main() shared by every test executable.
///
/// For tools/run_tests.py: WEFT_TESTS_TIMED has the seconds of every case printed, and
/// WEFT_TESTS_WITHOUT names a folder in which a file of the program's name lists, a line each,
/// cases to leave out.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

namespace {

/// As a filter of doctest, which splits at commas, and takes `*` and `?` for any text.
std::string AsFilter(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c == ',' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

void LeaveOut(doctest::Context* context, const std::string& file) {
  std::ifstream names(file);
  for (std::string name; std::getline(names, name);)
    context->addFilter("test-case-exclude", AsFilter(name).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  // A kernel that cannot be generated fails the test, wherever it is; tests of such kernels ask for
  // FaultPolicy::kReport.
  setenv("WEFT_FAULTS", "throw", 1);
  doctest::Context context(argc, argv);
  if (getenv("WEFT_TESTS_TIMED")) context.setOption("duration", true);
  if (const char* folder = getenv("WEFT_TESTS_WITHOUT")) {
    const std::string path = argv[0];
    LeaveOut(&context, std::string(folder) + "/" + path.substr(path.rfind('/') + 1));
  }
  return context.run();
}
