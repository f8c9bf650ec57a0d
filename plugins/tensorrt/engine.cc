/// engine.cc: a region as TensorRT builds it; see engine.h.
#include "engine.h"

#include <NvOnnxParser.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "library.h"
#include "timing_cache.h"

namespace weft_tensorrt {
namespace {

using nvinfer1::DataType;

DataType TypeFor(WeftDType t) {
  switch (t) {
    case WEFT_F32:
      return DataType::kFLOAT;
    case WEFT_F16:
      return DataType::kHALF;
    case WEFT_BF16:
      return DataType::kBF16;
    case WEFT_I32:
      return DataType::kINT32;
    case WEFT_I64:
      return DataType::kINT64;
    case WEFT_BOOL:
      return DataType::kBOOL;
    default:
      throw Failure{WEFT_E_UNSUPPORTED, "TensorRT has no tensors of element type " +
                                            std::to_string(t) + " that hold what ONNX means"};
  }
}

Operand OperandOf(const WeftGraph* graph, WeftEntry e, std::string name,
                  const ExtentRanges& ranges) {
  WeftDim dims[nvinfer1::Dims::MAX_DIMS] = {};
  int32_t rank = -1;
  Operand o;
  o.name = std::move(name);
  Check(weft->graph_type(graph, e, &o.dtype, &rank, dims, nvinfer1::Dims::MAX_DIMS));
  if (rank < 0 || rank > nvinfer1::Dims::MAX_DIMS)
    throw Failure{WEFT_E_UNSUPPORTED, "TensorRT takes tensors of rank 0 to 8, " + o.name + " has " +
                                          (rank < 0 ? "an unknown one" : std::to_string(rank))};
  for (int32_t d = 0; d < rank; ++d) {
    int64_t value = 0;
    if (!dims[d]) throw Failure{WEFT_E_UNSUPPORTED, o.name + " has an unknown extent"};
    if (weft->dim_value(dims[d], &value))
      o.dims.push_back({value, value, value});
    else
      o.dims.push_back(ranges.Of(weft->dim_text(dims[d])));
  }
  return o;
}

/// What the extents of an output are follows from those of the inputs; a profile wants none.
Operand OutputOf(const WeftGraph* graph, WeftEntry e, std::string name) {
  constexpr int64_t kMost = int64_t{1} << 40;
  WeftDim dims[nvinfer1::Dims::MAX_DIMS] = {};
  int32_t rank = -1;
  Operand o;
  o.name = std::move(name);
  Check(weft->graph_type(graph, e, &o.dtype, &rank, dims, nvinfer1::Dims::MAX_DIMS));
  if (rank < 0 || rank > nvinfer1::Dims::MAX_DIMS)
    throw Failure{WEFT_E_UNSUPPORTED, o.name + " has a rank that TensorRT has no tensors of"};
  for (int32_t d = 0; d < rank; ++d) {
    int64_t value = 0;
    if (dims[d] && weft->dim_value(dims[d], &value))
      o.dims.push_back({value, value, value});
    else
      o.dims.push_back({0, 0, kMost});
  }
  return o;
}

nvinfer1::Dims DimsAt(const Operand& o, int64_t Extent::*which) {
  nvinfer1::Dims dims{};
  dims.nbDims = int32_t(o.dims.size());
  for (size_t d = 0; d < o.dims.size(); ++d) dims.d[d] = o.dims[d].*which;
  return dims;
}

/// What the parser says of a model that it does not take.
std::string ErrorsOf(const nvonnxparser::IParser& parser) {
  std::string text;
  constexpr int kMost = 4;
  for (int i = 0; i < std::min(parser.getNbErrors(), kMost); ++i) {
    const nvonnxparser::IParserError* e = parser.getError(i);
    if (!e) continue;
    const std::string op = e->nodeOperator() ? e->nodeOperator() : "";
    const std::string node = e->nodeName() ? e->nodeName() : "";
    text += "; ";
    if (!op.empty()) text += op + " '" + node + "': ";
    text += e->desc() ? e->desc() : "";
  }
  return text.empty() ? "; it says no reason" : text;
}

std::string KeyOf(const Settings& settings, int device) {
  return "TensorRT " + Library::Get().version() + ", " + Driver::Get().NameOf(device) + ", " +
         settings.Key();
}

// ---- what Export writes: a line of text each, then the plan ----
//   weft tensorrt 1
//   TensorRT 10.13.0, NVIDIA H100 (sm_90), tf32=0 ..
//   plan 123456 0f1e2d3c4b5a6978           bytes, and what they sum up to

constexpr const char* kMagic = "weft tensorrt 1";

/// FNV-1a, in words. Finds damage, not malice.
uint64_t SumOf(const char* data, size_t size) {
  uint64_t sum = 0xcbf29ce484222325u;
  const auto add = [&](uint64_t word) {
    sum = (sum ^ word) * 0x100000001b3u;
    sum ^= sum >> 29;
  };
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + i, 8);
    add(word);
  }
  for (; i < size; ++i) add(static_cast<unsigned char>(data[i]));
  return sum;
}

std::string PlanLine(const char* plan, size_t size) {
  char text[64];
  std::snprintf(text, sizeof text, "plan %zu %016llx", size,
                static_cast<unsigned long long>(SumOf(plan, size)));
  return text;
}

}  // namespace

bool Operand::is_fixed() const {
  return std::all_of(dims.begin(), dims.end(), [](const Extent& e) { return e.is_fixed(); });
}

Engine::Engine(const WeftRegion* region)
    : settings_(region->options), device_(Driver::Get().DeviceInUse()) {
  const ExtentRanges ranges(settings_.extents);
  const WeftGraph* const g = region->graph;
  for (size_t i = 0; i < weft->graph_num_inputs(g); ++i)
    inputs_.push_back(OperandOf(g, weft->graph_input(g, i), "x" + std::to_string(i), ranges));
  for (size_t i = 0; i < weft->graph_num_outputs(g); ++i)
    outputs_.push_back(OutputOf(g, weft->graph_output(g, i), "y" + std::to_string(i)));
}

Engine::~Engine() {
  try {
    const Driver::Current current(device_);
    engine_.reset();
    runtime_.reset();
  } catch (const Failure&) {  // the device is gone, and what was on it
  }
}

std::unique_ptr<Engine> Engine::Build(const WeftRegion* region) {
  std::unique_ptr<Engine> e(new Engine(region));
  const Driver::Current current(e->device_);
  const std::unique_ptr<nvinfer1::IHostMemory> plan = e->BuildPlan(region);
  e->Load(plan->data(), plan->size(), WEFT_E_UNSUPPORTED);
  return e;
}

std::unique_ptr<nvinfer1::IHostMemory> Engine::BuildPlan(const WeftRegion* region) {
  const void* model = nullptr;
  size_t model_bytes = 0;
  Check(weft->graph_onnx(region->graph, &model, &model_bytes));

  const ErrorLog log;
  const std::unique_ptr<nvinfer1::IBuilder> builder = Library::Get().NewBuilder();
  if (!builder) log.Fail(WEFT_E_DEVICE, "TensorRT's builder does not start");
  builder->setMaxThreads(std::max(region->threads, 1));
  // Strongly typed: every layer computes in the types of the graph, and no others.
  const bool may_round = settings_.fp16 || settings_.bf16;
  const uint32_t typed = 1u << uint32_t(nvinfer1::NetworkDefinitionCreationFlag::kSTRONGLY_TYPED);
  const std::unique_ptr<nvinfer1::INetworkDefinition> network(
      builder->createNetworkV2(may_round ? 0u : typed));
  if (!network) log.Fail(WEFT_E_DEVICE, "TensorRT makes no network");
  // Lives until the plan is built: the network's weights are its own.
  const std::unique_ptr<nvonnxparser::IParser> parser = Library::Get().NewParser(*network);
  if (!parser) log.Fail(WEFT_E_DEVICE, "TensorRT's ONNX parser does not start");
  if (!parser->parse(model, model_bytes))
    throw Failure{WEFT_E_UNSUPPORTED, "TensorRT's parser refuses the region" + ErrorsOf(*parser)};

  for (int32_t i = 0; i < network->getNbInputs() + network->getNbOutputs(); ++i) {
    const bool is_input = i < network->getNbInputs();
    nvinfer1::ITensor* const t =
        is_input ? network->getInput(i) : network->getOutput(i - network->getNbInputs());
    // A build takes minutes: what cannot be run is found before.
    if (t->isShapeTensor())
      throw Failure{WEFT_E_UNSUPPORTED, std::string(t->getName()) +
                                            " holds extents, which TensorRT wants in host memory"};
    t->setAllowedFormats(1u << uint32_t(nvinfer1::TensorFormat::kLINEAR));
  }

  const std::unique_ptr<nvinfer1::IBuilderConfig> config(builder->createBuilderConfig());
  if (!config) log.Fail(WEFT_E_DEVICE, "TensorRT makes no configuration");
  if (settings_.tf32)
    config->setFlag(nvinfer1::BuilderFlag::kTF32);
  else
    config->clearFlag(nvinfer1::BuilderFlag::kTF32);  // on, unless somebody says so
  if (settings_.fp16) config->setFlag(nvinfer1::BuilderFlag::kFP16);
  if (settings_.bf16) config->setFlag(nvinfer1::BuilderFlag::kBF16);
  config->setBuilderOptimizationLevel(int32_t(settings_.level));
  if (settings_.workspace_mib > 0)
    config->setMemoryPoolLimit(nvinfer1::MemoryPoolType::kWORKSPACE, size_t(settings_.workspace_mib)
                                                                         << 20);
  const std::unique_ptr<nvinfer1::ITimingCache> cache =
      OpenTimingCache(settings_.timing_cache, config.get());

  nvinfer1::IOptimizationProfile* profile = nullptr;  // the builder's
  for (const Operand& o : inputs_) {
    if (o.is_fixed()) continue;
    if (!profile) profile = builder->createOptimizationProfile();
    if (!profile) log.Fail(WEFT_E_UNSUPPORTED, "TensorRT makes no optimization profile");
    using nvinfer1::OptProfileSelector;
    if (!profile->setDimensions(o.name.c_str(), OptProfileSelector::kMIN,
                                DimsAt(o, &Extent::min)) ||
        !profile->setDimensions(o.name.c_str(), OptProfileSelector::kOPT,
                                DimsAt(o, &Extent::opt)) ||
        !profile->setDimensions(o.name.c_str(), OptProfileSelector::kMAX, DimsAt(o, &Extent::max)))
      log.Fail(WEFT_E_UNSUPPORTED, "TensorRT refuses the ranges of " + o.name);
  }
  if (profile && config->addOptimizationProfile(profile) < 0)
    log.Fail(WEFT_E_UNSUPPORTED, "TensorRT refuses the ranges of extents");

  std::unique_ptr<nvinfer1::IHostMemory> plan(builder->buildSerializedNetwork(*network, *config));
  if (!plan) log.Fail(WEFT_E_UNSUPPORTED, "TensorRT cannot build the region");
  if (cache) SaveTimingCache(settings_.timing_cache, config.get());
  return plan;
}

void Engine::Load(const void* plan, size_t size, int32_t status) {
  const ErrorLog log;
  runtime_ = Library::Get().NewRuntime();
  if (!runtime_) log.Fail(WEFT_E_DEVICE, "TensorRT's runtime does not start");
  engine_.reset(runtime_->deserializeCudaEngine(plan, size));
  if (!engine_) log.Fail(status, "TensorRT cannot load the engine");
  CheckAgainstRegion();
}

void Engine::CheckAgainstRegion() {
  const auto wrong = [](const std::string& what) {
    throw Failure{WEFT_E_UNSUPPORTED, "the engine does not fit the region: " + what};
  };
  size_t outputs = 0;
  for (int32_t i = 0; i < engine_->getNbIOTensors(); ++i) {
    const char* const name = engine_->getIOTensorName(i);
    const bool is_input = engine_->getTensorIOMode(name) == nvinfer1::TensorIOMode::kINPUT;
    const std::vector<Operand>& all = is_input ? inputs_ : outputs_;
    const auto o =
        std::find_if(all.begin(), all.end(), [&](const Operand& x) { return x.name == name; });
    if (o == all.end()) wrong("it has an operand " + std::string(name));
    outputs += !is_input;
    known_.push_back(&*o);
    if (engine_->getTensorDataType(name) != TypeFor(o->dtype))
      wrong("another element type of " + o->name);
    if (engine_->getTensorLocation(name) != nvinfer1::TensorLocation::kDEVICE)
      wrong(o->name + " holds extents, which TensorRT wants in host memory");
    if (engine_->getTensorFormat(name) != nvinfer1::TensorFormat::kLINEAR)
      wrong(o->name + " is not row-major");
    const nvinfer1::Dims dims = engine_->getTensorShape(name);
    if (dims.nbDims != int32_t(o->dims.size())) wrong("another rank of " + o->name);
    for (size_t d = 0; d < o->dims.size(); ++d)
      if (dims.d[d] >= 0 && !o->dims[d].Holds(dims.d[d])) wrong("other extents of " + o->name);
    if (!is_input || o->is_fixed()) continue;
    using nvinfer1::OptProfileSelector;
    const nvinfer1::Dims min = engine_->getProfileShape(name, 0, OptProfileSelector::kMIN);
    const nvinfer1::Dims max = engine_->getProfileShape(name, 0, OptProfileSelector::kMAX);
    for (size_t d = 0; d < o->dims.size(); ++d)
      if (min.nbDims != dims.nbDims || min.d[d] > o->dims[d].min || max.d[d] < o->dims[d].max)
        wrong("other ranges of extents of " + o->name);
  }
  if (outputs != outputs_.size())
    wrong("it has " + std::to_string(outputs) + " results, the region " +
          std::to_string(outputs_.size()));
}

bool Engine::Knows(const Operand& operand) const {
  return std::find(known_.begin(), known_.end(), &operand) != known_.end();
}

std::unique_ptr<nvinfer1::IExecutionContext> Engine::NewContext() const {
  const ErrorLog log;
  std::unique_ptr<nvinfer1::IExecutionContext> context(engine_->createExecutionContext());
  if (!context) log.Fail(WEFT_E_OUT_OF_MEMORY, "TensorRT makes no execution context");
  return context;
}

void Engine::Export(WeftBytes* bytes) const {
  const Driver::Current current(device_);
  const ErrorLog log;
  const std::unique_ptr<nvinfer1::IHostMemory> plan(engine_->serialize());
  if (!plan) log.Fail(WEFT_E_UNSUPPORTED, "TensorRT cannot serialize the engine");
  const char* const data = static_cast<const char*>(plan->data());
  const std::string head = std::string(kMagic) + "\n" + KeyOf(settings_, device_) + "\n" +
                           PlanLine(data, plan->size()) + "\n";
  Check(weft->bytes_write(bytes, head.data(), head.size()));
  Check(weft->bytes_write(bytes, data, plan->size()));
}

std::unique_ptr<Engine> Engine::Import(const WeftRegion* region, const void* bytes, size_t size) {
  std::unique_ptr<Engine> e(new Engine(region));
  const Driver::Current current(e->device_);
  const char* at = static_cast<const char*>(bytes);
  const char* const end = at + size;
  const auto line = [&] {
    const char* const stop = std::find(at, end, '\n');
    std::string text(at, stop);
    at = stop == end ? end : stop + 1;
    return text;
  };
  if (line() != kMagic) throw Failure{WEFT_E_IO, "these are not bytes of an engine of TensorRT"};
  const std::string made_by = line(), here = KeyOf(e->settings_, e->device_);
  if (made_by != here)
    throw Failure{WEFT_E_UNSUPPORTED, "the engine was made by " + made_by + ", this is " + here};
  // What they sum up to is compared before TensorRT sees them: it trusts what it reads.
  const std::string sum = line();
  if (sum != PlanLine(at, size_t(end - at)))
    throw Failure{WEFT_E_IO, "the bytes of the engine are damaged"};
  e->Load(at, size_t(end - at), WEFT_E_IO);
  return e;
}

std::string VersionInUse() {
  const Driver& driver = Driver::Get();
  return Library::Get().version() + ", " + driver.NameOf(driver.DeviceInUse());
}

}  // namespace weft_tensorrt
