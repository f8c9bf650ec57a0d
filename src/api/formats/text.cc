/// text.cc: graphs in the text form (weft/core/text/text.h).
#include "weft/core/text/text.h"

#include <algorithm>
#include <climits>

#include "api/reinfer.h"
#include "weft/api/format.h"
#include "weft/support/file.h"

namespace weft {
namespace {

Graph ReadText(std::string_view bytes, const ImportOptions& options) {
  ParseOptions parse;
  parse.source_name = options.source_name;
  parse.make_missing = options.make_missing;
  parse.max_depth = int(std::min<int64_t>(options.limits.depth, INT_MAX));
  return Reinferred(ParseGraph(bytes, parse));
}

void WriteText(const Graph& graph, const std::string& path, const WriteOptions& options) {
  PrintOptions print;
  print.inline_all = !options.elide;  // a file is complete, so that it can be read back
  WriteFileAtomic(path, PrintGraph(graph, print));
}

[[maybe_unused]] const bool registered =
    RegisterModelFormat({"weft", "text form of graphs", ReadText, nullptr, WriteText});

}  // namespace
}  // namespace weft
