/// cudnn_graph.cc: see cudnn_graph.h.
///
///   forward      x, w -> convolution -> (+ addend) -> (+ bias) -> y
///   grad data    y's gradient, w -> x's gradient
///   grad weight  x, y's gradient -> w's gradient
///
/// Intermediate results are never stored. Groups are not passed: cuDNN reads them off the channels
/// of x and w.
#include "cudnn_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/strings.h"

namespace weft::cuda {
namespace {

using namespace cudnn;
using Dims = std::vector<int64_t>;

/// What the driver allocates, and offsets of arenas, are multiples of more.
constexpr int64_t kAlignment = 16;

/// With one spatial axis more where there is but one: cuDNN has engines for two and three.
Dims AtLeastTwo(Dims list, int64_t one, size_t axes_before) {
  if (list.size() == axes_before + 1) list.insert(list.begin() + std::ptrdiff_t(axes_before), one);
  return list;
}

Dims StridesOf(const Dims& dims, Layout layout) {
  Dims strides(dims.size());
  int64_t step = 1;
  const auto take = [&](size_t axis) {
    strides[axis] = step;
    step = CheckedMul(step, dims[axis]);
  };
  if (layout == Layout::kChannelsLast) take(1);
  for (size_t k = dims.size(); k-- > 2;) take(k);
  if (layout == Layout::kPlain) take(1);
  take(0);
  return strides;
}

class GraphMaker {
 public:
  GraphMaker(const CudnnApi& api, const ConvSpec& spec, std::vector<CudnnObject>* parts)
      : api_(api), s_(spec), parts_(parts) {}

  /// The graph, in parts_.
  CudnnDescriptor Make(CudnnHandle* handle) {
    const ConvShape& c = s_.shape;
    const Dims x = AtLeastTwo(c.source(c.images), 1, 2), y = AtLeastTwo(c.result(c.images), 1, 2);
    Dims w{c.filters, c.channels / c.groups};
    w.insert(w.end(), c.window.kernel.begin(), c.window.kernel.end());
    w = AtLeastTwo(w, 1, 2);
    const CudnnDescriptor xt = Tensor(0, x, s_.x_layout), wt = Tensor(1, w, s_.w_layout);
    const size_t follow = size_t(s_.addend) + size_t(s_.bias);
    CudnnDescriptor yt = follow > 0 ? Virtual(y) : Tensor(2, y, s_.y_layout);
    Convolution(xt, wt, yt);
    size_t done = 0;
    const auto next = [&] { return ++done == follow ? Tensor(2, y, s_.y_layout) : Virtual(y); };
    const auto add = [&](CudnnDescriptor other) {
      const CudnnDescriptor to = next();
      Add(yt, other, to);
      yt = to;
    };
    if (s_.addend) add(Tensor(4, y, s_.y_layout));
    if (s_.bias) {
      Dims b(y.size(), 1);
      b[1] = c.filters;
      add(Tensor(3, b, s_.y_layout));
    }
    CudnnObject& g = Part(kOperationGraph);
    g.Set(kGraphOperations, kDescriptorType, int64_t(operations_.size()), operations_.data());
    if (handle) g.Set(kGraphHandle, kHandleType, handle);
    if (!g.TryFinalize()) return nullptr;
    return g.raw();
  }

 private:
  CudnnObject& Part(DescriptorType type) {
    parts_->emplace_back(api_, type);
    return parts_->back();
  }
  CudnnDescriptor MakeTensor(int64_t id, DataType type, const Dims& dims, Layout layout,
                             bool is_virtual) {
    CudnnObject& t = Part(kTensor);
    t.Set(kTensorDataType, kDataTypeType, type);
    t.Set(kTensorDims, dims);
    t.Set(kTensorStrides, StridesOf(dims, layout));
    t.Set(kTensorId, kInt64Type, id);
    t.Set(kTensorAlignment, kInt64Type, kAlignment);
    t.Set(kTensorIsVirtual, kBooleanType, is_virtual);
    t.Finalize();
    return t.raw();
  }
  CudnnDescriptor Tensor(int64_t operand, const Dims& dims, Layout layout) {
    const std::optional<DataType> type = CudnnTypeOf(s_.type);
    WEFT_ICHECK(type, "a convolution of {} was given to cuDNN", DTypeName(s_.type));
    return MakeTensor(kFirstOperand + operand, *type, dims, layout, false);
  }
  /// Between two operations, as exact as the sums are.
  CudnnDescriptor Virtual(const Dims& dims) {
    return MakeTensor(kFirstOperand + int64_t(kConvOperands) + int64_t(operations_.size()), kFloat,
                      dims, s_.y_layout, true);
  }

  void Convolution(CudnnDescriptor x, CudnnDescriptor w, CudnnDescriptor y) {
    const WindowShape& window = s_.shape.window;
    CudnnObject& c = Part(kConvolution);
    const Dims strides = AtLeastTwo(window.strides, 1, 0);
    c.Set(kConvComputeType, kDataTypeType, kFloat);
    c.Set(kConvMode, kConvModeType, kCrossCorrelation);
    c.Set(kConvSpatialDims, kInt64Type, int64_t(strides.size()));
    c.Set(kConvStrides, strides);
    c.Set(kConvDilations, AtLeastTwo(window.dilations, 1, 0));
    c.Set(kConvPrePaddings, AtLeastTwo(window.begin, 0, 0));
    c.Set(kConvPostPaddings, AtLeastTwo(window.end, 0, 0));
    c.Finalize();
    const CudnnDescriptor conv = c.raw();
    struct Names {
      DescriptorType type;
      Attribute conv, x, w, y, alpha, beta;
    };
    const Names names[] = {{kForwardOperation, kForwardConv, kForwardX, kForwardW, kForwardY,
                            kForwardAlpha, kForwardBeta},
                           {kGradDataOperation, kGradDataConv, kGradDataDx, kGradDataW, kGradDataDy,
                            kGradDataAlpha, kGradDataBeta},
                           {kGradWeightOperation, kGradWeightConv, kGradWeightX, kGradWeightDw,
                            kGradWeightDy, kGradWeightAlpha, kGradWeightBeta}};
    const Names& n = names[size_t(s_.pass)];
    CudnnObject& o = Part(n.type);
    o.Set(n.conv, kDescriptorType, conv);
    o.Set(n.x, kDescriptorType, x);
    o.Set(n.w, kDescriptorType, w);
    o.Set(n.y, kDescriptorType, y);
    o.Set(n.alpha, kFloatType, 1.f);
    o.Set(n.beta, kFloatType, 0.f);
    o.Finalize();
    operations_.push_back(o.raw());
  }

  void Add(CudnnDescriptor x, CudnnDescriptor other, CudnnDescriptor y) {
    CudnnObject& p = Part(kPointwise);
    p.Set(kPointwiseMode, kPointwiseModeType, kAdd);
    p.Set(kPointwisePrecision, kDataTypeType, kFloat);
    p.Finalize();
    const CudnnDescriptor pointwise = p.raw();
    CudnnObject& o = Part(kPointwiseOperation);
    o.Set(kPointwiseOperationPointwise, kDescriptorType, pointwise);
    o.Set(kPointwiseOperationX, kDescriptorType, x);
    o.Set(kPointwiseOperationB, kDescriptorType, other);
    o.Set(kPointwiseOperationY, kDescriptorType, y);
    o.Finalize();
    operations_.push_back(o.raw());
  }

  const CudnnApi& api_;
  const ConvSpec& s_;
  std::vector<CudnnObject>* parts_;
  std::vector<CudnnDescriptor> operations_;
};

std::vector<CudnnObject> Configs(const CudnnApi& api, const CudnnPlace& place,
                                 CudnnDescriptor graph, HeuristicMode mode) {
  CudnnObject h(api, kHeuristic);
  h.Set(kHeuristicGraph, kDescriptorType, graph);
  h.Set(cudnn::kHeuristicMode, kHeuristicModeType, mode);
  if (place.described) h.Set(kHeuristicDevice, *place.described);
  if (!h.TryFinalize()) return {};
  int64_t count = 0;
  if (api.get(h.raw(), kHeuristicResults, kDescriptorType, 0, &count, nullptr) != 0) return {};
  std::vector<CudnnObject> configs;
  std::vector<CudnnDescriptor> raw;
  for (int64_t i = 0; i < count; ++i) {
    configs.emplace_back(api, kEngineConfig);
    raw.push_back(configs.back().raw());
  }
  CheckCudnn(api, api.get(h.raw(), kHeuristicResults, kDescriptorType, count, &count, raw.data()),
             "the engines of a convolution");
  configs.resize(size_t(std::max<int64_t>(count, 0)));
  return configs;
}

struct EngineFacts {
  int64_t number = 0;
  std::vector<int> notes;
  bool has(NumericalNote n) const {
    return std::find(notes.begin(), notes.end(), int(n)) != notes.end();
  }
};
/// Nothing where cuDNN does not tell: a part of it is missing, and with it those of its engines.
std::optional<EngineFacts> FactsOf(const CudnnApi& api, const CudnnObject& config) {
  EngineFacts facts;
  CudnnObject engine(api, kEngine);
  CudnnDescriptor raw = engine.raw();
  int64_t count = 0;
  facts.notes.resize(size_t(kNumNotes));
  if (api.get(config.raw(), kConfigEngine, kDescriptorType, 1, &count, &raw) != 0 ||
      api.get(raw, kEngineGlobalIndex, kInt64Type, 1, &count, &facts.number) != 0 ||
      api.get(raw, kEngineNumericalNote, kNumericalNoteType, kNumNotes, &count,
              facts.notes.data()) != 0)
    return std::nullopt;
  facts.notes.resize(size_t(std::clamp<int64_t>(count, 0, kNumNotes)));
  return facts;
}

/// Sums in float32 of operands as they are.
bool IsExactEnough(const EngineFacts& f, const ConvSpec& s) {
  if (f.has(kReducedPrecisionReduction)) return false;
  if (s.type != DType::kF32 || s.tf32) return true;
  return !f.has(kTensorCore) && !f.has(kDownConvertInputs);
}

}  // namespace

void CheckCudnn(const CudnnApi& api, CudnnResult r, const char* what) {
  if (r == 0) return;
  char text[512] = {};
  api.last_error_string(text, sizeof(text) - 1);
  const char* name = api.error_string(r);
  WEFT_THROW(kDevice, "cuDNN: {}: {}{}{}", what, name ? name : "unknown result",
             text[0] ? ": " : "", text);
}

CudnnObject::CudnnObject(const CudnnApi& api, DescriptorType type) : api_(&api) {
  CheckCudnn(api, api.make(type, &raw_), "cudnnBackendCreateDescriptor");
}
CudnnObject::~CudnnObject() {
  if (raw_) api_->drop(raw_);
}
void CudnnObject::Set(Attribute a, AttributeType type, int64_t count, const void* elements) {
  const CudnnResult r = api_->set(raw_, a, type, count, elements);
  if (r != 0) CheckCudnn(*api_, r, fmt::format("attribute {}", int(a)).c_str());
}
void CudnnObject::Finalize() { CheckCudnn(*api_, api_->finalize(raw_), "cudnnBackendFinalize"); }
bool CudnnObject::TryFinalize() { return api_->finalize(raw_) == 0; }

std::optional<DataType> CudnnTypeOf(DType t) {
  switch (FormatOf(t)) {
    case FloatFormat::kF32:
      return kFloat;
    case FloatFormat::kF16:
      return kHalf;
    case FloatFormat::kBF16:
      return kBfloat16;
    case FloatFormat::kF64:
    case FloatFormat::kNone:
      break;
  }
  return std::nullopt;
}

std::optional<CudnnEngine> FindEngine(const CudnnApi& api, const CudnnPlace& place,
                                      const ConvSpec& spec, int64_t most_workspace,
                                      std::string* why) {
  CudnnEngine found;
  const CudnnDescriptor graph = GraphMaker(api, spec, &found.parts).Make(place.handle);
  if (!graph) {
    *why = "it takes no such graph";
    return std::nullopt;
  }
  struct Candidate {
    CudnnObject config;
    int64_t number;
    bool repeatable;
  };
  int known = 0, exact = 0;
  std::vector<Candidate> later;
  const auto take = [&](Candidate& c) {
    CudnnObject plan(api, kExecutionPlan);
    if (place.handle) plan.Set(kPlanHandle, kHandleType, place.handle);
    if (place.described) plan.Set(kPlanDevice, *place.described);
    plan.Set(kPlanConfig, c.config);
    if (!plan.TryFinalize()) return false;
    int64_t bytes = 0, count = 0;
    if (api.get(plan.raw(), kPlanWorkspace, kInt64Type, 1, &count, &bytes) != 0 ||
        bytes > most_workspace)
      return false;
    found.parts.push_back(std::move(c.config));
    found.plan = std::move(plan);
    found.workspace_bytes = bytes;
    found.number = c.number;
    return true;
  };
  for (const HeuristicMode mode : {kModeA, kFallback})
    for (CudnnObject& config : Configs(api, place, graph, mode)) {
      const std::optional<EngineFacts> facts = FactsOf(api, config);
      if (!facts) continue;
      ++known;
      if (!IsExactEnough(*facts, spec)) continue;
      ++exact;
      Candidate c{std::move(config), facts->number, !facts->has(kNondeterministic)};
      if (!c.repeatable)
        later.push_back(std::move(c));
      else if (take(c))
        return found;
    }
  for (Candidate& c : later)
    if (take(c)) return found;
  *why = fmt::format("of {} engines {} are exact enough, and none of those can be made within {}",
                     known, exact, FormatBytes(most_workspace));
  return std::nullopt;
}

}  // namespace weft::cuda
