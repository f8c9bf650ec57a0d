/// expression.cc: weft::Expression, an element-wise operator that carries its meaning with it
/// (codegen/expr/expr_text.h).
#include "ops/util/op_util.h"
#include "weft/codegen/expr/expr_text.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct ExpressionParam : OpParam<ExpressionParam> {
  std::string code, of;
  Strings dtypes;
  WEFT_OP_PARAM(ExpressionParam) {
    WEFT_FIELD(code).describe("one element of every output, over the inputs as places");
    WEFT_FIELD(dtypes).describe("of the outputs");
    WEFT_FIELD(of).set_default("").describe("the operator that it stands for; for people");
  }
};
WEFT_REGISTER_OP_PARAM(ExpressionParam);

uint32_t ExpressionOutputs(const NodeAttrs& attrs) {
  const AttrValue* v = attrs.dict.find("dtypes");
  return v && v->is<Strings>() ? uint32_t(v->get<Strings>().size()) : 1;
}

DType OutputType(const NodePtr& n, size_t k) {
  const std::string& name = ParamOf<ExpressionParam>(n).dtypes[k];
  const std::optional<DType> t = ParseDType(name);
  WEFT_CHECK(t && IsComputable(*t), kBadAttribute, "{}: output {} has the dtype '{}'",
             n->Describe(), k, name);
  return *t;
}

Exprs ExpressionCode(const NodePtr& n, const Exprs& in) {
  Exprs results = ParseExprs(ParamOf<ExpressionParam>(n).code);
  WEFT_CHECK(results.size() == n->num_outputs(), kBadAttribute, "{}: {} expressions for {} outputs",
             n->Describe(), results.size(), n->num_outputs());
  for (size_t k = 0; k < results.size(); ++k) {
    results[k] = RewriteExpr(results[k], [&](const Expr& leaf) {
      const int slot = leaf->slot();
      WEFT_CHECK(slot >= 0 && size_t(slot) < in.size(), kBadAttribute,
                 "{}: its expression reads input {}", n->Describe(), slot);
      const Expr& x = in[size_t(slot)];
      WEFT_CHECK(x && x->dtype() == leaf->dtype(), kTypeMismatch,
                 "{}: its expression takes {} for input {}, which is {}", n->Describe(),
                 DTypeName(leaf->dtype()), slot, x ? DTypeName(x->dtype()) : "absent");
      return x;
    });
    const DType t = OutputType(n, k);
    if (results[k]->is_literal()) results[k] = Expr::Cast(t, results[k]);
    WEFT_CHECK(results[k]->dtype() == t, kTypeMismatch, "{}: its expression gives {} for output {}",
               n->Describe(), DTypeName(results[k]->dtype()), k);
  }
  return results;
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Expression)
    .describe(
        "Element-wise: the outputs as `code` says. What a saved program has in the place of an "
        "element-wise operator of the program that made it, so that it runs where "
        "that operator is not registered. Errors: code that cannot be parsed (kSyntax), inputs of "
        "other dtypes "
        "(kTypeMismatch). Gradient: by its expression. Source: Weft.")
    .variadic_input("inputs", "any")
    .output("outputs", "as `dtypes` says", "the broadcast shape of all inputs")
    .set_num_inputs(0, INT32_MAX)
    .set_num_outputs(ExpressionOutputs)
    .param<ExpressionParam>()
    .include("ElementwiseVariadic")
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            for (int k = 0; k < ctx.num_outputs(); ++k)
                              ctx.set_out(k, OutputType(ctx.node(), size_t(k)));
                          })
    .set_attr<FCodeGen>("FCodeGen", ExpressionCode)
    .example({"f32[2, n]", "f32[n]"},
             "code = \"x 0 f32; x 1 f32; add 0 1; call exp 2; = 3\", dtypes = [\"f32\"]");

}  // namespace weft::ops
