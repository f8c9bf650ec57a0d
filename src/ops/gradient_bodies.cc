/// gradient_bodies.cc: operators of gradients in ONNX's
/// operators (FOnnxBody), beside onnx_bodies.cc.
///
/// weft::ReduceProdGrad has no division, which ONNX's operators cannot say: the product of the
/// others is the product of what is not 0 over x where nothing is 0; where one element is 0, that
/// product belongs to it and the rest have 0.
#include "weft/core/op/onnx_body.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

std::string ReduceProdGradBody(const OnnxBodyRequest& r) {
  const bool axes = r.node->num_inputs() > 2 && r.node->inputs[2];
  const auto reduce = [&](const char* op, const char* x) {
    return fmt::format("{}<keepdims = 1, noop_with_empty_axes = {}>({}{})", op,
                       r.node->attr<int64_t>("noop_with_empty_axes"), x, axes ? ", i2" : "");
  };
  return fmt::format(R"(zero32 = Constant<value_float = 0.0>()
one32 = Constant<value_float = 1.0>()
zero = CastLike(zero32, i1)
one = CastLike(one32, i1)
is_zero = Equal(i1, zero)
safe = Where(is_zero, one, i1)
marks = Where(is_zero, one, zero)
count = {}
product = {}
others = Div(product, safe)
none = Equal(count, zero)
single = Equal(count, one)
alone = And(single, is_zero)
there = Where(alone, product, zero)
d = Where(none, others, there)
o0 = Mul(i0, d))",
                     reduce("ReduceSum", "marks"), reduce("ReduceProd", "safe"));
}

/// Another device is no matter of ONNX's.
std::string CopyToBody(const OnnxBodyRequest&) { return "o0 = Identity(i0)"; }

}  // namespace

WEFT_REGISTER_OP_IN(weft, CopyTo).set_attr<FOnnxBody>("FOnnxBody", CopyToBody);
WEFT_REGISTER_OP_IN(weft, ReduceProdGrad).set_attr<FOnnxBody>("FOnnxBody", ReduceProdGradBody);

}  // namespace weft::ops
