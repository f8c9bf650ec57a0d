/// library_table.h: a library that is opened at run time, as a table of its entry points; private
/// to src/codegen/cuda and src/backends/cuda.
///
///   #define WEFT_SOME_ENTRIES(X) X(Create, "someCreate", int, (Handle** handle)) X(...)
///   struct SomeApi : LibraryTable {
///     WEFT_LIBRARY_ENTRIES(WEFT_SOME_ENTRIES)
///     /// What is amiss with a library that has all entries; empty: nothing.
///     std::string Flaw();
///   };
///
/// Nothing is linked and no header of the library is read: prototypes are declared by the table.
/// Tests fill tables of their own.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda_library.h"

namespace weft::cuda {

struct LibraryTable {
  std::string error;  ///< why there is no such library; empty: all entries may be called
  bool ok() const { return error.empty(); }
};

#define WEFT_ENTRY_MEMBER(name, symbol, result, arguments) result(*name) arguments = nullptr;
#define WEFT_ENTRY_VISIT(name, symbol, result, arguments) visit(symbol, &name);
/// Members of a table, from a list of X(name, symbol, result, arguments).
#define WEFT_LIBRARY_ENTRIES(ENTRIES)     \
  ENTRIES(WEFT_ENTRY_MEMBER)              \
  template <class Visit>                  \
  void VisitEntries(const Visit& visit) { \
    ENTRIES(WEFT_ENTRY_VISIT)             \
  }

/// Fills all entries by `find(symbol)`; the first symbol that it has not, or null.
template <class Table, class Find>
const char* FillEntries(Table* table, const Find& find) {
  const char* missing = nullptr;
  table->VisitEntries([&](const char* symbol, auto* entry) {
    *entry = reinterpret_cast<std::remove_pointer_t<decltype(entry)>>(find(symbol));
    if (!*entry && !missing) missing = symbol;
  });
  return missing;
}

/// What is looked for.
struct LibraryKind {
  const char* name;      ///< "cuDNN"
  const char* variable;  ///< of the environment: names a file to use instead of the usual places
  const char* package;   ///< what to install: "cuDNN 9"
};

/// What is amiss with a library where it is to be used; empty: nothing.
template <class Table>
using TryLibrary = std::function<std::string(const std::shared_ptr<const Table>&)>;

/// The table of the library of those `names` with the highest `score` (as of JudgeLibrary, above
/// 0), of those with which `attempt` succeeds; the first of equal ones. Where there is none, a
/// table that says why.
template <class Table, class Score>
std::shared_ptr<const Table> OpenLibraryTable(const LibraryKind& kind,
                                              const std::vector<std::string>& names,
                                              const Score& score,
                                              const TryLibrary<Table>& attempt = {}) {
  std::shared_ptr<const Table> best;
  int best_score = 0;
  std::string reason;
  const auto judge = [&](const SharedLibrary& library, std::string* why) {
    auto table = std::make_shared<Table>();
    const char* const missing =
        FillEntries(table.get(), [&](const char* symbol) { return library.Find(symbol); });
    std::string flaw = missing ? fmt::format("lacks {}", missing) : table->Flaw();
    if (flaw.empty()) {
      const int own = score(*table);
      if (own <= best_score) return own;
      if (attempt) flaw = attempt(table);
      if (flaw.empty()) {
        best = std::move(table);
        return best_score = own;
      }
    }
    *why = fmt::format("{}: {}", library.path(), flaw);
    return 0;
  };
  OpenCudaLibrary(kind.variable, names, &reason, judge);
  if (best) return best;
  auto none = std::make_shared<Table>();
  none->error = fmt::format("{} was not found ({}); install {}, or name the library in {}",
                            kind.name, reason, kind.package, kind.variable);
  return none;
}

}  // namespace weft::cuda
