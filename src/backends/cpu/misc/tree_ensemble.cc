/// tree_ensemble.cc: weft::TreeEnsemble over one array of records, eight walks at a time.
///
/// A walk is a chain of loads, each of which waits for the one before; eight of them side by side
/// (rows of one tree, or trees of one row) hide that. No step branches: the children of a node lie
/// side by side, so the next record is the first child or the one behind it, and a leaf is its own
/// child. What it computes is said in src/ops/ml/tree_ensemble.cc.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/threads.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

constexpr int kWalks = 8;
/// Rows that go down one tree after another: their features and the tree stay in the first cache.
constexpr int64_t kBlockRows = 128;
/// Steps below which a second thread costs more than it helps.
constexpr int64_t kStepsAlone = 20000;

constexpr uint32_t kBranch = uint32_t{1} << 31, kNanTrue = uint32_t{1} << 30;
constexpr uint32_t kFeature = kNanTrue - 1;

template <class T>
struct Record {
  T split;        ///< of a leaf its weight, or its number where it may have several
  uint32_t meta;  ///< the feature, kBranch, kNanTrue
  uint32_t next;  ///< where its children lie, true first; of a leaf itself
};

template <class T>
T NumberAsSplit(int32_t leaf) {
  T v = 0;
  std::memcpy(&v, &leaf, sizeof leaf);
  return v;
}
template <class T>
int32_t SplitAsNumber(T v) {
  int32_t leaf;
  std::memcpy(&leaf, &v, sizeof leaf);
  return leaf;
}

const Tensor& ListAttr(const NodePtr& n, const char* name) { return *n->attr<TensorPtr>(name); }

/// The trees of a node; the same for all extents of x. Inference has checked every number.
template <class T>
struct Forest {
  explicit Forest(const NodePtr& n) : targets(n->attr<int64_t>("targets")) {
    const Tensor& features = ListAttr(n, "features");
    const auto* feature = features.data_as<int32_t>();
    const auto* yes = ListAttr(n, "true_children").data_as<int32_t>();
    const auto* no = ListAttr(n, "false_children").data_as<int32_t>();
    const auto* nan_true = ListAttr(n, "nan_true").data_as<uint8_t>();
    const auto* split = ListAttr(n, "splits").data_as<T>();
    const int64_t nodes = features.num_elements();
    CopyLeaves(n);
    const Tensor& starting = ListAttr(n, "roots");
    const int64_t trees = starting.num_elements();
    // First the records of the roots, then a pair for the children of each node, in its order.
    records.resize(size_t(trees + 2 * nodes));
    const auto place = [&](int64_t at, int32_t code) {
      Record<T>& r = records[size_t(at)];
      if (code < 0) {
        r = {inline_weights ? WeightOf(~code) : NumberAsSplit<T>(~code), 0, uint32_t(at)};
        return;
      }
      has_nan = has_nan || nan_true[code] == 1;
      features_used = std::max<int64_t>(features_used, feature[code] + int64_t{1});
      r = {split[code], uint32_t(feature[code]) | kBranch | (nan_true[code] == 1 ? kNanTrue : 0),
           uint32_t(trees + 2 * int64_t(code))};
    };
    for (int64_t t = 0; t < trees; ++t) place(t, starting.data_as<int32_t>()[t]);
    for (int64_t k = 0; k < nodes; ++k) {
      place(trees + 2 * k, yes[k]);
      place(trees + 2 * k + 1, no[k]);
    }
    // Children come after their parents, so one sweep from behind knows all depths.
    std::vector<int32_t> below(static_cast<size_t>(nodes), 1);
    const auto depth = [&](int32_t code) { return code < 0 ? 0 : below[size_t(code)]; };
    for (int64_t k = nodes; k-- > 0;) below[size_t(k)] = 1 + std::max(depth(yes[k]), depth(no[k]));
    for (int64_t t = 0; t < trees; ++t) depths.push_back(depth(starting.data_as<int32_t>()[t]));
    for (const int32_t d : depths) steps += d;
  }

  std::vector<Record<T>> records;
  std::vector<int32_t> depths;  ///< of each tree; its root is the record of its number
  int64_t steps = 0;            ///< that a row takes at most
  int64_t targets, features_used = 0;
  bool has_nan = false;
  /// One target, and a weight for each leaf: it is in the record.
  bool inline_weights = false;
  /// Every leaf has a weight for every target, in order.
  bool dense = false;
  bool finite = true;
  std::vector<int32_t> starts, leaf_targets;
  std::vector<T> weights;

 private:
  void CopyLeaves(const NodePtr& n) {
    const Tensor &s = ListAttr(n, "leaf_starts"), &t = ListAttr(n, "leaf_targets");
    const Tensor& w = ListAttr(n, "leaf_weights");
    starts.assign(s.data_as<int32_t>(), s.data_as<int32_t>() + s.num_elements());
    leaf_targets.assign(t.data_as<int32_t>(), t.data_as<int32_t>() + t.num_elements());
    weights.assign(w.data_as<T>(), w.data_as<T>() + w.num_elements());
    for (const T v : weights) finite = finite && std::isfinite(v);
    dense = true;
    for (size_t leaf = 0; leaf + 1 < starts.size() && dense; ++leaf) {
      dense = starts[leaf + 1] - starts[leaf] == targets;
      for (int64_t c = 0; c < targets && dense; ++c)
        dense = leaf_targets[size_t(starts[leaf] + c)] == c;
    }
    inline_weights = dense && targets == 1;
  }
  T WeightOf(int32_t leaf) const { return weights[size_t(starts[size_t(leaf)])]; }
};

/// One forest a model, whatever the number of rows that calls are made for.
template <class T>
std::shared_ptr<const Forest<T>> ForestOf(const NodePtr& n) {
  using Key = std::pair<const Tensor*, const Tensor*>;
  struct Made {
    std::weak_ptr<const Tensor> nodes;
    std::weak_ptr<const Forest<T>> forest;
  };
  static std::mutex mutex;
  static std::map<Key, Made> all;
  const TensorPtr nodes = n->attr<TensorPtr>("splits"), leaves = n->attr<TensorPtr>("leaf_weights");
  const std::lock_guard lock(mutex);
  for (auto it = all.begin(); it != all.end();)
    it = it->second.forest.expired() || it->second.nodes.expired() ? all.erase(it) : ++it;
  Made& made = all[{nodes.get(), leaves.get()}];
  std::shared_ptr<const Forest<T>> forest = made.forest.lock();
  if (!forest) {
    forest = std::make_shared<const Forest<T>>(n);
    made = {nodes, forest};
  }
  return forest;
}

enum class Aggregate { kSum, kAverage, kMin, kMax };

template <class T>
class TreeEnsembleCall final : public LibraryCall {
 public:
  TreeEnsembleCall(const ComputeRequest& q, Aggregate aggregate,
                   std::shared_ptr<const Forest<T>> forest)
      : f_(std::move(forest)),
        aggregate_(aggregate),
        rows_(q.input_dims[0][0]),
        columns_(q.input_dims[0][1]),
        threads_(q.threads) {}

  std::string description() const override {
    return fmt::format("{} trees, {} nodes", f_->depths.size(),
                       (f_->records.size() - f_->depths.size()) / 2);
  }

  void Run(const void* const* in, void* const* out, void*) const override {
    const T* x = static_cast<const T*>(in[0]);
    T* y = static_cast<T*>(out[0]);
    const int64_t steps = CheckedMul(rows_, f_->steps);
    const bool alone = threads_ == 1 || steps <= kStepsAlone;
    const int64_t share = alone ? rows_ : (rows_ + threads_ - 1) / threads_;
    const int64_t block =
        std::max<int64_t>(kWalks, std::min(kBlockRows, (share + kWalks - 1) / kWalks * kWalks));
    const int64_t blocks = (rows_ + block - 1) / block;
    // Between rounds a request may end.
    const int64_t round = std::max<int64_t>(threads_, int64_t{1} << 12);
    for (int64_t first = 0; first < blocks; first += round) {
      RequestScope::Poll();
      const int64_t last = std::min(blocks, first + round);
      const ScopedThreads team(threads_);
#pragma omp parallel for schedule(dynamic) if (!alone)
      for (int64_t b = first; b < last; ++b) {
        const int64_t begin = b * block, end = std::min(rows_, begin + block);
        if (f_->has_nan)
          Block<true>(x, y, begin, end);
        else
          Block<false>(x, y, begin, end);
      }
    }
  }

 private:
  /// One step of a walk; what it left was a branch or not.
  template <bool kNan>
  static uint32_t Step(const Record<T>* records, const T* row, uint32_t* at) {
    const Record<T>& r = records[*at];
    const T v = row[r.meta & kFeature];
    uint32_t no = !(v <= r.split);
    if constexpr (kNan) no &= ~(uint32_t(v != v) & (r.meta >> 30));
    *at = r.next + (no & (r.meta >> 31));
    return r.meta;
  }
  /// Walks from at[0..count) to leaves: row k is rows[k * stride].
  template <bool kNan, int kCount>
  static void Walk(const Record<T>* records, const T* rows, int64_t stride, int32_t depth,
                   uint32_t* at) {
    for (int32_t d = 0; d < depth; ++d) {
      uint32_t met = 0;
      for (int k = 0; k < kCount; ++k) met |= Step<kNan>(records, rows + k * stride, &at[k]);
      if (!(met & kBranch)) return;
    }
  }

  template <bool kNan>
  void Block(const T* x, T* y, int64_t begin, int64_t end) const {
    const Record<T>* records = f_->records.data();
    const int64_t trees = int64_t(f_->depths.size()), targets = f_->targets;
    T* out = y + begin * targets;
    const T* first = x + begin * columns_;
    const int64_t count = end - begin, whole = count / kWalks * kWalks;
    const T start = aggregate_ == Aggregate::kMin   ? std::numeric_limits<T>::infinity()
                    : aggregate_ == Aggregate::kMax ? -std::numeric_limits<T>::infinity()
                                                    : T(0);
    std::fill_n(out, count * targets, start);
    uint32_t at[kWalks];
    for (int64_t t = 0; whole > 0 && t < trees; ++t) {
      const int32_t depth = f_->depths[size_t(t)];
      for (int64_t r = 0; r < whole; r += kWalks) {
        std::fill_n(at, kWalks, uint32_t(t));
        Walk<kNan, kWalks>(records, first + r * columns_, columns_, depth, at);
        for (int k = 0; k < kWalks; ++k) Gather(records[at[k]], out + (r + k) * targets);
      }
    }
    for (int64_t r = whole; r < count; ++r)
      for (int64_t t = 0; t < trees; t += kWalks)
        Trees<kNan>(first + r * columns_, t, out + r * targets);
    Finish(out, count * targets);
  }
  /// One row down the trees from `t` on.
  template <bool kNan>
  void Trees(const T* row, int64_t t, T* out) const {
    const Record<T>* records = f_->records.data();
    const int64_t n = std::min<int64_t>(kWalks, int64_t(f_->depths.size()) - t);
    uint32_t at[kWalks];
    // A walk too many ends where the last one does.
    for (int64_t k = 0; k < kWalks; ++k) at[k] = uint32_t(t + std::min(k, n - 1));
    const auto depth = f_->depths.begin() + t;
    Walk<kNan, kWalks>(records, row, 0, *std::max_element(depth, depth + n), at);
    for (int64_t k = 0; k < n; ++k) Gather(records[at[k]], out);
  }

  void Gather(const Record<T>& leaf, T* out) const {
    if (f_->inline_weights) return Join(leaf.split, out);
    const int32_t number = SplitAsNumber(leaf.split);
    const int32_t begin = f_->starts[size_t(number)], end = f_->starts[size_t(number) + 1];
    const T* w = f_->weights.data() + begin;
    if (f_->dense) {
      for (int64_t c = 0; c < f_->targets; ++c) Join(w[c], out + c);
      return;
    }
    const int32_t* target = f_->leaf_targets.data() + begin;
    for (int32_t i = 0; i < end - begin; ++i) Join(w[i], out + target[i]);
  }
  void Join(T weight, T* out) const {
    if (aggregate_ <= Aggregate::kAverage)
      *out += weight;
    else if (aggregate_ == Aggregate::kMin ? weight < *out : weight > *out)
      *out = weight;
  }
  void Finish(T* out, int64_t count) const {
    const T trees = T(f_->depths.size());
    if (aggregate_ == Aggregate::kAverage && trees > 0)
      for (int64_t i = 0; i < count; ++i) out[i] /= trees;
    // A target that no leaf had a weight for.
    if (aggregate_ >= Aggregate::kMin)
      for (int64_t i = 0; i < count; ++i) out[i] = std::isinf(out[i]) ? T(0) : out[i];
  }

  std::shared_ptr<const Forest<T>> f_;
  Aggregate aggregate_;
  int64_t rows_, columns_;
  int threads_;
};

template <class T>
std::unique_ptr<LibraryCall> MakeCall(const ComputeRequest& q, Aggregate aggregate) {
  auto forest = ForestOf<T>(q.node);
  WEFT_CHECK(forest->features_used <= q.input_dims[0][1], kShapeMismatch,
             "{}: a node asks for feature {}, x has {}", q.node->Describe(),
             forest->features_used - 1, q.input_dims[0][1]);
  // The least and the greatest of what is not finite is left to the definition.
  if (aggregate >= Aggregate::kMin && !forest->finite) return nullptr;
  return std::make_unique<TreeEnsembleCall<T>>(q, aggregate, std::move(forest));
}

std::unique_ptr<LibraryCall> PrepareTreeEnsemble(const ComputeRequest& q) {
  static constexpr const char* kNames[] = {"SUM", "AVERAGE", "MIN", "MAX"};
  const std::string name =
      q.node->has_attr("aggregate") ? q.node->attr<std::string>("aggregate") : kNames[0];
  const auto at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at == std::end(kNames)) return nullptr;
  const auto aggregate = Aggregate(at - std::begin(kNames));
  if (q.input_types[0] == DType::kF64) return MakeCall<double>(q, aggregate);
  return q.input_types[0] == DType::kF32 ? MakeCall<float>(q, aggregate) : nullptr;
}

WEFT_REGISTER_OP_IN(weft, TreeEnsemble).set_attr<FCompute>("FCompute.cpu", PrepareTreeEnsemble);

}  // namespace
}  // namespace weft::cpu
