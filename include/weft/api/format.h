/// format.h: the formats of model files. One file of src/api/formats/ is one format, and so may a
/// plugin's be; everything that reads, writes or lists models asks here.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/onnx/import.h"

namespace weft {

struct WriteOptions {
  Limits limits;
  bool elide = false;  ///< leaves large tensors out, where the format has a way to say so
  /// The graph is as it was read: nothing is written that its file did not say.
  bool as_read = false;
};

struct ModelFormat {
  std::string name;  ///< "onnx": the extension, without its dot
  std::string doc;
  /// A graph from the bytes of a file, which options.source_name names. Null: files hold compiled
  /// programs (weft/runtime/saved/saved_program.h), no graphs.
  std::function<Graph(std::string_view bytes, const ImportOptions& options)> read;
  /// From a path, where other files belong to it. Null: `read` of its bytes.
  std::function<Graph(const std::string& path, const ImportOptions& options)> read_file;
  /// Null: graphs are not written in it.
  std::function<void(const Graph& graph, const std::string& path, const WriteOptions& options)>
      write;

  bool is_program() const { return !read; }
};

/// Always true, for static initialisers. A second one of that name is kDuplicate, thrown at the
/// next look-up.
WEFT_API bool RegisterModelFormat(ModelFormat format);
/// By name. Valid for ever.
WEFT_API std::vector<const ModelFormat*> ListModelFormats();
/// In any case of letters. Throws kUsage with the known names.
WEFT_API const ModelFormat& GetModelFormat(std::string_view name);
/// By the path's extension, in any case. Throws kUsage, naming the known ones.
WEFT_API const ModelFormat& FormatOfPath(const std::string& path);
/// Throws kUsage where graphs are not written in the format of that path.
WEFT_API const ModelFormat& WritableFormat(const std::string& path);

}  // namespace weft
