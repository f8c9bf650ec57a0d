/// scratch_folder.cc: see scratch_folder.h.
#include "weft/support/scratch_folder.h"

#include <cstdlib>
#include <filesystem>

#include "weft/support/check.h"
#include "weft/support/file.h"

namespace weft {

ScratchFolder::ScratchFolder() {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "weft_XXXXXX").string();
  WEFT_CHECK(!error && mkdtemp(name.data()), kIo, "cannot make a temporary folder '{}'", name);
  path_ = name;
}
ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
std::string ScratchFolder::operator/(const std::string& name) const {
  return JoinPath(path_, name);
}

}  // namespace weft
