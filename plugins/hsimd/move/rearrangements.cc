/// rearrangements.cc: the least cycles of every rearrangement of 8 words over toy4's ring, once.
///
///   hsimd_rearrangements > move/rearrangements.txt
///
/// 4 places of 3 addresses, the third one spare; an instruction reads one address, writes one, and
/// shifts by -1, 0 or +1, under any mask. Breadth-first search backwards from the target over all
/// injective maps of the 8 words to the 12 cells (19,958,400). Prints the histogram as a comment
/// and 2,000 of the 40,320 rearrangements with their least cycles: "perm cycles", where digit k of
/// perm is the cell (address * 4 + place) from which cell k gets its word.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kWords = 8, kCells = 12, kPlaces = 4;
using State = std::array<uint8_t, kWords>;  ///< cell of each word

uint32_t RankOf(const State& s) {
  uint32_t used = 0, rank = 0;
  for (int k = 0; k < kWords; ++k) {
    const uint32_t below = s[k] - __builtin_popcount(used & ((1u << s[k]) - 1));
    rank = rank * uint32_t(kCells - k) + below;
    used |= 1u << s[k];
  }
  return rank;
}

State StateOf(uint32_t rank) {
  std::array<uint32_t, kWords> digits;
  for (int k = kWords; k-- > 0;) {
    digits[k] = rank % uint32_t(kCells - k);
    rank /= uint32_t(kCells - k);
  }
  State s;
  uint32_t free = (1u << kCells) - 1;
  for (int k = 0; k < kWords; ++k) {
    uint32_t rest = free;
    for (uint32_t d = 0; d < digits[k]; ++d) rest &= rest - 1;
    s[k] = uint8_t(__builtin_ctz(rest));
    free &= ~(1u << s[k]);
  }
  return s;
}

}  // namespace

int main() {
  constexpr uint32_t kStates = 19958400;
  std::vector<uint8_t> cycles(kStates, 255);
  State target;
  for (int k = 0; k < kWords; ++k) target[k] = uint8_t(k);
  std::vector<uint32_t> level{RankOf(target)};
  cycles[level[0]] = 0;
  for (uint8_t depth = 1; !level.empty(); ++depth) {
    std::vector<uint32_t> next;
    for (const uint32_t rank : level) {
      const State s = StateOf(rank);
      std::array<int, kCells> word;
      word.fill(-1);
      for (int k = 0; k < kWords; ++k) word[s[k]] = k;
      for (int y = 0; y < 3; ++y) {
        for (int x = 0; x < 3; ++x) {
          for (int shift = -1; shift <= 1; ++shift) {
            if (x == y && shift == 0) continue;
            for (int mask = 1; mask < 1 << kPlaces; ++mask) {
              State t = s;
              bool fits = true;
              for (int p = 0; p < kPlaces && fits; ++p) {
                if ((mask >> p & 1) == 0) continue;
                const int q = (p + shift + kPlaces) % kPlaces;
                const int moved = word[y * kPlaces + p], there = word[x * kPlaces + q];
                fits = moved >= 0 && (there < 0 || (x == y && (mask >> q & 1) != 0));
                if (fits) t[moved] = uint8_t(x * kPlaces + q);
              }
              if (!fits) continue;
              const uint32_t r = RankOf(t);
              if (cycles[r] != 255) continue;
              cycles[r] = depth;
              next.push_back(r);
            }
          }
        }
      }
    }
    level = std::move(next);
  }
  std::vector<std::pair<std::string, int>> all;
  std::map<int, int> histogram;
  State s = target;
  do {
    std::string text;
    for (const uint8_t c : s) text += char('0' + c);
    const int c = cycles[RankOf(s)];
    all.emplace_back(text, c);
    ++histogram[c];
  } while (std::next_permutation(s.begin(), s.end()));
  double sum = 0;
  for (const auto& [text, c] : all) sum += c;
  std::printf("# mean %.4f of %zu:", sum / double(all.size()), all.size());
  for (const auto& [c, n] : histogram) std::printf(" %d:%d", c, n);
  std::printf("\n");
  std::mt19937 rng(1);
  for (size_t k = all.size(); k-- > 1;) std::swap(all[k], all[rng() % (k + 1)]);
  all.resize(2000);
  std::sort(all.begin(), all.end());
  for (const auto& [text, c] : all) std::printf("%s %d\n", text.c_str(), c);
  return 0;
}
