/// unicode_forms.cc: the composed normal form of texts (Unicode Standard Annex 15).
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "unicode.h"

namespace weft {
namespace {

struct Decomposition {
  uint32_t whole, first, second;  ///< second 0: there is none
  int one_way;                    ///< it is not composed again
};
struct ClassRange {
  uint32_t begin;
  int combining_class;
};
#include "unicode_forms_table.inc"

constexpr uint32_t kHangul = 0xac00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11a7;
constexpr uint32_t kVowels = 21, kTails = 28, kSyllables = 11172;

int ClassOf(uint32_t c) {
  const auto* next = std::upper_bound(std::begin(kClasses), std::end(kClasses), c,
                                      [](uint32_t x, const ClassRange& r) { return x < r.begin; });
  return next == std::begin(kClasses) ? 0 : next[-1].combining_class;
}

void Decompose(uint32_t c, std::vector<uint32_t>* out) {
  if (c >= kHangul && c < kHangul + kSyllables) {
    const uint32_t s = c - kHangul;
    out->push_back(kLead + s / (kVowels * kTails));
    out->push_back(kVowel + s % (kVowels * kTails) / kTails);
    if (s % kTails) out->push_back(kTail + s % kTails);
    return;
  }
  // The first part may have parts of its own, the second has none.
  std::vector<uint32_t> behind;
  for (;;) {
    const auto* d =
        std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), c,
                         [](const Decomposition& x, uint32_t value) { return x.whole < value; });
    if (d == std::end(kDecompositions) || d->whole != c) break;
    if (d->second) behind.push_back(d->second);
    c = d->first;
  }
  out->push_back(c);
  out->insert(out->end(), behind.rbegin(), behind.rend());
}

/// 0: they do not compose.
uint32_t Composed(uint32_t a, uint32_t b) {
  static const auto* const kPairs = [] {
    auto* pairs = new std::map<std::pair<uint32_t, uint32_t>, uint32_t>;
    for (const Decomposition& d : kDecompositions)
      if (!d.one_way && d.second) (*pairs)[{d.first, d.second}] = d.whole;
    return pairs;
  }();
  if (a >= kLead && a < kLead + 19 && b >= kVowel && b < kVowel + kVowels)
    return kHangul + ((a - kLead) * kVowels + (b - kVowel)) * kTails;
  if (a >= kHangul && a < kHangul + kSyllables && (a - kHangul) % kTails == 0 && b > kTail &&
      b < kTail + kTails)
    return a + (b - kTail);
  const auto it = kPairs->find({a, b});
  return it == kPairs->end() ? 0 : it->second;
}

}  // namespace

std::string ComposedForm(std::string_view text) {
  // Below U+0300 nothing combines.
  bool plain = true;
  for (size_t at = 0; at < text.size() && plain;) {
    const CodePoint c = CodePointAt(text, at);
    plain = c.value < 0x300;
    at += c.bytes;
  }
  if (plain) return std::string(text);

  std::vector<uint32_t> all;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    Decompose(c.value, &all);
    at += c.bytes;
  }
  for (size_t i = 0; i < all.size();) {
    size_t end = i;
    while (end < all.size() && ClassOf(all[end]) != 0) ++end;
    std::stable_sort(all.begin() + long(i), all.begin() + long(end),
                     [](uint32_t a, uint32_t b) { return ClassOf(a) < ClassOf(b); });
    i = std::max(end, i + 1);
  }
  std::vector<uint32_t> out;
  size_t starter = SIZE_MAX;
  int before = 0;  // the class of what stands between the starter and here; 0: nothing
  for (const uint32_t c : all) {
    const int own = ClassOf(c);
    const bool next_to_it = starter != SIZE_MAX && starter + 1 == out.size();
    if (starter != SIZE_MAX && (next_to_it || (before != 0 && before < own))) {
      if (const uint32_t whole = Composed(out[starter], c)) {
        out[starter] = whole;
        continue;
      }
    }
    if (own == 0) starter = out.size();
    before = own;
    out.push_back(c);
  }
  std::string composed;
  for (const uint32_t c : out) AppendCodePoint(&composed, c);
  return composed;
}

}  // namespace weft
