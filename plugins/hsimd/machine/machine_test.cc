/// machine_test.cc: the built-in machines are what their sources say; bad files are refused by
/// path.
#include "machine.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "../tests/mutate.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

void CheckEqual(const Machine& a, const Machine& b) {
  CHECK(a.name == b.name);
  CHECK(a.assumed == b.assumed);
  REQUIRE(a.levels.size() == b.levels.size());
  for (size_t i = 0; i < a.levels.size(); ++i) {
    CHECK(a.levels[i].name == b.levels[i].name);
    CHECK(a.levels[i].count == b.levels[i].count);
  }
  REQUIRE(a.memories.size() == b.memories.size());
  for (size_t i = 0; i < a.memories.size(); ++i) {
    const Memory &x = a.memories[i], &y = b.memories[i];
    CHECK(std::tie(x.name, x.level, x.words, x.reads, x.writes, x.accesses, x.off_chip) ==
          std::tie(y.name, y.level, y.words, y.reads, y.writes, y.accesses, y.off_chip));
  }
  REQUIRE(a.units.size() == b.units.size());
  for (size_t i = 0; i < a.units.size(); ++i) {
    const Unit &x = a.units[i], &y = b.units[i];
    CHECK(std::tie(x.name, x.kind, x.slot, x.parent, x.child, x.sources, x.targets) ==
          std::tie(y.name, y.kind, y.slot, y.parent, y.child, y.sources, y.targets));
    REQUIRE(x.ops.size() == y.ops.size());
    for (size_t k = 0; k < x.ops.size(); ++k) {
      const UnitOp &o = x.ops[k], &p = y.ops[k];
      CHECK(std::tie(o.name, o.rate.elements, o.rate.cycles, o.latency, o.indexed, o.reduce,
                     o.shift) == std::tie(p.name, p.rate.elements, p.rate.cycles, p.latency,
                                          p.indexed, p.reduce, p.shift));
    }
  }
}

const UnitOp& OpOf(const Machine& m, const char* unit, const char* op) {
  const int u = m.UnitNamed(unit);
  REQUIRE(u >= 0);
  for (const UnitOp& o : m.units[size_t(u)].ops) {
    if (o.name == op) return o;
  }
  FAIL("no operation ", unit, ".", op);
  throw 0;
}
/// Words a cycle that a down or up operation moves where the whole machine takes part.
int64_t WordsPerCycle(const Machine& m, const char* unit, const char* op) {
  const UnitOp& o = OpOf(m, unit, op);
  int64_t above = 1;
  for (const int l : o.indexed) above *= m.levels[size_t(l)].count;
  CHECK(m.WordsAbove(o) == above);
  return o.rate.elements * above / o.rate.cycles;
}
const Memory& MemoryOf(const Machine& m, const char* name) {
  const int i = m.MemoryNamed(name);
  REQUIRE(i >= 0);
  return m.memories[size_t(i)];
}

/// A small machine that tests change in one place; JSON pointers name it.
nlohmann::ordered_json Small() {
  return nlohmann::ordered_json::parse(R"({
    "name": "small",
    "levels": {"ROOT": 1, "PE": 4},
    "memories": {
      "D": {"level": "ROOT", "words": 64, "off_chip": true},
      "R": {"level": "PE", "words": 16, "reads": 2, "writes": 1}
    },
    "units": {
      "ALU": {"kind": "alu", "latency": 2,
              "ops": {"fadd": {}, "fdiv": {"rate": "1/8", "latency": 20}}},
      "DOWN": {"kind": "down", "slot": "L", "parent": "ROOT", "child": "PE", "latency": 3,
               "rate": 2, "ops": {"words": {"indexed": ["PE"]}, "one": {}}},
      "UP": {"kind": "up", "slot": "L", "parent": "ROOT", "child": "PE", "latency": 3,
             "ops": {"sum": {"reduce": "sum"}, "words": {"indexed": ["PE"]}}},
      "RING": {"kind": "ring", "slot": "L", "child": "PE", "latency": 1,
               "ops": {"left": {"shift": 1}}}
    }
  })");
}

std::string FaultOf(const std::string& text, weft::ErrorCode code) {
  try {
    ParseMachine(text, "f.json");
  } catch (const weft::Error& e) {
    CHECK(e.code() == code);
    CHECK(weft::StartsWith(e.place(), "f.json"));
    return e.message() + " | " + e.hint();
  }
  FAIL("accepted: ", text);
  return {};
}
/// The fault when the value at a JSON pointer is replaced (or added).
std::string FaultAt(const char* pointer, const nlohmann::ordered_json& value) {
  nlohmann::ordered_json json = Small();
  json[nlohmann::ordered_json::json_pointer(pointer)] = value;
  return FaultOf(json.dump(), weft::ErrorCode::kInvalidModel);
}
bool Says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (message.find(part) == std::string::npos) {
      MESSAGE(message, " lacks ", part);
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("machine: toy4 is the machine of the text") {
  const Machine m = FindMachine("toy4");
  CHECK(m.PlacesOf(m.pe()) == 4);
  const Memory& r = MemoryOf(m, "R");
  CHECK(std::tie(r.words, r.reads, r.writes, r.accesses, r.level) ==
        std::make_tuple(int64_t{64}, 1, 1, 0, m.pe()));
  CHECK(MemoryOf(m, "PM").words == 256);
  CHECK(WordsPerCycle(m, "DOWN", "distribute") == 4);
  CHECK(WordsPerCycle(m, "UP", "collect") == 4);
  CHECK(WordsPerCycle(m, "LOAD", "load") == 1);
  CHECK(WordsPerCycle(m, "STORE", "store") == 1);
  CHECK(OpOf(m, "RING", "left").shift == 1);
  CHECK(OpOf(m, "RING", "right").shift == -1);
  for (const Unit& u : m.units) {
    CHECK(u.slot == m.units[0].slot);
    for (const UnitOp& op : u.ops) CHECK(op.latency == 1);
  }
}

TEST_CASE("machine: tree64 is the machine of the table") {
  const Machine m = FindMachine("tree64");
  CHECK(m.PlacesOf(m.LevelNamed("L1B")) == 4);
  CHECK(m.PlacesOf(m.LevelNamed("MAB")) == 16);
  CHECK(m.PlacesOf(m.pe()) == 64);
  for (const char* name : {"LM0", "LM1"}) {
    CHECK(MemoryOf(m, name).words == 4096);
    CHECK(MemoryOf(m, name).accesses == 1);
  }
  for (const char* name : {"R0", "R1"}) {
    CHECK(MemoryOf(m, name).words == 512);
    CHECK(MemoryOf(m, name).reads == 1);
    CHECK(MemoryOf(m, name).writes == 1);
  }
  CHECK(MemoryOf(m, "L1BM").words == 8192);
  CHECK(MemoryOf(m, "L2BM").words == 32768);
  CHECK(MemoryOf(m, "DRAM").words == 16 << 20);
  const std::pair<std::pair<const char*, const char*>, int64_t> rates[] = {
      {{"L1_DOWN", "distribute"}, 16}, {{"L1_UP", "collect"}, 16},    {{"L1_DOWN", "per_mab"}, 4},
      {{"L1_DOWN", "per_pe"}, 4},      {{"L1_DOWN", "broadcast"}, 1}, {{"L1_UP", "reduce_sum"}, 4},
      {{"L2_DOWN", "distribute"}, 16}, {{"L2_UP", "collect"}, 16},    {{"L2_DOWN", "broadcast"}, 8},
      {{"L2_UP", "reduce_sum"}, 8},    {{"LOAD", "load"}, 8},         {{"STORE", "store"}, 8}};
  for (const auto& [op, words] : rates) CHECK(WordsPerCycle(m, op.first, op.second) == words);
  CHECK(OpOf(m, "LOAD", "load").latency == 64);
  CHECK(OpOf(m, "ALU", "fma").latency == 4);
  CHECK(OpOf(m, "MAT", "mul").latency == 4);
  std::vector<std::string> slots;
  for (const Unit& u : m.units) {
    if (std::find(slots.begin(), slots.end(), u.slot) == slots.end()) slots.push_back(u.slot);
  }
  CHECK(slots == std::vector<std::string>{"ALU", "MATL", "MAT", "L1", "L2", "DMA"});
}

TEST_CASE("machine: mnc2 has the public figures and marks the others") {
  const Machine m = FindMachine("mnc2");
  CHECK(m.PlacesOf(m.pe()) == 4096);
  CHECK(m.PlacesOf(m.LevelNamed("MAB")) == 1024);
  // Long words of 64 bits are two of ours.
  CHECK(MemoryOf(m, "LM0").words == 2 * 2048);
  CHECK(MemoryOf(m, "GRF0").words == 2 * 256);
  CHECK(MemoryOf(m, "L1BM").words == 2 * 8192);
  CHECK(MemoryOf(m, "L2BM").words == 2 * 32768);
  CHECK(MemoryOf(m, "DRAM").words == int64_t{4} << 30);
  // Single precision: 8 x 4 multiply-adds a MAB and cycle.
  CHECK(OpOf(m, "MAT", "mul").rate.elements * 4 * 4 == 8 * 4);
  CHECK(WordsPerCycle(m, "L2_DOWN", "broadcast") == 2 * 16);
  CHECK(WordsPerCycle(m, "L2_DOWN", "distribute") == 2 * 64);
  CHECK(WordsPerCycle(m, "L1_DOWN", "distribute") == 2 * 64);
  CHECK(WordsPerCycle(m, "LOAD", "per_group") == 4 * 2 * 16);
  int64_t latencies = 0;
  for (const Unit& u : m.units) latencies += int64_t(u.ops.size());
  for (const std::string& path : m.assumed) latencies -= weft::EndsWith(path, ".latency");
  CHECK(latencies == 0);
}

TEST_CASE("machine: print and parse") {
  for (const std::string& name : BuiltInMachines()) {
    const Machine m = FindMachine(name);
    CHECK(m.name == name);
    CheckEqual(ParseMachine(PrintMachine(m), name), m);
  }
  nlohmann::ordered_json json = Small();
  json["levels"]["PE"] = {{"value", 4}, {"assumed", true}};
  json["memories"]["R"]["accesses"] = {{"value", 0}, {"assumed", true}};
  json["units"]["RING"]["ops"]["left"]["shift"] = {{"value", -3}, {"assumed", true}};
  json["units"]["ALU"]["latency"] = {{"value", 5}, {"assumed", true}};
  json["units"]["DOWN"]["rate"] = {{"value", "6/4"}, {"assumed", false}};
  const Machine m = ParseMachine(json.dump(), "small");
  CHECK(m.assumed == std::vector<std::string>{"levels.PE", "memories.R.accesses",
                                              "units.ALU.ops.fadd.latency",
                                              "units.RING.ops.left.shift"});
  CHECK(OpOf(m, "DOWN", "one").rate.elements == 3);
  CHECK(OpOf(m, "DOWN", "one").rate.cycles == 2);
  CHECK(OpOf(m, "ALU", "fdiv").rate.cycles == 8);
  CHECK(OpOf(m, "ALU", "fdiv").latency == 20);
  CheckEqual(ParseMachine(PrintMachine(m), "printed"), m);
}

TEST_CASE("machine: a rate spreads elements over cycles") {
  const Rate two{2, 1}, eighth{1, 8}, three_halves{3, 2};
  for (int64_t k = 0; k < 20; ++k) {
    CHECK(two.StartOf(k) == k / 2);
    CHECK(eighth.StartOf(k) == 8 * k);
    CHECK(three_halves.StartOf(k) == int64_t(double(k) * 2 / 3 + 1e-9));
  }
}

TEST_CASE("machine: what is wrong is named by its path") {
  CHECK(Says(FaultAt("/levels/PE", 0), {"levels.PE", "at least 1"}));
  CHECK(Says(FaultAt("/levels/ROOT", 2), {"levels.ROOT", "root"}));
  CHECK(Says(FaultAt("/levels/PE", 1 << 21), {"levels.PE", "at most"}));
  CHECK(Says(FaultAt("/levels/Time", 2), {"levels.Time"}));
  CHECK(Says(FaultAt("/levels/2PE", 2), {"is not a name"}));
  CHECK(Says(FaultAt("/memories/R/level", "PEE"), {"memories.R.level", "did you mean 'PE'"}));
  CHECK(Says(FaultAt("/memories/R/words", -1), {"memories.R.words", "at least 1"}));
  CHECK(Says(FaultAt("/memories/R/words", 1.5), {"memories.R.words", "whole number"}));
  CHECK(
      Says(FaultAt("/memories/R/words", 18446744073709551615ULL), {"memories.R.words", "at most"}));
  CHECK(Says(FaultAt("/memories/R/off_chip", true), {"memories.R.level", "root"}));
  CHECK(Says(FaultAt("/memories/R/raeds", 1), {"memories.R.raeds", "did you mean 'reads'"}));
  CHECK(Says(FaultAt("/units/ALU/kind", "allu"), {"units.ALU.kind", "did you mean 'alu'"}));
  CHECK(Says(FaultAt("/units/ALU/ops/fad", nlohmann::ordered_json::object()),
             {"units.ALU.ops.fad", "did you mean"}));
  CHECK(Says(FaultAt("/units/ALU/ops/fadd/rate", 0), {"units.ALU.ops.fadd.rate", "at least 1"}));
  CHECK(Says(FaultAt("/units/ALU/ops/fadd/rate", "1/0"),
             {"units.ALU.ops.fadd.rate", "expected a rate"}));
  CHECK(Says(FaultAt("/units/ALU/ops/fadd/rate", "1/2/3"), {"units.ALU.ops.fadd.rate"}));
  CHECK(Says(FaultAt("/units/ALU/ops/fadd/latency", 0),
             {"units.ALU.ops.fadd.latency", "at least 1"}));
  CHECK(Says(FaultAt("/units/ALU/ops/fadd/indexed", nlohmann::ordered_json::array()),
             {"units.ALU.ops.fadd.indexed", "is not a key"}));
  CHECK(Says(FaultAt("/units/ALU/parent", "ROOT"), {"units.ALU.parent"}));
  CHECK(Says(FaultAt("/units/ALU/ops", "some"), {"units.ALU.ops"}));
  CHECK(Says(FaultAt("/units/DOWN/ops", "all"), {"units.DOWN.ops", "kind alu"}));
  nlohmann::ordered_json upside_down = Small();
  upside_down["units"]["DOWN"]["parent"] = "PE";
  upside_down["units"]["DOWN"]["child"] = "ROOT";
  CHECK(Says(FaultOf(upside_down.dump(), weft::ErrorCode::kInvalidModel),
             {"units.DOWN.parent", "PE is not above ROOT", "ancestor"}));
  CHECK(Says(FaultAt("/units/DOWN/sources", {"R"}), {"units.DOWN.sources", "level PE, not ROOT"}));
  CHECK(Says(FaultAt("/units/DOWN/sources", {"X"}), {"units.DOWN.sources", "no memory is named"}));
  CHECK(Says(FaultAt("/units/DOWN/targets", nlohmann::ordered_json::array()),
             {"units.DOWN.targets"}));
  CHECK(Says(FaultAt("/units/DOWN/ops/words/indexed", {"ROOT"}), {"units.DOWN.ops.words.indexed"}));
  CHECK(Says(FaultAt("/units/DOWN/ops/words/indexed", {"PE", "PE"}), {"each once"}));
  CHECK(Says(FaultAt("/units/UP/ops/sum/reduce", "summ"),
             {"units.UP.ops.sum.reduce", "did you mean 'sum'"}));
  CHECK(Says(FaultAt("/units/UP/ops/words/reduce", "sum"), {"nothing to combine"}));
  CHECK(Says(FaultAt("/units/RING/ops/left/shift", 0), {"units.RING.ops.left.shift"}));
  CHECK(Says(FaultAt("/units/RING/ops/left/shift", 4), {"units.RING.ops.left.shift", "at most 3"}));
  CHECK(Says(FaultAt("/units/RING/ops", {"left"}), {"units.RING.ops.left.shift", "missing"}));
  CHECK(Says(FaultAt("/units/M", {{"kind", "matrix"}, {"ops", {"mul"}}}),
             {"units.M.latency", "missing"}));
  CHECK(Says(FaultAt("/unit", 1), {"unit: is not a key", "did you mean 'units'"}));
  CHECK(Says(FaultAt("/units", nlohmann::ordered_json::object()), {"needs a unit"}));
  CHECK(Says(FaultAt("/name", 3), {"name: expected text"}));
}

TEST_CASE("machine: text that is not JSON") {
  const auto place = [](const std::string& text) {
    try {
      ParseMachine(text, "f.json");
    } catch (const weft::Error& e) {
      CHECK(e.code() == weft::ErrorCode::kSyntax);
      return e.place();
    }
    return std::string("accepted");
  };
  CHECK(place("{\n  \"name\": ,\n}") == "f.json:2:11");
  CHECK(place("{\"name\": \"a\", \"name\": \"b\"}") == "f.json:1:15");
  CHECK(weft::StartsWith(place(""), "f.json:1:"));
  FaultOf("[]", weft::ErrorCode::kInvalidModel);
}

TEST_CASE("machine: names that are not there") {
  try {
    FindMachine("tree46");
    FAIL("found");
  } catch (const weft::Error& e) {
    CHECK(e.code() == weft::ErrorCode::kUsage);
    CHECK(Says(e.hint(), {"tree64"}));
  }
  CHECK_THROWS_AS(FindMachine("./no/such.json"), weft::Error);
}

TEST_CASE("machine: damaged files are refused or read, never more") {
  std::mt19937 random(7);
  std::vector<std::string> texts = {Small().dump(1)};
  for (const std::string& name : BuiltInMachines())
    texts.push_back(PrintMachine(FindMachine(name)));
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = Mutate(texts[round % 8 == 0 ? random() % texts.size() : 0], texts,
                                    {4, 20, 30, "0123456789\"{}[],:-"}, &random);
    try {
      const Machine m = ParseMachine(text, "f.json");
      CheckEqual(ParseMachine(PrintMachine(m), "again"), m);
      ++accepted;
    } catch (const weft::UserError&) {
    }
  }
  CHECK(accepted > 20);
}

}  // namespace hsimd
