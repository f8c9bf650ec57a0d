/// nnvm_ops_test.cc: second half of the operators of nnvm_test.cc: an op may be
/// opened in several files.
#include "weft/nnvm.h"

namespace {

using nnvm::ASTPtr;
using nnvm::FGradient;
using nnvm::NodeEntry;
using nnvm::NodePtr;

NNVM_REGISTER_OP(n16_add).set_attr<FGradient>("FGradient",
                                              [](const NodePtr&,
                                                 const std::vector<NodeEntry>& ograds) {
                                                return std::vector<NodeEntry>{ograds[0], ograds[0]};
                                              });

NNVM_REGISTER_OP(n16_mul).set_attr<FGradient>(
    "FGradient", [](const NodePtr& n, const std::vector<NodeEntry>& ograds) {
      return std::vector<NodeEntry>{
          nnvm::MakeNode("n16_mul", n->attrs.name + "_g0", {ograds[0], n->inputs[1]}),
          nnvm::MakeNode("n16_mul", n->attrs.name + "_g1", {ograds[0], n->inputs[0]})};
    });

}  // namespace
