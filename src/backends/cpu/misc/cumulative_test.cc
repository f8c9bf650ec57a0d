/// cumulative_test.cc: running sums and products against their definitions in the interpreter.
#include <doctest/doctest.h>

#include "weft/core/pass/evaluator.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"
#include "weft/support/error.h"

namespace weft::cpu {
namespace {

std::shared_ptr<const Program> Make(const std::string& op, const std::string& type,
                                    const std::string& rest, std::string* text) {
  *text =
      "weft 1\ngraph (%x: " + type + ") -> (%y) {\n %a = Constant() {value = " + rest + " : ?\n}\n";
  text->replace(text->find("OP"), 2, op);
  const auto program = Compile(ParseGraph(*text));
  CHECK_MESSAGE(program->stats().library_calls == 1, *text);
  return program;
}

TEST_CASE("every axis, both directions, with and without the element itself, every type") {
  for (const char* op : {"CumSum", "CumProd"}) {
    for (const char* type : {"f32", "f64", "f16", "bf16", "i32", "i64", "u32", "u64"}) {
      for (int axis = -3; axis < 3; ++axis) {
        for (int mode = 0; mode < 4; ++mode) {
          if (type[0] != 'f' && (axis < 0 || mode == 1)) continue;  // enough of each
          std::string text;
          const auto program =
              Make(op, std::string(type) + "[6, n, 40]",
                   "tensor i64[] [" + std::to_string(axis) +
                       "]} : i64[]\n %y = OP(%x, %a) {exclusive = " + std::to_string(mode & 1) +
                       ", reverse = " + std::to_string(mode >> 1) + "}",
                   &text);
          // More steps than are walked at once, more lines than side by side.
          auto x = std::make_shared<Tensor>(*ParseDType(type), std::vector<int64_t>{6, 9, 40});
          for (int64_t i = 0; i < x->num_elements(); ++i) {
            if (IsFloat(x->dtype()))
              x->set(i, i % 5 ? 1 + double(i % 7 - 3) / 16 : -0.5);
            else
              x->set_int(i, i % 11 + 1);
          }
          const TensorPtr got = Session(program).Run({x})[0],
                          want = GetEvaluator()->Eval(ParseGraph(text), {x})[0];
          CHECK_MESSAGE(CompareTensors(*got, *want, -1, -1) <= 1, text);
        }
      }
    }
  }
}

TEST_CASE("an axis of a million elements, and of none") {
  constexpr int64_t kMany = 1000000;
  std::string text;
  const auto program =
      Make("CumSum", "f32[n]", "tensor i64[] [0]} : i64[]\n %y = OP(%x, %a)", &text);
  auto x = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{kMany});
  for (int64_t i = 0; i < kMany; ++i) x->mutable_data_as<float>()[i] = 0.1f;
  const TensorPtr y = Session(program).Run({x})[0];
  CHECK(y->at(kMany - 1) == doctest::Approx(1e5).epsilon(1e-6));
  const auto none = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{0});
  CHECK(Session(program).Run({none})[0]->num_elements() == 0);
}

}  // namespace
}  // namespace weft::cpu
