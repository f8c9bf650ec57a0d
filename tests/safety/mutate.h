/// mutate.h: damages a model in ways that a parser lets pass: names swapped and aliased, extents
/// and attributes extreme, parts dropped, doubled and truncated, types and versions changed;
/// and, seldom, its bytes.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model_maker.h"

namespace weft::safety {

/// A source of choices that is the same on every machine.
class Choices {
 public:
  explicit Choices(uint64_t seed) : random_(seed) {}
  uint64_t Next() { return random_(); }
  /// 0 .. n - 1; n > 0.
  size_t Below(size_t n) { return size_t(random_() % n); }
  bool OneIn(size_t n) { return Below(n) == 0; }
  template <class T>
  const T& Of(const std::vector<T>& v) {
    return v[Below(v.size())];
  }
  /// An integer that breaks arithmetic, or a small one.
  int64_t Number();

 private:
  std::mt19937_64 random_;
};

/// One to three edits of the structure.
void MutateModel(pb::ModelProto* model, Choices* choices);
/// One to eight edits of bytes.
void MutateBytes(std::string* bytes, Choices* choices);

}  // namespace weft::safety
