/// trace.h: Chrome trace-event JSON, which Perfetto and chrome://tracing open.
#pragma once

#include <string>

#include "json.h"

namespace weft::tool {

class ChromeTrace {
 public:
  /// A named row of spans; rows are shown in the order of their numbers.
  void NameTrack(int track, const std::string& name);
  /// Times in microseconds from the start of the trace.
  void Span(int track, const std::string& name, const std::string& category, double start_us,
            double duration_us, Json args = Json::object());
  /// The value of a counter from this moment on.
  void Counter(const std::string& name, double at_us, int64_t value);
  void Write(const std::string& path) const;

 private:
  Json events_ = Json::array();
};

}  // namespace weft::tool
