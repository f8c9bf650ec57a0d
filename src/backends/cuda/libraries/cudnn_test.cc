/// cudnn_test.cc: what cuDNN is told and asked (src/backends/cuda/cudnn*.cc). A table of ours notes
/// every descriptor; any call may fail, and nothing may be left.
#include "backends/cuda/libraries/cudnn.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <set>

#include "backends/cuda/doubles/conv_spec.h"
#include "backends/cuda/doubles/failing_driver.h"
#include "backends/cuda/driver/device.h"
#include "backends/cuda/libraries/cudnn_graph.h"
#include "tests/support/e2e_util.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;
using namespace weft::cuda;
using Extents = std::vector<int64_t>;

struct FakeEngine {
  int64_t number = 0;
  std::vector<int> notes = {};
  int64_t workspace = 0;
  bool works = true;
};

struct FakeDescriptor {
  int type = 0;
  bool final = false;
  std::map<int, std::string> values;  ///< by attribute: the bytes of its elements
  FakeEngine engine;                  ///< of what cuDNN fills in
};

struct FakeCudnn {
  std::map<int, std::vector<FakeEngine>> engines;  ///< by mode
  int64_t calls = 0, failing = -1;                 ///< the number of the call that fails
  std::set<FakeDescriptor*> alive;
  int handles = 0;
  StreamHandle* stream = nullptr;
  std::vector<std::string> problems;
  std::vector<FakeDescriptor> graphs;  ///< tensors, operations ... of the last graph
  struct Run {
    int64_t engine;
    StreamHandle* stream;
    std::map<int64_t, void*> operands;
    void* workspace;
  };
  std::vector<Run> runs;

  static FakeCudnn& Get() {
    static FakeCudnn f;
    return f;
  }
  bool Fails() { return calls++ == failing; }
};
FakeCudnn& F() { return FakeCudnn::Get(); }
FakeDescriptor* Of(CudnnDescriptor d) { return static_cast<FakeDescriptor*>(d); }

template <class T>
std::vector<T> Values(const FakeDescriptor& d, int attribute) {
  const auto it = d.values.find(attribute);
  if (it == d.values.end()) return {};
  std::vector<T> v(it->second.size() / sizeof(T));
  std::memcpy(v.data(), it->second.data(), it->second.size());
  return v;
}
template <class T>
T Value(const FakeDescriptor& d, int attribute) {
  const std::vector<T> v = Values<T>(d, attribute);
  REQUIRE(v.size() == 1);
  return v[0];
}

size_t BytesOf(int type) {
  switch (type) {
    case cudnn::kBooleanType:
    case cudnn::kCharType:
      return 1;
    case cudnn::kInt64Type:
    case cudnn::kHandleType:
    case cudnn::kPointerType:
    case cudnn::kDescriptorType:
      return 8;
    default:
      return 4;
  }
}

constexpr int kBad = 2000, kUnsupportedGraph = 3000;

int Make(int type, CudnnDescriptor* d) {
  if (F().Fails()) return kBad;
  auto* made = new FakeDescriptor;
  made->type = type;
  F().alive.insert(made);
  *d = made;
  return 0;
}
int Drop(CudnnDescriptor d) {
  if (F().alive.erase(Of(d)) == 0) F().problems.push_back("a descriptor is dropped twice");
  delete Of(d);
  return 0;
}
int Set(CudnnDescriptor d, int attribute, int type, int64_t count, const void* elements) {
  if (F().Fails()) return kBad;
  if (Of(d)->final) F().problems.push_back("a final descriptor is changed");
  if (type == cudnn::kDescriptorType)
    for (int64_t i = 0; i < count; ++i) {
      FakeDescriptor* other = Of(static_cast<CudnnDescriptor const*>(elements)[i]);
      if (F().alive.count(other) == 0 || !other->final)
        F().problems.push_back("a descriptor is named that is not final");
      if (attribute == cudnn::kPlanConfig) Of(d)->engine = other->engine;
      if (attribute == cudnn::kGraphOperations) F().graphs.push_back(*other);
    }
  Of(d)->values[attribute].assign(static_cast<const char*>(elements),
                                  BytesOf(type) * size_t(count));
  return 0;
}
int Finalize(CudnnDescriptor d) {
  if (F().Fails()) return kBad;
  Of(d)->final = true;
  if (Of(d)->type == cudnn::kExecutionPlan && !Of(d)->engine.works) return kUnsupportedGraph;
  return 0;
}
int GetAttribute(CudnnDescriptor d, int attribute, int, int64_t room, int64_t* count, void* to) {
  if (F().Fails()) return kBad;
  FakeDescriptor& from = *Of(d);
  *count = 1;
  if (attribute == cudnn::kHeuristicResults) {
    const auto& engines = F().engines[Value<int>(from, cudnn::kHeuristicMode)];
    *count = int64_t(engines.size());
    for (int64_t i = 0; i < std::min(room, *count); ++i) {
      FakeDescriptor* config = Of(static_cast<CudnnDescriptor*>(to)[i]);
      config->engine = engines[size_t(i)];
      config->final = true;
    }
  } else if (attribute == cudnn::kConfigEngine) {
    Of(*static_cast<CudnnDescriptor*>(to))->engine = from.engine;
  } else if (attribute == cudnn::kEngineGlobalIndex) {
    *static_cast<int64_t*>(to) = from.engine.number;
  } else if (attribute == cudnn::kEngineNumericalNote) {
    *count = int64_t(from.engine.notes.size());
    std::copy(from.engine.notes.begin(), from.engine.notes.end(), static_cast<int*>(to));
  } else if (attribute == cudnn::kPlanWorkspace) {
    *static_cast<int64_t*>(to) = from.engine.workspace;
  } else {
    F().problems.push_back("an attribute is asked for that there is not");
  }
  return 0;
}
int Execute(CudnnHandle*, CudnnDescriptor plan, CudnnDescriptor pack) {
  if (F().Fails()) return 5000;
  FakeCudnn::Run run{Of(plan)->engine.number, F().stream, {}, nullptr};
  const Extents ids = Values<int64_t>(*Of(pack), cudnn::kPackIds);
  const std::vector<void*> at = Values<void*>(*Of(pack), cudnn::kPackPointers);
  REQUIRE(ids.size() == at.size());
  for (size_t i = 0; i < ids.size(); ++i) run.operands[ids[i]] = at[i];
  run.workspace = Value<void*>(*Of(pack), cudnn::kPackWorkspace);
  F().runs.push_back(run);
  return 0;
}

const CudnnApi& FakeTable() {
  static const CudnnApi api = [] {
    CudnnApi a;
    a.version = [] { return size_t{91900}; };
    a.create = [](CudnnHandle** h) {
      if (F().Fails()) return 1001;
      *h = reinterpret_cast<CudnnHandle*>(&F());
      ++F().handles;
      return 0;
    };
    a.destroy = [](CudnnHandle*) { return --F().handles, 0; };
    a.set_stream = [](CudnnHandle*, StreamHandle* s) {
      if (F().Fails()) return kBad;
      F().stream = s;
      return 0;
    };
    a.error_string = [](int r) { return r == 5000 ? "CUDNN_STATUS_EXECUTION_FAILED" : "BAD"; };
    a.last_error_string = [](char* text, size_t bytes) { std::strncpy(text, "because", bytes); };
    a.make = Make;
    a.drop = Drop;
    a.set = Set;
    a.get = GetAttribute;
    a.finalize = Finalize;
    a.execute = Execute;
    return a;
  }();
  return api;
}

/// A table without a past, and a device of the failing driver.
std::shared_ptr<Device> Ready() {
  REQUIRE(FailingDriver::Get().alive() == 0);
  FailingDriver::Get().Reset();
  FakeCudnn::Get() = {};
  F().engines = {{cudnn::kModeA, {{1, {}, 1024}}}, {cudnn::kFallback, {{2}}}};
  return Device::Open(0, FailingDriverTable());
}
void CheckClean() {
  CHECK(F().alive.empty());
  CHECK(F().handles == 0);
  for (const std::string& p : F().problems) FAIL_CHECK(p);
  CHECK(FailingDriver::Get().alive() == 0);
}

/// [2, 4, 5, 6] by [6, 2, 3, 2] in two groups, padded by 1 in front of and 2 behind the last axis.
ConvSpec Grouped(ConvSpec::Pass pass = ConvSpec::Pass::kForward, DType type = DType::kF16,
                 Layout layout = Layout::kPlain) {
  ConvSpec s = Spec(pass, type, layout, {2, 4, 5, 6}, {6, 2, 3, 2}, {2, 6, 2, 8}, 2);
  s.shape.window.strides = {2, 1};
  s.shape.window.begin = {0, 1};
  s.shape.window.end = {0, 2};
  return s;
}

FakeDescriptor At(const FakeDescriptor& d, int attribute) {
  return *Of(Value<CudnnDescriptor>(d, attribute));
}
struct Told {
  int64_t id;
  int type;
  Extents dims, strides;
};
bool operator==(const Told& a, const Told& b) {
  return a.id == b.id && a.type == b.type && a.dims == b.dims && a.strides == b.strides;
}
Told TensorAt(const FakeDescriptor& operation, int attribute) {
  const FakeDescriptor t = At(operation, attribute);
  CHECK(t.type == cudnn::kTensor);
  CHECK(Value<int64_t>(t, cudnn::kTensorAlignment) == 16);
  const auto id = Value<int64_t>(t, cudnn::kTensorId);
  CHECK((Value<char>(t, cudnn::kTensorIsVirtual) != 0) == (id > int64_t(kConvOperands)));
  return {id, Value<int>(t, cudnn::kTensorDataType), Values<int64_t>(t, cudnn::kTensorDims),
          Values<int64_t>(t, cudnn::kTensorStrides)};
}

}  // namespace

TEST_CASE("cudnn: a convolution and its gradients as they are told") {
  const auto device = Ready();
  std::string why;
  using namespace cudnn;
  {
    const auto e = FindEngine(FakeTable(), {}, Grouped(), 4096, &why);
    REQUIRE(e);
    REQUIRE(F().graphs.size() == 1);
    const FakeDescriptor& op = F().graphs[0];
    CHECK(op.type == kForwardOperation);
    CHECK(TensorAt(op, kForwardX) == Told{1, kHalf, {2, 4, 5, 6}, {120, 30, 6, 1}});
    CHECK(TensorAt(op, kForwardW) == Told{2, kHalf, {6, 2, 3, 2}, {12, 6, 2, 1}});
    CHECK(TensorAt(op, kForwardY) == Told{3, kHalf, {2, 6, 2, 8}, {96, 16, 8, 1}});
    CHECK(Value<float>(op, kForwardAlpha) == 1.f);
    CHECK(Value<float>(op, kForwardBeta) == 0.f);
    const FakeDescriptor c = At(op, kForwardConv);
    CHECK(Value<int>(c, kConvComputeType) == kFloat);
    CHECK(Value<int>(c, kConvMode) == kCrossCorrelation);
    CHECK(Value<int64_t>(c, kConvSpatialDims) == 2);
    CHECK(Values<int64_t>(c, kConvStrides) == Extents{2, 1});
    CHECK(Values<int64_t>(c, kConvDilations) == Extents{1, 1});
    CHECK(Values<int64_t>(c, kConvPrePaddings) == Extents{0, 1});
    CHECK(Values<int64_t>(c, kConvPostPaddings) == Extents{0, 2});
    CHECK(e->workspace_bytes == 1024);
  }
  F().graphs.clear();
  {
    const auto e = FindEngine(
        FakeTable(), {}, Grouped(ConvSpec::Pass::kGradData, DType::kBF16, Layout::kChannelsLast),
        4096, &why);
    REQUIRE(e);
    const FakeDescriptor& op = F().graphs[0];
    CHECK(op.type == kGradDataOperation);
    CHECK(TensorAt(op, kGradDataDx) == Told{1, kBfloat16, {2, 4, 5, 6}, {120, 1, 24, 4}});
    CHECK(TensorAt(op, kGradDataW) == Told{2, kBfloat16, {6, 2, 3, 2}, {12, 1, 4, 2}});
    CHECK(TensorAt(op, kGradDataDy) == Told{3, kBfloat16, {2, 6, 2, 8}, {96, 1, 48, 6}});
  }
  F().graphs.clear();
  {
    // One axis becomes two.
    const auto e = FindEngine(FakeTable(), {},
                              Spec(ConvSpec::Pass::kGradWeight, DType::kF32, Layout::kPlain,
                                   {2, 3, 7}, {5, 3, 4}, {2, 5, 4}),
                              4096, &why);
    REQUIRE(e);
    const FakeDescriptor& op = F().graphs[0];
    CHECK(op.type == kGradWeightOperation);
    CHECK(TensorAt(op, kGradWeightX) == Told{1, kFloat, {2, 3, 1, 7}, {21, 7, 7, 1}});
    CHECK(TensorAt(op, kGradWeightDw) == Told{2, kFloat, {5, 3, 1, 4}, {12, 4, 4, 1}});
    CHECK(TensorAt(op, kGradWeightDy) == Told{3, kFloat, {2, 5, 1, 4}, {20, 4, 4, 1}});
    CHECK(Value<int64_t>(At(op, kGradWeightConv), kConvSpatialDims) == 2);
  }
  CHECK(F().alive.empty());
}

TEST_CASE("cudnn: what follows a convolution is told in its order, and never stored in between") {
  const auto device = Ready();
  std::string why;
  using namespace cudnn;
  ConvSpec s = Grouped(ConvSpec::Pass::kForward, DType::kF16, Layout::kChannelsLast);
  s.bias = s.addend = true;
  const auto e = FindEngine(FakeTable(), {}, s, 4096, &why);
  REQUIRE(e);
  REQUIRE(F().graphs.size() == 3);
  const std::vector<FakeDescriptor>& ops = F().graphs;
  const Extents y{2, 6, 2, 8}, last{96, 1, 48, 6};
  CHECK(TensorAt(ops[0], kForwardY) == Told{6, kFloat, y, last});
  CHECK(TensorAt(ops[1], kPointwiseOperationX).id == 6);
  CHECK(TensorAt(ops[1], kPointwiseOperationB) == Told{5, kHalf, y, last});
  const int64_t sum = TensorAt(ops[1], kPointwiseOperationY).id;
  CHECK(TensorAt(ops[2], kPointwiseOperationX).id == sum);
  CHECK(TensorAt(ops[2], kPointwiseOperationB) == Told{4, kHalf, {1, 6, 1, 1}, {6, 1, 6, 6}});
  CHECK(TensorAt(ops[2], kPointwiseOperationY) == Told{3, kHalf, y, last});
  for (size_t i = 0; i < 2; ++i) {
    const FakeDescriptor p = At(ops[i + 1], kPointwiseOperationPointwise);
    CHECK(Value<int>(p, cudnn::kPointwiseMode) == kAdd);
    CHECK(Value<int>(p, kPointwisePrecision) == kFloat);
  }
}

TEST_CASE("cudnn: the first engine that is exact enough, small enough, works, and repeats itself") {
  const auto device = Ready();
  std::string why;
  using namespace cudnn;
  const auto chosen = [&](std::vector<FakeEngine> a, std::vector<FakeEngine> fallback,
                          DType type = DType::kF32, bool tf32 = false) {
    F().engines = {{kModeA, std::move(a)}, {kFallback, std::move(fallback)}};
    ConvSpec s = Grouped(ConvSpec::Pass::kForward, type);
    s.tf32 = tf32;
    const auto e = FindEngine(FakeTable(), {}, s, 1000, &why);
    return e ? e->number : -1;
  };
  CHECK(chosen({{1, {kTensorCore}}, {2, {kDownConvertInputs}}, {3}}, {}) == 3);
  CHECK(chosen({{1, {kTensorCore}}, {3}}, {}, DType::kF32, true) == 1);
  CHECK(chosen({{1, {kTensorCore}}, {3}}, {}, DType::kF16) == 1);
  CHECK(chosen({{1, {kTensorCore, kReducedPrecisionReduction}}, {3}}, {}, DType::kF16) == 3);
  CHECK(chosen({{1, {}, 1001}, {3, {}, 1000}}, {}) == 3);
  CHECK(chosen({{1, {}, 0, false}, {3}}, {}) == 3);
  CHECK(chosen({{1, {kNondeterministic}}, {3}}, {}) == 3);
  CHECK(chosen({{1, {kNondeterministic}}}, {{4}}) == 4);
  CHECK(chosen({{1, {kNondeterministic}}}, {{4, {kTensorCore}}}) == 1);
  CHECK(chosen({{1, {kTensorCore}}}, {{4, {}, 2000}}) == -1);
  CHECK(why.find("of 2 engines 1 are exact enough") != std::string::npos);
  CHECK(chosen({}, {}) == -1);
  // One that does not tell its number, its notes or its workspace, or cannot be made, is passed by.
  F().calls = 0;
  CHECK(chosen({{1}, {3}}, {}) == 1);
  int passed_by = 0;
  for (int64_t n = 0, calls = F().calls; n < calls; ++n) {
    F().calls = 0;
    F().failing = n;
    int64_t number = 0;
    Catch([&] { number = chosen({{1}, {3}}, {}); });
    passed_by += number == 3;
  }
  CHECK(passed_by == 3 + 1 + 1);
  CHECK(F().alive.empty());
  CHECK(F().problems.empty());
}

TEST_CASE("cudnn: plans are shared, and run in the stream that they are given") {
  {
    const auto device = Ready();
    Cudnn library(device, FakeTable());
    ConvSpec s = Grouped();
    s.bias = true;
    const auto plan = library.Plan(s);
    REQUIRE(bool(plan));
    const int64_t calls = F().calls;
    CHECK((library.Plan(s) == plan));
    CHECK(F().calls == calls);
    CHECK((library.Plan(Grouped()) != plan));
    CHECK(plan->workspace_bytes() == 1024);
    CHECK(plan->description() == "cudnn conv f16 + bias engine 1");
    int x = 0, w = 0, y = 0, b = 0, space = 0;
    void* const at[] = {&x, &w, &y, &b, nullptr};
    auto* stream = reinterpret_cast<StreamHandle*>(&space);
    plan->Run(stream, at, &space);
    REQUIRE(F().runs.size() == 1);
    CHECK((F().runs[0].stream == stream));
    CHECK((F().runs[0].workspace == &space));
    const std::map<int64_t, void*> want{{1, &x}, {2, &w}, {3, &y}, {4, &b}};
    CHECK((F().runs[0].operands == want));
    F().failing = F().calls + 6;  // behind the pack and the stream
    const auto caught = Catch([&] { plan->Run(stream, at, &space); });
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kDevice);
    CHECK(caught->says("CUDNN_STATUS_EXECUTION_FAILED: because"));
    // There is no engine: it is looked for once.
    F().engines.clear();
    ConvSpec other = s;
    other.tf32 = !s.tf32;
    CHECK_FALSE(bool(library.Plan(other)));
    const int64_t looked = F().calls;
    CHECK_FALSE(bool(library.Plan(other)));
    CHECK(F().calls == looked);
  }
  CheckClean();
}

TEST_CASE("cudnn: any call that fails leaves nothing, and the next request is served") {
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kOff);
  ConvSpec s = Grouped();
  s.bias = s.addend = true;
  int failures = 0;
  for (int64_t n = 0; n < 1000; ++n) {
    bool failed = false;
    {
      const auto device = Ready();
      F().engines[cudnn::kModeA] = {{1, {cudnn::kNondeterministic}}, {5, {}, 0, false}, {6}};
      Cudnn library(device, FakeTable());
      F().failing = n;
      const auto plan = library.Plan(s);
      // Engines that cannot be made are passed by, others are reported and may
      // succeed the next time.
      failed = F().calls > n;
      if (n > 0 && failed) CHECK(bool(library.Plan(Grouped())));
      if (!failed) CHECK(bool(plan));
    }
    CAPTURE(n);
    CheckClean();
    if (!failed) break;
    ++failures;
  }
  SetLogLevel(before);
  CHECK(failures > 100);
}

TEST_CASE("cudnn: no library") {
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kOff);
  {
    const auto device = Ready();
    CudnnApi none;
    none.error = "cuDNN was not found";
    Cudnn library(device, none);
    CHECK_FALSE(bool(library.Plan(Grouped())));
    CHECK_FALSE(bool(library.Plan(Grouped())));
  }
  SetLogLevel(before);
  CheckClean();
}
