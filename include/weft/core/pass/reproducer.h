/// reproducer.h: the one file that is written when a pass, or a command, fails: everything that it
/// takes to see the failure again.
///
/// The file is a graph in text form (`.weft`), readable as any other, under a
/// header of comment lines:
///
///   // repro Fusion{max_ops=64}           the pass that failed (quoted where it holds
///                                         line ends), or "(command)"
///   // error WEFT-E0901
///   // message "..."                      values in quotes are those of Quote(): one line,
///                                         whatever a name holds
///   // place "pass Fusion"
///   // rest "CodeGen,RTCGen"              the passes after it
///   // weft "0.2.0"
///   // target "cpu"
///   // strict false
///   // fuel -1                            rewrites that were left when the pass began
///   // limits "nodes=2000000,..."
///   // skip "Fusion#2"                    one line each; numbers count from the pass that failed
///   // check equivalent                   one line each
///   // seed 1
///   // plugin "demo" "1.0" "/path/libdemo.so"
///   // argument "run"                     one line each: the command line; "{model}"
///                                         is the graph below
///   // without "subgraph"                 attributes without a text form; the
///                                         manager makes them again
///   // tensors hash                       large tensors are named by hash only; a replay
///                                         reads zeros for them
///   weft 1
///   graph ..
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/core/pass/pass.h"

namespace weft {

struct WEFT_API Reproducer {
  struct Plugin {
    std::string name, version, path;
  };
  std::string pass;  ///< as a pipeline of one; empty: it failed outside of any pass
  std::string rest;
  std::string error, message, place, version;
  PassOptions options;  ///< target, strict, fuel, limits, skip, checks
  std::vector<Plugin> plugins;
  std::vector<std::string> arguments;  ///< of the command, without its name
  std::vector<std::string> without;
  bool tensors_by_hash = false;
  bool has_graph = false;  ///< the text goes on behind the header
};

/// Stands in the arguments for the model that is the file's graph.
constexpr const char* kReproducerModel = "{model}";
/// Tensors of a graph are inline up to this sum of bytes.
constexpr int64_t kReproducerInlineBytes = int64_t{16} << 20;

/// The file's text. `graph` may be null. Version, plugins, `without` and `tensors_by_hash`
/// are filled in here.
WEFT_API std::string FormatReproducer(Reproducer r, const Graph* graph);
/// Reads the header; `text` itself is what ParseGraph reads. Throws kSyntax where
/// it is no reproducer.
WEFT_API Reproducer ParseReproducer(std::string_view text,
                                    const std::string& source_name = "<text>");

}  // namespace weft
