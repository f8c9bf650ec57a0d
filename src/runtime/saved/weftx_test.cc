/// weftx_test.cc: the seal of a file sees a change of any piece of it.
#include "weftx.h"

#include <doctest/doctest.h>

namespace weft::weftx {
namespace {

TEST_CASE("seal: any byte of any piece counts, and so does the length") {
  std::string file(kBodyAt + (size_t{9} << 20) + 5, '\0');  // several pieces, the last not whole
  for (size_t i = kBodyAt; i < file.size(); ++i) file[i] = char(i * 2654435761u >> 24);
  Seal(&file);
  CHECK(IsSealed(file));
  for (const size_t at :
       {kBodyAt, kBodyAt + (size_t{4} << 20) - 1, kBodyAt + (size_t{4} << 20), file.size() - 1}) {
    CAPTURE(at);
    file[at] = char(file[at] ^ 1);
    CHECK(!IsSealed(file));
    file[at] = char(file[at] ^ 1);
  }
  CHECK(IsSealed(file));
  file.push_back('\0');
  CHECK(!IsSealed(file));
  file.resize(file.size() - 2);
  CHECK(!IsSealed(file));
}

TEST_CASE("seal: an empty body has one") {
  std::string file(kBodyAt, '\0');
  Seal(&file);
  CHECK(IsSealed(file));
}

}  // namespace
}  // namespace weft::weftx
