#include "weft/core/plan/memory_budget.h"

#include <doctest/doctest.h>

#include "weft/support/error.h"

namespace weft {
namespace {

MemoryBudget Parsed(const char* text) { return MemoryBudget::Parse(text, "--memory-budget"); }

TEST_CASE("memory budgets: bytes, units, shares, the least") {
  CHECK_FALSE(Parsed("").any());
  CHECK(Parsed("12345").bytes == 12345);
  CHECK(Parsed("300M").bytes == 300 * 1024 * 1024);
  CHECK(Parsed("1.5G").bytes == 3 * 512 * 1024 * 1024LL);
  CHECK(Parsed("9223372036854775807").bytes == INT64_MAX);
  CHECK(Parsed("50%").BytesOf(1001) == 500);
  CHECK(Parsed("min").BytesOf(1000) == 0);
  CHECK(Parsed("").BytesOf(1000) == INT64_MAX);
  CHECK(Parsed("all:2G").all);
  CHECK(Parsed("all:2G").bytes == 2LL << 30);
  for (const char* text : {"300000", "50%", "min", "all:min", "all:75%", "12.5%"})
    CHECK(Parsed(text).ToString() == text);
}

TEST_CASE("memory budgets: what is none is refused with its place") {
  for (const char* text :
       {"0", "-1", "0%", "101%", "-5%", "nan%", "9223372036854775808", "8388608T", "1e30G", "x",
        "M", "1X", "all:", "all:all:1", "3 00", "0.0001K", "infM", "nanG", "%"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Parsed(text), UserError);
  }
}

}  // namespace
}  // namespace weft
