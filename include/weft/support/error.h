/// error.h: the errors of Weft. An error says what was expected, what was seen, where,
/// and what to do.
///
/// `UserError`     the model, the file or the call is at fault
/// `InternalError` Weft is at fault; the command line tool writes a reproducer
/// `DeviceError`   the machine is at fault: a device, a driver, memory, the file system
///
/// Every error carries a stable code (`WEFT-E0301`), printed by all tools, that fixes
/// the exit code of the command line tool. Nothing in Weft aborts. Throw through
/// WEFT_CHECK / WEFT_THROW / WEFT_ICHECK.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/api.h"

namespace weft {

/// Stable error codes. Numbers are never reused; new ones are appended to their hundred.
enum class ErrorCode : int {
  // 01xx the call: command line, options, pipelines
  kUsage = 101,          ///< unknown option, flag or sub-command
  kUnknownPass = 102,    ///< no pass of that name
  kUnknownOption = 103,  ///< a pass has no such option, or it has another type
  kDependency = 104,     ///< nothing, or more than one thing, provides what a pass needs
  kBadBinding = 105,     ///< an input, symbol or output that the program lacks
  kApiMisuse = 106,      ///< graphs mixed, stale handle, wrong type asked of an attribute
  // 02xx files and text
  kIo = 201,             ///< a file cannot be read or written
  kSyntax = 202,         ///< text IR, pipeline text or JSON does not parse
  kBadTensorFile = 203,  ///< .npy or TensorProto file damaged or unsupported
  // 03xx the model
  kInvalidModel = 301,   ///< damaged file, cycle, duplicate or undefined name
  kUnknownOp = 302,      ///< no operator of that name
  kBadAttribute = 303,   ///< attribute missing, of the wrong type or out of range
  kTypeMismatch = 304,   ///< dtypes do not fit the operator
  kShapeMismatch = 305,  ///< shapes do not fit the operator
  kArity = 306,          ///< wrong number of inputs or outputs
  kCycle = 307,          ///< the graph has a cycle
  kBadInput = 308,       ///< a value given to a run has the wrong dtype or shape
  kIndexRange = 309,     ///< an index tensor points outside its axis
  // 04xx not supported
  kUnsupported = 401,    ///< an operator, dtype or feature this build or backend lacks
  kMissingOpAttr = 402,  ///< ops lack an attribute that a pass depends on
  // 05xx limits
  kLimit = 501,        ///< a `Limits` bound was reached
  kOverflow = 502,     ///< size arithmetic left 64 bits
  kOutOfMemory = 503,  ///< memory could not be allocated
  kCancelled = 504,    ///< the caller cancelled
  // 06xx registries
  kDuplicate = 601,     ///< a name registered twice; names both owners
  kTypeConflict = 602,  ///< one attribute name, two C++ types
  kPlugin = 603,        ///< a plugin cannot be loaded: no such library, no entry, its start fails
  kPluginAbi = 604,     ///< a plugin was built for other versions or other headers
  // 07xx comparisons and checks
  kCheckFailed = 701,  ///< a comparison or a claim check failed
  // 08xx machine
  kDevice = 801,  ///< driver, device or JIT failure
  // 09xx ours
  kInternal = 901,  ///< a bug in Weft
};

/// "WEFT-E0301".
WEFT_API std::string ErrorCodeName(ErrorCode code);
/// Exit code of the command line tool for an error of this code (design section 11).
WEFT_API int ExitCode(ErrorCode code);

/// Base of all errors. `what()` is the whole one-line text: `error[WEFT-E0301]
/// place: message (hint: ...)`.
class WEFT_API Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message);
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  /// Where, outermost first, joined by " > ": "pass Fusion > node %3 'conv1' (Conv)".
  const std::string& place() const { return place_; }
  const std::string& hint() const { return hint_; }
  /// Puts a place in front of the known one; the manager and the importer call it while unwinding.
  void AddPlace(std::string_view outer);
  void SetHint(std::string hint);
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  void Render();
  ErrorCode code_;
  std::string message_, place_, hint_, what_;
};

class WEFT_API UserError : public Error {
 public:
  using Error::Error;
};
class WEFT_API InternalError : public Error {
 public:
  using Error::Error;
};
class WEFT_API DeviceError : public Error {
 public:
  using Error::Error;
};

/// Throws the class that belongs to `code`: 8xx and kOutOfMemory DeviceError,
/// 9xx InternalError, else UserError.
[[noreturn]] WEFT_API void ThrowError(ErrorCode code, std::string message, std::string place = {},
                                      std::string hint = {});

/// One diagnostic as a JSON object on one line: code, kind, place, message, hint.
WEFT_API std::string ToJson(const Error& error);

}  // namespace weft
