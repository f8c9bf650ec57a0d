/// value_name_test.cc: a name says which value of the user's model an entry is.
#include "weft/core/graph/value_name.h"

#include <doctest/doctest.h>

#include "weft/core/op/op.h"
#include "weft/core/text/text.h"

namespace weft {
namespace {

WEFT_REGISTER_OP(NameOne).set_num_inputs(1);
WEFT_REGISTER_OP(NameThree).set_num_inputs(1).set_num_outputs(3);
WEFT_REGISTER_OP(NameAny).set_num_inputs(kVarg);

Graph Parsed(const char* text) { return ParseGraph(text); }
NodePtr Named(const Graph& g, const std::string& name) {
  for (NodeId id = 0; id < g.id_bound(); ++id)
    if (const NodePtr n = g.node(id); n && n->attrs.name == name) return n;
  return nullptr;
}

TEST_CASE("what takes the place of a value is called as that was") {
  Graph g = Parsed(R"(weft 1
graph (%x: f32[2]) -> (%z) {
  %y = NameOne(%x) : ?
  %z = NameOne(%y) : ?
})");
  const NodePtr y = Named(g, "y");
  const NodeEntry fresh(g.AddNode("NameOne", {NodeEntry(g.inputs()[0])}));
  g.ReplaceNode(y, {fresh});
  CHECK(ValueName(g, fresh) == "y");
}

TEST_CASE("a value that has a name keeps it, and what stands behind a value is another one") {
  Graph g = Parsed(R"(weft 1
graph (%x: f32[2]) -> (%z) {
  %y = NameOne(%x) : ?
  %z = NameOne(%y) : ?
})");
  const NodePtr y = Named(g, "y");
  const NodeEntry behind(g.AddNode("NameOne", {NodeEntry(y)}));
  g.ReplaceUses(NodeEntry(y), behind);
  CHECK(ValueName(g, behind).empty());
  CHECK(ValueName(g, NodeEntry(y)) == "y");
  const NodePtr z = Named(g, "z");
  g.ReplaceUses(NodeEntry(z), NodeEntry(y));
  CHECK(ValueName(g, NodeEntry(y)) == "y");
  CHECK(g.OutputName(0) == "z");  // the output is called as before, whatever computes it
}

TEST_CASE("outputs behind the first have names of their own, in text too") {
  const char* text = R"(weft 1
graph (%x: f32[4]) -> (%b) {
  %a, %b, %a:2 = NameThree(%x) : ?, ?, ?
  %c = NameAny(%a, %b, %a:2) : ?
}
)";
  Graph g = Parsed(text);
  CHECK(PrintGraph(g) == text);
  const NodePtr split = Named(g, "a");
  CHECK(ValueName(g, {split, 1}) == "b");
  CHECK(ValueName(g, {split, 2}).empty());
  CHECK(g.OutputName(0) == "b");
  const NodeEntry part(g.AddNode("NameOne", {NodeEntry(g.inputs()[0])}));
  g.ReplaceUses({split, 1}, part);
  CHECK(part.node->attrs.name == "b");
}

TEST_CASE("a name that is taken is printed with a number, and stays what it is") {
  Graph g = Parsed(R"(weft 1
graph (%x: f32[4]) -> (%x.2, %b) {
  %a, %b, %c = NameThree(%x) : ?, ?, ?
  %x.2 = NameOne(%a) : ?
})");
  SetValueName(&g, {Named(g, "a"), 1}, "x");
  const std::string once = PrintGraph(g);
  CHECK(PrintGraph(ParseGraph(once)) == once);
  CHECK(once.find("%a, %x.2, %c = NameThree") != std::string::npos);
}

}  // namespace
}  // namespace weft
