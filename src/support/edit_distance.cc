/// edit_distance.cc: restricted Damerau-Levenshtein distance by the usual table, two rows at a
/// time.
#include "weft/support/edit_distance.h"

#include <algorithm>
#include <utility>

#include "weft/support/strings.h"

namespace weft {

int EditDistance(std::string_view raw_a, std::string_view raw_b) {
  const std::string a = ToLower(raw_a), b = ToLower(raw_b);
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::vector<std::string> NearestNames(std::string_view name,
                                      const std::vector<std::string>& candidates, size_t at_most) {
  constexpr size_t kLongest = 200;  // the table is quadratic, and no one mistypes more
  if (name.empty() || name.size() > kLongest) return {};
  const std::string lower = ToLower(name);
  std::vector<std::pair<int, std::string>> near;
  for (const std::string& c : candidates) {
    if (c.empty() || c.size() > kLongest) continue;
    const std::string other = ToLower(c);
    const size_t longer = std::max(c.size(), name.size()),
                 shorter = std::min(c.size(), name.size());
    const int distance = EditDistance(name, c);
    const bool prefix = shorter >= 3 && lower.compare(0, shorter, other, 0, shorter) == 0;
    const bool close =
        static_cast<size_t>(distance) <= std::max<size_t>(1, longer / 3) && longer > 1;
    if (close || prefix) near.emplace_back(distance, c);
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  if (near.size() > at_most) near.resize(at_most);
  std::vector<std::string> names;
  for (auto& [distance, c] : near) names.push_back(std::move(c));
  return names;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> names = NearestNames(name, candidates);
  if (names.empty()) return {};
  std::string out = "did you mean ";
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += "'" + names[i] + "'";
  }
  return out + "?";
}

}  // namespace weft
