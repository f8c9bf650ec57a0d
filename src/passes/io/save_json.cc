/// save_json.cc: SaveJSON. Puts the graph as JSON (weft/core/json/json.h) into the graph attribute
/// `json`, where other programs find it.
///   needs      -
///   provides   json
///   preserves  everything
///   cost       linear
///   source     NNVM
#include "weft/core/json/json.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

Graph SaveJSON(Graph g) {
  std::string text = SaveJson(g);
  g.SetAttr("json", std::move(text));
  return g;
}

WEFT_REGISTER_GRAPH_ATTR(json, kDerived, std::string)
    .describe("the graph as JSON")
    .hidden()
    .text([](const std::string& s) { return s; }, [](const std::string& s) { return s; });

WEFT_REGISTER_PASS(SaveJSON)
    .describe("writes the graph as JSON into the graph attribute json")
    .set_body(SaveJSON)
    .set_change_graph(false)
    .preserve_all()
    .provide_graph_attr("json");

}  // namespace
}  // namespace weft
