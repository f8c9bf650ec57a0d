/// stage.cc: walks the loops of a stage, in blocks, on several threads.
///
/// The lane loop is one of the outer loops (each lane its own result) or the last inner one (lanes
/// are added up): the choice with the longest blocks and the fewest strided loads. A matmul runs
/// along the columns of the result, a row sum along the row.
#include "stage.h"

#include <algorithm>
#include <thread>
#include <type_traits>

#include "codegen/expr/scalar.h"
#include "weft/core/tensor/visit_element.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/parallel_for.h"
#include "weft/support/request.h"

namespace weft::interp {
namespace {

/// Lane-operations below which a second thread costs more than it gives.
constexpr double kSerialWork = 2e6;

/// Running values of up to kLanes reductions.
struct Accumulator {
  Accumulator(ReduceOp o, DType t)
      : op(o),
        type(t),
        is_float(IsFloat(t)),
        positional(o == ReduceOp::kArgMin || o == ReduceOp::kArgMax) {}

  void Reset(int n) {
    const ReduceOp base = op == ReduceOp::kArgMin   ? ReduceOp::kMin
                          : op == ReduceOp::kArgMax ? ReduceOp::kMax
                                                    : op;
    const Expr neutral = ReduceNeutral(base, type);
    if (is_float)
      std::fill_n(d, n, neutral->const_value());
    else
      std::fill_n(i, n, neutral->const_int());
    std::fill_n(position, n, 0);
    seen = false;
  }

  /// Takes lane values `x` (or x[0] for all) into accumulators 0 .. n - 1; `at` is the row-major
  /// position.
  void AddLanes(const double* x, const int64_t* xi, bool uniform, int n, int64_t at) {
    const int s = uniform ? 0 : 1;
    if (positional) {
      for (int k = 0; k < n; ++k)
        Position(k, is_float ? x[k * s] : 0, is_float ? 0 : xi[k * s], at);
      seen = true;
    } else if (is_float && op == ReduceOp::kSum) {
      if (uniform)
        for (int k = 0; k < n; ++k) d[k] += x[0];
      else
        for (int k = 0; k < n; ++k) d[k] += x[k];
    } else if (is_float) {
      for (int k = 0; k < n; ++k) d[k] = Combine(d[k], x[k * s]);
    } else {
      for (int k = 0; k < n; ++k) i[k] = Combine(i[k], xi[k * s]);
    }
  }
  /// Takes n values into accumulator 0, in order; positions at, at + 1 ...
  void AddAlong(const double* x, const int64_t* xi, bool uniform, int n, int64_t at) {
    const int s = uniform ? 0 : 1;
    if (positional) {
      for (int k = 0; k < n; ++k) {
        Position(0, is_float ? x[k * s] : 0, is_float ? 0 : xi[k * s], at + k);
        seen = true;
      }
    } else if (is_float && op == ReduceOp::kSum && !uniform) {
      // Four partial sums hide the latency of the addition.
      double part[4] = {0, 0, 0, 0};
      int k = 0;
      for (; k + 4 <= n; k += 4) {
        for (int p = 0; p < 4; ++p) part[p] += x[k + p];
      }
      for (; k < n; ++k) part[0] += x[k];
      d[0] += (part[0] + part[1]) + (part[2] + part[3]);
    } else if (is_float) {
      for (int k = 0; k < n; ++k) d[0] = Combine(d[0], x[k * s]);
    } else {
      for (int k = 0; k < n; ++k) i[0] = Combine(i[0], xi[k * s]);
    }
  }

  double Combine(double a, double b) const {
    switch (op) {
      case ReduceOp::kSum:
        return a + b;
      case ReduceOp::kProd:
        return a * b;
      case ReduceOp::kMin:
        return scalar::FloatBinary(BinOp::kMin, a, b);
      default:
        return scalar::FloatBinary(BinOp::kMax, a, b);
    }
  }
  int64_t Combine(int64_t a, int64_t b) const {
    switch (op) {
      case ReduceOp::kSum:
        return int64_t(uint64_t(a) + uint64_t(b));
      case ReduceOp::kProd:
        return int64_t(uint64_t(a) * uint64_t(b));
      case ReduceOp::kAny:
        return a | b;
      case ReduceOp::kAll:
        return a & b;
      case ReduceOp::kMin:
        return scalar::IntBinary(BinOp::kMin, type, a, b);
      default:
        return scalar::IntBinary(BinOp::kMax, type, a, b);
    }
  }
  void Position(int k, double x, int64_t xi, int64_t at) {
    bool better = !seen;
    if (is_float) {
      if (!better && !std::isnan(d[k]))
        better = std::isnan(x) || (op == ReduceOp::kArgMin ? x < d[k] : x > d[k]);
      if (better) d[k] = x;
    } else {
      if (!better)
        better = scalar::IntBinary(op == ReduceOp::kArgMin ? BinOp::kLt : BinOp::kGt, type, xi,
                                   i[k]) != 0;
      if (better) i[k] = xi;
    }
    if (better) position[k] = at;
  }
  /// Results in place: rounded once where the mode rounds.
  void Finish(int n, bool typed) {
    if (positional)
      std::copy_n(position, n, i);
    else if (!is_float)
      for (int k = 0; k < n; ++k) i[k] = scalar::Normalize(type, i[k]);
    else if (typed)
      for (int k = 0; k < n; ++k) d[k] = scalar::RoundArith(type, d[k]);
  }

  const ReduceOp op;
  const DType type;
  const bool is_float, positional;
  bool seen = false;
  double d[kLanes];
  int64_t i[kLanes];
  int64_t position[kLanes];
};

template <class Element, class V>
void CopyOut(Element, void* out, int64_t offset, int64_t step, const V* v, bool uniform, int n) {
  auto* p = static_cast<typename Element::Storage*>(out) + offset;
  for (int k = 0; k < n; ++k)
    p[k * step] = Element::Store(typename Element::Value(v[uniform ? 0 : k]));
}

void StoreTyped(DType t, void* out, int64_t offset, int64_t step, const double* d, const int64_t* i,
                bool uniform, int n) {
  VisitElement(t, [&](auto element) {
    if constexpr (std::is_floating_point_v<typename decltype(element)::Value>)
      CopyOut(element, out, offset, step, d, uniform, n);
    else
      CopyOut(element, out, offset, step, i, uniform, n);
  });
}

class Runner {
 public:
  Runner(const Stage& stage, const Context& context) : stage_(stage), context_(context) {
    for (int loop : stage.inner)
      inner_points_ = CheckedMul(inner_points_, context.extents[size_t(loop)]);
    ChoosePlan();
    int64_t stride = 1;
    strides_.resize(stage.outer.size());
    for (size_t k = stage.outer.size(); k-- > 0;) {
      strides_[k] = stride;
      stride = CheckedMul(stride, context.extents[size_t(stage.outer[k])]);
      if (stage.outer[k] != plan_.lane_loop) continue;
      lane_extent_ = context.extents[size_t(plan_.lane_loop)];
      lane_stride_ = strides_[k];
    }
    points_ = stride;
    lane_inside_ = plan_.lane_loop >= 0 && lane_extent_ < 0;
    if (lane_extent_ < 0) lane_extent_ = 1;
    blocks_ = (lane_extent_ + kLanes - 1) / kLanes;
    items_ = points_ == 0 ? 0 : points_ / lane_extent_ * blocks_;
  }

  void Run() {
    if (items_ == 0) return;
    const double work =
        double(points_) * double(inner_points_) * double(plan_.outer.size() + plan_.inner.size());
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    const auto threads =
        int(std::min<int64_t>(work < kSerialWork ? 1 : std::min(cores, 16u), items_));
    if (threads == 1) return RunItems(0, items_);
    ParallelFor(size_t(threads), threads, [&](size_t t) {
      const auto share = int64_t(t);
      RunItems(items_ * share / threads, items_ * (share + 1) / threads);
    });
  }

 private:
  int64_t Extent(int loop) const { return context_.extents[size_t(loop)]; }

  void ChoosePlan() {
    CompileInput input;
    input.num_loops = int(context_.extents.size());
    for (int loop : stage_.inner) input.inner_loops.set(size_t(loop));
    input.sources = &context_.sources;
    input.first_table = context_.first_table;
    input.tables = &context_.table_loops;
    std::vector<int> candidates;
    if (!stage_.outer.empty()) {
      candidates.push_back(stage_.outer.back());
      const int longest = *std::max_element(stage_.outer.begin(), stage_.outer.end(),
                                            [&](int a, int b) { return Extent(a) < Extent(b); });
      if (longest != candidates[0] && Extent(candidates[0]) < 32) candidates.push_back(longest);
    }
    if (!stage_.inner.empty()) candidates.push_back(stage_.inner.back());
    if (candidates.empty()) candidates.push_back(-1);
    double best = -1;
    for (int lane : candidates) {
      Plan plan = CompilePlan(stage_.value, lane, input);
      // Nanoseconds a lane: a strided load about one, the overhead of a block shared by its lanes.
      const double lanes = lane < 0 ? 1 : double(std::clamp<int64_t>(Extent(lane), 1, kLanes));
      const double cost =
          plan.strided_loads + 8.0 * double(plan.inner.size() + plan.outer.size() + 2) / lanes;
      if (best >= 0 && cost >= best) continue;
      best = cost;
      plan_ = std::move(plan);
    }
  }

  void RunItems(int64_t begin, int64_t end) {
    Machine machine(plan_, context_.sources, context_.extents, context_.mode);
    std::optional<Accumulator> acc;
    if (stage_.op) acc.emplace(*stage_.op, stage_.value->dtype());
    std::vector<int64_t>& position = machine.positions();
    for (int64_t item = begin; item < end; ++item) {
      Poll();
      int64_t rest = item / blocks_, offset = 0;
      const int64_t first = item % blocks_ * kLanes;
      for (size_t k = stage_.outer.size(); k-- > 0;) {
        const int loop = stage_.outer[k];
        if (loop == plan_.lane_loop) {
          position[size_t(loop)] = first;
        } else {
          position[size_t(loop)] = rest % Extent(loop);
          rest /= Extent(loop);
        }
        offset += position[size_t(loop)] * strides_[k];
      }
      const int lanes = int(std::min<int64_t>(kLanes, lane_extent_ - first));
      machine.Run(plan_.outer, lanes);
      if (!acc) {
        machine.Run(plan_.inner, lanes);
        Store(machine.doubles(plan_.result), machine.ints(plan_.result), plan_.result_uniform,
              offset, lanes);
        continue;
      }
      acc->Reset(lanes);
      Reduce(&machine, &*acc, lanes);
      acc->Finish(lanes, context_.mode == InterpretMode::kTyped);
      Store(acc->d, acc->i, false, offset, lanes);
    }
  }

  /// Every so many blocks, which is less than a millisecond.
  static void Poll() {
    constexpr int kBlocksAPoll = 64;
    static thread_local int blocks = 0;
    if (++blocks % kBlocksAPoll == 0) RequestScope::Poll();
  }

  void Reduce(Machine* m, Accumulator* acc, int lanes) {
    if (inner_points_ == 0) return;
    std::vector<int64_t>& position = m->positions();
    for (int loop : stage_.inner) position[size_t(loop)] = 0;
    const size_t counted = stage_.inner.size() - (lane_inside_ ? 1 : 0);
    for (int64_t at = 0;;) {
      if (lane_inside_) {
        const int64_t extent = Extent(plan_.lane_loop);
        for (int64_t first = 0; first < extent; first += kLanes) {
          const int n = int(std::min<int64_t>(kLanes, extent - first));
          Poll();
          position[size_t(plan_.lane_loop)] = first;
          m->Run(plan_.inner, n);
          acc->AddAlong(m->doubles(plan_.result), m->ints(plan_.result), plan_.result_uniform, n,
                        at);
          at += n;
        }
      } else {
        Poll();
        m->Run(plan_.inner, lanes);
        acc->AddLanes(m->doubles(plan_.result), m->ints(plan_.result), plan_.result_uniform, lanes,
                      at++);
      }
      size_t k = counted;
      while (k > 0) {
        int64_t& p = position[size_t(stage_.inner[k - 1])];
        if (++p < Extent(stage_.inner[k - 1])) break;
        p = 0;
        --k;
      }
      if (k == 0) return;
    }
  }

  void Store(const double* d, const int64_t* i, bool uniform, int64_t offset, int n) {
    const int64_t step = lane_inside_ ? 0 : lane_stride_;
    if (stage_.typed) return StoreTyped(stage_.dtype, stage_.typed, offset, step, d, i, uniform, n);
    if (IsFloat(stage_.dtype))
      CopyOut(PlainElement<double>(), stage_.table, offset, step, d, uniform, n);
    else
      CopyOut(PlainElement<int64_t>(), stage_.table, offset, step, i, uniform, n);
  }

  const Stage& stage_;
  const Context& context_;
  Plan plan_;
  std::vector<int64_t> strides_;
  int64_t points_ = 1, inner_points_ = 1, items_ = 0, blocks_ = 1;
  int64_t lane_extent_ = -1, lane_stride_ = 1;
  bool lane_inside_ = false;
};

}  // namespace

void RunStage(const Stage& stage, const Context& context) { Runner(stage, context).Run(); }

}  // namespace weft::interp
