/// fuzz_json.cc: SaveJSON's form and NNVM's, and the law: what was read is written to what
/// reads to the same.
#include "targets.h"
#include "weft/core/json/json.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/error.h"

namespace weft::fuzz {

void RunJson(std::string_view input) {
  JsonOptions options;
  options.limits = SmallLimits();
  const Graph g = LoadJson(input, options);
  VerifyGraph(g);
  const std::string once = SaveJson(g);
  Require(once == SaveJson(LoadJson(once, options)), "save(load(save(g))) == save(g)");
}

std::vector<std::string> JsonSeeds() {
  std::vector<std::string> seeds = {
      R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "relu", "name": "y",
  "inputs": [[0, 0, 0]]}], "arg_nodes": [0], "heads": [[1, 0, 0]], "node_row_ptr": [0, 1, 2],
  "attrs": {"shape": ["list_shape", [[2, 3], [2, 3]]]}})"};
  for (const std::string& text : TextSeeds()) {
    try {
      ParseOptions options;
      options.allow_missing_data = true;
      seeds.push_back(SaveJson(ParseGraph(text, options)));
    } catch (const Error&) {  // a golden case that shows an error
    }
  }
  return seeds;
}

}  // namespace weft::fuzz
