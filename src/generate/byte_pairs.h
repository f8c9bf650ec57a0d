/// byte_pairs.h: byte-pair encoding: a word into the tokens of a vocabulary, by merging neighbours
/// in the order of a list. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

class BytePairs {
 public:
  std::unordered_map<std::string, int64_t> vocabulary;
  bool byte_fallback = false;  ///< unknown characters are tokens <0x41> of their bytes
  bool fuse_unknown = false;   ///< neighbours that are unknown are one token
  bool ignore_merges = false;  ///< a word that is a token is that
  std::optional<int64_t> unknown;

  /// The next merge: of the tokens `a` and `b` into `whole`.
  void AddMerge(int64_t a, int64_t b, int64_t whole);
  bool HasMerge(int64_t a, int64_t b) const { return merges_.count(Key(a, b)) > 0; }
  void Encode(std::string_view word, std::vector<int64_t>* tokens) const;

 private:
  struct Merge {
    uint32_t rank;
    int64_t whole;
  };
  static uint64_t Key(int64_t a, int64_t b) { return uint64_t(a) << 32 | uint64_t(uint32_t(b)); }
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace weft
