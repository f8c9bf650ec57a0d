/// log.h: messages to the developer, through one sink.
///
///   WEFT_LOG(kInfo, "fused {} nodes", n);
///
/// Warnings and errors are shown, the rest is off unless the environment variable WEFT_LOG names a
/// level (`debug`, `info`, `warning`, `error`, `off`). A message that is off is not formatted. The
/// sink is stderr unless it is replaced. For .cc files: the macro includes fmt.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

#include "weft/support/api.h"

namespace weft {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kOff = 4 };

/// `file` is the base name of the source file.
using LogSink =
    std::function<void(LogLevel level, const char* file, int line, std::string_view message)>;

/// Lowest level that is shown.
WEFT_API LogLevel GetLogLevel();
WEFT_API void SetLogLevel(LogLevel level);
/// Replaces the sink and returns the old one; an empty function restores stderr. Calls of the sink
/// are serialized.
WEFT_API LogSink SetLogSink(LogSink sink);
WEFT_API void LogMessage(LogLevel level, const char* file, int line, std::string_view message);
/// "warning".
WEFT_API const char* LogLevelName(LogLevel level);

}  // namespace weft

#define WEFT_LOG(level, ...)                                                                       \
  do {                                                                                             \
    if (::weft::LogLevel::level >= ::weft::GetLogLevel())                                          \
      ::weft::LogMessage(::weft::LogLevel::level, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
