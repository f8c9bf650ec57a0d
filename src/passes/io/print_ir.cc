/// print_ir.cc: PrintIR. Writes the text form of the graph to standard error, or to a file.
///   needs      -
///   provides   -
///   preserves  everything
#include <iostream>

#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/file.h"

namespace weft {
namespace {

Graph PrintIR(Graph g, PassContext& ctx) {
  const std::string text = PrintGraph(g);
  const std::string file = ctx.option<std::string>("file");
  if (file.empty())
    std::cerr << text;
  else
    WriteFileAtomic(file, text);
  return g;
}

WEFT_REGISTER_PASS(PrintIR)
    .describe("writes the text form of the graph to standard error, or to a file")
    .set_body(PrintIR)
    .set_change_graph(false)
    .preserve_all()
    .option("file", std::string(), "where to write; empty: standard error");

}  // namespace
}  // namespace weft
