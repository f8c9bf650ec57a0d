/// json.cc: graphs as the pass SaveJSON writes them (weft/core/json/json.h).
#include "weft/core/json/json.h"

#include "api/reinfer.h"
#include "weft/api/format.h"
#include "weft/support/file.h"

namespace weft {
namespace {

Graph ReadJson(std::string_view bytes, const ImportOptions& options) {
  JsonOptions load;
  load.source_name = options.source_name;
  load.limits = options.limits;
  return Reinferred(LoadJson(bytes, load));
}

void WriteJson(const Graph& graph, const std::string& path, const WriteOptions&) {
  WriteFileAtomic(path, SaveJson(graph));
}

[[maybe_unused]] const bool registered =
    RegisterModelFormat({"json", "SaveJSON's form", ReadJson, nullptr, WriteJson});

}  // namespace
}  // namespace weft
