/// parameters.h: what stands behind the colon of a backend's name, as its factory reads it: words
/// apart by commas.
///
///   BackendParameters p(parameters);                 // "no-fusion,1"
///   const bool fusion = !p.Take("no-fusion");
///   const int device = int(p.TakeNumber().value_or(0));
///   p.CheckAllTaken("npu", "no-fusion, the number of a device");
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/api.h"

namespace weft {

class WEFT_API BackendParameters {
 public:
  explicit BackendParameters(std::string_view text);
  /// Is this word there? It is taken.
  bool Take(std::string_view word);
  /// The first word that is a number >= 0. It is taken.
  std::optional<int64_t> TakeNumber();
  /// Throws kUsage where something is left, with what the backend knows.
  void CheckAllTaken(std::string_view backend, std::string_view known) const;

 private:
  std::vector<std::string> words_;
};

}  // namespace weft
