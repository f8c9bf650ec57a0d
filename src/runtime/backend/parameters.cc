/// parameters.cc: see parameters.h.
#include "weft/runtime/backend/parameters.h"

#include <algorithm>

#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {

BackendParameters::BackendParameters(std::string_view text) {
  for (const std::string& word : Split(std::string(text), ','))
    if (!Trim(word).empty()) words_.emplace_back(Trim(word));
}

bool BackendParameters::Take(std::string_view word) {
  const auto it = std::find(words_.begin(), words_.end(), word);
  if (it == words_.end()) return false;
  words_.erase(it);
  return true;
}

std::optional<int64_t> BackendParameters::TakeNumber() {
  for (auto it = words_.begin(); it != words_.end(); ++it) {
    const std::optional<int64_t> number = TryParseInt64(*it);
    if (!number || *number < 0) continue;
    words_.erase(it);
    return number;
  }
  return std::nullopt;
}

void BackendParameters::CheckAllTaken(std::string_view backend, std::string_view known) const {
  if (words_.empty()) return;
  ThrowError(ErrorCode::kUsage,
             fmt::format("backend '{}' has no parameter '{}'", backend, words_[0]), "",
             known.empty() ? "it takes none" : fmt::format("its parameters are: {}", known));
}

}  // namespace weft
