/// report_test.cc: the page says what the program does, whatever names are in it.
#include "report.h"

#include <doctest/doctest.h>

#include "element_table.h"

namespace hsimd {
namespace {

size_t Count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("report: parts of the page") {
  const Machine m = FindMachine("toy4");
  const Program p = ParseProgram(
      "l1 1\nmachine toy4\ninput x : DRAM[0:24]\n@0 LOAD.load DRAM[0; 1] -> PM[0; 1] x (24)  # "
      "<x>\n"
      "@24 DOWN.distribute PM[0; 4] -> R[0; 1] x (6)  # exchange\n"
      "@30 RING.left R[0; 1] -> R[6; 1] x (3) on PE=0,2  # exchange\n",
      m, "f");
  ReportInput input;
  input.title = "a & b";
  input.numbers = {{"bound_cycles", 30}};
  input.values = {{"v", "R", 0, ParseLayout("(12)/((4_PE:1, 3:1))")}};
  const std::string page = MakeReport(p, m, input);
  CHECK(page.find("<h1>a &amp; b</h1>") != std::string::npos);
  CHECK(page.find("<th>cycles</th><td>33</td>") != std::string::npos);
  CHECK(page.find("bound_cycles</th><td>30") != std::string::npos);
  CHECK(page.find("&lt;x&gt;</td><td>24</td>") != std::string::npos);
  CHECK(page.find("exchange</td><td>9</td><td>24</td><td>33</td><td>2</td>") != std::string::npos);
  CHECK(page.find("<tr><th>PE1</th><td>3</td><td>4</td><td>5</td></tr>") != std::string::npos);
  CHECK(page.find("R, words 0 to 8") != std::string::npos);
  CHECK(page.find("<x>") == std::string::npos);
  CHECK(page.find("http") == std::string::npos);
  CHECK(Count(page, "<svg") == Count(page, "</svg>"));
  CHECK(Count(page, "<table") == Count(page, "</table>"));
  CHECK(MakeReport(p, m, input) == page);
}

TEST_CASE("report: its size is bounded") {
  const Machine m = FindMachine("toy4");
  Program p;
  p.machine = "toy4";
  for (int64_t k = 0; k < 20000; ++k) {
    Instruction i;
    i.unit = m.UnitNamed("ALU");
    i.start = k;
    i.sources = {Stream()};
    i.target = {m.MemoryNamed("R"), k * 7 % 64};
    i.note = "node " + std::to_string(k % 1000);
    p.instructions.push_back(i);
  }
  CHECK(MakeReport(p, m, {}).size() < (3 << 20));
  CHECK(MakeReport({"toy4", {}, {}}, m, {}).size() < 5000);
}

TEST_CASE("report: tables of layouts") {
  const ElementTable t = MakeElementTable(ParseLayout("(4,6)/((2_PE:2, 2:3), (2_PE:1, 3:1))"));
  CHECK(t.levels == std::vector<std::string>{"PE"});
  REQUIRE(t.rows.size() == 4);
  CHECK(t.rows.at({1}).at({4, 0}) == Index{1, 4});
  CHECK(NameOfElement({1, 4}) == "(1,4)");
  CHECK(NameOfElement({5}) == "5");
}

}  // namespace hsimd
