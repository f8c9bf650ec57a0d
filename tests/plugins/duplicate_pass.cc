/// duplicate_pass.cc: registers an operator, and a pass that exists.
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"

namespace {
using namespace weft;
WEFT_REGISTER_OP_IN(test, Fresh).describe("never seen").set_num_inputs(1);
WEFT_REGISTER_PASS(Fusion).describe("another Fusion").set_body([](Graph g) { return g; });
}  // namespace
