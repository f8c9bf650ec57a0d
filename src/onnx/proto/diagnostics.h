/// diagnostics.h: what one import has to say: faults, so that a user sees up to 20 at once and not
/// one a run, and oddities, which it warns of and goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/error.h"

namespace weft::onnx_import {

struct Fault {
  ErrorCode code;
  std::string place, message, hint;
};

/// What the standard forbids, real files contain, and has one meaning all the same.
enum class Oddity : uint8_t {
  kNodeOrder,
  kMinusOneDim,
  kMissingIr,
  kMissingOpset,
  kNewerOpset,
  kNewerOperator,
  kTwoOpsets,
  kDeclaredType,
  kDeclaredShape,
  kTwoValueInfos,
  kTwoInitializers,
  kTwoNodeNames,
  kHiddenName,
  kUntypedInput,
  kUntypedAttribute,
  kUnnamedResult,
  kExternalKey,
};

struct OddityRow {
  Oddity oddity;
  ErrorCode code;          ///< of a strict import
  std::string_view name;   ///< "node-order": what reports call it
  std::string_view taken;  ///< how it is read: "taken in topological order"
  std::string_view cure;
};
const OddityRow& RowOf(Oddity oddity);

/// The oddities of one kind.
struct Warning {
  std::string place, message;  ///< of the first
  int64_t count = 0;
};

class Diagnostics {
 public:
  static constexpr size_t kMaxFaults = 20;

  /// In a strict import an oddity is a fault.
  explicit Diagnostics(bool strict = false) : strict_(strict) {}

  void Add(ErrorCode code, std::string place, std::string message, std::string hint = {});
  /// A caught error, with `place` in front of its own.
  void Add(const Error& error, const std::string& place);
  /// The first place of `count` where the oddity was met, and what stands there.
  void Tolerate(Oddity oddity, std::string place, std::string message, int64_t count = 1);
  bool empty() const { return total_ == 0; }
  size_t total() const { return total_; }
  bool full() const { return faults_.size() >= kMaxFaults; }
  bool strict() const { return strict_; }
  const std::map<Oddity, Warning>& warnings() const { return warnings_; }
  /// Throws one error for all faults, with the code of the first; returns where there is none.
  void ThrowIfAny(const std::string& source) const;

 private:
  bool strict_;
  std::vector<Fault> faults_;
  size_t total_ = 0;
  std::map<Oddity, Warning> warnings_;
};

}  // namespace weft::onnx_import
