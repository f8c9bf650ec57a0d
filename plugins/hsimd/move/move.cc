/// move.cc: tries the ways and takes the one of fewest cycles.
#include "move.h"

#include <algorithm>
#include <functional>

#include "in_place.h"
#include "search.h"
#include "timeline.h"
#include "tree.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace hsimd {

namespace {

constexpr int64_t kMostClasses = 4096;         ///< of words by difference; more go as whole tensors
constexpr size_t kMostWays = 3;                ///< over the tree that are made into instructions
constexpr size_t kMostDetour = 1;              ///< hops beyond the shortest way's
constexpr int64_t kMostInstructions = 50'000;  ///< a way that takes more is not tried
constexpr int kBeam = 64;                      ///< width of the search over few words
constexpr int64_t kMostSearched = 40;          ///< instructions that a search goes down
constexpr int kMostChunks = 4096;

void CheckTensor(const Machine& m, const TensorAt& t) {
  WEFT_CHECK(t.memory >= 0 && t.memory < int(m.memories.size()), kUsage,
             "memory {} of machine {}, which has {}", t.memory, m.name, m.memories.size());
  for (const char* level : {kTime, kWide}) {
    WEFT_CHECK(!Names(t.layout, level) || m.LevelNamed(level) >= 0, kUnsupported,
               "a move of {}: {} has no place in a machine", PrintLayout(t.layout), level);
  }
  const Memory& memory = m.memories[t.memory];
  Validate(t.layout, m, memory.level);
  const int64_t words = Extent(Canonical(t.layout), kAddress);
  WEFT_CHECK(t.base >= 0 && words <= memory.words && t.base <= memory.words - words, kInvalidModel,
             "{} at {} takes {} words, {} has {}", PrintLayout(t.layout), t.base, words,
             memory.name, memory.words);
}

bool Apart(const TensorAt& a, const TensorAt& b) {
  if (a.memory != b.memory) return true;
  const int64_t a_end = a.base + Extent(a.layout, kAddress);
  const int64_t b_end = b.base + Extent(b.layout, kAddress);
  return a_end <= b.base || b_end <= a.base;
}

/// Words a cycle by which the units reach (or leave) a memory in one of its places.
int64_t WordsACycle(const Machine& m, int memory, bool into) {
  std::map<std::string, int64_t> by_slot;
  for (int other = 0; other < int(m.memories.size()); ++other) {
    for (const Hop& h : into ? HopsBetween(m, other, memory) : HopsBetween(m, memory, other)) {
      const Unit& unit = m.units[h.unit];
      const UnitOp& op = unit.ops[h.op];
      int64_t n = (op.rate.elements - 1) / op.rate.cycles + 1;
      if (unit.kind == (into ? UnitKind::kUp : UnitKind::kDown)) n *= m.WordsAbove(op);
      by_slot[unit.slot] = std::max(by_slot[unit.slot], n);
    }
  }
  int64_t sum = 0;
  for (const auto& [slot, n] : by_slot) sum += n;
  return std::max<int64_t>(sum, 1);
}

/// Words that arrive, over the places, by what a place can take; words that leave likewise.
int64_t BoundOf(const Machine& m, const TensorAt& from, const TensorAt& to,
                const std::vector<Box>& moved) {
  if (moved.empty()) return 0;
  int64_t arrive = 0, leave = 0;
  for (const Box& box : moved) {
    arrive = weft::CheckedAdd(arrive, box.words());
    int64_t n = 1;
    for (const Step& s : box.steps) {
      if (std::any_of(s.from.begin(), s.from.end(), [](int64_t v) { return v != 0; })) n *= s.size;
    }
    leave = std::max(leave, n);  // boxes may read the same word
  }
  const auto cycles = [&](int64_t words, int memory, bool into) {
    const int64_t each = m.PlacesOf(m.memories[memory].level) * WordsACycle(m, memory, into);
    return (words - 1) / each + 1;
  };
  int64_t latency = INT64_MAX;
  for (int other = 0; other < int(m.memories.size()); ++other) {
    for (const Hop& h : HopsBetween(m, other, to.memory)) {
      latency = std::min(latency, m.units[h.unit].ops[h.op].latency);
    }
  }
  return std::max(cycles(arrive, to.memory, true), cycles(leave, from.memory, false)) - 1 + latency;
}

/// By the units that work.
std::string WayOf(const Machine& m, const std::vector<Instruction>& list) {
  bool ring = false, tree = false;
  for (const Instruction& i : list) {
    const UnitKind kind = m.units[i.unit].kind;
    ring = ring || kind == UnitKind::kRing;
    tree = tree || kind == UnitKind::kUp || kind == UnitKind::kDown;
  }
  return ring && tree ? "ring, tree" : ring ? "ring" : tree ? "tree" : "copies";
}

class Planner {
 public:
  Planner(const Machine& m, const TensorAt& from, const TensorAt& to,
          const std::vector<SpareWords>& spare)
      : m_(m), from_(from), to_(to), spare_(m, spare) {}

  MovePlan Run() {
    std::vector<Box> moved;
    bool classes = false;
    const std::vector<Box> boxes = Refine(m_, from_, to_, kMostInstructions);
    if (from_.memory == to_.memory) {
      std::vector<Box> cut;
      if (CutByDifference(boxes, true, kMostClasses, cut)) {
        classes = true;
        for (Box& b : cut) {
          if (!Stays(b)) moved.push_back(std::move(b));
        }
      } else {
        moved = boxes;
      }
    } else {
      moved = boxes;
    }
    MovePlan plan;
    plan.way = "stay";
    if (moved.empty()) return plan;
    plan.cycles = -1;
    plan.bound_cycles = BoundOf(m_, from_, to_, moved);
    const auto offer = [&](std::optional<std::vector<Instruction>> list) {
      if (!list) return;
      const int64_t cycles = StartInOrder(m_, *list);
      if (cycles < 0 || (plan.cycles >= 0 && cycles >= plan.cycles)) return;
      plan.cycles = cycles;
      plan.instructions = std::move(*list);
      plan.way = WayOf(m_, plan.instructions);
    };
    if (from_.memory != to_.memory) {
      // Words that keep their places: one hop, no order to respect.
      if (const auto best = CheapestHop(m_, from_.memory, to_.memory, moved, true))
        offer(EmitHop(m_, best->first, moved, kMostInstructions));
      std::vector<Box> cut;
      if (m_.memories[from_.memory].level == m_.memories[to_.memory].level &&
          CutByDifference(boxes, false, kMostClasses, cut)) {
        classes = true;
        moved = std::move(cut);
      }
    }
    if (classes) {
      for (const By by : {By::kNeighbours, By::kEither, By::kTree}) {
        offer(MoveClasses(m_, from_, to_, moved, by, spare_, kMostInstructions));
      }
    }
    if (classes && from_.memory == to_.memory) offer(Search(boxes, plan.cycles));
    std::string short_of;
    offer(Tree(short_of));
    if (plan.cycles < 0 && Apart(from_, to_)) offer(Chunks(short_of));
    if (plan.cycles < 0) {
      WEFT_CHECK(short_of.empty(), kLimit, "the move from {} to {} needs {}",
                 PrintLayout(from_.layout), PrintLayout(to_.layout), short_of);
      WEFT_THROW(kUnsupported, "machine {} has no way from {} in {} to {} in {}", m_.name,
                 PrintLayout(from_.layout), m_.memories[from_.memory].name, PrintLayout(to_.layout),
                 m_.memories[to_.memory].name);
    }
    return plan;
  }

 private:
  /// All words of the boxes, those that stay too: they take cells.
  std::optional<std::vector<Instruction>> Search(const std::vector<Box>& boxes,
                                                 int64_t cycles) const {
    std::vector<WordMove> words;
    const int level = m_.memories[from_.memory].level;
    const auto place = [&](const Coords& c) {
      int64_t p = 0;
      for (int k = 0; k <= level; ++k) p = p * m_.levels[k].count + c[k];
      return p;
    };
    for (const Box& box : boxes) {
      if (int64_t(words.size()) + box.words() > kMostSearchedWords) return std::nullopt;
      for (int64_t v = 0; v < box.words(); ++v) {
        Coords from = box.from, to = box.to;
        int64_t rest = v;
        for (const Step& s : box.steps) {
          for (int k = 0; k <= kWord; ++k) {
            from[k] += rest % s.size * s.from[k];
            to[k] += rest % s.size * s.to[k];
          }
          rest /= s.size;
        }
        words.push_back({place(from), from[kWord], place(to), to[kWord]});
      }
    }
    const int64_t most = cycles < 0 ? kMostSearched : std::min(cycles - 1, kMostSearched);
    return SearchWords(m_, from_.memory, words, spare_.all(), kBeam, most);
  }

  std::vector<Way> Ways() const {
    std::vector<Way> ways;
    const int below = std::min(m_.memories[from_.memory].level, m_.memories[to_.memory].level);
    const int top = CommonLevel(Refine(m_, from_, to_, kMostInstructions), below);
    for (const auto& path : PathsOf(m_, from_.memory, to_.memory, top, spare_)) {
      if (path.size() == 2) continue;
      if (!ways.empty() && path.size() > ways[0].stops.size() + kMostDetour) break;
      if (auto way = CheapestWay(m_, from_, to_, path, kMostInstructions)) {
        ways.push_back(std::move(*way));
      }
    }
    std::stable_sort(ways.begin(), ways.end(),
                     [](const Way& a, const Way& b) { return a.cycles < b.cycles; });
    return ways;
  }

  /// Spare words for the stops; false and what is missing where they do not suffice.
  bool Place(Way& way, SpareSpace& spare, std::string& short_of) const {
    for (size_t k = 1; k + 1 < way.stops.size(); ++k) {
      TensorAt& stop = way.stops[k];
      const int64_t words = Extent(stop.layout, kAddress);
      stop.base = spare.Take(stop.memory, words);
      if (stop.base >= 0) continue;
      short_of = fmt::format("{} spare words in {}, there are {}", words,
                             m_.memories[stop.memory].name, spare.words(stop.memory));
      return false;
    }
    return true;
  }

  std::optional<std::vector<Instruction>> Emit(const Way& way) const {
    std::vector<Instruction> out;
    for (size_t k = 0; k < way.hops.size(); ++k) {
      const auto boxes = Refine(m_, way.stops[k], way.stops[k + 1], kMostInstructions);
      auto list = EmitHop(m_, way.hops[k], boxes, kMostInstructions - int64_t(out.size()));
      if (!list) return std::nullopt;
      for (Instruction& i : *list) out.push_back(std::move(i));
    }
    return out;
  }

  std::optional<std::vector<Instruction>> Tree(std::string& short_of) const {
    std::optional<std::vector<Instruction>> best;
    int64_t least = 0;
    size_t tried = 0;
    for (Way& way : Ways()) {
      SpareSpace spare = spare_;
      if (!Place(way, spare, short_of)) continue;
      auto list = Emit(way);
      if (!list) continue;
      auto timed = *list;
      const int64_t cycles = StartInOrder(m_, timed);
      if (cycles >= 0 && (!best || cycles < least)) {
        best = std::move(list);
        least = cycles;
      }
      if (++tried == kMostWays) break;
    }
    return best;
  }

  /// The tensor in slices of the largest axis, in two halves of the spare words by turns.
  std::optional<std::vector<Instruction>> Chunks(std::string& short_of) const {
    std::vector<SpareWords> halves[2];
    for (const SpareWords& s : spare_.all()) {
      const int64_t half = s.words / 2;
      halves[0].push_back({s.memory, s.base, half});
      halves[1].push_back({s.memory, s.base + half, s.words - half});
    }
    std::vector<std::pair<TensorAt, TensorAt>> todo{{from_, to_}};
    std::vector<Instruction> out;
    int turn = 0, chunks = 0;
    while (!todo.empty()) {
      const auto [from, to] = todo.back();
      todo.pop_back();
      Planner part(m_, from, to, halves[turn]);
      std::string missing;
      auto list = part.Tree(missing);
      if (list) {
        if (int64_t(out.size() + list->size()) > kMostInstructions) return std::nullopt;
        for (Instruction& i : *list) out.push_back(std::move(i));
        turn ^= 1;
        if (++chunks > kMostChunks) return std::nullopt;
        continue;
      }
      if (missing.empty()) return std::nullopt;
      short_of = missing;
      if (!Halve(from, to, todo)) return std::nullopt;
    }
    return out;
  }

  static bool Halve(const TensorAt& from, const TensorAt& to,
                    std::vector<std::pair<TensorAt, TensorAt>>& todo) {
    std::vector<int> axes(from.layout.shape.size());
    for (size_t a = 0; a < axes.size(); ++a) axes[a] = int(a);
    std::stable_sort(axes.begin(), axes.end(),
                     [&](int a, int b) { return from.layout.shape[a] > from.layout.shape[b]; });
    for (const int axis : axes) {
      const int64_t n = from.layout.shape[axis];
      // Halves at borders of digits first: they stay layouts.
      for (int64_t cut = (n + 1) / 2; cut >= 1 && n > 1; --cut) {
        std::vector<std::pair<TensorAt, TensorAt>> parts;
        for (int64_t at = 0; at < n; at += cut) {
          const int64_t size = std::min(cut, n - at);
          const auto a = Slice(from.layout, axis, at, size), b = Slice(to.layout, axis, at, size);
          if (!a || !b) break;
          parts.push_back({{from.memory, from.base, *a}, {to.memory, to.base, *b}});
        }
        if (int64_t(parts.size()) != (n - 1) / cut + 1) continue;
        todo.insert(todo.end(), parts.rbegin(), parts.rend());
        return true;
      }
    }
    return false;
  }

  const Machine& m_;
  const TensorAt from_, to_;
  SpareSpace spare_;
};

}  // namespace

MovePlan PlanMove(const Machine& m, const TensorAt& from, const TensorAt& to,
                  const std::vector<SpareWords>& spare, const std::string& note) {
  WEFT_CHECK(from.layout.shape == to.layout.shape, kShapeMismatch,
             "a move between different shapes: {} and {}", PrintLayout(from.layout),
             PrintLayout(to.layout));
  WEFT_CHECK(int(m.levels.size()) <= kMostLevels, kUnsupported, "machine {} has {} levels, over {}",
             m.name, m.levels.size(), kMostLevels);
  CheckTensor(m, from);
  CheckTensor(m, to);
  MovePlan plan = Planner(m, from, to, spare).Run();
  for (Instruction& i : plan.instructions) i.note = note;
  return plan;
}

MovePlan PlanWords(const Machine& m, int memory, const std::vector<WordMove>& words,
                   const std::vector<SpareWords>& spare, const std::string& note) {
  WEFT_CHECK(memory >= 0 && memory < int(m.memories.size()), kUsage, "memory {} of machine {}",
             memory, m.name);
  const int64_t places = m.PlacesOf(m.memories[memory].level), size = m.memories[memory].words;
  for (const WordMove& w : words) {
    const bool in_range = w.from_place >= 0 && w.from_place < places && w.to_place >= 0 &&
                          w.to_place < places && w.from_word >= 0 && w.from_word < size &&
                          w.to_word >= 0 && w.to_word < size;
    WEFT_CHECK(in_range, kInvalidModel, "a word from {} of place {} to {} of place {} of {}",
               w.from_word, w.from_place, w.to_word, w.to_place, m.memories[memory].name);
  }
  (void)SpareSpace(m, spare);  // checks the ranges
  MovePlan plan;
  auto list = SearchWords(m, memory, words, spare, kBeam, kMostSearched);
  if (list) plan.cycles = StartInOrder(m, *list);
  WEFT_CHECK(list && plan.cycles >= 0, kUnsupported,
             "no way found for {} words of {} in machine {}", words.size(), m.memories[memory].name,
             m.name);
  plan.instructions = std::move(*list);
  plan.way = plan.instructions.empty() ? "stay" : WayOf(m, plan.instructions);
  std::map<int64_t, int64_t> arrive;
  for (const WordMove& w : words) {
    arrive[w.to_place] += w.from_place != w.to_place || w.from_word != w.to_word;
  }
  for (const auto& [place, n] : arrive) {
    plan.bound_cycles = std::max(
        plan.bound_cycles, (n + WordsACycle(m, memory, true) - 1) / WordsACycle(m, memory, true));
  }
  for (Instruction& i : plan.instructions) i.note = note;
  return plan;
}

}  // namespace hsimd
