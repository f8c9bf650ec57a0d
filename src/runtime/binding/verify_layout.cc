/// verify_layout.cc: see verify_layout.h.
#include "verify_layout.h"

#include <algorithm>
#include <map>

#include "weft/support/check.h"

namespace weft {
namespace {

struct Range {
  int64_t begin = 0, end = 0;
  bool Meets(const Range& o) const {
    return begin < end && o.begin < o.end && begin < o.end && o.begin < end;
  }
};
/// Who wrote a stretch: [begin, end) of the bytes of write number `write`, from byte `from` of it.
struct Stretch {
  int64_t begin = 0, end = 0, write = 0, from = 0;
};
/// From the first byte of what it is the content of.
using Content = std::vector<Stretch>;

class Memory {
 public:
  explicit Memory(int64_t bytes) { stretches_[0] = {0, bytes, 0, 0}; }
  void Write(const Range& r, int64_t write) {
    Cut(r.begin);
    Cut(r.end);
    stretches_.erase(stretches_.lower_bound(r.begin), stretches_.lower_bound(r.end));
    stretches_[r.begin] = {r.begin, r.end, write, 0};
  }
  Content Read(const Range& r) const {
    Content out;
    auto it = std::prev(stretches_.upper_bound(r.begin));
    for (; it != stretches_.end() && it->second.begin < r.end; ++it) {
      const Stretch& s = it->second;
      const int64_t begin = std::max(s.begin, r.begin), end = std::min(s.end, r.end);
      const int64_t from = s.from + begin - s.begin;
      Stretch* last = out.empty() ? nullptr : &out.back();
      if (last && last->write == s.write && last->from + last->end - last->begin == from)
        last->end = end - r.begin;
      else
        out.push_back({begin - r.begin, end - r.begin, s.write, from});
    }
    return out;
  }

 private:
  void Cut(int64_t at) {
    const auto it = std::prev(stretches_.upper_bound(at));
    Stretch& s = it->second;
    if (s.begin >= at || s.end <= at) return;
    const Stretch behind{at, s.end, s.write, s.from + at - s.begin};
    s.end = at;
    stretches_[at] = behind;
  }
  std::map<int64_t, Stretch> stretches_;  ///< by where they begin
};

bool Same(const Content& a, const Content& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Stretch& x, const Stretch& y) {
    return x.begin == y.begin && x.end == y.end && x.write == y.write && x.from == y.from;
  });
}

class Checker {
 public:
  Checker(const ExecutionPlan& plan, const ArenaSizes& sizes, const ArenaLayout& layout)
      : plan_(plan),
        sizes_(sizes),
        layout_(layout),
        memory_(std::max<int64_t>(layout.arena_bytes, 1)) {
    content_.resize(plan.storages.size());
    parts_.resize(plan.steps.size());
    for (size_t p = 0; p < plan.parts.size(); ++p) parts_[plan.parts[p].step].push_back(p);
    for (size_t s = 0; s < plan.storages.size(); ++s)
      if (InArena(int(s))) CheckInside(RangeOf(int(s)), "a block");
  }
  void Run() {
    for (size_t k = 0; k < plan_.steps.size(); ++k)
      if (layout_.left_out[k])
        LeaveOut(k);
      else
        Do(k);
    for (int i : plan_.copies) {
      const int s = StorageOf(plan_.output_values[size_t(i)]);
      if (s >= 0) CheckThere(s, "the end");
    }
  }

 private:
  bool InArena(int s) const { return plan_.storages[size_t(s)].kind == StorageKind::kArena; }
  /// -1: not in the arena, or nothing.
  int StorageOf(int value) const {
    const int s = value < 0 ? -1 : plan_.values[size_t(value)].storage;
    return s >= 0 && InArena(s) && sizes_.blocks[size_t(s)] > 0 ? s : -1;
  }
  Range RangeOf(int s) const {
    const int64_t at = layout_.offsets[size_t(s)];
    return {at, at + sizes_.blocks[size_t(s)]};
  }
  void CheckInside(const Range& r, const char* what) const {
    WEFT_ICHECK(r.begin >= 0 && r.end <= layout_.arena_bytes,
                "{} at bytes [{}, {}) leaves the arena of {}", what, r.begin, r.end,
                layout_.arena_bytes);
  }
  void CheckThere(int s, const std::string& reader) const {
    const Content& want = content_[size_t(s)];
    WEFT_ICHECK(!want.empty(), "{} reads block {}, which nothing has written", reader, s);
    WEFT_ICHECK(Same(memory_.Read(RangeOf(s)), want), "{} reads block {}, which is overwritten",
                reader, s);
  }
  bool MayOverwrite(size_t step, int in, int out) const {
    for (size_t p : parts_[step]) {
      const ExecutionPlan::Part& part = plan_.parts[p];
      if (!part.copies && part.part == out && part.whole == in)
        return layout_.offsets[size_t(in)] == layout_.offsets[size_t(out)];
    }
    return in == out;
  }
  void Do(size_t k) {
    const Step& step = plan_.steps[k];
    Range scratch{layout_.scratch_at[k], layout_.scratch_at[k] + sizes_.scratch[k]};
    if (sizes_.scratch[k] == 0) scratch = {};
    CheckInside(scratch, "scratch memory");
    std::vector<int> in, out;
    for (int v : step.inputs)
      if (const int s = StorageOf(v); s >= 0) in.push_back(s);
    for (int v : step.outputs)
      if (const int s = StorageOf(v); s >= 0) out.push_back(s);
    for (int s : in) {
      CheckThere(s, step.name);
      WEFT_ICHECK(!scratch.Meets(RangeOf(s)), "the scratch memory of {} overlaps an operand",
                  step.name);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      const Range r = RangeOf(out[i]);
      WEFT_ICHECK(!scratch.Meets(r), "the scratch memory of {} overlaps a result", step.name);
      for (int s : in)
        WEFT_ICHECK(!r.Meets(RangeOf(s)) || MayOverwrite(k, s, out[i]),
                    "{} writes block {} over its operand in block {}", step.name, out[i], s);
      for (size_t j = 0; j < i; ++j)
        WEFT_ICHECK(!r.Meets(RangeOf(out[j])), "two results of {} overlap", step.name);
    }
    if (scratch.begin < scratch.end) memory_.Write(scratch, ++writes_);
    for (int s : out) {
      memory_.Write(RangeOf(s), ++writes_);
      content_[size_t(s)] = {{0, sizes_.blocks[size_t(s)], writes_, 0}};
    }
  }
  /// Its parts lie where they belong, side by side and without a gap.
  void LeaveOut(size_t k) {
    const Step& step = plan_.steps[k];
    std::map<int, int64_t> covered;  // by whole
    std::vector<int> made;
    for (size_t p : parts_[k]) {
      const ExecutionPlan::Part& part = plan_.parts[p];
      WEFT_ICHECK(part.copies && sizes_.parts[p].together, "{} is left out, but does not only copy",
                  step.name);
      const Range of_part = RangeOf(part.part), of_whole = RangeOf(part.whole);
      WEFT_ICHECK(of_part.begin == of_whole.begin + sizes_.parts[p].before &&
                      of_part.begin >= of_whole.begin && of_part.end <= of_whole.end,
                  "{} is left out, but block {} is not in block {}", step.name, part.part,
                  part.whole);
      covered[part.whole] += of_part.end - of_part.begin;
    }
    for (int v : step.inputs) {
      const int s = StorageOf(v);
      if (s >= 0 && (covered.count(s) > 0 || IsPart(k, s))) CheckThere(s, step.name);
    }
    std::vector<Range> there;
    for (int v : step.outputs) {
      const int s = StorageOf(v);
      if (s < 0) continue;
      WEFT_ICHECK(IsPart(k, s) || covered.count(s),
                  "{} is left out, but nothing says what block {} is", step.name, s);
      if (const auto it = covered.find(s); it != covered.end())
        WEFT_ICHECK(it->second == sizes_.blocks[size_t(s)] && Apart(k, s),
                    "{} is left out, but its operands are not all of its result", step.name);
      content_[size_t(s)] = memory_.Read(RangeOf(s));
    }
  }
  bool IsPart(size_t step, int s) const {
    return std::any_of(parts_[step].begin(), parts_[step].end(),
                       [&](size_t p) { return plan_.parts[p].part == s; });
  }
  /// The parts of a whole do not overlap.
  bool Apart(size_t step, int whole) const {
    std::map<int64_t, int64_t> ranges;
    for (size_t p : parts_[step])
      if (plan_.parts[p].whole == whole) {
        const Range r = RangeOf(plan_.parts[p].part);
        if (!ranges.emplace(r.begin, r.end).second) return false;
      }
    int64_t end = INT64_MIN;
    for (const auto& [b, e] : ranges) {
      if (b < end) return false;
      end = e;
    }
    return true;
  }

  const ExecutionPlan& plan_;
  const ArenaSizes& sizes_;
  const ArenaLayout& layout_;
  Memory memory_;
  std::vector<Content> content_;            ///< by storage: as it was written last
  std::vector<std::vector<size_t>> parts_;  ///< of the plan, by step
  int64_t writes_ = 0;
};

}  // namespace

void VerifyLayout(const ExecutionPlan& plan, const ArenaSizes& sizes, const ArenaLayout& layout) {
  Checker(plan, sizes, layout).Run();
}

}  // namespace weft
