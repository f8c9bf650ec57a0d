/// calibrate.cc: see calibrate.h.
#include "weft/runtime/quantise/calibrate.h"

#include <algorithm>
#include <map>
#include <optional>

#include "observed.h"
#include "range_finder.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/calibration.h"
#include "weft/core/op/quantized_operands.h"
#include "weft/core/pass/provide.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

const std::pair<const char*, RangeMethod> kMethods[] = {{"minmax", RangeMethod::kMinMax},
                                                        {"percentile", RangeMethod::kPercentile},
                                                        {"entropy", RangeMethod::kEntropy},
                                                        {"mse", RangeMethod::kMse}};

/// Sums over the channels of one value.
class ChannelSums {
 public:
  explicit ChannelSums(int64_t axis) : axis_(axis) {}
  void Look(const Tensor& t) {
    const int64_t axis = axis_ + (axis_ < 0 ? t.rank() : 0);
    if (failed_ || axis < 0 || axis >= t.rank()) return Fail();
    const int64_t channels = t.dims()[size_t(axis)];
    int64_t inner = 1;
    for (size_t k = size_t(axis) + 1; k < t.dims().size(); ++k) inner *= t.dims()[k];
    if (stats_.low.empty()) {
      stats_.axis = axis;
      stats_.low.assign(size_t(channels), 0);
      stats_.high.assign(size_t(channels), 0);
      sums_.assign(size_t(channels), 0);
    }
    if (stats_.axis != axis || int64_t(sums_.size()) != channels) return Fail();
    if (t.num_elements() == 0) return;
    const float* v = t.data_as<float>();
    for (int64_t row = 0; row < t.num_elements() / inner; ++row) {
      const size_t c = size_t(row % channels);
      float low = stats_.low[c], high = stats_.high[c];
      double sum = 0;
      for (int64_t i = 0; i < inner; ++i, ++v) {
        low = std::min(low, *v);
        high = std::max(high, *v);
        sum += double(*v);
      }
      stats_.low[c] = low;
      stats_.high[c] = high;
      sums_[c] += sum;
    }
    count_ += t.num_elements() / channels;
  }
  /// Nothing where channels were not the same in all samples.
  std::optional<ChannelStats> Stats() const {
    if (failed_ || count_ == 0) return std::nullopt;
    ChannelStats s = stats_;
    for (const double sum : sums_) s.mean.push_back(float(sum / double(count_)));
    return s;
  }

 private:
  void Fail() { failed_ = true; }
  int64_t axis_, count_ = 0;
  bool failed_ = false;
  ChannelStats stats_;
  std::vector<double> sums_;
};

struct Observed {
  NodeEntry entry;
  RangeFinder range;
  ChannelSums channels;
};

std::vector<Observed> FindObserved(const Graph& g) {
  const auto& types = g.GetAttr<TypeMap>("dtype");
  std::map<EntryKey, size_t> seen;
  std::vector<Observed> all;
  for (const NodePtr& n : g.TopoOrder()) {
    const auto q = QuantizedOperandsOf(n);
    if (!q) continue;
    for (const size_t slot : q->activations) {
      const NodeEntry& e = n->inputs[slot];
      if (types[e].dtype != DType::kF32 || !types[e].is_tensor()) continue;
      const auto [it, fresh] = seen.emplace(e.key(), all.size());
      const int64_t axis = q->weight ? q->channel_axis : -1;
      if (fresh)
        all.push_back({e, {}, ChannelSums(axis)});
      else if (q->weight)
        all[it->second].channels = ChannelSums(axis);  // of a product rather than an addition
    }
  }
  return all;
}

}  // namespace

RangeMethod ParseRangeMethod(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [name, method] : kMethods) {
    if (text == name) return method;
    names.push_back(name);
  }
  ThrowError(ErrorCode::kUsage, fmt::format("there is no method '{}'", text), "calibration",
             "expected one of " + Join(names, ", "));
}

Graph Calibrate(Graph graph, const Samples& samples, const CalibrateOptions& options) {
  WEFT_CHECK(options.percentile > 50 && options.percentile <= 100, kUsage,
             "calibration: percentile = {}, expected a number above 50 and at most 100",
             options.percentile);
  if (samples.count == 0)
    ThrowError(ErrorCode::kBadInput, "there are no samples", "calibration",
               "give the inputs of some hundred runs, as the model sees them in use");
  graph = ProvideTypes(std::move(graph), options.compile.passes);
  std::vector<Observed> all = FindObserved(graph);
  std::vector<NodeEntry> entries;
  for (const Observed& o : all) entries.push_back(o.entry);
  ObservedRuns runs(graph, entries, options.compile);
  const bool counts = options.method != RangeMethod::kMinMax;
  for (int look = 0; look < (counts ? 2 : 1); ++look)
    for (size_t k = 0; k < samples.count; ++k) {
      const std::vector<TensorPtr> values = runs.Run(CheckedSample(samples, k));
      for (size_t i = 0; i < all.size(); ++i) {
        const Tensor& t = *values[i];
        if (look == 1) {
          all[i].range.Count(t.data_as<float>(), t.num_elements());
          continue;
        }
        int64_t at = 0;
        if (!all[i].range.Look(t.data_as<float>(), t.num_elements(), &at))
          ThrowError(ErrorCode::kBadInput, fmt::format("element {} is NaN in sample {}", at, k),
                     all[i].entry.node->Describe(),
                     "the model itself gives NaN: compare it on this sample with --layerwise");
        all[i].channels.Look(t);
      }
    }
  RangeMap ranges;
  ChannelMap channels;
  for (const Observed& o : all) {
    if (o.range.infinite()) continue;
    ranges.set(o.entry, o.range.Find(options.method, options.percentile));
    if (auto stats = o.channels.Stats()) channels.set(o.entry, *std::move(stats));
  }
  graph.SetAttr("range", std::move(ranges));
  graph.SetAttr("channels", std::move(channels));
  return graph;
}

}  // namespace weft
