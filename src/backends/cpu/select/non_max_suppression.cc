/// non_max_suppression.cc: NonMaxSuppression: scores below the threshold are dropped sixteen at a
/// time, the others sorted only as far as boxes are taken, and each box compared with sixteen of
/// those that were. Classes and images go to the threads. What it computes is said in
/// src/ops/image/non_max_suppression.cc.
#include <algorithm>
#include <exception>

#include "backends/cpu/util/threads.h"
#include "backends/cpu/util/wide.h"
#include "ordered_keys.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/runtime/backend/sized_compute.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

constexpr int64_t kLanes = 16;
/// Scores for which a second thread is woken.
constexpr int64_t kAloneScores = 8192;

struct Box {
  float y1, x1, y2, x2, area;
};
/// Boxes side by side, each number in a line of its own; room for whole vectors.
struct Boxes {
  std::vector<float> numbers;
  int64_t count = 0, room = 0;

  void Begin(int64_t most) {
    count = 0;
    most = (most + kLanes - 1) / kLanes * kLanes;
    if (most <= room) return;
    room = most;
    numbers.resize(size_t(5 * room));
  }
  const float* line(int k) const { return numbers.data() + k * room; }
  const float* y1() const { return line(0); }
  const float* x1() const { return line(1); }
  const float* y2() const { return line(2); }
  const float* x2() const { return line(3); }
  const float* area() const { return line(4); }
  void Push(const Box& b) {
    const float v[] = {b.y1, b.x1, b.y2, b.x2, b.area};
    for (int k = 0; k < 5; ++k) numbers[size_t(k * room + count)] = v[k];
    ++count;
  }
};

Box BoxOf(const float* v, bool center) {
  Box b;
  if (center)
    b = {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2, 0};
  else
    b = {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3]), 0};
  b.area = (b.y2 - b.y1) * (b.x2 - b.x1);
  return b;
}

/// Does box `b` overlap one that was kept by more than `threshold`?
bool HidesPlain(const Boxes& kept, const Box& b, float threshold) {
  for (int64_t i = 0; i < kept.count; ++i) {
    const float height = std::min(kept.y2()[i], b.y2) - std::max(kept.y1()[i], b.y1);
    const float width = std::min(kept.x2()[i], b.x2) - std::max(kept.x1()[i], b.x1);
    if (height <= 0 || width <= 0 || kept.area()[i] <= 0 || b.area <= 0) continue;
    const float both = height * width;
    if (both / (kept.area()[i] + b.area - both) > threshold) return true;
  }
  return false;
}

#if defined(__x86_64__)
/// The same, rounded the same: with a rounding of its own no operation becomes part of another. Of
/// NaN the minima and maxima give what std::min and std::max do.
WEFT_WIDE bool HidesWide(const Boxes& kept, const Box& b, float threshold) {
  constexpr int kRound = _MM_FROUND_CUR_DIRECTION;
  constexpr __mmask16 kAll = 0xffff;
  const __m512 y1 = _mm512_set1_ps(b.y1), x1 = _mm512_set1_ps(b.x1), y2 = _mm512_set1_ps(b.y2),
               x2 = _mm512_set1_ps(b.x2), area = _mm512_set1_ps(b.area), zero = _mm512_setzero_ps(),
               limit = _mm512_set1_ps(threshold);
  if (b.area <= 0) return false;
  for (int64_t i = 0; i < kept.count; i += kLanes) {
    const auto of = [&](const float* line) WEFT_WIDE { return _mm512_loadu_ps(line + i); };
    const __m512 height =
        _mm512_maskz_sub_round_ps(kAll, _mm512_maskz_min_ps(kAll, y2, of(kept.y2())),
                                  _mm512_maskz_max_ps(kAll, y1, of(kept.y1())), kRound);
    const __m512 width =
        _mm512_maskz_sub_round_ps(kAll, _mm512_maskz_min_ps(kAll, x2, of(kept.x2())),
                                  _mm512_maskz_max_ps(kAll, x1, of(kept.x1())), kRound);
    const int64_t left = kept.count - i;
    __mmask16 some = left >= kLanes ? __mmask16(0xffff) : __mmask16((1u << left) - 1);
    some = _mm512_mask_cmp_ps_mask(some, height, zero, _CMP_NLE_UQ);
    some = _mm512_mask_cmp_ps_mask(some, width, zero, _CMP_NLE_UQ);
    if (!some) continue;
    const __m512 other = of(kept.area()),
                 both = _mm512_maskz_mul_round_ps(kAll, height, width, kRound);
    some = _mm512_mask_cmp_ps_mask(some, other, zero, _CMP_NLE_UQ);
    const __m512 all = _mm512_maskz_sub_round_ps(
        kAll, _mm512_maskz_add_round_ps(kAll, other, area, kRound), both, kRound);
    const __m512 share = _mm512_maskz_div_round_ps(kAll, both, all, kRound);
    if (_mm512_mask_cmp_ps_mask(some, share, limit, _CMP_GT_OQ)) return true;
  }
  return false;
}
#endif

bool Hides(const Boxes& kept, const Box& b, float threshold) {
#if defined(__x86_64__)
  if (HasWide()) return HidesWide(kept, b, threshold);
#endif
  return HidesPlain(kept, b, threshold);
}

/// Sorts descending: a higher score is more, and of equal ones a lower index.
using Candidate = uint64_t;
Candidate CandidateOf(float score, int64_t i) {
  // A score that is not a number is the lowest.
  const int32_t key = score == score ? OrderedKey<PlainElement<float>>(score) : INT32_MIN;
  return uint64_t(uint32_t(key) ^ 0x80000000u) << 32 | (0xffffffffu - uint32_t(i));
}
int64_t IndexOf(Candidate c) { return int64_t(0xffffffffu - uint32_t(c)); }

#if defined(__x86_64__)
WEFT_WIDE void TakeAbove(const float* score, int64_t n, float floor, std::vector<Candidate>* to) {
  const __m512 least = _mm512_set1_ps(floor);
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = n - i;
    const __mmask16 there = left >= kLanes ? __mmask16(0xffff) : __mmask16((1u << left) - 1);
    uint32_t some =
        _mm512_mask_cmp_ps_mask(there, _mm512_maskz_loadu_ps(there, score + i), least, _CMP_GT_OQ);
    for (; some; some &= some - 1) {
      const int64_t at = i + __builtin_ctz(some);
      to->push_back(CandidateOf(score[at], at));
    }
  }
}
#endif
void TakeAbovePlain(const float* score, int64_t n, float floor, std::vector<Candidate>* to) {
  for (int64_t i = 0; i < n; ++i)
    if (score[i] > floor) to->push_back(CandidateOf(score[i], i));
}

struct Suppression {
  int64_t count = 0, most = 0;
  float overlap = 0, floor = 0;
  bool center = false, has_floor = false;
};

/// Work space of a thread.
struct Room {
  std::vector<Candidate> candidates;
  Boxes kept;
};

/// Indices of the boxes that stay, of one class in one image.
void Suppress(const Suppression& s, const float* boxes, const float* scores, Room* room,
              std::vector<int64_t>* taken) {
  std::vector<Candidate>& all = room->candidates;
  all.clear();
  if (!s.has_floor) {
    all.resize(size_t(s.count));
    for (int64_t i = 0; i < s.count; ++i) all[size_t(i)] = CandidateOf(scores[i], i);
  } else {
#if defined(__x86_64__)
    if (HasWide())
      TakeAbove(scores, s.count, s.floor, &all);
    else
#endif
      TakeAbovePlain(scores, s.count, s.floor, &all);
  }
  room->kept.Begin(std::min<int64_t>(s.most, int64_t(all.size())));
  // Of many only those are sorted that come to be looked at: first some more than may be kept.
  size_t sorted = 0;
  const auto most = size_t(std::clamp<int64_t>(s.most, 0, s.count));
  size_t piece = most + most / 2 + 32;
  for (size_t at = 0; at < all.size() && room->kept.count < s.most; ++at) {
    if (at == sorted) {
      const size_t end = std::min(all.size(), sorted + piece);
      const auto first = all.begin() + std::ptrdiff_t(sorted),
                 last = all.begin() + std::ptrdiff_t(end);
      if (end < all.size()) std::nth_element(first, last, all.end(), std::greater<>());
      std::sort(first, last, std::greater<>());
      sorted = end;
      piece *= 2;
      RequestScope::Poll();
    }
    const int64_t i = IndexOf(all[at]);
    const Box box = BoxOf(boxes + i * 4, s.center);
    if (Hides(room->kept, box, s.overlap)) continue;
    room->kept.Push(box);
    taken->push_back(i);
  }
}

bool RunSuppression(const NodePtr& n, const std::vector<TensorPtr>& in, int threads,
                    SizedResults* results) {
  const Tensor &boxes = *in[0], &scores = *in[1];
  WEFT_CHECK(boxes.rank() == 3 && scores.rank() == 3, kShapeMismatch,
             "{}: boxes and scores must have rank 3, got {} and {}", n->Describe(),
             boxes.shape().ToString(), scores.shape().ToString());
  const int64_t batch = scores.dims()[0], classes = scores.dims()[1], count = scores.dims()[2];
  WEFT_CHECK(boxes.dims()[0] == batch && boxes.dims()[1] == count && boxes.dims()[2] == 4,
             kShapeMismatch, "{}: boxes {} and scores {}", n->Describe(), boxes.shape().ToString(),
             scores.shape().ToString());
  if (count > int64_t{0xffffffff}) return false;
  const auto given = [&](size_t i) {
    return i < in.size() && in[i] && in[i]->num_elements() > 0 ? in[i].get() : nullptr;
  };
  Suppression s;
  s.count = count;
  s.center = IntAttr(n, "center_point_box", 0) != 0;
  if (const Tensor* most = given(2)) s.most = most->at_int(0);
  if (const Tensor* overlap = given(3)) s.overlap = float(overlap->at(0));
  s.has_floor = given(4) != nullptr;
  if (s.has_floor) s.floor = float(given(4)->at(0));
  const auto* box = boxes.data_as<float>();
  const auto* score = scores.data_as<float>();
  const int64_t lists = CheckedMul(batch, classes);
  std::vector<std::vector<int64_t>> taken(static_cast<size_t>(lists));
  std::exception_ptr failed;
  const RequestScope* const request = RequestScope::Current();
  const bool many = lists > 1 && scores.num_elements() > kAloneScores;
  const ScopedThreads scoped(threads);
#pragma omp parallel if (many)
  {
    const RequestScope::Borrow borrow(request);
    Room room;
#pragma omp for schedule(dynamic)
    for (int64_t l = 0; l < lists; ++l) try {
        Suppress(s, box + l / classes * count * 4, score + l * count, &room, &taken[size_t(l)]);
      } catch (...) {  // none may leave the loop
#pragma omp critical(weft_suppression)
        failed = std::current_exception();
      }
  }
  if (failed) std::rethrow_exception(failed);
  int64_t total = 0;
  for (const std::vector<int64_t>& t : taken) total += int64_t(t.size());
  auto* y = static_cast<int64_t*>(results->Place(0, DType::kI64, {total, 3}));
  for (int64_t l = 0; l < lists; ++l)
    for (const int64_t i : taken[size_t(l)]) {
      *y++ = l / classes;
      *y++ = l % classes;
      *y++ = i;
    }
  return true;
}

WEFT_REGISTER_OP(NonMaxSuppression).set_attr<FSizedCompute>("FSizedCompute.cpu", RunSuppression);

}  // namespace
}  // namespace weft::cpu
