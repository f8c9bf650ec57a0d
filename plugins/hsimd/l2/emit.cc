/// emit.cc: the walk over a tile program, transfers, and what all kinds of operations share.
#include "emit.h"

#include <algorithm>

#include "../move/move.h"
#include "emitter.h"
#include "next_index.h"
#include "weft/support/check.h"

namespace hsimd {

bool PortsAllow(const Machine& machine, const std::vector<int>& reads, int write) {
  for (size_t m = 0; m < machine.memories.size(); ++m) {
    const Memory& memory = machine.memories[m];
    const int r = int(std::count(reads.begin(), reads.end(), int(m))), w = write == int(m);
    if (memory.reads && r > memory.reads) return false;
    if (memory.writes && w > memory.writes) return false;
    if (memory.accesses && r + w > memory.accesses) return false;
  }
  return true;
}

namespace {

bool MayName(const Machine& machine, const std::vector<int>& list, int memory) {
  if (!list.empty()) return std::find(list.begin(), list.end(), memory) != list.end();
  return machine.memories[size_t(memory)].level == machine.pe();
}

}  // namespace

bool MayRead(const Machine& machine, int unit, int memory) {
  return MayName(machine, machine.units[size_t(unit)].sources, memory);
}
bool MayWrite(const Machine& machine, int unit, int memory) {
  return MayName(machine, machine.units[size_t(unit)].targets, memory);
}

std::optional<std::pair<int, int>> FindAluOp(const Machine& machine, AluOp op) {
  const char* name = InfoOf(op).name;
  std::optional<std::pair<int, int>> found;
  size_t most = 0;
  for (size_t u = 0; u < machine.units.size(); ++u) {
    const Unit& unit = machine.units[u];
    if (unit.kind != UnitKind::kAlu || unit.ops.size() <= most) continue;
    for (size_t o = 0; o < unit.ops.size(); ++o)
      if (unit.ops[o].name == name) {
        found = {int(u), int(o)};
        most = unit.ops.size();
      }
  }
  return found;
}

void MergeLoops(std::vector<int64_t>& counts, const std::vector<std::vector<int64_t>*>& strides) {
  const auto erase = [&](size_t i) {
    counts.erase(counts.begin() + ptrdiff_t(i));
    for (std::vector<int64_t>* s : strides) s->erase(s->begin() + ptrdiff_t(i));
  };
  for (size_t i = counts.size(); i-- > 0;)
    if (counts[i] == 1) erase(i);
  for (size_t i = counts.size(); i-- > 1;) {
    const bool whole = std::all_of(strides.begin(), strides.end(), [&](std::vector<int64_t>* s) {
      return (*s)[i - 1] == (*s)[i] * counts[i];
    });
    if (!whole) continue;
    counts[i] *= counts[i - 1];
    erase(i - 1);
  }
}

RawStream Emitter::Raw(const TileStream& stream) const {
  const TileValue& value = program_.values[size_t(stream.value)];
  return {value.memory, value.base + stream.offset, stream.strides};
}

void Emitter::Issue(int unit, int op, const std::vector<int64_t>& counts,
                    const std::vector<RawStream>& sources, const RawStream& target,
                    const Mask& mask, const std::string& note) {
  const size_t outer = counts.size() > 3 ? counts.size() - 3 : 0;
  std::vector<int64_t> at(outer, 0);
  const std::vector<int64_t> outer_counts(counts.begin(), counts.begin() + ptrdiff_t(outer));
  const auto stream = [&](const RawStream& raw) {
    Stream s;
    s.memory = raw.memory;
    if (raw.memory < 0) {
      s.immediate = uint32_t(raw.base);
      return s;
    }
    s.base = raw.base;
    for (size_t i = 0; i < outer; ++i) s.base += at[i] * raw.strides[i];
    for (size_t i = outer; i < counts.size(); ++i)
      s.stride[3 - (counts.size() - i)] = raw.strides[i];
    return s;
  };
  do {
    Instruction instruction;
    instruction.unit = unit;
    instruction.op = op;
    for (size_t i = outer; i < counts.size(); ++i)
      instruction.count[3 - (counts.size() - i)] = counts[i];
    instruction.mask = mask;
    instruction.target = stream(target);
    for (const RawStream& source : sources) instruction.sources.push_back(stream(source));
    instruction.note = note;
    placer_.Place(instruction);
    out_.push_back(std::move(instruction));
  } while (NextIndex(&at, outer_counts));
}

void Emitter::Transfer(const TransferOp& op) {
  std::vector<int64_t> counts = op.counts;
  RawStream source = Raw(op.source), target = Raw(op.target);
  MergeLoops(counts, {&source.strides, &target.strides});
  Issue(op.unit, op.op, counts, {source}, target, op.mask, op.note);
}

std::vector<Block> EmitTiles(const TileProgram& program, const Machine& machine) {
  VerifyTiles(program, machine);
  std::vector<Block> blocks;
  for (const TileOp& op : program.ops) {
    Block block;
    if (const auto* m = std::get_if<MoveOp>(&op)) {
      const TileValue& from = program.values[size_t(m->from)];
      const TileValue& to = program.values[size_t(m->to)];
      std::vector<SpareWords> spare;
      for (const ScratchRange& r : program.scratch) spare.push_back({r.memory, r.base, r.words});
      block.name = m->note;
      // The mover has given its instructions starts.
      block.instructions = PlanMove(machine, {from.memory, from.base, *from.layout},
                                    {to.memory, to.base, *to.layout}, spare, m->note)
                               .instructions;
      blocks.push_back(std::move(block));
      continue;
    }
    Emitter emitter(program, machine);
    if (const auto* vector = std::get_if<VectorOp>(&op)) {
      block.name = vector->note;
      emitter.Vector(*vector);
    } else if (const auto* matrix = std::get_if<MatrixOp>(&op)) {
      block.name = matrix->note;
      emitter.Matrix(*matrix);
    } else {
      const TransferOp& transfer = std::get<TransferOp>(op);
      block.name = transfer.note;
      emitter.Transfer(transfer);
    }
    block.instructions = emitter.Take();
    blocks.push_back(std::move(block));
  }
  return blocks;
}

}  // namespace hsimd
