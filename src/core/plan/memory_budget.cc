#include "weft/core/plan/memory_budget.h"

#include <cmath>
#include <optional>

#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// A number with a unit; nothing where it is none, or not in [1, 2^63).
std::optional<int64_t> BytesIn(std::string_view text) {
  static constexpr std::string_view kUnits = "KMGT";
  double unit = 1;
  if (!text.empty()) {
    const size_t k = kUnits.find(text.back());
    if (k != std::string_view::npos) {
      unit = std::ldexp(1.0, 10 * (int(k) + 1));
      text.remove_suffix(1);
    }
  }
  if (unit == 1) {  // all digits count
    const std::optional<int64_t> whole = TryParseInt64(text);
    return whole && *whole > 0 ? whole : std::nullopt;
  }
  const std::optional<double> number = TryParseDouble(text);
  if (!number) return std::nullopt;
  const double bytes = std::floor(*number * unit);
  return bytes >= 1 && bytes < 0x1p63 ? std::optional(int64_t(bytes)) : std::nullopt;
}

}  // namespace

int64_t MemoryBudget::BytesOf(int64_t whole) const {
  switch (kind) {
    case Kind::kNone:
      return INT64_MAX;
    case Kind::kBytes:
      return bytes;
    case Kind::kShare:
      return int64_t(std::floor(double(whole) * share));
    case Kind::kLeast:
      break;
  }
  return 0;
}

MemoryBudget MemoryBudget::Parse(std::string_view text, const std::string& option) {
  MemoryBudget b;
  std::string_view rest = Trim(text);
  if (rest.empty()) return b;
  if (StartsWith(rest, "all:")) {
    b.all = true;
    rest.remove_prefix(4);
  }
  if (rest == "min") {
    b.kind = Kind::kLeast;
    return b;
  }
  if (EndsWith(rest, "%")) {
    const std::optional<double> percent = TryParseDouble(rest.substr(0, rest.size() - 1));
    if (percent && *percent > 0 && *percent <= 100) {
      b.kind = Kind::kShare;
      b.share = *percent / 100;
      return b;
    }
  } else if (const std::optional<int64_t> bytes = BytesIn(rest)) {
    b.kind = Kind::kBytes;
    b.bytes = *bytes;
    return b;
  }
  ThrowError(ErrorCode::kUsage, fmt::format("'{}' is not a memory budget", text), option,
             "expected bytes above 0 as in 300M or 1.5G, a share as in 50%, or min; all:2G counts "
             "inputs, variables and constants too");
}

std::string MemoryBudget::ToString() const {
  std::string out = all ? "all:" : "";
  switch (kind) {
    case Kind::kNone:
      break;
    case Kind::kBytes:
      return out + std::to_string(bytes);
    case Kind::kShare:
      return out + FormatDouble(share * 100) + "%";
    case Kind::kLeast:
      return out + "min";
  }
  return out;
}

}  // namespace weft
