/// cli_plan_test.cc: `weft plan`: a table of buffers in, offsets out.
#include <algorithm>

#include "tests/support/cli_util.h"
#include "weft/support/file.h"

namespace {

using namespace weft::e2e;

std::string Table(const Folder& dir, const std::string& text) {
  weft::WriteFileAtomic(dir / "buffers.csv", text);
  return dir / "buffers.csv";
}

TEST_SUITE("weft command") {
  TEST_CASE("plan: offsets for a table, proven smallest") {
    const Folder dir;
    const std::string path =
        Table(dir, "id,lower,upper,size\n0,0,2,10\n1,1,3,20\n2,2,4,10\n3,5,9,25\n");
    const std::string out = dir / "placed.csv";
    const Json said = Parsed(Weft({"plan", path, "-o", out, "--json"}));
    CHECK(said.at("buffers") == 4);
    CHECK(said.at("arena_bytes") == 30);
    CHECK(said.at("lower_bound") == 30);
    CHECK(said.at("optimal") == true);
    CHECK(said.count("met") == 0);
    const std::string placed = weft::ReadFile(out);
    CHECK(placed.find("id,lower,upper,size,offset\n0,0,2,10,") == 0);
    CHECK(std::count(placed.begin(), placed.end(), '\n') == 5);
    CHECK(Weft({"plan", path}).out.find("no plan needs less") != std::string::npos);
  }

  TEST_CASE("plan: a capacity is met or not") {
    const Folder dir;
    // More columns, in another order, Windows line ends.
    const std::string path = Table(dir, "size,name,id,upper,lower\r\n10,a,0,2,0\r\n20,b,1,3,1\r\n");
    CHECK(Parsed(Weft({"plan", path, "--capacity", "30", "--json"})).at("met") == true);
    const Result no = Weft({"plan", path, "--capacity", "29", "--json"});
    CHECK(no.code == 1);
    CHECK(Parsed(no).at("met") == false);
    CHECK(Parsed(no).at("arena_bytes") == 30);
  }

  TEST_CASE("plan: what is no table is named") {
    const Folder dir;
    const auto fails = [&](const std::string& rows, const char* says) {
      Fails({"plan", Table(dir, rows)}, 4, "WEFT-E0202", says);
    };
    fails("", "an empty file");
    fails("id,lower,upper\n", "expected id, lower, upper and size");
    fails("id,lower,upper,size\n0,1,2\n", "line 2: expected 4 cells, got 3");
    fails("id,lower,upper,size\n0,1,2,x\n", "line 2: size has to be a whole number");
    fails("id,lower,upper,size\n0,1,2,-1\n", "it is '-1'");
    fails("id,lower,upper,size\n0,3,2,1\n", "lower 3 is above upper 2");
    fails("id,lower,upper,size\n0,0,99999999999,1\n", "upper has to be");
    fails("id,lower,upper,size\n0,0,1,99999999999999999999\n", "size has to be");
    const std::string most = "9223372036854775807\n";
    Fails({"plan", Table(dir, "id,lower,upper,size\n0,0,2," + most + "1,1,3," + most)}, 5,
          "WEFT-E0502", "");
    Fails({"plan", dir / "none.csv"}, 4, "WEFT-E0201", "none.csv");
    const std::string none = Table(dir, "id,lower,upper,size\n");
    CHECK(Weft({"plan", none, "--capacity", "0"}).code == 2);
    CHECK(Parsed(Weft({"plan", none, "--json"})).at("arena_bytes") == 0);
  }
}

}  // namespace
