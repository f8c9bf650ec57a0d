/// row_dot_test.cc: the call against the operator's definition in the interpreter.
#include <doctest/doctest.h>

#include "weft/core/pass/evaluator.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"

namespace weft::cpu {
namespace {

TEST_CASE("RowDot: f32 by the call, f64 by a kernel, any number of rows") {
  for (const char* type : {"f32", "f64"}) {
    const Graph g = ParseGraph("weft 1\ngraph (%a: " + std::string(type) + "[m, k], %b: " + type +
                               "[m, k]) -> (%y) {\n %y = weft::RowDot(%a, %b) : ?\n}\n");
    const auto program = Compile(g);
    CHECK(program->stats().library_calls == 1);
    for (int64_t m : {0, 1, 3}) {
      const auto inputs = RandomProgramInputs(*program, 1, {{"m", m}, {"k", 5}});
      const TensorPtr got = Session(program).Run(inputs)[0];
      CHECK(CompareTensors(*got, *GetEvaluator()->Eval(g, inputs)[0]) <= 1);
    }
  }
}

}  // namespace
}  // namespace weft::cpu
