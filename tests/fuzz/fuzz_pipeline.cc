/// fuzz_pipeline.cc: pipelines as text, and the law: what was read prints to what reads to the
/// same; bounds as text (`nodes=1000`) likewise.
#include "targets.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft::fuzz {

void RunPipeline(std::string_view input) {
  if (!input.empty() && input[0] == '=') {
    const std::string once = Limits::Parse(input.substr(1)).ToString();
    Require(once == Limits::Parse(once).ToString(), "bounds print to what reads to the same");
    return;
  }
  const std::string once = Pipeline::Parse(input).ToString();
  Require(once == Pipeline::Parse(once).ToString(), "a pipeline prints to what reads to the same");
}

std::vector<std::string> PipelineSeeds() {
  return {"Simplify,Fusion{max_ops=64,levels=false},CodeGen", "InferShape",
          "Fusion{max_ops=1}, PrintIR{path=\"a, b\", note='{}'} ,Schedule",
          "A{b=true,c=-1.5e-3,d=x y,e=\"q\\\"\\n\"}",
          "=nodes=1000,deadline_s=30,tensor_bytes=64M,compile_bytes=1.5G"};
}

}  // namespace weft::fuzz
