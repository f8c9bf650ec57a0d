/// lender.h: inputs as callers feed them: memory that is theirs, and only lent for the
/// length of a run.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "weft/core/tensor/tensor.h"

namespace weft::e2e {

/// Memory of a caller, who lends views of it for the length of a run.
class Lender {
 public:
  /// Views of the contents: where they were the last time, as far as they fit.
  std::vector<TensorPtr> Lend(const std::vector<TensorPtr>& contents) {
    buffers_.resize(contents.size());
    std::vector<TensorPtr> views;
    for (size_t i = 0; i < contents.size(); ++i) {
      const size_t bytes = size_t(contents[i]->num_bytes());
      if (buffers_[i].size() < bytes) buffers_[i].assign(bytes, 0);
      if (bytes > 0) std::memcpy(buffers_[i].data(), contents[i]->data(), bytes);
      views.push_back(std::make_shared<Tensor>(contents[i]->dtype(), contents[i]->dims(),
                                               buffers_[i].data(), nullptr));
    }
    return views;
  }
  /// What is there now is no input of anybody.
  void Overwrite() {
    for (auto& b : buffers_) std::fill(b.begin(), b.end(), char(0xA5));
  }
  /// The next views lie elsewhere. This memory stays as it is, so that whoever still
  /// reads it is found.
  void MoveAway() {
    Overwrite();
    for (auto& b : buffers_) left_.push_back(std::move(b));
    buffers_.clear();
  }

 private:
  std::vector<std::vector<char>> buffers_, left_;
};

}  // namespace weft::e2e
