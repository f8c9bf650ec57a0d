/// graph_attr_types_test.cc: the text form of followed values.
#include "weft/core/graph/graph_attr_types.h"

#include <doctest/doctest.h>

#include "weft/core/graph/graph_attr.h"
#include "weft/support/error.h"

namespace weft {
namespace {

SymTensorPtr RoundTrip(std::vector<int64_t> dims, std::vector<SymInt> elements, std::string* text) {
  const AttrType* type = FindAttrType("value");
  REQUIRE(type);
  auto v = std::make_shared<SymTensor>();
  v->dims = std::move(dims);
  v->elements = std::move(elements);
  ValueMap rows;
  rows.set(0, 0, v);
  *text = *type->format(std::any(rows), 0, 0);
  std::any read{ValueMap()};
  type->parse(read, 0, 0, *text);
  const SymTensorPtr* back = std::any_cast<ValueMap>(&read)->find(0, 0);
  REQUIRE(back);
  CHECK(**back == *v);
  return *back;
}

TEST_CASE("values of every rank, with commas inside their elements, survive the text form") {
  const SymInt n = SymInt::Symbol("n"), m = SymInt::Symbol("m");
  std::string text;
  RoundTrip({}, {SymInt(7)}, &text);
  CHECK(text == "7");
  RoundTrip({1}, {SymInt(7)}, &text);
  CHECK(text == "[7]");
  RoundTrip({0}, {}, &text);
  RoundTrip({3}, {Min(n, m), SymInt(), SymInt(-4)}, &text);
  RoundTrip({2, 2}, {n, SymInt(1), Min(n, SymInt(5)), m}, &text);
  CHECK(text.find("[2, 2]: [n, 1") == 0);
}

TEST_CASE("texts that are no value are refused") {
  const AttrType* type = FindAttrType("value");
  for (const char* text : {"[2, 2]: [1, 2, 3]", "[n]: [1]", "[1, ]", "[-1]: []", "[1"}) {
    CAPTURE(text);
    std::any read{ValueMap()};
    CHECK_THROWS_AS(type->parse(read, 0, 0, text), Error);
  }
}

}  // namespace
}  // namespace weft
