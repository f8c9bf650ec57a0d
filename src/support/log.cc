/// log.cc: the log's level and sink, the only mutable globals of this room.
#include "weft/support/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

namespace weft {
namespace {

LogLevel LevelFromEnvironment() {
  const char* text = std::getenv("WEFT_LOG");
  if (text == nullptr) return LogLevel::kWarning;
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError, LogLevel::kOff}) {
    if (std::strcmp(text, LogLevelName(level)) == 0) return level;
  }
  return LogLevel::kWarning;
}

struct State {
  std::atomic<LogLevel> level{LevelFromEnvironment()};
  std::mutex mutex;
  LogSink sink;
};

/// Never destroyed, so that logging works while the process ends.
State& GetState() {
  static auto* state = new State;
  return *state;
}

}  // namespace

const char* LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      return "off";
  }
  return "?";
}

LogLevel GetLogLevel() { return GetState().level.load(std::memory_order_relaxed); }

void SetLogLevel(LogLevel level) { GetState().level.store(level, std::memory_order_relaxed); }

LogSink SetLogSink(LogSink sink) {
  State& state = GetState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return std::exchange(state.sink, std::move(sink));
}

void LogMessage(LogLevel level, const char* file, int line, std::string_view message) {
  if (level < GetLogLevel() || level == LogLevel::kOff) return;
  const char* slash = std::strrchr(file, '/');
  const char* base = slash == nullptr ? file : slash + 1;
  State& state = GetState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.sink) {
    state.sink(level, base, line, message);
  } else {
    std::fprintf(stderr, "weft %s %s:%d: %.*s\n", LogLevelName(level), base, line,
                 static_cast<int>(message.size()), message.data());
  }
}

}  // namespace weft
