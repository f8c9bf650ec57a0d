/// order_beam.cc: see order_beam.h.
///
/// What is alive behind a down-set does not depend on how it came about, so of equal ones one is
/// kept. With a limit for all steps, a ready node that fits and leaves no more bytes alive may run
/// at once: any order that goes on from the state without it can be changed so without a step above
/// the limit. What is left are choices between nodes that add bytes.
///   source  SERENITY (Ahn et al., MLSys 2020) for the search over down-sets
#include "order_beam.h"

#include <numeric>

#include "weft/support/request.h"

namespace weft::order {
namespace {

constexpr uint32_t kNoTrail = ~0u;

/// States with equally many nodes, in one stretch of words each: nodes that ran, then ready ones.
struct Layer {
  std::vector<uint64_t> words;
  std::vector<int64_t> live;
  std::vector<uint32_t> trail;
  std::vector<uint32_t> slots;  // open addressing, by hash: state + 1
  size_t size() const { return live.size(); }
};

class Search {
 public:
  Search(const Instance& in, int64_t limit, uint32_t width, int64_t* work)
      : in_(in), words_((in.n + 63) / 64), limit_(limit), width_(width), work_(work) {
    layers_.resize(in.n + 1);
    state_.resize(2 * words_);
    checked_.resize(words_);
    if (words_ > 1) return;
    // Sets of nodes as one word each.
    const auto all = [](const Rows::Row& row) {
      uint64_t bits = 0;
      for (const uint32_t v : row) bits |= uint64_t{1} << v;
      return bits;
    };
    for (size_t b = 0; b < in.bytes.size(); ++b) touchers_.push_back(all(in.touchers[b]));
    for (uint32_t v = 0; v < in.n; ++v) preds_.push_back(all(in.preds[v]));
  }

  Decision Run() {
    Begin();
    for (size_t k = 0; k < in_.n; ++k) {
      if (layers_[in_.n].size() > 0) break;
      if (layers_[k].size() == 0) continue;
      if (layers_[k].size() > width_) Cut(&layers_[k]);
      const Layer layer = std::move(layers_[k]);
      layers_[k] = Layer();
      // Fewest bytes first: they are kept where others come to the same set.
      for (size_t s = 0; s < layer.size(); ++s) {
        Expand(layer, s);
        if (*work_ < 0) return {Answer::kUnknown, {}};
      }
      RequestScope::Poll();
    }
    if (layers_[in_.n].size() > 0) return {Answer::kFound, Follow(layers_[in_.n].trail[0])};
    return {cut_ ? Answer::kUnknown : Answer::kNone, {}};
  }

 private:
  uint64_t* ran() { return state_.data(); }
  uint64_t* ready() { return state_.data() + words_; }
  bool Ran(uint32_t v) const { return state_[v / 64] >> v % 64 & 1; }
  bool IsReady(uint32_t v) const { return state_[words_ + v / 64] >> v % 64 & 1; }

  void Begin() {
    live_ = in_.base;
    for (size_t b = 0; b < in_.bytes.size(); ++b)
      if (in_.at_start[b]) live_ += in_.bytes[b];
    for (uint32_t v = 0; v < in_.n; ++v)
      if (in_.preds[v].size() == 0) {
        ready()[v / 64] |= uint64_t{1} << v % 64;
        Check(v);
      }
    count_ = 0;
    trail_now_ = kNoTrail;
    Settle();
    Keep();
  }

  Effect Of(uint32_t v) {
    *work_ -= int64_t(in_.touches[v].size()) + 2;
    const auto opens = [this](uint32_t b) {
      if (in_.at_start[b]) return false;
      if (words_ == 1) return (touchers_[b] & state_[0]) == 0;
      for (const uint32_t t : in_.touchers[b])
        if (Ran(t)) return false;
      return true;
    };
    const auto closes = [this, v](uint32_t b) {
      if (in_.to_end[b]) return false;
      if (words_ == 1) return (touchers_[b] & ~state_[0]) == uint64_t{1} << v;
      for (const uint32_t t : in_.touchers[b])
        if (t != v && !Ran(t)) return false;
      return true;
    };
    return EffectOf(in_, v, opens, closes);
  }
  /// `e` may tell more bytes freed than were, where a chain of results in place shrinks.
  void Step(uint32_t v, const Effect& e) {
    live_ += e.net;
    ++count_;
    ran()[v / 64] |= uint64_t{1} << v % 64;
    ready()[v / 64] &= ~(uint64_t{1} << v % 64);
    trail_.push_back({trail_now_, v});
    trail_now_ = uint32_t(trail_.size() - 1);
    for (const uint32_t s : in_.succs[v]) {
      if (!AllRan(s)) continue;
      ready()[s / 64] |= uint64_t{1} << s % 64;
      Check(s);
    }
    for (const uint32_t b : in_.touches[v]) {
      if (words_ > 1) {
        for (const uint32_t t : in_.touchers[b])
          if (IsReady(t)) Check(t);
        continue;
      }
      for (uint64_t bits = touchers_[b] & state_[1]; bits; bits &= bits - 1)
        Check(uint32_t(__builtin_ctzll(bits)));
    }
  }
  bool AllRan(uint32_t s) const {
    if (words_ == 1) return (preds_[s] & ~state_[0]) == 0;
    const auto preds = in_.preds[s];
    return std::all_of(preds.begin(), preds.end(), [this](uint32_t p) { return Ran(p); });
  }
  void Check(uint32_t v) {
    uint64_t& word = checked_[v / 64];
    const uint64_t bit = uint64_t{1} << v % 64;
    if (word & bit) return;
    word |= bit;
    check_.push_back(v);
  }
  /// Runs what may run at once.
  void Settle() {
    bool waits = false;
    int64_t lowest = live_;
    while (true) {
      while (!check_.empty()) {
        const uint32_t v = check_.back();
        check_.pop_back();
        checked_[v / 64] &= ~(uint64_t{1} << v % 64);
        if (!IsReady(v)) continue;
        const Effect e = Of(v);
        if (e.net > 0) continue;
        if (live_ + e.need <= limit_)
          Step(v, e);
        else
          waits = true;
      }
      if (!waits || live_ >= lowest) return;
      // There is more room now.
      lowest = live_;
      waits = false;
      ForReady([this](uint32_t v) { Check(v); });
    }
  }
  template <class Use>
  void ForReady(const Use& use) {
    for (size_t w = 0; w < words_; ++w)
      for (uint64_t bits = ready()[w]; bits; bits &= bits - 1)
        use(uint32_t(w * 64 + size_t(__builtin_ctzll(bits))));
  }

  void Load(const Layer& layer, size_t s, size_t count) {
    std::copy_n(layer.words.begin() + std::ptrdiff_t(s * 2 * words_), 2 * words_, state_.begin());
    live_ = layer.live[s];
    trail_now_ = layer.trail[s];
    count_ = count;
  }
  void Expand(const Layer& layer, size_t s) {
    std::copy_n(layer.words.begin() + std::ptrdiff_t(s * 2 * words_), 2 * words_, state_.begin());
    size_t count = 0;
    for (size_t w = 0; w < words_; ++w) count += size_t(__builtin_popcountll(ran()[w]));
    choices_.clear();
    live_ = layer.live[s];
    ForReady([this](uint32_t v) {
      const Effect e = Of(v);
      if (live_ + e.need <= limit_) choices_.emplace_back(v, e);
    });
    for (const auto& [v, e] : choices_) {
      Load(layer, s, count);
      *work_ -= int64_t(words_);
      Step(v, e);
      Settle();
      Keep();
    }
  }

  static uint64_t Mix(uint64_t h, uint64_t w) {
    h = (h ^ w) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
  }
  uint64_t HashOf(const uint64_t* words) const {
    uint64_t h = 0;
    for (size_t w = 0; w < words_; ++w) h = Mix(h, words[w]);
    return Mix(h, 0x2545f4914f6cdd1dull);
  }
  /// Puts the state into its layer, unless it is there.
  void Keep() {
    Layer& layer = layers_[count_];
    if (layer.size() >= 2 * size_t(width_)) Cut(&layer);
    if (2 * (layer.size() + 1) > layer.slots.size()) Rehash(&layer);
    const size_t mask = layer.slots.size() - 1;
    for (size_t at = HashOf(ran()) & mask;; at = (at + 1) & mask) {
      const uint32_t slot = layer.slots[at];
      if (slot == 0) {
        layer.slots[at] = uint32_t(layer.size() + 1);
        layer.words.insert(layer.words.end(), state_.begin(), state_.end());
        layer.live.push_back(live_);
        layer.trail.push_back(trail_now_);
        return;
      }
      const uint64_t* other = layer.words.data() + (slot - 1) * 2 * words_;
      if (std::equal(other, other + words_, ran())) return;
    }
  }
  void Rehash(Layer* layer) {
    layer->slots.assign(std::max<size_t>(64, 4 * layer->slots.size()), 0);
    const size_t mask = layer->slots.size() - 1;
    for (size_t s = 0; s < layer->size(); ++s) {
      size_t at = HashOf(layer->words.data() + s * 2 * words_) & mask;
      while (layer->slots[at]) at = (at + 1) & mask;
      layer->slots[at] = uint32_t(s + 1);
    }
  }
  /// Leaves the `width_` states with the fewest bytes alive.
  void Cut(Layer* layer) {
    std::vector<uint32_t> by_live(layer->size());
    std::iota(by_live.begin(), by_live.end(), 0);
    const auto middle = by_live.begin() + std::ptrdiff_t(width_);
    std::nth_element(by_live.begin(), middle, by_live.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(layer->live[a], a) < std::pair(layer->live[b], b);
    });
    by_live.resize(width_);
    std::sort(by_live.begin(), by_live.end());
    Layer kept;
    for (const uint32_t s : by_live) {
      const auto from = layer->words.begin() + std::ptrdiff_t(s * 2 * words_);
      kept.words.insert(kept.words.end(), from, from + std::ptrdiff_t(2 * words_));
      kept.live.push_back(layer->live[s]);
      kept.trail.push_back(layer->trail[s]);
    }
    kept.slots.resize(layer->slots.size() / 4);
    *layer = std::move(kept);
    Rehash(layer);
    cut_ = true;
  }
  Sequence Follow(uint32_t at) const {
    Sequence order;
    for (; at != kNoTrail; at = trail_[at].before) order.push_back(trail_[at].node);
    std::reverse(order.begin(), order.end());
    return order;
  }

  struct Trail {
    uint32_t before, node;
  };
  const Instance& in_;
  const size_t words_;
  const int64_t limit_;
  const uint32_t width_;
  int64_t* work_;
  bool cut_ = false;
  std::vector<Layer> layers_;  // by number of nodes that ran
  std::vector<Trail> trail_;
  // The state at hand.
  std::vector<uint64_t> state_;
  int64_t live_ = 0;
  size_t count_ = 0;
  uint32_t trail_now_ = kNoTrail;
  std::vector<uint32_t> check_;    // ready, not looked at since something changed
  std::vector<uint64_t> checked_;  // what is in check_, as bits
  std::vector<std::pair<uint32_t, Effect>> choices_;
  std::vector<uint64_t> touchers_, preds_;  // of up to 64 nodes, as bits
};

}  // namespace

Decision FindOrder(const Instance& in, int64_t limit, uint32_t width, int64_t* work) {
  return Search(in, limit, width, work).Run();
}

}  // namespace weft::order
