/// limits.cc: limits by name, for the command line and for `doctor`.
#include "weft/support/limits.h"

#include <vector>

#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

struct Field {
  const char* name;
  int64_t Limits::*value;
};

constexpr Field kFields[] = {
    {"nodes", &Limits::nodes},
    {"depth", &Limits::depth},
    {"functions", &Limits::functions},
    {"expanded_nodes", &Limits::expanded_nodes},
    {"tensor_bytes", &Limits::tensor_bytes},
    {"folded_bytes_each", &Limits::folded_bytes_each},
    {"folded_bytes_total", &Limits::folded_bytes_total},
    {"source_bytes", &Limits::source_bytes},
    {"file_bytes", &Limits::file_bytes},
    {"compile_bytes", &Limits::compile_bytes},
    {"iterations", &Limits::iterations},
    {"external_links", &Limits::external_links},
};

int64_t ParseSize(std::string_view text, std::string_view name) {
  int shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'K':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
      case 'T':
        shift = 40;
        break;
      default:
        break;
    }
    if (shift != 0) text.remove_suffix(1);
  }
  const auto v = TryParseInt64(text);
  WEFT_CHECK(v && *v >= 0 && *v <= (INT64_MAX >> shift), kUsage,
             "limit {}: expected a number >= 0 with an optional K, M, G or T, got '{}'", name,
             text);
  return *v << shift;
}

}  // namespace

void Limits::Check(const char* name, int64_t value, int64_t bound) {
  WEFT_CHECK(value <= bound, kLimit, "{} is {}, more than the limit of {}", name, value, bound);
}

std::string Limits::ToString() const {
  std::string out;
  for (const Field& f : kFields) out += fmt::format("{}={},", f.name, this->*f.value);
  return out + "deadline_s=" + FormatDouble(deadline_s);
}

Limits Limits::Parse(std::string_view text) {
  Limits limits;
  if (Trim(text).empty()) return limits;
  for (const std::string& piece : Split(text, ',')) {
    const std::string_view pair = Trim(piece);
    const size_t eq = pair.find('=');
    WEFT_CHECK(eq != std::string_view::npos, kUsage, "expected name=value in the limits, got '{}'",
               pair);
    const std::string_view name = Trim(pair.substr(0, eq)), value = Trim(pair.substr(eq + 1));
    if (name == "deadline_s") {
      const auto seconds = TryParseDouble(value);
      WEFT_CHECK(seconds && *seconds >= 0, kUsage,
                 "limit deadline_s: expected seconds >= 0, got '{}'", value);
      limits.deadline_s = *seconds;
      continue;
    }
    bool found = false;
    std::vector<std::string> names = {"deadline_s"};
    for (const Field& f : kFields) {
      names.emplace_back(f.name);
      if (name != f.name) continue;
      limits.*f.value = ParseSize(value, name);
      found = true;
    }
    if (!found) {
      const std::string near = DidYouMean(name, names);
      ThrowError(ErrorCode::kUsage, fmt::format("no limit named '{}'", name), "",
                 near.empty() ? "there are: " + Join(names, ", ") : near);
    }
  }
  return limits;
}

Deadline::Deadline(double seconds_from_now) : bounded_(seconds_from_now > 0) {
  // Beyond some years the clock's representation could overflow; such a deadline is none.
  if (seconds_from_now > 1e8) bounded_ = false;
  if (bounded_)
    at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                             std::chrono::duration<double>(seconds_from_now));
}

void Deadline::Check(std::string_view what) const {
  WEFT_CHECK(!passed(), kLimit, "the deadline passed during {}", what);
}

}  // namespace weft
