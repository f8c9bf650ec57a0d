/// file_reader.h: a regular file, read once from front to back, for readers that need no copy of
/// the whole of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/support/api.h"

namespace weft {

class WEFT_API FileReader {
 public:
  /// Throws kIo where it cannot be opened or is no regular file, kLimit where it
  /// has more than `max_bytes`.
  explicit FileReader(const std::string& path, int64_t max_bytes = int64_t{1} << 40);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  /// What it had when it was opened; another process may change it meanwhile.
  int64_t size() const { return size_; }
  /// Fills `to` with the next `bytes`, fewer only at the end of the file. Throws kIo.
  size_t Read(void* to, size_t bytes);

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace weft
