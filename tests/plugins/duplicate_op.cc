/// duplicate_op.cc: registers an operator of its own, a pass, and then one that exists.
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"

namespace {
using namespace weft;
WEFT_REGISTER_OP_IN(test, Fresh).describe("never seen").set_num_inputs(1);
WEFT_REGISTER_PASS(FreshPass).describe("never seen").set_body([](Graph g) { return g; });
WEFT_REGISTER_OP(Relu).describe("another Relu").set_num_inputs(2);
}  // namespace
