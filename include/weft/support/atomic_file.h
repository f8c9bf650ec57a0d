/// atomic_file.h: a file that is written in pieces and appears whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "weft/support/api.h"

namespace weft {

/// Writes to a temporary file in the folder of `path`, made exclusively; Commit flushes it to disk
/// (where `flush`) and renames it. Without Commit nothing is left. Everything throws kIo.
class WEFT_API AtomicFile {
 public:
  explicit AtomicFile(std::string path, bool flush = true);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void Write(std::string_view bytes);
  void Commit();

 private:
  [[noreturn]] void Fail(const char* action);
  std::string path_, temporary_;
  int fd_ = -1;
  bool flush_;
};

}  // namespace weft
