/// cli_plan_test.cc: `weft plan`: a table of buffers in, offsets out; nodes in, an order out.
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

  /// Four steps forward and back, each value ten bytes; going back reads what was made going there.
  std::string Nodes(const Folder& dir) {
    const std::string text = R"({"nodes": [
      {"name": "a", "outputs": [10], "cost": 3},
      {"name": "b", "inputs": ["a"], "outputs": [10], "cost": 1},
      {"name": "c", "inputs": ["b"], "outputs": [10], "cost": 1},
      {"name": "d", "inputs": ["c"], "outputs": [10], "cost": 1},
      {"name": "e", "inputs": ["d", "c"], "outputs": [10, 0], "cost": 1, "inplace": [[0, 0]]},
      {"name": "f", "inputs": ["e:0", "b", "e:1"], "outputs": [10], "cost": 1, "recompute": false},
      {"name": "g", "inputs": ["f", "a"], "outputs": [10], "cost": 1, "keep": true}]})";
    weft::WriteFileAtomic(dir / "nodes.json", text);
    return dir / "nodes.json";
  }

  TEST_CASE("plan: nodes in an order with recomputation") {
    const Folder dir;
    const std::string path = Nodes(dir);
    const Json none = Parsed(Weft({"plan", path, "--json"}));
    CHECK(none.at("peak") == 40);
    CHECK(none.at("extra_cost") == 0);
    CHECK(none.at("order").size() == 7);
    CHECK(none.at("lower_bound") == 40);  // proven, where nothing runs again
    // Without a, the steps d, e and f hold three values each. Without b, f has a beside its three.
    const Json met = Parsed(Weft({"plan", path, "--memory-budget", "75%", "--json"}));
    CHECK(met.at("met") == true);
    CHECK(met.at("peak") == 30);
    CHECK(met.at("extra_cost") == 3);
    CHECK(met.at("order") == Json({"a", "b", "c", "d", "e", "f", "a#1", "g"}));
    CHECK(Parsed(Weft({"plan", path, "--memory-budget", "min", "--json"})).at("peak") == 30);
    const Result no = Weft({"plan", path, "--memory-budget", "29", "--json"});
    CHECK(no.code == 1);
    CHECK(Parsed(no).at("met") == false);
    CHECK(Parsed(no).at("peak") == 30);
    CHECK(Parsed(Weft({"plan", path, "--memory-budget", "1K", "--json"})).at("extra_cost") == 0);
    CHECK(Weft({"plan", path, "--memory-budget", "30"}).out.find("a#1\n") != std::string::npos);
  }

  TEST_CASE("plan: what is no list of nodes is named with its place") {
    const Folder dir;
    const auto fails = [&](const std::string& text, const char* code, const char* says) {
      weft::WriteFileAtomic(dir / "bad.json", text);
      Fails({"plan", dir / "bad.json", "--memory-budget", "min"}, 4, code, says);
    };
    const auto node = [](const std::string& rest) {
      return R"({"nodes": [{"name": "a", "outputs": [4, 4]},)"
             "\n"
             R"({"name": "b", )" +
             rest + "}]}";
    };
    fails("", "WEFT-E0202", "bad.json:1:1");
    fails(R"({"nodes": [{"name": "a")", "WEFT-E0202", "bad.json:1");
    fails("[]", "WEFT-E0202", "an object with the key \"nodes\"");
    fails("{}", "WEFT-E0202", "expected the key \"nodes\"");
    fails(node(R"("inputs": "a")"), "WEFT-E0202", "bad.json:2:26: expected a list of names");
    fails(node(R"("inputs": ["c"])"), "WEFT-E0301", "'c' is not an output of a node above");
    fails(node(R"("inputs": ["b"])"), "WEFT-E0301", "'b' is not an output of a node above");
    fails(node(R"("inputs": ["a:2"])"), "WEFT-E0301", "'a:2': a has 2 output(s)");
    fails(node(R"("outputs": [-1])"), "WEFT-E0301", "expected bytes >= 0, got -1");
    fails(node(R"("outputs": [1.5])"), "WEFT-E0202", "bad.json:2");
    fails(node(R"("outputs": [99999999999999999999])"), "WEFT-E0202", "bad.json:2");
    fails(node(R"("cost": "x")"), "WEFT-E0202", "bad.json:2");
    fails(node(R"("keep": 1)"), "WEFT-E0202", "bad.json:2");
    fails(node(R"("inplace": [[0, 0]])"), "WEFT-E0301", "the node has 0 input(s)");
    fails(node(R"("recompte": true)"), "WEFT-E0202", "unknown key \"recompte\"");
    fails(R"({"nodes": [{"name": "a"}, {"name": "a"}]})", "WEFT-E0301", "a second node 'a'");
    fails(R"({"nodes": [{}]})", "WEFT-E0202", "a \"name\"");
    const std::string most = "9223372036854775807";
    weft::WriteFileAtomic(dir / "much.json", node(R"("outputs": [)" + most + ", " + most + "]"));
    Fails({"plan", dir / "much.json"}, 5, "WEFT-E0502", "");
    for (const char* budget : {"0", "-1", "9223372036854775808", "8589934592G", "0%", "101%", "x"})
      CHECK(Weft({"plan", Nodes(dir), "--memory-budget", budget}).code == 2);
    CHECK(Weft({"plan", Nodes(dir), "--capacity", "4"}).code == 2);
    weft::WriteFileAtomic(dir / "none.json", R"({"nodes": []})");
    CHECK(
        Parsed(Weft({"plan", dir / "none.json", "--json", "--memory-budget", "min"})).at("peak") ==
        0);
  }
}

}  // namespace
