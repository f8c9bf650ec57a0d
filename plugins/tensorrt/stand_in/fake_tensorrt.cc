/// fake_tensorrt.cc: both libraries of TensorRT for tests: it takes models of a few operators
/// (fake_onnx.cc), keeps them as "engines", and runs them on the host, as strictly as the
/// documented interface is: ranges of profiles, alignment of addresses, extents in host memory.
///
/// FAKE_TENSORRT says, in words, what shall go wrong:
///   version=N       getInferLibVersion gives N, and engines are of that version
///   refuse=Exp      the parser does not take that operator
///   build=fail      the builder finds no implementation; build=memory: no memory
///   log=thread      what goes wrong is logged by a thread of its own
///   load=fail       no engine is made of bytes
///   context=fail    no execution context
///   run=fail        enqueueV3 gives false
///   drop=x1         engines do not know that input
///   extents=wrong   results have other extents than the model says
/// FAKE_TENSORRT_LOG names a file to which it writes what it was asked, a line each.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "NvInfer.h"
#include "NvOnnxParser.h"
#include "fake_onnx.h"

namespace fake {
namespace {

using namespace nvinfer1;

std::string Told(const std::string& what) {
  const char* text = std::getenv("FAKE_TENSORRT");
  std::istringstream words(text ? text : "");
  for (std::string word; words >> word;)
    if (word.compare(0, what.size() + 1, what + "=") == 0) return word.substr(what.size() + 1);
  return {};
}

void Note(const std::string& line) {
  static std::mutex mutex;
  const char* file = std::getenv("FAKE_TENSORRT_LOG");
  if (!file) return;
  std::lock_guard lock(mutex);
  std::ofstream(file, std::ios::app) << line << "\n";
}

std::string VersionText() {
  const std::string told = Told("version");
  return told.empty() ? std::to_string(NV_TENSORRT_VERSION) : told;
}

void Log(ILogger* logger, const std::string& text) {
  const auto log = [&] { logger->log(ILogger::Severity::kERROR, text.c_str()); };
  if (Told("log") == "thread")
    std::thread(log).join();
  else
    log();
}

DataType TypeOf(int32_t onnx) {
  switch (onnx) {
    case kFloat:
      return DataType::kFLOAT;
    case kFloat16:
      return DataType::kHALF;
    case kBfloat16:
      return DataType::kBF16;
    case kInt32:
      return DataType::kINT32;
    case kInt64:
      return DataType::kINT64;
    default:
      return DataType::kBOOL;
  }
}

Dims DimsOf(const std::vector<int64_t>& dims) {
  Dims d{};
  d.nbDims = int32_t(dims.size());
  std::copy(dims.begin(), dims.end(), d.d);
  return d;
}
std::string TextOf(const Dims& d) {
  std::string text;
  for (int32_t i = 0; i < d.nbDims; ++i) text += (i ? "x" : "") + std::to_string(d.d[i]);
  return text;
}

class Bytes final : public IHostMemory {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}
  void* data() const noexcept override { return const_cast<char*>(bytes_.data()); }
  std::size_t size() const noexcept override { return bytes_.size(); }

 private:
  std::string bytes_;
};

class NetworkTensor final : public ITensor {
 public:
  NetworkTensor(std::string name, Tensor type, bool is_shape)
      : name_(std::move(name)), type_(std::move(type)), is_shape_(is_shape) {}
  char const* getName() const noexcept override { return name_.c_str(); }
  Dims getDimensions() const noexcept override { return DimsOf(type_.dims); }
  DataType getType() const noexcept override { return TypeOf(type_.type); }
  void setAllowedFormats(TensorFormats formats) noexcept override {
    Note("formats " + name_ + " " + std::to_string(formats));
  }
  bool isShapeTensor() const noexcept override { return is_shape_; }

 private:
  std::string name_;
  Tensor type_;
  bool is_shape_;
};

class Network final : public INetworkDefinition {
 public:
  int32_t getNbInputs() const noexcept override { return int32_t(inputs.size()); }
  ITensor* getInput(int32_t i) const noexcept override { return inputs[size_t(i)].get(); }
  int32_t getNbOutputs() const noexcept override { return int32_t(outputs.size()); }
  ITensor* getOutput(int32_t i) const noexcept override { return outputs[size_t(i)].get(); }

  std::string onnx;
  std::vector<std::unique_ptr<NetworkTensor>> inputs, outputs;
};

class ParserError final : public nvonnxparser::IParserError {
 public:
  ParserError(std::string what, std::string name, std::string op)
      : what_(std::move(what)), name_(std::move(name)), op_(std::move(op)) {}
  char const* desc() const override { return what_.c_str(); }
  char const* nodeName() const override { return name_.c_str(); }
  char const* nodeOperator() const override { return op_.c_str(); }

 private:
  std::string what_, name_, op_;
};

class Parser final : public nvonnxparser::IParser {
 public:
  explicit Parser(Network* network) : network_(network) {}
  bool parse(void const* model, std::size_t size, char const*) noexcept override {
    Note("parse");
    try {
      network_->onnx.assign(static_cast<const char*>(model), size);
      const Model m = Model::Parse(network_->onnx);
      for (const Node& n : m.nodes)
        if (!Computes(n.op) || n.op == Told("refuse"))
          errors_.emplace_back("No importer registered for op: " + n.op, n.name, n.op);
      if (!errors_.empty()) return false;
      std::set<std::string> shapes;
      for (const Node& n : m.nodes)
        for (size_t i = 0; i < n.inputs.size(); ++i)
          if (IsShapeInput(n, i)) shapes.insert(n.inputs[i]);
      for (const Node& n : m.nodes)
        if (n.op == "Shape") shapes.insert(n.outputs.begin(), n.outputs.end());
      for (auto [names, to] :
           {std::pair(&m.inputs, &network_->inputs), std::pair(&m.outputs, &network_->outputs)})
        for (const std::string& name : *names)
          to->push_back(
              std::make_unique<NetworkTensor>(name, m.types.at(name), shapes.count(name) > 0));
      return true;
    } catch (const std::exception& e) {
      errors_.emplace_back(e.what(), "", "");
      return false;
    }
  }
  int getNbErrors() const noexcept override { return int(errors_.size()); }
  nvonnxparser::IParserError const* getError(int i) const noexcept override {
    return &errors_[size_t(i)];
  }

 private:
  Network* network_;
  std::vector<ParserError> errors_;
};

class Profile final : public IOptimizationProfile {
 public:
  bool setDimensions(char const* name, OptProfileSelector which,
                     Dims const& dims) noexcept override {
    Note("profile " + std::string(name) + " " + std::to_string(int(which)) + " " + TextOf(dims));
    ranges[name][size_t(which)] = dims;
    return true;
  }
  std::map<std::string, Dims[3]> ranges;
};

class TimingCache final : public ITimingCache {
 public:
  explicit TimingCache(std::set<std::string> all) : lines(std::move(all)) {}
  IHostMemory* serialize() const noexcept override {
    std::string text = "fake timings\n";
    for (const std::string& line : lines) text += line + "\n";
    return new Bytes(text);
  }
  bool combine(ITimingCache const& other, bool) noexcept override {
    const auto& theirs = static_cast<const TimingCache&>(other).lines;
    lines.insert(theirs.begin(), theirs.end());
    return true;
  }
  std::set<std::string> lines;
};

class Config final : public IBuilderConfig {
 public:
  void setFlag(BuilderFlag f) noexcept override { flags |= 1u << uint32_t(f); }
  void clearFlag(BuilderFlag f) noexcept override { flags &= ~(1u << uint32_t(f)); }
  void setMemoryPoolLimit(MemoryPoolType, std::size_t size) noexcept override {
    Note("workspace " + std::to_string(size));
  }
  void setBuilderOptimizationLevel(int32_t level) noexcept override {
    Note("level " + std::to_string(level));
  }
  int32_t addOptimizationProfile(IOptimizationProfile const* p) noexcept override {
    profile = static_cast<const Profile*>(p);
    return 0;
  }
  ITimingCache* createTimingCache(void const* blob, std::size_t size) const noexcept override {
    std::istringstream in(std::string(static_cast<const char*>(blob ? blob : ""), blob ? size : 0));
    std::set<std::string> lines;
    std::string line;
    if (size > 0 && (!std::getline(in, line) || line != "fake timings")) return nullptr;
    while (std::getline(in, line)) lines.insert(line);
    return new TimingCache(lines);
  }
  bool setTimingCache(ITimingCache const& cache, bool) noexcept override {
    timings = const_cast<TimingCache*>(static_cast<const TimingCache*>(&cache));
    return true;
  }
  ITimingCache const* getTimingCache() const noexcept override { return timings; }

  uint32_t flags = 1u << uint32_t(BuilderFlag::kTF32);  // as TensorRT's
  const Profile* profile = nullptr;
  TimingCache* timings = nullptr;
};

class Builder final : public IBuilder {
 public:
  explicit Builder(ILogger* logger) : logger_(logger) {}
  IBuilderConfig* createBuilderConfig() noexcept override { return new Config; }
  INetworkDefinition* createNetworkV2(NetworkDefinitionCreationFlags flags) noexcept override {
    Note("network " + std::to_string(flags));
    return new Network;
  }
  IOptimizationProfile* createOptimizationProfile() noexcept override {
    profiles_.push_back(std::make_unique<Profile>());
    return profiles_.back().get();
  }
  bool setMaxThreads(int32_t n) noexcept override {
    Note("threads " + std::to_string(n));
    return true;
  }
  IHostMemory* buildSerializedNetwork(INetworkDefinition& network,
                                      IBuilderConfig& config) noexcept override;

 private:
  ILogger* logger_;
  std::vector<std::unique_ptr<Profile>> profiles_;
};

/// "fake engine", the version, flags, ranges (name, rank, extents), and the model behind a dot.
IHostMemory* Builder::buildSerializedNetwork(INetworkDefinition& network,
                                             IBuilderConfig& config) noexcept {
  const auto& n = static_cast<Network&>(network);
  auto& c = static_cast<Config&>(config);
  Note("build " + std::to_string(c.flags));
  if (Told("build") == "fail") {
    Log(logger_, "Error Code 10: Internal Error (Could not find any implementation for node y0.)");
    return nullptr;
  }
  if (Told("build") == "memory") {
    Log(logger_, "Error Code 2: OutOfMemory (no further information)");
    return nullptr;
  }
  std::ostringstream out;
  out << "fake engine " << VersionText() << " " << c.flags << " ";
  for (const auto& t : n.inputs) {
    const Dims d = t->getDimensions();
    const bool dynamic = std::count(d.d, d.d + d.nbDims, -1) > 0;
    const auto* ranges = c.profile ? &c.profile->ranges : nullptr;
    if (dynamic && (!ranges || !ranges->count(t->getName()))) {
      Log(logger_, std::string("Network has dynamic or shape inputs, but no optimization profile "
                               "has been defined: ") +
                       t->getName());
      return nullptr;
    }
    if (!dynamic) continue;
    for (const Dims& r : ranges->at(t->getName())) {
      out << t->getName() << " " << r.nbDims << " ";
      for (int32_t i = 0; i < r.nbDims; ++i) out << r.d[i] << " ";
    }
  }
  if (c.timings) c.timings->lines.insert("a layer of " + std::to_string(n.onnx.size()) + " bytes");
  return new Bytes(out.str() + ". " + n.onnx);
}

struct Plan {
  Model model;
  std::string bytes;
  bool tf32 = false;
  std::map<std::string, std::vector<Dims>> ranges;
  std::vector<std::string> names;  ///< of inputs and outputs that the engine knows
};

/// What a run reads.
struct Bound {
  std::shared_ptr<const Plan> plan;
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, void*> addresses;

  /// Throws where something is missing, or the extents do not fit.
  std::map<std::string, Tensor> Results(bool with_elements) const {
    std::map<std::string, Tensor> values;
    for (const std::string& name : plan->model.inputs) {
      if (std::find(plan->names.begin(), plan->names.end(), name) == plan->names.end()) continue;
      Tensor t = plan->model.types.at(name);
      t.dims = shapes.at(name);
      t.floats.resize(size_t(t.size()));
      if (with_elements && !t.floats.empty())
        std::memcpy(t.floats.data(), addresses.at(name), t.floats.size() * sizeof(float));
      values[name] = std::move(t);
    }
    return Run(plan->model, std::move(values), plan->tf32);
  }
  void Write() const {
    const auto results = Results(true);
    for (const std::string& name : plan->model.outputs) {
      const Tensor& t = results.at(name);
      if (t.type == kFloat && !t.floats.empty())
        std::memcpy(addresses.at(name), t.floats.data(), t.floats.size() * sizeof(float));
    }
  }
};

using Give = void (*)(void* stream, void (*work)(void*), void* argument);
Give give = nullptr;

class Context final : public IExecutionContext {
 public:
  Context(std::shared_ptr<const Plan> plan, ILogger* logger) : logger_(logger) {
    bound_.plan = std::move(plan);
  }
  bool setInputShape(char const* name, Dims const& dims) noexcept override {
    Note("shape " + std::string(name) + " " + TextOf(dims));
    const auto range = bound_.plan->ranges.find(name);
    const std::vector<int64_t>& declared = bound_.plan->model.types.at(name).dims;
    for (int32_t i = 0; i < dims.nbDims; ++i) {
      const int64_t extent = declared[size_t(i)];
      if (extent < 0 ? dims.d[i] < range->second[0].d[i] || dims.d[i] > range->second[2].d[i]
                     : dims.d[i] != extent) {
        Log(logger_, "Set dimension is outside of the profile");
        return false;
      }
    }
    bound_.shapes[name].assign(dims.d, dims.d + dims.nbDims);
    return true;
  }
  Dims getTensorShape(char const* name) const noexcept override {
    if (const auto it = bound_.shapes.find(name); it != bound_.shapes.end())
      return DimsOf(it->second);
    try {  // elements do not matter, only extents
      Dims d = DimsOf(bound_.Results(false).at(name).dims);
      if (Told("extents") == "wrong") d.d[0] += 1;
      return d;
    } catch (const std::exception&) {
      return Dims{-1, {}};
    }
  }
  bool setTensorAddress(char const* name, void* data) noexcept override {
    Note("address " + std::string(name));
    if (!data || reinterpret_cast<uintptr_t>(data) % 256 != 0) {
      Log(logger_, std::string("Address is not aligned to 256 bytes: ") + name);
      return false;
    }
    bound_.addresses[name] = data;
    return true;
  }
  void setProfiler(IProfiler* profiler) noexcept override { profiler_ = profiler; }
  bool enqueueV3(cudaStream_t stream) noexcept override {
    Note(stream ? "run on a stream" : "run");
    if (Told("run") == "fail") {
      Log(logger_, "Error Code 1: Cuda Runtime (an illegal memory access was encountered)");
      return false;
    }
    try {
      if (stream && give)
        give(stream, &WriteLater, new Bound(bound_));
      else
        bound_.Write();
    } catch (const std::exception& e) {
      Log(logger_, e.what());
      return false;
    }
    if (profiler_)
      for (const Node& n : bound_.plan->model.nodes)
        profiler_->reportLayerTime(n.name.c_str(), 0.25f);
    return true;
  }

 private:
  static void WriteLater(void* argument) {
    const std::unique_ptr<const Bound> bound(static_cast<const Bound*>(argument));
    bound->Write();
  }

  Bound bound_;
  ILogger* logger_;
  IProfiler* profiler_ = nullptr;
};

class Engine final : public ICudaEngine {
 public:
  Engine(std::shared_ptr<const Plan> plan, ILogger* logger)
      : plan_(std::move(plan)), logger_(logger) {}
  int32_t getNbIOTensors() const noexcept override { return int32_t(plan_->names.size()); }
  char const* getIOTensorName(int32_t i) const noexcept override {
    return plan_->names[size_t(i)].c_str();
  }
  TensorIOMode getTensorIOMode(char const* name) const noexcept override {
    const auto& in = plan_->model.inputs;
    return std::count(in.begin(), in.end(), name) ? TensorIOMode::kINPUT : TensorIOMode::kOUTPUT;
  }
  DataType getTensorDataType(char const* name) const noexcept override {
    return TypeOf(plan_->model.types.at(name).type);
  }
  Dims getTensorShape(char const* name) const noexcept override {
    return DimsOf(plan_->model.types.at(name).dims);
  }
  TensorLocation getTensorLocation(char const*) const noexcept override {
    return TensorLocation::kDEVICE;
  }
  TensorFormat getTensorFormat(char const*) const noexcept override {
    return TensorFormat::kLINEAR;
  }
  Dims getProfileShape(char const* name, int32_t,
                       OptProfileSelector which) const noexcept override {
    return plan_->ranges.at(name)[size_t(which)];
  }
  IHostMemory* serialize() const noexcept override { return new Bytes(plan_->bytes); }
  IExecutionContext* createExecutionContext() noexcept override {
    if (Told("context") == "fail") {
      Log(logger_, "Error Code 2: OutOfMemory (Requested size was 123 bytes.)");
      return nullptr;
    }
    Note("context");
    return new Context(plan_, logger_);
  }

 private:
  std::shared_ptr<const Plan> plan_;
  ILogger* logger_;
};

class Runtime final : public IRuntime {
 public:
  explicit Runtime(ILogger* logger) : logger_(logger) {}
  ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size) noexcept override {
    Note("load");
    try {
      if (Told("load") == "fail") throw std::runtime_error("Serialization assertion failed");
      auto plan = std::make_shared<Plan>();
      plan->bytes.assign(static_cast<const char*>(blob), size);
      std::istringstream in(plan->bytes);
      std::string fake, engine, version, name;
      uint32_t flags = 0;
      in >> fake >> engine >> version >> flags;
      if (fake != "fake" || engine != "engine")
        throw std::runtime_error("Magic tag does not match");
      if (version != VersionText()) throw std::runtime_error("Version tag does not match");
      plan->tf32 = flags >> uint32_t(BuilderFlag::kTF32) & 1;
      while (in >> name && name != ".") {
        Dims d{};
        in >> d.nbDims;
        for (int32_t i = 0; i < d.nbDims; ++i) in >> d.d[i];
        plan->ranges[name].push_back(d);
      }
      plan->model = Model::Parse(plan->bytes.substr(size_t(in.tellg()) + 1));
      for (const auto* names : {&plan->model.inputs, &plan->model.outputs})
        for (const std::string& n : *names)
          if (n != Told("drop")) plan->names.push_back(n);
      return new Engine(plan, logger_);
    } catch (const std::exception& e) {
      Log(logger_, e.what());
      return nullptr;
    }
  }

 private:
  ILogger* logger_;
};

}  // namespace
}  // namespace fake

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

/// From now on work goes to streams by that function.
FAKE_EXPORT void weft_fake_tensorrt_give(fake::Give give) { fake::give = give; }
/// Tells it from TensorRT.
FAKE_EXPORT int weft_fake_tensorrt() { return 1; }
FAKE_EXPORT int32_t getInferLibVersion() noexcept {
  return int32_t(std::atoi(fake::VersionText().c_str()));
}
FAKE_EXPORT void* createInferBuilder_INTERNAL(void* logger, int32_t) noexcept {
  return static_cast<nvinfer1::IBuilder*>(
      new fake::Builder(static_cast<nvinfer1::ILogger*>(logger)));
}
FAKE_EXPORT void* createInferRuntime_INTERNAL(void* logger, int32_t) noexcept {
  return static_cast<nvinfer1::IRuntime*>(
      new fake::Runtime(static_cast<nvinfer1::ILogger*>(logger)));
}
FAKE_EXPORT void* createNvOnnxParser_INTERNAL(void* network, void*, int) noexcept {
  return static_cast<nvonnxparser::IParser*>(new fake::Parser(
      static_cast<fake::Network*>(static_cast<nvinfer1::INetworkDefinition*>(network))));
}
