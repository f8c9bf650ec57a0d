/// tile_program.cc: what makes a tile program well formed.
#include "tile_program.h"

#include <algorithm>
#include <set>

#include "weft/support/check.h"

namespace hsimd {
namespace {

class Verifier {
 public:
  Verifier(const TileProgram& program, const Machine& machine)
      : program_(program), machine_(machine) {}

  void Run() {
    WEFT_CHECK(program_.machine == machine_.name, kInvalidModel,
               "the tile program is for machine '{}', not '{}'", program_.machine, machine_.name);
    std::set<std::string> names;
    for (const TileValue& value : program_.values) {
      WEFT_CHECK(!value.name.empty() && names.insert(value.name).second, kInvalidModel,
                 "two values are named '{}'", value.name);
      CheckRange(value.memory, value.base, value.words, "value '" + value.name + "'");
      if (value.layout) {
        Validate(*value.layout, machine_, machine_.memories[size_t(value.memory)].level);
        WEFT_CHECK(Words(*value.layout) <= value.words, kInvalidModel,
                   "value '{}' has {} words, its layout {} needs {}", value.name, value.words,
                   PrintLayout(*value.layout), Words(*value.layout));
      }
    }
    for (const ScratchRange& range : program_.scratch)
      CheckRange(range.memory, range.base, range.words, "scratch");
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      at_ = fmt::format("operation {}", i);
      std::visit([this](const auto& op) { Check(op); }, program_.ops[i]);
    }
  }

 private:
  void CheckRange(int memory, int64_t base, int64_t words, const std::string& what) const {
    WEFT_CHECK(memory >= 0 && memory < int(machine_.memories.size()), kInvalidModel,
               "{} names no memory", what);
    const Memory& m = machine_.memories[size_t(memory)];
    WEFT_CHECK(base >= 0 && words >= 0 && base <= m.words && words <= m.words - base, kInvalidModel,
               "{}: words {} to {} are beyond the {} words of {}", what, base, base + words,
               m.words, m.name);
  }

  void CheckLoops(const std::vector<int64_t>& counts) const {
    for (int64_t c : counts) WEFT_CHECK(c >= 1, kInvalidModel, "{}: a loop of {} points", at_, c);
  }

  /// `extra`: words that every point reads from its address on, beyond the first.
  const TileValue& CheckStream(const TileStream& s, const std::vector<int64_t>& counts,
                               int64_t extra_low = 0, int64_t extra_high = 0) const {
    WEFT_CHECK(s.value >= 0 && s.value < int(program_.values.size()), kInvalidModel,
               "{} names no value", at_);
    const TileValue& value = program_.values[size_t(s.value)];
    WEFT_CHECK(s.strides.size() == counts.size(), kInvalidModel,
               "{}: value '{}' has {} strides, the operation {} loops", at_, value.name,
               s.strides.size(), counts.size());
    int64_t low = s.offset + extra_low, high = s.offset + extra_high;
    for (size_t i = 0; i < counts.size(); ++i) {
      low += std::min<int64_t>(0, s.strides[i] * (counts[i] - 1));
      high += std::max<int64_t>(0, s.strides[i] * (counts[i] - 1));
    }
    WEFT_CHECK(low >= 0 && high < value.words, kInvalidModel,
               "{}: words {} to {} of value '{}', which has {}", at_, low, high, value.name,
               value.words);
    return value;
  }

  void CheckLevel(const TileValue& value, int level) const {
    WEFT_CHECK(machine_.memories[size_t(value.memory)].level == level, kInvalidModel,
               "{}: value '{}' lies in {}, not on level {}", at_, value.name,
               machine_.memories[size_t(value.memory)].name, machine_.levels[size_t(level)].name);
  }

  void CheckMask(const Mask& mask) const {
    WEFT_CHECK(mask.levels.empty() || mask.levels.size() == machine_.levels.size(), kInvalidModel,
               "{}: a mask of {} levels", at_, mask.levels.size());
  }

  void CheckOperand(const VectorOp& op, const BodyOperand& o, size_t steps) const {
    const size_t limit = o.kind == BodyOperand::Kind::kInput  ? op.inputs.size()
                         : o.kind == BodyOperand::Kind::kStep ? steps
                                                              : 1;
    WEFT_CHECK(o.kind == BodyOperand::Kind::kConstant || (o.index >= 0 && size_t(o.index) < limit),
               kInvalidModel, "{}: operand {} of {} that are there", at_, o.index, limit);
  }

  void Check(const VectorOp& op) {
    CheckLoops(op.counts);
    CheckMask(op.mask);
    for (const TileStream& input : op.inputs)
      CheckLevel(CheckStream(input, op.counts), machine_.pe());
    for (size_t s = 0; s < op.steps.size(); ++s) {
      const BodyStep& step = op.steps[s];
      WEFT_CHECK(int(step.operands.size()) == InfoOf(step.op).arity, kInvalidModel,
                 "{}: step {} gives {} {} operands, it takes {}", at_, s, InfoOf(step.op).name,
                 step.operands.size(), InfoOf(step.op).arity);
      for (const BodyOperand& o : step.operands) CheckOperand(op, o, s);
    }
    WEFT_CHECK(!op.results.empty(), kInvalidModel, "{}: a vector without results", at_);
    for (const VectorOp::Result& result : op.results) {
      CheckOperand(op, result.from, op.steps.size());
      const TileValue& value = CheckStream(result.target, op.counts);
      CheckLevel(value, machine_.pe());
      for (size_t i = 0; i < op.counts.size(); ++i)
        WEFT_CHECK(result.combine || op.counts[i] == 1 || result.target.strides[i] != 0,
                   kInvalidModel, "{}: several points write one word of '{}' without combining",
                   at_, value.name);
    }
  }

  void Check(const MatrixOp& op) {
    std::vector<int64_t> counts = op.rows;
    counts.insert(counts.end(), op.inner.begin(), op.inner.end());
    counts.insert(counts.end(), op.columns.begin(), op.columns.end());
    CheckLoops(counts);
    CheckMask(op.mask);
    const int64_t last = op.a_word * (machine_.levels.back().count - 1);
    CheckLevel(CheckStream(op.a, counts, std::min<int64_t>(0, last), std::max<int64_t>(0, last)),
               machine_.pe());
    CheckLevel(CheckStream(op.x, counts), machine_.pe());
    CheckLevel(CheckStream(op.y, counts), machine_.pe());
    const size_t nr = op.rows.size(), ni = op.inner.size();
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 1) continue;
      const bool row = i < nr, column = i >= nr + ni;
      const TileStream& still = row ? op.x : column ? op.a : op.y;
      WEFT_CHECK(still.strides[i] == 0, kInvalidModel,
                 "{}: {} may not follow loop {}, one of the {}", at_,
                 row      ? "x"
                 : column ? "a"
                          : "y",
                 i,
                 row      ? "rows"
                 : column ? "columns"
                          : "contraction");
    }
  }

  void Check(const TransferOp& op) {
    CheckLoops(op.counts);
    CheckMask(op.mask);
    WEFT_CHECK(op.unit >= 0 && op.unit < int(machine_.units.size()) && op.op >= 0 &&
                   op.op < int(machine_.units[size_t(op.unit)].ops.size()),
               kInvalidModel, "{} names no unit or no mode of it", at_);
    const Unit& unit = machine_.units[size_t(op.unit)];
    const bool down = unit.kind == UnitKind::kDown, up = unit.kind == UnitKind::kUp;
    WEFT_CHECK(down || up || unit.kind == UnitKind::kRing, kInvalidModel, "{}: {} is not a link",
               at_, unit.name);
    const int64_t words = machine_.WordsAbove(unit.ops[size_t(op.op)]);
    CheckLevel(CheckStream(op.source, op.counts, 0, down ? words - 1 : 0),
               down ? unit.parent : unit.child);
    CheckLevel(CheckStream(op.target, op.counts, 0, up ? words - 1 : 0),
               up ? unit.parent : unit.child);
  }

  void Check(const MoveOp& op) {
    for (int v : {op.from, op.to}) {
      WEFT_CHECK(v >= 0 && v < int(program_.values.size()), kInvalidModel, "{} names no value",
                 at_);
      WEFT_CHECK(program_.values[size_t(v)].layout, kInvalidModel,
                 "{}: value '{}' has no layout to move from or to", at_,
                 program_.values[size_t(v)].name);
    }
    WEFT_CHECK(program_.values[size_t(op.from)].layout->shape ==
                   program_.values[size_t(op.to)].layout->shape,
               kInvalidModel, "{}: values '{}' and '{}' have different shapes", at_,
               program_.values[size_t(op.from)].name, program_.values[size_t(op.to)].name);
  }

  const TileProgram& program_;
  const Machine& machine_;
  std::string at_;
};

}  // namespace

void VerifyTiles(const TileProgram& program, const Machine& machine) {
  Verifier(program, machine).Run();
}

}  // namespace hsimd
