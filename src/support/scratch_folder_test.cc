/// scratch_folder_test.cc: a folder of one's own, which goes with what is in it.
#include "weft/support/scratch_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "weft/support/file.h"

namespace weft {

TEST_CASE("a scratch folder is private, another each time, and goes with its files") {
  std::string file;
  {
    const ScratchFolder folder, other;
    file = folder / "a.txt";
    CHECK(DirectoryOf(file) != DirectoryOf(other / "a.txt"));
    MakeDirectories(folder / "deeper");
    WriteFileAtomic(folder / "deeper/b.txt", "b");
    WriteFileAtomic(file, "a");
    struct stat status {};
    REQUIRE(stat(DirectoryOf(file).c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    CHECK(FileExists(file));
  }
  CHECK(!FileExists(file));
  CHECK(!FileExists(DirectoryOf(file)));
}

}  // namespace weft
