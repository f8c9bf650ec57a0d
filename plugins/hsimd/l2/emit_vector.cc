/// emit_vector.cc: vectors in chunks of points, with partial sums where results are combined.
#include <algorithm>
#include <limits>

#include "body_plan.h"
#include "emitter.h"
#include "weft/core/tensor/shape.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

/// Longest stream of one instruction, so that others get slots and ports in between.
constexpr int64_t kMaxChunk = 512;
/// With this many points in flight no latency of a machine in use shows (those have up to 8).
constexpr int64_t kEnoughPoints = 16;

using Kind = BodyPlace::Kind;

/// Loops [0, first) are walked over, loop `first` in pieces, the others are in the chunk whole.
struct Chunking {
  size_t first = 0;
  int64_t piece = 1;   ///< points of loop `first` in a chunk
  int64_t points = 1;  ///< most points of a chunk
};

Chunking ChooseChunks(const std::vector<int64_t>& counts, int64_t capacity, size_t max_loops) {
  Chunking c;
  c.first = counts.size();
  while (c.first > 0 && counts.size() - c.first + 1 < max_loops + 1) {
    const int64_t count = counts[c.first - 1];
    if (c.points * count > capacity) {
      const int64_t most = capacity / c.points;
      if (most > 1) {
        const int64_t pieces = (count + most - 1) / most;
        c.piece = (count + pieces - 1) / pieces;
        --c.first;
        c.points *= c.piece;
        return c;
      }
      break;
    }
    c.points *= count;
    --c.first;
    c.piece = count;
  }
  return c;
}

}  // namespace

/// One RawVector on its way to instructions.
class VectorEmitter {
 public:
  VectorEmitter(Emitter& emitter, RawVector vector, const Mask& mask, const std::string& note)
      : emitter_(emitter),
        machine_(emitter.machine_),
        vector_(std::move(vector)),
        mask_(mask),
        note_(note) {
    // The largest range of each memory.
    for (const ScratchRange& range : emitter.scratch_) {
      if (machine_.memories[size_t(range.memory)].level != machine_.pe()) continue;
      const auto alu = FindAluOp(machine_, AluOp::kCopy);
      if (!alu || !MayRead(machine_, alu->first, range.memory) ||
          !MayWrite(machine_, alu->first, range.memory))
        continue;
      const auto same = [&](const ScratchRange& r) { return r.memory == range.memory; };
      const auto it = std::find_if(ranges_.begin(), ranges_.end(), same);
      if (it == ranges_.end())
        ranges_.push_back(range);
      else if (range.words > it->words)
        *it = range;
    }
    // Those that read and write in one cycle first.
    std::stable_sort(ranges_.begin(), ranges_.end(),
                     [&](const ScratchRange& a, const ScratchRange& b) {
                       return PortsAllow(machine_, {a.memory}, a.memory) >
                              PortsAllow(machine_, {b.memory}, b.memory);
                     });
    for (const ScratchRange& range : ranges_) temp_memories_.push_back(range.memory);
  }

  void Run() {
    std::vector<std::vector<int64_t>*> strides;
    for (RawStream& input : vector_.inputs) strides.push_back(&input.strides);
    for (RawVector::Result& result : vector_.results) strides.push_back(&result.target.strides);
    MergeLoops(vector_.counts, strides);
    const bool combines =
        std::any_of(vector_.results.begin(), vector_.results.end(),
                    [](const RawVector::Result& r) { return r.combine.has_value(); });
    if (combines)
      RunCombining();
    else
      RunPlain();
  }

 private:
  const ScratchRange& RangeOf(int memory) const {
    return *std::find_if(ranges_.begin(), ranges_.end(),
                         [&](const ScratchRange& r) { return r.memory == memory; });
  }

  BodyPlan Plan(const BodyPass& pass) const {
    std::string why;
    std::optional<BodyPlan> plan = PlanBody(machine_, vector_, pass, temp_memories_, &why);
    WEFT_CHECK(plan, kUnsupported,
               "{}: machine '{}': {}; scratch ranges in further memories of the "
               "PEs may help",
               note_, machine_.name, why);
    return std::move(*plan);
  }

  /// Points for which the slots of a plan have room.
  int64_t Capacity(const std::vector<int>& slots) const {
    int64_t capacity = kMaxChunk;
    for (size_t m = 0; m < slots.size(); ++m) {
      if (!slots[m]) continue;
      const ScratchRange& range = RangeOf(int(m));
      const int64_t points = range.words / slots[m];
      WEFT_CHECK(points > 0, kLimit, "{}: needs {} words of scratch in {}, has {}", note_, slots[m],
                 machine_.memories[m].name, range.words);
      capacity = std::min(capacity, points);
    }
    return capacity;
  }

  struct Chunk {
    std::vector<int64_t> counts;               ///< at most 3
    std::vector<int64_t> input_at, target_at;  ///< offsets, by input and by result
    /// Strides in the chunk, by input and by result.
    std::vector<std::vector<int64_t>> input_strides, target_strides;
    int64_t slot_words = 0;
  };

  RawStream Address(const BodyPlace& place, const BodyPlan& plan, const BodyPass& pass,
                    const Chunk& chunk, int first_sum_slot) const {
    std::vector<int64_t> dense(chunk.counts.size());
    int64_t n = 1;
    for (size_t i = dense.size(); i-- > 0;) {
      dense[i] = n;
      n *= chunk.counts[i];
    }
    const size_t k = size_t(place.index);
    switch (place.kind) {
      case Kind::kImmediate:
        return {-1, int64_t(place.bits), {}};
      case Kind::kInput:
        return {vector_.inputs[k].memory, vector_.inputs[k].base + chunk.input_at[k],
                chunk.input_strides[k]};
      case Kind::kTarget:
        return {vector_.results[k].target.memory,
                vector_.results[k].target.base + chunk.target_at[k], chunk.target_strides[k]};
      case Kind::kTemp: {
        const BodyPlan::Temp& temp = plan.temps[k];
        return {temp.memory, RangeOf(temp.memory).base + temp.slot * chunk.slot_words, dense};
      }
      case Kind::kSum:
        break;
    }
    return {pass.sum_memory,
            RangeOf(pass.sum_memory).base + (first_sum_slot + place.index) * chunk.slot_words,
            dense};
  }

  void EmitChunk(const BodyPlan& plan, const BodyPass& pass, const Chunk& chunk,
                 int first_sum_slot) {
    for (const MicroStep& step : plan.steps) {
      const auto alu = FindAluOp(machine_, step.op);
      std::vector<RawStream> sources;
      for (const BodyPlace& place : step.operands)
        sources.push_back(Address(place, plan, pass, chunk, first_sum_slot));
      emitter_.Issue(alu->first, alu->second, chunk.counts, sources,
                     Address(step.target, plan, pass, chunk, first_sum_slot), mask_, note_);
    }
  }

  /// The chunk at a position of the loops that are walked over. `loops`: indices in
  /// vector_.counts of the chunk's loops, with how many points and from which on.
  struct Part {
    size_t loop;
    int64_t from, count;
  };
  Chunk ChunkAt(const std::vector<Part>& inside, const std::vector<Part>& outside,
                int64_t slot_words) const {
    Chunk chunk;
    chunk.slot_words = slot_words;
    for (const Part& part : inside) chunk.counts.push_back(part.count);
    const auto add = [&](const RawStream& stream, std::vector<int64_t>& at,
                         std::vector<std::vector<int64_t>>& strides) {
      int64_t offset = 0;
      std::vector<int64_t> own;
      for (const Part& part : outside) offset += part.from * stream.strides[part.loop];
      for (const Part& part : inside) {
        offset += part.from * stream.strides[part.loop];
        own.push_back(stream.strides[part.loop]);
      }
      at.push_back(offset);
      strides.push_back(std::move(own));
    };
    for (const RawStream& input : vector_.inputs) add(input, chunk.input_at, chunk.input_strides);
    for (const RawVector::Result& result : vector_.results)
      add(result.target, chunk.target_at, chunk.target_strides);
    return chunk;
  }

  /// Calls `body(outside, inside)` for every chunk of the given loops.
  template <class Body>
  void Walk(const std::vector<size_t>& loops, const Chunking& c, const Body& body) const {
    std::vector<Part> outside;
    for (size_t i = 0; i < c.first; ++i) outside.push_back({loops[i], 0, 1});
    do {
      if (c.first == loops.size()) {
        body(outside, std::vector<Part>{});
      } else {
        const int64_t count = vector_.counts[loops[c.first]];
        for (int64_t from = 0; from < count; from += c.piece) {
          std::vector<Part> inside{{loops[c.first], from, std::min(c.piece, count - from)}};
          for (size_t i = c.first + 1; i < loops.size(); ++i)
            inside.push_back({loops[i], 0, vector_.counts[loops[i]]});
          body(outside, inside);
        }
      }
    } while (Next(&outside, 0));
  }

  /// Counts the parts from `first` on through their loops, as NextIndex does.
  bool Next(std::vector<Part>* parts, size_t first) const {
    for (size_t i = parts->size(); i-- > first;) {
      if (++(*parts)[i].from < vector_.counts[(*parts)[i].loop]) return true;
      (*parts)[i].from = 0;
    }
    return false;
  }

  std::vector<int64_t> CountsOf(const std::vector<size_t>& loops) const {
    std::vector<int64_t> counts;
    for (size_t l : loops) counts.push_back(vector_.counts[l]);
    return counts;
  }

  void RunPlain() {
    const BodyPass pass;
    const BodyPlan plan = Plan(pass);
    std::vector<size_t> loops(vector_.counts.size());
    for (size_t i = 0; i < loops.size(); ++i) loops[i] = i;
    const Chunking c = ChooseChunks(vector_.counts, Capacity(plan.slots), 3);
    Walk(loops, c, [&](const std::vector<Part>& outside, const std::vector<Part>& inside) {
      EmitChunk(plan, pass, ChunkAt(inside, outside, c.points), 0);
    });
  }

  void RunCombining() {
    std::vector<size_t> kept, reduced;
    for (size_t l = 0; l < vector_.counts.size(); ++l) {
      const bool follows = vector_.results[0].target.strides[l] != 0;
      for (const RawVector::Result& result : vector_.results)
        WEFT_CHECK(result.combine && (result.target.strides[l] != 0) == follows, kUnsupported,
                   "{}: results that are combined along different loops", note_);
      (follows ? kept : reduced).push_back(l);
    }
    int sum_memory = -1;
    for (const ScratchRange& range : ranges_)
      if (sum_memory < 0 && PortsAllow(machine_, {range.memory}, range.memory))
        sum_memory = range.memory;
    const std::vector<int64_t> reduced_counts = CountsOf(reduced);
    const int64_t turns = weft::NumElements(reduced_counts);
    const bool onto = vector_.results[0].onto;
    if (sum_memory < 0) {
      WEFT_CHECK(turns == 1, kUnsupported,
                 "{}: machine '{}' has no scratch in a memory that reads and writes in one cycle",
                 note_, machine_.name);
    }

    const auto pass = [&](bool first, bool last) {
      BodyPass p;
      p.sum_memory = sum_memory;
      if (!first) p.from = Kind::kSum;
      if (first && onto) p.from = Kind::kTarget;
      p.to = last ? Kind::kTarget : Kind::kSum;
      return p;
    };
    // Slots for every kind of pass, then those of the sums.
    const auto plan_of = [&](const BodyPass& p) { return Plan(p); };
    const BodyPass passes[4] = {pass(true, true), pass(true, false), pass(false, false),
                                pass(false, true)};
    std::vector<BodyPlan> plans(4);
    std::vector<int> slots(machine_.memories.size(), 0);
    for (int p = 0; p < 4; ++p) {
      if ((p == 0) != (turns == 1)) continue;
      plans[size_t(p)] = plan_of(passes[p]);
      for (size_t m = 0; m < slots.size(); ++m)
        slots[m] = std::max(slots[m], plans[size_t(p)].slots[m]);
    }
    const int first_sum = sum_memory < 0 ? 0 : slots[size_t(sum_memory)];
    if (turns > 1) slots[size_t(sum_memory)] += int(vector_.results.size());
    const int64_t capacity = Capacity(slots);

    Chunking c = ChooseChunks(CountsOf(kept), capacity, 3);
    int64_t partial = 1;
    const int64_t inner = reduced.empty() ? 1 : reduced_counts.back();
    if (c.points < kEnoughPoints && inner > 1) {
      c = ChooseChunks(CountsOf(kept), std::min(capacity, c.points), 2);
      partial = std::min({inner, capacity / c.points, 2 * kEnoughPoints / c.points});
    }
    if (partial > 1) {
      RunPartial(kept, reduced, c, partial, sum_memory, first_sum);
      return;
    }
    Walk(kept, c, [&](const std::vector<Part>& outside, const std::vector<Part>& inside) {
      std::vector<Part> at = outside;
      for (size_t r : reduced) at.push_back({r, 0, 1});
      for (int64_t turn = 0; turn < turns; ++turn) {
        const bool first = turn == 0, last = turn + 1 == turns;
        const int p = first ? (last ? 0 : 1) : (last ? 3 : 2);
        EmitChunk(plans[size_t(p)], passes[p], ChunkAt(inside, at, c.points), first_sum);
        Next(&at, outside.size());
      }
    });
  }

  /// Few points: `partial` neighbours along the innermost reduced loop have sums of their own,
  /// which are combined in pairs at the end.
  void RunPartial(const std::vector<size_t>& kept, const std::vector<size_t>& reduced,
                  const Chunking& c, int64_t partial, int sum_memory, int first_sum) {
    BodyPass first, later;
    first.sum_memory = later.sum_memory = sum_memory;
    first.to = later.to = Kind::kSum;
    later.from = Kind::kSum;
    const BodyPlan first_plan = Plan(first), later_plan = Plan(later);
    const int64_t slot_words = c.points * partial;
    Walk(kept, c, [&](const std::vector<Part>& outside, const std::vector<Part>& inside) {
      int64_t points = 1;
      for (const Part& part : inside) points *= part.count;
      std::vector<Part> at = outside;
      for (size_t i = 0; i + 1 < reduced.size(); ++i) at.push_back({reduced[i], 0, 1});
      const size_t loop = reduced.back();
      const int64_t count = vector_.counts[loop];
      bool begun = false;
      do {
        for (int64_t from = 0; from < count; from += partial) {
          std::vector<Part> with{{loop, from, std::min(partial, count - from)}};
          with.insert(with.end(), inside.begin(), inside.end());
          EmitChunk(begun ? later_plan : first_plan, begun ? later : first,
                    ChunkAt(with, at, slot_words), first_sum);
          begun = true;
        }
      } while (Next(&at, outside.size()));
      for (size_t r = 0; r < vector_.results.size(); ++r)
        Finish(r, ChunkAt(inside, outside, slot_words), points, partial, sum_memory,
               RangeOf(sum_memory).base + (first_sum + int64_t(r)) * slot_words,
               first_sum + int(vector_.results.size()), slot_words);
    });
  }

  void Finish(size_t r, const Chunk& chunk, int64_t points, int64_t partial, int sum_memory,
              int64_t base, int used_slots, int64_t slot_words) {
    // What stays free of scratch beside the sums.
    const std::vector<ScratchRange> saved = emitter_.scratch_;
    for (ScratchRange& range : emitter_.scratch_) {
      if (range.memory != sum_memory || range.base != RangeOf(sum_memory).base) continue;
      range.base += used_slots * slot_words;
      range.words -= used_slots * slot_words;
    }
    const RawVector::Result& result = vector_.results[r];
    const AluOp op = *result.combine;
    for (int64_t n = partial; n > 1;) {
      const int64_t upper = n / 2, lower = n - upper;
      RawVector fold;
      fold.counts = {upper * points};
      fold.inputs = {{sum_memory, base, {1}}, {sum_memory, base + lower * points, {1}}};
      fold.steps = {{op, {BodyOperand::Input(0), BodyOperand::Input(1)}}};
      fold.results = {{BodyOperand::Step(0), {sum_memory, base, {1}}, std::nullopt, false}};
      emitter_.EmitRaw(fold, mask_, note_);
      n = lower;
    }
    std::vector<int64_t> dense(chunk.counts.size());
    int64_t n = 1;
    for (size_t i = dense.size(); i-- > 0;) {
      dense[i] = n;
      n *= chunk.counts[i];
    }
    RawVector out;
    const RawStream target{result.target.memory, result.target.base + chunk.target_at[r],
                           chunk.target_strides[r]};
    out.counts = chunk.counts;
    out.inputs = {{sum_memory, base, dense}};
    if (result.onto) {
      out.inputs.push_back(target);
      out.steps = {{op, {BodyOperand::Input(1), BodyOperand::Input(0)}}};
    }
    out.results = {
        {result.onto ? BodyOperand::Step(0) : BodyOperand::Input(0), target, std::nullopt, false}};
    emitter_.EmitRaw(out, mask_, note_);
    emitter_.scratch_ = saved;
  }

  Emitter& emitter_;
  const Machine& machine_;
  RawVector vector_;
  const Mask& mask_;
  const std::string& note_;
  std::vector<ScratchRange> ranges_;
  std::vector<int> temp_memories_;
};

void Emitter::EmitRaw(const RawVector& vector, const Mask& mask, const std::string& note) {
  VectorEmitter(*this, vector, mask, note).Run();
}

void Emitter::Vector(const VectorOp& op) {
  RawVector raw;
  raw.counts = op.counts;
  for (const TileStream& input : op.inputs) raw.inputs.push_back(Raw(input));
  raw.steps = op.steps;
  for (const VectorOp::Result& result : op.results)
    raw.results.push_back({result.from, Raw(result.target), result.combine, result.onto});
  LegalizeSteps(machine_, raw);
  EmitRaw(raw, op.mask, op.note);
}

}  // namespace hsimd
