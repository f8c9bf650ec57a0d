/// scratch_folder.cc: see scratch_folder.h.
#include "weft/support/scratch_folder.h"

#include <cstdlib>
#include <filesystem>

#include "weft/support/check.h"
#include "weft/support/file.h"

namespace weft {

ScratchFolder::ScratchFolder() {
  path_ = JoinPath(TemporaryFolder(), "weft_XXXXXX");
  WEFT_CHECK(mkdtemp(path_.data()), kIo, "cannot make a temporary folder '{}'", path_);
}
ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
std::string ScratchFolder::operator/(const std::string& name) const {
  return JoinPath(path_, name);
}

}  // namespace weft
