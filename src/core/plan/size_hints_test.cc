/// size_hints_test.cc: the text form of the attribute `hint`.
#include "weft/core/plan/size_hints.h"

#include <doctest/doctest.h>

#include "weft/core/graph/graph_attr.h"
#include "weft/support/error.h"

namespace weft {
namespace {

TEST_CASE("size hints: their text is read as they are") {
  const AttrType* type = FindAttrType("hint");
  REQUIRE(type);
  std::any read{SizeHints()};
  type->parse(read, 0, 0, " n = 100000, m=4 ");
  const SizeHints& hints = *std::any_cast<SizeHints>(&read);
  CHECK(hints.values == std::map<std::string, int64_t>{{"m", 4}, {"n", 100000}});
  CHECK(*type->format(read, 0, 0) == "m = 4, n = 100000");
}

TEST_CASE("size hints: what is no hint is refused") {
  const AttrType* type = FindAttrType("hint");
  for (const char* text :
       {"n", "n = m", "n = -1", "3 = 3", "n = 1, n = 2", "n = 9223372036854775808"}) {
    CAPTURE(text);
    std::any read{SizeHints()};
    CHECK_THROWS_AS(type->parse(read, 0, 0, text), Error);
  }
}

}  // namespace
}  // namespace weft
