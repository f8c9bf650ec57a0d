/// dict_test.cc: attributes of a node from text of their own.
#include <doctest/doctest.h>

#include "weft/core/text/attr_text.h"
#include "weft/support/error.h"

namespace weft {
namespace {

TEST_CASE("attributes from text, with or without braces") {
  const AttrDict d =
      ParseAttrDict("axis = -1, perm = [1, 0], mode = \"linear\", scale = 0.5, to = f16");
  CHECK(d.size() == 5);
  CHECK(d.at("axis").get<int64_t>() == -1);
  CHECK(d.at("perm").get<Ints>() == Ints{1, 0});
  CHECK(d.at("mode").get<std::string>() == "linear");
  CHECK(d.at("scale").get<double>() == 0.5);
  CHECK(d.at("to").get<DType>() == DType::kF16);
  CHECK(ParseAttrDict(" {axis = -1} ").size() == 1);
  CHECK(ParseAttrDict("").empty());
  CHECK(ParseAttrDict("{}").empty());
}

TEST_CASE("what is no list of attributes is refused") {
  for (const char* text :
       {"axis", "axis =", "axis = 1,", "axis = 1, axis = 2", "axis = 1}", "axis = 1} x",
        "{axis = 1", "body = graph () -> () {}", "= 1", "axis = 99999999999999999999"})
    CHECK_THROWS_AS(ParseAttrDict(text), UserError);
}

}  // namespace
}  // namespace weft
