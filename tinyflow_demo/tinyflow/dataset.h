/// dataset.h: pictures and labels: Fashion-MNIST as its Debian package installs it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tf::data {

inline constexpr const char* kFashionMnist = "/usr/share/datasets/fashion-mnist";

/// Grey pictures of one size, each with a class number.
struct Pictures {
  int64_t count = 0, height = 0, width = 0;
  std::shared_ptr<const uint8_t> pixels;  ///< count x height x width; copies of this share them
  std::vector<uint8_t> labels;
  /// The first `n` of them; all where n is 0 or more than there are.
  void Truncate(int64_t n);
};
struct DataSet {
  Pictures train, test;
  int classes = 10;
};

/// Reads the four IDX files from `folder`. Throws kIo naming the package where there
/// are none; kInvalidModel for a damaged one, kLimit for one of more than a gigabyte,
/// naming file and package.
DataSet ReadFashionMnist(const std::string& folder = kFashionMnist);
/// One pair of gzip-compressed (or plain) IDX files. Pixels go into a temporary file that is
/// mapped, so that they take no memory that others need; into memory where there can be none.
Pictures ReadIdx(const std::string& images, const std::string& labels);

}  // namespace tf::data
