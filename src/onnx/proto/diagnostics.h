/// diagnostics.h: collects the faults of one import, so that a user sees up to 20 at once and not
/// one a run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "weft/support/error.h"

namespace weft::onnx_import {

struct Fault {
  ErrorCode code;
  std::string place, message, hint;
};

class Diagnostics {
 public:
  static constexpr size_t kMaxFaults = 20;

  void Add(ErrorCode code, std::string place, std::string message, std::string hint = {});
  /// A caught error, with `place` in front of its own.
  void Add(const Error& error, const std::string& place);
  bool empty() const { return total_ == 0; }
  size_t total() const { return total_; }
  bool full() const { return faults_.size() >= kMaxFaults; }
  /// Throws one error for all faults, with the code of the first; returns where there is none.
  void ThrowIfAny(const std::string& source) const;

 private:
  std::vector<Fault> faults_;
  size_t total_ = 0;
};

}  // namespace weft::onnx_import
