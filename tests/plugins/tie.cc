/// tie.cc: gives an operator an attribute that it has, with the priority that it has.
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/op/op.h"

namespace {
using namespace weft;
WEFT_REGISTER_OP(Relu).set_attr<int>("TTestGrade", 1);
WEFT_REGISTER_OP(Relu).set_attr<FCodeGen>("FCodeGen", [](const NodePtr&, const Exprs& in) -> Exprs {
  return {in[0]};
});
}  // namespace
