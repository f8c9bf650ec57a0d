/// attr_types.cc: registration of the attributes of attr_types.h.
#include "weft/codegen/attr_types.h"

#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

std::string ValueText(const SymTensorPtr& v) {
  if (!v) return "?";
  std::string s = "[";
  for (size_t i = 0; i < v->elements.size(); ++i) s += (i ? ", " : "") + v->elements[i].ToString();
  return s + "]";
}

}  // namespace

WEFT_REGISTER_GRAPH_ATTR(value, kDerived, ValueMap)
    .describe("value of a small integer tensor as far as it is known when compiling")
    .hidden()
    .text(ValueText, [](const std::string& text) -> SymTensorPtr {
      auto v = std::make_shared<SymTensor>();
      std::string_view inner = Trim(text);
      WEFT_CHECK(inner.size() >= 2 && inner.front() == '[' && inner.back() == ']', kSyntax,
                 "a value reads [a, b, ...], got '{}'", text);
      inner = inner.substr(1, inner.size() - 2);
      if (!Trim(inner).empty())
        for (const std::string& part : Split(inner, ','))
          v->elements.push_back(Trim(part) == "?" ? SymInt() : SymInt::Parse(Trim(part)));
      v->dims = {int64_t(v->elements.size())};
      return v;
    });

WEFT_REGISTER_GRAPH_ATTR(unknown, kDerived, UnknownMap)
    .describe("why the shape of an entry is not, or not wholly, known")
    .text([](const std::string& s) { return s; }, [](const std::string& s) { return s; });

WEFT_REGISTER_GRAPH_ATTR(facts, kGiven, Facts)
    .describe("ranges, divisors and equalities of the symbols")
    .text([](const Facts& f) { return Join(f.ToStrings(), "; "); },
          [](const std::string& s) {
            Facts f;
            for (const std::string& fact : Split(s, ';'))
              if (!Trim(fact).empty()) f.Parse(Trim(fact));
            return f;
          });

WEFT_REGISTER_GRAPH_ATTR(subgraph, kDerived, SubgraphMap)
    .describe("fused body of every weft::Fused node")
    .hidden();

WEFT_REGISTER_GRAPH_ATTR(kernel, kDerived, KernelMap)
    .describe("kernel of every weft::Fused node")
    .hidden();

WEFT_REGISTER_GRAPH_ATTR(rtc, kDerived, RtcMap).describe("machine code of every kernel").hidden();

WEFT_REGISTER_GRAPH_ATTR(order, kDerived, Order)
    .describe("execution order, by node id")
    .hidden()
    .remap([](Order& o, const std::vector<NodeId>& map) {
      for (NodeId& id : o.nodes) id = map[id];
    });

}  // namespace weft
