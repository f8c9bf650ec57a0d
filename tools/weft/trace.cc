/// trace.cc: see trace.h.
#include "trace.h"

#include "weft/support/file.h"

namespace weft::tool {

void ChromeTrace::NameTrack(int track, const std::string& name) {
  events_.push_back({{"ph", "M"},
                     {"name", "thread_name"},
                     {"pid", 1},
                     {"tid", track},
                     {"args", {{"name", name}}}});
}

void ChromeTrace::Span(int track, const std::string& name, const std::string& category,
                       double start_us, double duration_us, Json args) {
  events_.push_back({{"ph", "X"},
                     {"name", name},
                     {"cat", category},
                     {"pid", 1},
                     {"tid", track},
                     {"ts", start_us},
                     {"dur", duration_us},
                     {"args", std::move(args)}});
}

void ChromeTrace::Counter(const std::string& name, double at_us, int64_t value) {
  events_.push_back(
      {{"ph", "C"}, {"name", name}, {"pid", 1}, {"ts", at_us}, {"args", {{"bytes", value}}}});
}

void ChromeTrace::Write(const std::string& path) const {
  const Json all = {{"traceEvents", events_}, {"displayTimeUnit", "ms"}};
  WriteFileAtomic(path, all.ToString() + "\n");
}

}  // namespace weft::tool
