/// tensorrt.cc: gives parts of graphs to TensorRT 10, through the C interface weft/plugin.h alone.
///
/// Needs an NVIDIA GPU, its driver, and TensorRT's two libraries (libnvinfer.so.10,
/// libnvonnxparser.so.10), which are opened when they are first asked for: from the folder that
/// WEFT_TENSORRT names, else from the loader's path or TensorRT's Python package. Its interface is
/// C++ and its classes are those of its headers, so the plugin is compiled against the SDK where
/// CMake finds it; without, against a stand-in (stand_in/), and then runs nothing but tests.
///
///   version     opens both, and names TensorRT's version and the device
///   supports    a table of operators and types (operators.cc)
///   compile     ONNX bytes -> parser -> network, every layer in the types of the graph, without
///               TF32 -> builder -> plan -> engine (engine.cc); symbolic extents by one
///               optimization profile over the ranges that the option `extents` gives (extents.cc)
///   prepare     an execution context (instance.cc)
///   run         enqueueV3 on the caller's stream; operands and results where they lie. TensorRT
///               wants addresses that are multiples of 256: others go through a copy, which counts
///   export      the serialized engine behind a key of TensorRT's version, device and options
///
/// Not run so far: TensorRT itself. It was written from the documented interface (10.x) where there
/// was neither a GPU nor the SDK; what is tested is everything up to TensorRT's calls, against a
/// library that stands in for it (stand_in/fake_tensorrt.cc). No figure of speed is known.
#include "engine.h"
#include "host.h"
#include "operators.h"

namespace weft_tensorrt {

const WeftHost* weft = nullptr;

namespace {

WeftStatus Version(void*, const char** text) {
  return Guarded([&] {
    thread_local std::string version;
    version = VersionInUse();
    *text = version.c_str();
  });
}

WeftStatus Supports(void*, const WeftDelegateOptions*, const WeftGraph* graph,
                    const WeftNode* node) {
  return Guarded([&] {
    if (std::string why = WhyNot(graph, node); !why.empty())
      throw Failure{WEFT_E_UNSUPPORTED, std::move(why)};
  });
}

WeftStatus Compile(void*, const WeftRegion* region, void** engine) {
  return Guarded([&] { *engine = Engine::Build(region).release(); });
}
void Destroy(void*, void* engine) { delete static_cast<Engine*>(engine); }

WeftStatus Prepare(void*, void* engine, void** instance) {
  return Guarded([&] { *instance = new Instance(static_cast<const Engine*>(engine)); });
}
void Release(void*, void* instance) { delete static_cast<Instance*>(instance); }

WeftStatus Run(void*, void* instance, WeftRegionCall* call) {
  return Guarded([&] { static_cast<Instance*>(instance)->Run(call); });
}

WeftStatus Export(void*, void* engine, WeftBytes* bytes) {
  return Guarded([&] { static_cast<const Engine*>(engine)->Export(bytes); });
}
WeftStatus Import(void*, const WeftRegion* region, const void* bytes, size_t size, void** engine) {
  return Guarded([&] { *engine = Engine::Import(region, bytes, size).release(); });
}

WeftStatus Profile(void*, void* instance, WeftRows* rows) {
  return Guarded([&] { static_cast<const Instance*>(instance)->AddRows(rows); });
}

WeftDelegateDef Definition() {
  constexpr int32_t kCuda = 2;  // kDLCUDA of DLPack
  WeftDelegateDef def{};
  def.struct_size = sizeof def;
  def.name = "tensorrt";
  def.doc = "NVIDIA TensorRT 10, on GPUs";
  // Not deterministic: layers that add atomically are TensorRT's to choose.
  def.flags = WEFT_DELEGATE_CONCURRENT | WEFT_DELEGATE_ANY_EXTENTS | WEFT_DELEGATE_STREAMS;
  def.device = kCuda;
  def.options = kOptions;
  def.num_options = kNumOptions;
  def.version = Version;
  def.supports = Supports;
  def.compile = Compile;
  def.destroy = Destroy;
  def.prepare = Prepare;
  def.release = Release;
  def.run = Run;
  def.export_engine = Export;
  def.import_engine = Import;
  def.profile = Profile;
  return def;
}

}  // namespace
}  // namespace weft_tensorrt

extern "C" WEFT_PLUGIN_EXPORT WeftStatus weft_plugin_init_v1(const WeftHost* host,
                                                             WeftPluginInfo* info) {
  weft_tensorrt::weft = host;
  weft_plugin_describe(info, "tensorrt", "1.0", "gives parts of graphs to TensorRT");
  if (!WEFT_HAS(host, WeftHost, graph_entry_uses))
    return host->fail(WEFT_E_UNSUPPORTED, "this host is too old: it has no delegates");
  const WeftDelegateDef def = weft_tensorrt::Definition();
  return host->register_delegate(&def);
}
