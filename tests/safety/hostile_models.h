/// hostile_models.h: models that somebody made to hurt, and what Weft has to say to each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/support/error.h"

namespace weft::safety {

struct HostileModel {
  std::string name;
  /// Bytes of the model; files that it refers to are made in `folder`.
  std::function<std::string(const std::string& folder)> make;
  std::vector<ErrorCode> codes;  ///< the answers that are right
  std::string says;              ///< part of the message: the node or tensor at fault
  bool may_run = false;          ///< a valid model after all: it may also run
};

const std::vector<HostileModel>& HostileModels();

}  // namespace weft::safety
