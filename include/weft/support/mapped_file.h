/// mapped_file.h: files in memory, page by page as they are looked at; pages that have been looked
/// at can be given back, since the file still has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/api.h"

namespace weft {

/// A private mapping of a regular file, to be read only: later changes of the file are not promised
/// to be unseen, but it cannot shrink below what was judged without a signal, so writers replace
/// files and do not cut them (WriteFileAtomic). Throws kIo, kLimit above `max_bytes`, kInvalidModel
/// for an empty one.
WEFT_API std::shared_ptr<void> MapFile(const std::string& path, int64_t max_bytes, size_t* size);

/// A file without a name among temporary ones ($TMPDIR, else /tmp), written a piece at a time and
/// then mapped. Throws kIo where the folder cannot be written to or is full.
class WEFT_API UnnamedFile {
 public:
  UnnamedFile();
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;
  void Write(std::string_view bytes);
  int64_t size() const { return size_; }
  /// All that was written, to be read only; the file goes with the last who holds it. Throws
  /// kInvalidModel where that is nothing.
  std::shared_ptr<void> Map() const;

 private:
  const std::string folder_;
  const int fd_;
  int64_t size_ = 0;
};

/// Such a file of these pieces, mapped. `places`: where each of them begins, 64-byte aligned.
WEFT_API std::shared_ptr<void> MapUnnamed(const std::vector<std::string_view>& pieces,
                                          std::vector<const char*>* places);

/// Gives back the pages that lie whole in these bytes: whoever looks at them again, at any time and
/// from any thread, finds the same, read from the file. False, and nothing happens, where they are
/// not all of one mapping of these two.
WEFT_API bool ReleaseMapped(const void* data, int64_t bytes);

/// What such bytes have in common with those of another mapping of the file as it is: the file, its
/// size, the time of its last change, and where they lie in it. Empty where they are not all of one
/// mapping.
WEFT_API std::string MappedName(const void* data, int64_t bytes);

}  // namespace weft
