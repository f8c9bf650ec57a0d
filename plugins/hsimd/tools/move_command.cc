/// move_command.cc: `hsimd move`: the instructions that bring a tensor from one layout to another.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "../layout/layout.h"
#include "../move/move.h"
#include "command.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string machine, from, to, from_memory, to_memory;
  int64_t base = 0, to_base = -1;
  bool json = false, program = false;
};

int MemoryOf(const Machine& m, const std::string& name, const char* option) {
  if (name.empty()) {
    for (size_t k = 0; k < m.memories.size(); ++k) {
      if (m.memories[k].level == m.pe()) return int(k);
    }
  }
  const int memory = m.MemoryNamed(name);
  WEFT_CHECK(memory >= 0, kUsage, "{}: no memory is named '{}'", option, name);
  return memory;
}

/// Every word that neither tensor has.
std::vector<SpareWords> SpareOf(const Machine& m, const TensorAt& a, const TensorAt& b) {
  std::vector<SpareWords> spare;
  for (size_t k = 0; k < m.memories.size(); ++k) {
    if (m.memories[k].off_chip) continue;
    int64_t end = 0;
    for (const TensorAt* t : {&a, &b}) {
      if (t->memory == int(k)) end = std::max(end, t->base + Words(t->layout));
    }
    if (end < m.memories[k].words) spare.push_back({int(k), end, m.memories[k].words - end});
  }
  return spare;
}

/// Elements that lie at the same place and address in both.
int64_t CountStaying(const Layout& from, const Layout& to) {
  int64_t stay = 0;
  ForEachIndex(from.shape,
               [&](const Index& index) { stay += PlaceOf(from, index) == PlaceOf(to, index); });
  return stay;
}

void RunMove(const Options& o) {
  const Machine m = FindMachine(o.machine);
  TensorAt from{MemoryOf(m, o.from_memory, "--from-memory"), o.base, ParseLayout(o.from)};
  TensorAt to{MemoryOf(m, o.to_memory.empty() ? o.from_memory : o.to_memory, "--to-memory"),
              o.to_base < 0 ? o.base : o.to_base, ParseLayout(o.to)};
  Validate(from.layout, m, m.memories[size_t(from.memory)].level);
  Validate(to.layout, m, m.memories[size_t(to.memory)].level);
  const MovePlan plan = PlanMove(m, from, to, SpareOf(m, from, to));
  Program program;
  program.machine = m.name;
  program.instructions = plan.instructions;
  const bool same_words = from.memory == to.memory && from.base == to.base;
  const bool counted = same_words && from.layout.elements() <= 1 << 20;
  const int64_t stay = counted ? CountStaying(from.layout, to.layout) : 0;
  if (o.json) {
    Json json;
    json["machine"] = m.name;
    json["from"] = PrintLayout(from.layout);
    json["to"] = PrintLayout(to.layout);
    json["elements"] = from.layout.elements();
    if (counted) json["stay"] = stay;
    json["way"] = plan.way;
    json["cycles"] = plan.cycles;
    json["bound_cycles"] = plan.bound_cycles;
    json["instructions"] = plan.instructions.size();
    if (o.program) json["program"] = PrintProgram(program, m);
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{} elements", from.layout.elements());
  if (counted) fmt::print(", {} stay, {} move", stay, from.layout.elements() - stay);
  fmt::print("; way '{}': {} instructions, {} cycles, no way takes fewer than {}\n", plan.way,
             plan.instructions.size(), plan.cycles, plan.bound_cycles);
  if (o.program) fmt::print("{}", PrintProgram(program, m));
}

}  // namespace

void AddMoveCommand(CLI::App* app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand(
      "move", "plan the move of a tensor from one layout to another: its way, cycles, lower bound");
  command->add_option("MACHINE", o->machine, "a built-in machine or a file")->required();
  command->add_option("FROM", o->from, "the layout that it has")->required();
  command->add_option("TO", o->to, "the layout that it gets")->required();
  command->add_option("--from-memory", o->from_memory, "where it is (default: the PEs' first)");
  command->add_option("--to-memory", o->to_memory, "where it gets (default: where it is)");
  command->add_option("--base", o->base, "its first address")->check(CLI::NonNegativeNumber);
  command->add_option("--to-base", o->to_base, "its first address afterwards (default: as before)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--program", o->program, "print the instructions, too");
  command->add_flag("--json", o->json, "print as JSON");
  command->callback([o] { RunMove(*o); });
}

}  // namespace hsimd
