/// mutate.h: texts with a few random edits, for tests of what reads them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace hsimd {

struct Edits {
  size_t most = 4;     ///< 1 to so many a text
  size_t erased = 12;  ///< characters at once, at most
  size_t inserted = 40;
  std::string_view characters;  ///< what the text is made of
};

/// Characters replaced by any byte or by one of `edits.characters`, erased, cut off behind, and
/// inserted: pieces of the seeds, which are not empty, and numbers of up to 64 bits.
inline std::string Mutate(std::string text, const std::vector<std::string>& seeds,
                          const Edits& edits, std::mt19937* random) {
  const auto pick = [&](size_t n) { return size_t((*random)()) % n; };
  for (size_t left = 1 + pick(edits.most); left > 0; --left) {
    if (text.empty()) text = " ";
    const size_t at = pick(text.size());
    const std::string& other = seeds[pick(seeds.size())];
    switch (pick(6)) {
      case 0:
        text[at] = char((*random)());
        break;
      case 1:
        text.erase(at, 1 + pick(edits.erased));
        break;
      case 2:
        text.insert(at, other.substr(pick(other.size()), pick(edits.inserted)));
        break;
      case 3:
        text.insert(at, std::to_string(int64_t((*random)()) << pick(34)));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        text[at] = edits.characters[pick(edits.characters.size())];
    }
  }
  return text;
}

}  // namespace hsimd
