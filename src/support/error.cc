/// error.cc: error codes, their exit codes and their two renderings (one line of text, one JSON
/// object).
///
/// Exit codes follow the command line tool's table: 0 fine, 1 a check failed, 2 usage, 3
/// unsupported, 4 invalid input or model, 5 a limit or out of memory, 70 internal error.
#include "weft/support/error.h"

#include <cstdio>
#include <utility>

namespace weft {
namespace {

void AppendJsonString(std::string& out, std::string_view s) {
  out += '"';
  for (const char c : s) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        // DEL and the C0 controls are escaped so that a hostile name cannot drive a terminal.
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          char buffer[8];
          std::snprintf(buffer, sizeof(buffer), "\\u%04x",
                        static_cast<unsigned>(static_cast<unsigned char>(c)));
          out += buffer;
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

const char* KindName(ErrorCode code) {
  const int number = static_cast<int>(code);
  if (number / 100 == 9) return "InternalError";
  if (number / 100 == 8 || code == ErrorCode::kOutOfMemory) return "DeviceError";
  return "UserError";
}

}  // namespace

std::string ErrorCodeName(ErrorCode code) {
  char buffer[24];
  std::snprintf(buffer, sizeof(buffer), "WEFT-E%04d", static_cast<int>(code));
  return buffer;
}

int ExitCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnknownOp:
      return 3;  // the model may be valid, this build just lacks the op
    case ErrorCode::kBadBinding:
      return 4;  // the call is well formed, the values are not
    default:
      break;
  }
  switch (static_cast<int>(code) / 100) {
    case 1:
      return 2;  // usage
    case 2:
      return 4;  // files and text
    case 3:
      return 4;  // the model
    case 4:
      return 3;  // not supported
    case 5:
      return 5;  // limits, memory, cancellation
    case 6:
      return 2;  // registries: a plugin given on the command line clashes
    case 7:
      return 1;  // checks
    case 8:
      return 5;  // the machine gave out: a resource problem, not a bug with a reproducer
    default:
      return 70;
  }
}

Error::Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {
  Render();
}

void Error::AddPlace(std::string_view outer) {
  if (outer.empty()) return;
  if (place_.empty()) {
    place_ = outer;
  } else {
    place_ = std::string(outer) + " > " + place_;
  }
  Render();
}

void Error::SetHint(std::string hint) {
  hint_ = std::move(hint);
  Render();
}

void Error::Render() {
  what_ = "error[" + ErrorCodeName(code_) + "] ";
  if (!place_.empty()) what_ += place_ + ": ";
  what_ += message_;
  if (!hint_.empty()) what_ += " (hint: " + hint_ + ")";
}

void ThrowError(ErrorCode code, std::string message, std::string place, std::string hint) {
  const auto finish = [&](auto error) {
    error.AddPlace(place);
    if (!hint.empty()) error.SetHint(std::move(hint));
    throw error;
  };
  const std::string_view kind = KindName(code);
  if (kind == "InternalError") finish(InternalError(code, std::move(message)));
  if (kind == "DeviceError") finish(DeviceError(code, std::move(message)));
  finish(UserError(code, std::move(message)));
  __builtin_unreachable();
}

std::string ToJson(const Error& error) {
  std::string out = "{\"code\": ";
  AppendJsonString(out, ErrorCodeName(error.code()));
  out += ", \"kind\": ";
  AppendJsonString(out, KindName(error.code()));
  out += ", \"place\": ";
  AppendJsonString(out, error.place());
  out += ", \"message\": ";
  AppendJsonString(out, error.message());
  out += ", \"hint\": ";
  AppendJsonString(out, error.hint());
  out += '}';
  return out;
}

}  // namespace weft
