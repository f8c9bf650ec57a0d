/// load_json.cc: LoadJSON. Reads the graph attribute `json` and gives the graph that it describes
/// in place of the one it was attached to.
///   needs      json
///   provides   what the JSON holds
///   never      keeps anything of the graph it is given
///   cost       linear
///   source     NNVM
#include "weft/core/json/json.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

Graph LoadJSON(Graph g, PassContext& ctx) {
  JsonOptions options;
  options.source_name = "json";
  options.limits = ctx.limits();
  return LoadJson(g.GetAttr<std::string>("json"), options);
}

WEFT_REGISTER_PASS(LoadJSON)
    .describe("replaces the graph by the one that its attribute json describes")
    .set_body(LoadJSON)
    .preserve_all()
    .result(PassResult::kDiffers)
    .depend_graph_attr("json");

}  // namespace
}  // namespace weft
