/// scratch_folder.h: a folder for files that nobody needs for long.
#pragma once

#include <string>

#include "weft/support/api.h"

namespace weft {

/// Below TemporaryFolder(), readable by this user only; removed
/// with what is in it. Throws kIo.
class WEFT_API ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const;

 private:
  std::string path_;
};

}  // namespace weft
