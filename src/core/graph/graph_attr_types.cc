/// graph_attr_types.cc: registration of the attributes of graph_attr_types.h.
#include "weft/core/graph/graph_attr_types.h"

#include "attr_value.h"
#include "entry_attrs.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// "n" for a scalar, "[2, n]" for a vector, "[2, 2]: [1, n, 3, ?]" for more dims.
std::string ValueText(const SymTensorPtr& v) {
  if (!v) return "?";
  if (v->dims.empty()) return v->elements[0].ToString();
  const std::string list = Shape(v->elements).ToString();
  return v->dims.size() == 1 ? list : Shape::OfInts(v->dims).ToString() + ": " + list;
}

SymTensorPtr ParseValue(const std::string& text) {
  std::string_view all = Trim(text);
  auto v = std::make_shared<SymTensor>();
  if (all.empty() || all.front() != '[') {
    v->elements = {all == "?" ? SymInt() : SymInt::Parse(all)};
    return v;
  }
  const size_t colon = all.find(':');
  v->elements = Shape::Parse(colon == all.npos ? all : all.substr(colon + 1)).dims();
  v->dims = {int64_t(v->elements.size())};
  if (colon == all.npos) return v;
  v->dims.clear();
  int64_t count = 1;
  const Shape extents = Shape::Parse(all.substr(0, colon));
  for (SymInt d : extents.dims()) {
    WEFT_CHECK(d.known() && d.is_const() && d.value() >= 0 &&
                   !__builtin_mul_overflow(count, d.value(), &count),
               kSyntax, "the dimensions of a value are numbers, got '{}'", text);
    v->dims.push_back(d.value());
  }
  WEFT_CHECK(count == int64_t(v->elements.size()), kSyntax,
             "{} elements for the dimensions of '{}'", v->elements.size(), text);
  return v;
}

}  // namespace

WEFT_REGISTER_GRAPH_ATTR(value, kDerived, ValueMap)
    .describe("value of a small integer tensor as far as it is known when compiling")
    .hidden()
    .text(ValueText, ParseValue);

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

WEFT_REGISTER_GRAPH_ATTR(introduced, kGiven, ShapeMap)
    .describe("shapes of nodes at which a data-dependent size begins")
    .hidden();

void HandOnSizes(Graph& g, const NodeEntry& from, const NodeEntry& to) {
  const auto it = g.attrs.find("introduced");
  if (it == g.attrs.end() || !it->second) return;
  const auto& rows = *std::any_cast<ShapeMap>(it->second.get());
  const Shape* sizes = rows.find(from);
  if (!sizes || rows.find(to)) return;
  const Shape handed = *sizes;
  std::any_cast<ShapeMap>(&OwnValue(it->second))->set(to, handed);
}

WEFT_REGISTER_GRAPH_ATTR(subgraph, kDerived, SubgraphMap)
    .describe("fused body of every weft::Fused node")
    .hidden();

WEFT_REGISTER_GRAPH_ATTR(order, kDerived, Order)
    .describe("execution order, by node id")
    .hidden()
    .remap([](Order& o, const std::vector<NodeId>& map) {
      for (NodeId& id : o.nodes) id = map[id];
    });

}  // namespace weft
