// The placer: what no start cycle could make right is refused, not searched for without end.
#include "placer.h"

#include <doctest/doctest.h>

#include "weft/support/error.h"

namespace hsimd {
namespace {

/// R is listed before M. The link writes two words of S in a cycle, S has a port for one.
Machine SmallMachine() {
  return ParseMachine(R"({"name": "small", "levels": {"CHIP": 1, "PE": 2},
  "memories": {
    "DRAM": {"level": "CHIP", "words": 64, "off_chip": true},
    "S": {"level": "CHIP", "words": 64, "writes": 1},
    "R": {"level": "PE", "words": 64, "reads": 1, "writes": 1},
    "M": {"level": "PE", "words": 64, "accesses": 1}},
  "units": {
    "ALU": {"kind": "alu", "latency": 3, "ops": "all"},
    "LOAD": {"kind": "down", "parent": "CHIP", "child": "CHIP", "rate": 2, "latency": 1,
      "sources": ["DRAM"], "targets": ["S"], "ops": ["load"]}}})",
                      "small");
}

Stream At(const Machine& machine, const std::string& memory, int64_t base) {
  Stream s;
  s.memory = machine.MemoryNamed(memory);
  s.base = base;
  s.stride = {0, 0, 1};
  return s;
}

Instruction Of(const Machine& machine, const std::string& unit, const std::string& op,
               int64_t count, std::vector<Stream> sources, const Stream& target) {
  Instruction i;
  i.unit = machine.UnitNamed(unit);
  const std::vector<UnitOp>& ops = machine.units[size_t(i.unit)].ops;
  for (size_t o = 0; o < ops.size(); ++o)
    if (ops[o].name == op) i.op = int(o);
  i.count = {1, 1, count};
  i.sources = std::move(sources);
  i.target = target;
  return i;
}

std::string Refusal(const Machine& machine, Instruction instruction) {
  Placer placer(machine);
  try {
    placer.Place(instruction);
  } catch (const weft::Error& e) {
    CHECK(e.code() == weft::ErrorCode::kInvalidModel);
    return e.what();
  }
  return "none";
}

TEST_CASE("an instruction that needs more of a memory than it has in a cycle is refused") {
  const Machine m = SmallMachine();
  // Two words of M in one cycle, which has one access.
  CHECK(Refusal(m, Of(m, "ALU", "fadd", 1, {At(m, "M", 0), At(m, "M", 8)}, At(m, "R", 0)))
            .find("reads M 2 times a cycle, which has 1 accesses") != std::string::npos);
  CHECK(Refusal(m, Of(m, "ALU", "fadd", 4, {At(m, "M", 0), At(m, "R", 8)}, At(m, "R", 16))) ==
        "none");
  CHECK(Refusal(m, Of(m, "LOAD", "load", 4, {At(m, "DRAM", 0)}, At(m, "S", 0)))
            .find("writes S 2 times a cycle, which has 1 write ports") != std::string::npos);
  CHECK(Refusal(m, Of(m, "LOAD", "load", 1, {At(m, "DRAM", 0)}, At(m, "S", 0))) == "none");
}

TEST_CASE("own reads and writes of a memory in one cycle are found, whatever else is read") {
  const Machine m = SmallMachine();
  // Element 0 writes M in the cycle in which element 2 reads it.
  CHECK(Refusal(m, Of(m, "ALU", "fadd", 3, {At(m, "M", 0), At(m, "R", 0)}, At(m, "M", 16)))
            .find("reads and writes M more often") != std::string::npos);
  CHECK(Refusal(m, Of(m, "ALU", "fadd", 2, {At(m, "M", 0), At(m, "R", 0)}, At(m, "M", 16))) ==
        "none");
}

}  // namespace
}  // namespace hsimd
