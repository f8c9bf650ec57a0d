/// doctest_main.cc: the one main() shared by every test executable.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  // A kernel that cannot be generated fails the test, wherever it is; tests of such kernels ask for
  // FaultPolicy::kReport.
  setenv("WEFT_FAULTS", "throw", 1);
  return doctest::Context(argc, argv).run();
}
