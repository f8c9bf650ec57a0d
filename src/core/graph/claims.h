/// claims.h: derived attributes that edits of a graph do not clear. Private to the core.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "store.h"

namespace weft {

/// What edits preserve, while it lives.
class Claims {
 public:
  Claims(GraphStore& store, std::set<std::string> names)
      : store_(store), outer_(std::exchange(store.preserved, std::move(names))) {}
  ~Claims() { store_.preserved = std::move(outer_); }
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

 private:
  GraphStore& store_;
  std::set<std::string> outer_;
};

}  // namespace weft
