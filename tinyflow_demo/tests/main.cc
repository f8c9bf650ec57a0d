#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  setenv("WEFT_FAULTS", "throw", 1);
  return doctest::Context(argc, argv).run();
}
