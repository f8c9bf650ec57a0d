/// staging.h: holds back the registrations that happen on this thread (a plugin's static initialisers run inside
/// dlopen, before any check can), until they are committed or dropped.
#pragma once

#include <exception>
#include <functional>
#include <vector>

#include "weft/support/api.h"

namespace weft {

class WEFT_API StagingScope {
 public:
  StagingScope();
  ~StagingScope();
  /// Runs what was staged, in order; throws the first error.
  void CommitAll();
  size_t size() const { return staged_.size(); }
  StagingScope(const StagingScope&) = delete;
  StagingScope& operator=(const StagingScope&) = delete;

 private:
  friend void CommitRegistration(std::function<void()> commit);
  void Close();
  std::vector<std::function<void()>> staged_;
  StagingScope* outer_;
  bool open_ = true;
};

}  // namespace weft
