/// copy_to.cc: weft::CopyTo, which moves a tensor from one device to another.
#include "ops/util/op_util.h"
#include "weft/core/op/onnx_body.h"

namespace weft::ops {
namespace {

struct CopyToParam : OpParam<CopyToParam> {
  std::string device;
  WEFT_OP_PARAM(CopyToParam) {
    WEFT_FIELD(device).describe("device of the copy, as in the graph attribute `device`");
  }
};
WEFT_REGISTER_OP_PARAM(CopyToParam);

}  // namespace

WEFT_REGISTER_OP_IN(weft, CopyTo)
    .describe(
        "y = x, in memory of its own on `device`. Made by the pass PlaceDevice between nodes on "
        "two "
        "devices; never fused.\n"
        "Gradient: dy, which the next PlaceDevice moves back. Source: NNVM device_copy_op.")
    .input("x", TypeDoc(kAllTypes))
    .output("y", "T", "the shape of x")
    .param<CopyToParam>()
    .example({"f32[2, n, 3]"}, "device = \"cpu\"")
    .set_attr<FInferType>("FInferType", SameType(kAllTypes))
    .set_attr<FInferShape>("FInferShape", UnaryShapeAndValue([](const std::vector<SymInt>& x,
                                                                const ValueArgs&) { return x[0]; }))
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kOpaque)
    .set_attr<FCodeGen>("FCodeGen", [](const NodePtr&, const Exprs& x) -> Exprs { return {x[0]}; })
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr&, const std::vector<NodeEntry>& dy)
                             -> std::vector<NodeEntry> { return {dy[0]}; })
    .set_attr<FOnnxBody>("FOnnxBody", [](const OnnxBodyRequest&) {  // ONNX has no devices
      return std::string("o0 = Identity(i0)");
    });

}  // namespace weft::ops
