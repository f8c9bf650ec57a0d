/// byte_pairs.cc: see byte_pairs.h. Pairs wait in a queue by the rank of their merge, so that a
/// text that is one word takes n log n.
#include "byte_pairs.h"

#include <queue>
#include <tuple>

#include "unicode.h"
#include "weft/support/check.h"

namespace weft {

void BytePairs::AddMerge(int64_t a, int64_t b, int64_t whole) {
  merges_.try_emplace(Key(a, b), Merge{uint32_t(merges_.size()), whole});
}

void BytePairs::Encode(std::string_view word, std::vector<int64_t>* tokens) const {
  if (word.empty()) return;
  if (ignore_merges) {
    if (const auto it = vocabulary.find(std::string(word)); it != vocabulary.end()) {
      tokens->push_back(it->second);
      return;
    }
  }
  struct Symbol {
    int64_t token;
    int before, behind;
  };
  std::vector<Symbol> symbols;
  const auto add = [&](int64_t token) {
    symbols.push_back({token, int(symbols.size()) - 1, int(symbols.size()) + 1});
  };
  bool is_unknown = false;
  std::string piece;
  for (size_t at = 0; at < word.size();) {
    const size_t n = CodePointAt(word, at).bytes;
    piece.assign(word.substr(at, n));
    at += n;
    if (const auto it = vocabulary.find(piece); it != vocabulary.end()) {
      add(it->second);
      is_unknown = false;
      continue;
    }
    std::vector<int64_t> bytes;
    for (const char c : piece) {
      const auto it = byte_fallback ? vocabulary.find(fmt::format("<0x{:02X}>", int(uint8_t(c))))
                                    : vocabulary.end();
      if (it != vocabulary.end()) bytes.push_back(it->second);
    }
    if (bytes.size() == piece.size()) {
      for (const int64_t token : bytes) add(token);
      is_unknown = false;
    } else if (unknown) {
      if (!is_unknown || !fuse_unknown) add(*unknown);
      is_unknown = true;
    }
  }
  if (symbols.empty()) return;
  symbols.back().behind = -1;

  // By rank, then from the left.
  using Waiting = std::tuple<uint32_t, int, int, int64_t>;  // rank, left, right, whole
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> queue;
  const auto wait = [&](int left, int right) {
    if (left < 0 || right < 0) return;
    const auto it = merges_.find(Key(symbols[size_t(left)].token, symbols[size_t(right)].token));
    if (it != merges_.end()) queue.emplace(it->second.rank, left, right, it->second.whole);
  };
  for (int i = 0; i + 1 < int(symbols.size()); ++i) wait(i, i + 1);
  std::vector<char> gone(symbols.size(), 0);
  while (!queue.empty()) {
    const auto [rank, left, right, whole] = queue.top();
    queue.pop();
    Symbol& a = symbols[size_t(left)];
    if (gone[size_t(left)] || gone[size_t(right)] || a.behind != right) continue;
    const auto it = merges_.find(Key(a.token, symbols[size_t(right)].token));
    if (it == merges_.end() || it->second.rank != rank) continue;
    a.token = whole;
    a.behind = symbols[size_t(right)].behind;
    gone[size_t(right)] = 1;
    if (a.behind >= 0) symbols[size_t(a.behind)].before = left;
    wait(a.before, left);
    wait(left, a.behind);
  }
  for (int i = 0; i >= 0; i = symbols[size_t(i)].behind)
    tokens->push_back(symbols[size_t(i)].token);
}

}  // namespace weft
