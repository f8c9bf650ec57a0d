/// models_test.cc: what NVRTC makes of whole models for several architectures: kernels without
/// spills, and none at all for the second process that asks. Nothing runs; no GPU is needed.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "programs/program.h"
#include "tests/support/e2e_util.h"
#include "tests/support/nvrtc_checks.h"
#include "tests/support/temp_folder.h"
#include "tests/support/training_networks.h"
#include "weft/codegen/compiler/kernel_cache.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/module/backend_module.h"
#include "weft/onnx/import.h"
#include "weft/runtime/backend/backend.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

constexpr int kArchitectures[] = {80, 90, 100};

bool Skip() {
  SetLogLevel(LogLevel::kError);
  return !FindNvrtc();
}

Graph Lowered(const Graph& g) {
  return LowerForNvrtc(g, StandardPipeline({PipelineEnd::kKernels}));
}

/// Distinct kernels of all models that were added.
class Kernels {
 public:
  void Add(const std::string& model, const Graph& g) {
    const std::vector<KernelPtr> kernels = KernelsIn(Lowered(g));
    const size_t before = all_.size();
    for (const KernelPtr& kernel : kernels)
      if (names_.insert(kernel->Name()).second) all_.emplace_back(kernel, model);
    MESSAGE(model << ": " << all_.size() - before << " more kernels");
    CHECK(!kernels.empty());
  }
  /// Each compiles for each architecture; nothing is kept in memory that registers should hold.
  void Check() const {
    std::vector<KernelPtr> kernels;
    std::vector<std::string> names;
    for (const auto& [kernel, model] : all_) {
      kernels.push_back(kernel);
      names.push_back(kernel->Name() + " of " + model);
    }
    for (const int sm : kArchitectures) CheckRegisters(sm, kernels, names);
  }

 private:
  std::vector<std::pair<KernelPtr, std::string>> all_;
  std::set<std::string> names_;
};

/// MobileNet-V2: 1x1, depth-wise 3x3 and 1x1 convolutions.
NodeEntry MobileNetV2(Network* n) {
  const auto relu6 = [](const NodeEntry& x) {
    const auto scalar = [&](float v) {
      auto t = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{});
      *t->mutable_data_as<float>() = v;
      return ConstantLike(x, t);
    };
    return ApplyOp("Clip", {x, scalar(0), scalar(6)});
  };
  const auto depthwise = [&](const NodeEntry& x, int64_t channels, int64_t stride) {
    return ApplyOp(
        "Conv", {x, n->Parameter({channels, 1, 3, 3})},
        {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{stride, stride}}, {"group", channels}});
  };
  NodeEntry y = relu6(n->Norm(n->Conv(n->x(), 3, 32, 3, 2, false), 32));
  int64_t from = 32;
  const int64_t rows[][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  for (const auto& [expand, to, blocks, first_stride] : rows)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t stride = b == 0 ? first_stride : 1, wide = from * expand;
      NodeEntry a = y;
      if (expand > 1) a = relu6(n->Norm(n->Conv(a, from, wide, 1, 1, false), wide));
      a = relu6(n->Norm(depthwise(a, wide, stride), wide));
      a = n->Norm(n->Conv(a, wide, to, 1, 1, false), to);
      y = stride == 1 && from == to ? y + a : a;
      from = to;
    }
  y = relu6(n->Norm(n->Conv(y, from, 1280, 1, 1, false), 1280));
  y = ApplyOp("Flatten", {ApplyOp("GlobalAveragePool", {y})});
  return n->Dense(y, 1280, 1000);
}

/// Layers of an encoder on x[batch, length, width]; with gradients of
/// its parameters where `training`.
Graph Encoder(DType t, SymInt batch, SymInt length, int layers, bool training) {
  constexpr int64_t kWidth = 768, kHeads = 12, kInner = 3072;
  Graph g;
  std::vector<NodeEntry> parameters;
  const NodeEntry x(g.AddInput("x", t, Shape{batch, length, kWidth}));
  const auto parameter = [&](const std::vector<int64_t>& dims) {
    parameters.emplace_back(
        g.AddInput("p" + std::to_string(parameters.size()), t, Shape::OfInts(dims)));
    return parameters.back();
  };
  const auto dense = [&](const NodeEntry& v, int64_t from, int64_t to) {
    return ApplyOp("MatMul", {v, parameter({from, to})}) + parameter({to});
  };
  const auto norm = [&](const NodeEntry& v) {
    return NodeEntry(ApplyOp("LayerNormalization", {v, parameter({kWidth}), parameter({kWidth})},
                             {{"axis", -1}}));
  };
  const auto reshape = [](const NodeEntry& v, const std::vector<int64_t>& dims) {
    auto s = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{int64_t(dims.size())});
    for (size_t i = 0; i < dims.size(); ++i) s->set_int(int64_t(i), dims[i]);
    return ApplyOp("Reshape", {v, ConstantLike(v, s)});
  };
  const auto heads = [&](const NodeEntry& v) {
    return ApplyOp("Transpose",
                   {reshape(dense(v, kWidth, kWidth), {0, 0, kHeads, kWidth / kHeads})},
                   {{"perm", Ints{0, 2, 1, 3}}});
  };
  NodeEntry y = x;
  for (int l = 0; l < layers; ++l) {
    const NodeEntry q = heads(y), k = heads(y), v = heads(y);
    auto eighth = std::make_shared<Tensor>(t, std::vector<int64_t>{});
    eighth->set(0, 0.125);
    const NodeEntry scores =
        ApplyOp("MatMul", {q, ApplyOp("Transpose", {k}, {{"perm", Ints{0, 1, 3, 2}}})}) *
        ConstantLike(q, eighth);
    NodeEntry a = ApplyOp("MatMul", {ApplyOp("Softmax", {scores}, {{"axis", -1}}), v});
    a = reshape(ApplyOp("Transpose", {a}, {{"perm", Ints{0, 2, 1, 3}}}), {0, 0, kWidth});
    y = norm(y + dense(a, kWidth, kWidth));
    y = norm(y + dense(ApplyOp("Gelu", {dense(y, kWidth, kInner)}), kInner, kWidth));
  }
  g.outputs = {y};
  if (!training) return g;
  std::vector<NodeEntry> outputs{ApplyOp("ReduceMean", {y * y}, {{"keepdims", 0}})};
  g.outputs = outputs;
  for (const NodeEntry& d : Gradients(g, outputs, parameters, {})) outputs.push_back(d);
  g.outputs = outputs;
  return g;
}

/// What a session runs in training: the step and the loss of a program of the framework.
Graph StepOf(const programs::Model& model) {
  Graph all = model.loss.graph()->graph;
  for (NodeId id = 0; id < all.id_bound(); ++id) {
    const NodePtr n = all.node(id);
    if (n && IsOp(n, "tinyflow::WhenTraining")) all.ReplaceUses(n, n->inputs[0]);
  }
  Graph g;
  g.outputs = g.Import({all.at(model.train_step.entry()), all.at(model.loss.entry())});
  return g;
}

/// NVRTC for sm_90, which counts; its binaries are nobody else's.
class Counting final : public KernelCompiler {
 public:
  std::string target() const override { return "counting:" + nvrtc_->target(); }
  std::string Source(const Kernel& k) const override { return nvrtc_->Source(k); }
  std::string source_extension() const override { return ".cu"; }
  std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>* errors) override {
    ++calls();
    return nvrtc_->Compile(kernels, errors);
  }
  KernelStats Stats(const Kernel& k, const std::string& binary) const override {
    return nvrtc_->Stats(k, binary);
  }
  static int& calls() {
    static int calls = 0;
    return calls;
  }

 private:
  const std::shared_ptr<KernelCompiler> nvrtc_ = FindNvrtc();
};

}  // namespace

// First: it says where this process has its cache.
TEST_CASE("a training step of ResNet-50 is compiled once, and found by every later process") {
  if (Skip()) return;
  const TempFolder folder;
  setenv("WEFT_CACHE_DIR", folder.path().c_str(), 1);
  KernelCache& cache = KernelCache::Process();
  REQUIRE(cache.directory().find(folder.path()) == 0);
  RegisterBackendModule(BackendModule("counting").set_compiler([](const Target&) {
    return std::make_shared<Counting>();
  }));
  Network n(64, 3, 224);
  const Graph lowered = Lowered(n.Step(ResNet50(&n)));
  PassOptions passes;
  passes.target = "counting";
  const auto compile = [&](const std::string& what) {
    const auto begin = std::chrono::steady_clock::now();
    const Graph done = ApplyPasses(lowered, Pipeline::Parse("RTCGen"), passes);
    MESSAGE(what << ": "
                 << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()
                 << " s");
    std::map<std::string, std::string> binaries;
    const KernelMap& kernels = done.GetAttr<KernelMap>("kernel");
    const RtcMap& rtc = done.GetAttr<RtcMap>("rtc");
    for (NodeId id = 0; id < kernels.id_bound(); ++id)
      if (const LoweredKernel* k = kernels.find(id)) {
        const std::vector<KernelPtr> own = k->Kernels();
        for (size_t i = 0; i < own.size(); ++i)
          binaries[own[i]->Name()] = (*rtc.find(id))[i]->binary;
      }
    return binaries;
  };
  const auto cold = compile("nothing in the cache");
  CHECK(Counting::calls() == 1);
  CHECK(cold.size() <= 60);
  std::set<std::string> programs;
  int64_t bytes = 0;
  for (const auto& [name, binary] : cold) {
    CHECK(binary != "");
    if (programs.insert(binary).second) bytes += int64_t(binary.size());
  }
  // Kernels share cubins, and the cache has each of them once.
  CHECK(programs.size() < cold.size() / 3);
  int64_t stored = 0;
  for (const CacheEntry& e : ListKernelCache(cache.directory(), true)) {
    CHECK(e.damage == "");
    stored += e.bytes;
  }
  MESSAGE(cold.size() << " kernels in " << programs.size() << " cubins of " << bytes << " bytes, "
                      << stored << " in the cache");
  CHECK(stored < bytes + 4096 * int64_t(cold.size() + programs.size()));
  CHECK(compile("in memory") == cold);
  cache.ClearMemory();  // as in another process
  CHECK(compile("on disk") == cold);
  CHECK(Counting::calls() == 1);
  // A cubin is lost: those that were in it are compiled again, in one call, and the rest is found.
  cache.ClearMemory();
  std::vector<CacheEntry> all = ListKernelCache(cache.directory(), false);
  const auto largest = std::max_element(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  std::filesystem::remove(cache.directory() + "/" + largest->file);
  const auto again = compile("without one cubin");
  CHECK(Counting::calls() == 2);
  for (const auto& [name, binary] : again) CHECK(binary != "");
  cache.ClearMemory();
  CHECK(compile("whole again") == again);
  CHECK(Counting::calls() == 2);
}

TEST_CASE(
    "kernels of MobileNet and of encoders compile without spills, in training and inference") {
  if (Skip()) return;
  Kernels kernels;
  {
    Network n(SymInt(32), 3, 224);
    const NodeEntry logits = MobileNetV2(&n);
    kernels.Add("MobileNet-V2, training", n.Step(logits));
  }
  const SymInt b = SymInt::Symbol("b"), s = SymInt::Symbol("s");
  kernels.Add("encoder, f32, inference", Encoder(DType::kF32, 1, 128, 2, false));
  kernels.Add("encoder, f32, training", Encoder(DType::kF32, 8, 512, 2, true));
  kernels.Add("encoder, bf16, training", Encoder(DType::kBF16, 8, 512, 2, true));
  kernels.Add("encoder, f16, any extents", Encoder(DType::kF16, b, s, 1, false));
  kernels.Add("encoder, f32, any extents, training", Encoder(DType::kF32, b, s, 1, true));
  const std::string data = Env("WEFT_DATA_DIR");
  for (const char* file :
       {"/magika/model.onnx", "/rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx"})
    if (std::filesystem::exists(data + file))
      kernels.Add(file, ImportOnnx(data + file));
    else
      MESSAGE("skipped: there is no " << data + file);
  kernels.Check();
}

TEST_CASE("kernels of every program of the framework compile without spills") {
  if (Skip()) return;
  Kernels kernels;
  for (const programs::Program& p : programs::All()) {
    tf::reset_default_graph();
    programs::Settings settings;
    settings.rate = 1e-3;
    settings.steps_per_epoch = 10;
    for (const DType t : {DType::kF32, DType::kBF16}) {
      if (t != DType::kF32 && !p.any_dtype) continue;
      tf::reset_default_graph();
      settings.dtype = t;
      kernels.Add(p.name + ", " + std::string(DTypeName(t)), StepOf(p.build(settings)));
    }
  }
  kernels.Check();
}
