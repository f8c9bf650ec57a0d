/// rank_test.cc: tensors of more axes than a mask of axes has bits stay out of kernels.
#include <doctest/doctest.h>

#include <string>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"

namespace weft {
namespace {

int Kernels(int rank) {
  std::string symbols;
  for (int k = 0; k < rank; ++k) symbols += (k ? ", a" : "a") + std::to_string(k);
  const std::string row = symbols.substr(0, symbols.rfind(',')) + ", 1";
  const Graph g = ApplyPasses(
      ParseGraph("weft 1\ngraph <" + symbols + ">(%x: f32[" + symbols + "], %z: f32[" + row +
                 "]) -> (%y) {\n  %a = Exp(%x) : ?\n  %b = Add(%a, %z) : ?\n"
                 "  %y = Softmax(%b) {axis = -1} : ?\n}\n"),
      "InferType,InferShape,Fusion");
  int kernels = 0;
  for (NodePtr n : g.TopoOrder()) kernels += IsOp(n, builtin::kFused);
  return kernels;
}

TEST_CASE("fusion: as many axes as a mask has bits, and more") {
  CHECK(Kernels(3) == 1);
  CHECK(Kernels(64) == 1);
  CHECK(Kernels(65) == 0);
  CHECK(Kernels(70) == 0);
}

}  // namespace
}  // namespace weft
