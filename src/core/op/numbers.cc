/// numbers.cc: see numbers.h.
#include "weft/core/op/numbers.h"

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/support/check.h"

namespace weft {
namespace {

constexpr const char* kNumber = "number";

}  // namespace

NodeEntry AddNumberInput(Graph& g, std::string name, SymInt symbol) {
  WEFT_CHECK(symbol.known() && symbol.is_symbol(), kApiMisuse,
             "input '{}' gives a value to a symbol, not to {}", name, symbol.ToString());
  const NodePtr input = g.AddInput(std::move(name), DType::kBool, Shape({SymInt(0), symbol}));
  g.SetAttr(input, kNumber, int64_t{1});
  return NumberOf(g, symbol);
}

NodeEntry NumberOf(Graph& g, SymInt e) {
  WEFT_CHECK(e.known(), kApiMisuse, "an unknown size is not a number");
  const NodePtr vector =
      g.AddNode(builtin::kShapeTensor, {}, {{"dims", Shape(std::vector<SymInt>{e})}});
  const NodeEntry scalar =
      g.AddConstant(std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{0}));
  return NodeEntry(g.AddNode("Reshape", {NodeEntry(vector), scalar}));
}

bool IsNumberInput(const NodePtr& variable) {
  const AttrValue* v = variable->is_variable() ? variable->attrs.dict.find(kNumber) : nullptr;
  return v && v->get<int64_t>() != 0;
}

void AddFact(Graph& g, std::string_view fact) {
  Facts facts = g.AttrOr<Facts>("facts");
  facts.Parse(fact);
  g.SetAttr("facts", std::move(facts));
}

}  // namespace weft
