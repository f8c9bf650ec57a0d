/// library.cc: see library.h.
#include "library.h"

#include <dlfcn.h>
#include <glob.h>
#include <sys/stat.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <type_traits>
#include <vector>

#include "host.h"

namespace weft_tensorrt {
namespace {

#define WEFT_TEXT_OF(x) #x
#define WEFT_NUMBER_TEXT(x) WEFT_TEXT_OF(x)
constexpr const char* kInfer = "libnvinfer.so." WEFT_NUMBER_TEXT(NV_TENSORRT_MAJOR);
constexpr const char* kParser = "libnvonnxparser.so." WEFT_NUMBER_TEXT(NV_TENSORRT_MAJOR);
constexpr const char* kBuiltFor =
    WEFT_NUMBER_TEXT(NV_TENSORRT_MAJOR) "." WEFT_NUMBER_TEXT(NV_TENSORRT_MINOR);
/// What the libraries of the stand-in export besides.
constexpr const char* kMark = "weft_fake_tensorrt";

[[noreturn]] void Lacks(const std::string& what) { throw Failure{WEFT_E_UNSUPPORTED, what}; }

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}
bool Exists(const std::string& file) {
  struct stat s {};
  return stat(file.c_str(), &s) == 0;
}

/// Where both libraries may lie: WEFT_TENSORRT alone, where it is set; else the loader's path (an
/// empty folder) and TensorRT's Python packages.
std::vector<std::string> Folders() {
  const std::string named = Env("WEFT_TENSORRT");
  if (!named.empty()) return {named + "/lib/", named + "/lib64/", named + "/"};
  std::vector<std::string> folders = {""};
  std::vector<std::string> roots;
  for (const char* root : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string folder = Env(root); !folder.empty()) roots.push_back(folder);
  if (const std::string home = Env("HOME"); !home.empty()) roots.push_back(home + "/.local");
  roots.insert(roots.end(), {"/usr/local", "/usr"});
  for (const std::string& root : roots)
    for (const char* packages : {"site-packages", "dist-packages"}) {
      glob_t found{};
      if (glob((root + "/lib/python3*/" + packages + "/tensorrt_libs/").c_str(), 0, nullptr,
               &found) == 0)
        folders.insert(folders.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
      globfree(&found);
    }
  return folders;
}

/// Never closed: its threads and caches outlive any scope of ours.
void* Open(const std::string& file, std::string* why) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* text = dlerror();
    if (why->empty() || file[0] == '/') *why = text ? text : file;
  }
  return library;
}

template <class F>
void Find(void* library, const char* name, F* f) {
  *f = reinterpret_cast<F>(dlsym(library, name));
  if (!*f) Lacks(std::string("TensorRT lacks ") + name + ": install TensorRT " + kBuiltFor);
}

constexpr const char* kInstall =
    "install TensorRT 10 (its archive, its Debian packages or its Python package) and let "
    "WEFT_TENSORRT name the folder that holds lib/libnvinfer.so.10";

std::string VersionOf(int32_t number) {
  // Before 10.0 the minor version counted hundreds of thousands.
  const int32_t unit = number >= 10000 ? 10000 : 1000;
  return std::to_string(number / unit) + "." + std::to_string(number % unit / 100) + "." +
         std::to_string(number % 100);
}

}  // namespace

// ---- the log ----

/// One for the process: TensorRT keeps the first that it is given.
class Log final : public nvinfer1::ILogger {
 public:
  static Log& Get() {
    static auto* log = new Log;
    return *log;
  }
  void log(Severity severity, nvinfer1::AsciiChar const* text) noexcept override {
    if (severity > Severity::kERROR || !text) return;
    try {
      std::lock_guard lock(mutex_);
      if (const auto it = scopes_.find(Own()); it != scopes_.end()) {
        Add(*it, text);
        return;
      }
      for (ErrorLog* scope : scopes_) Add(scope, text);
    } catch (...) {  // no memory for it
    }
  }
  void Begin(ErrorLog* scope) {
    std::lock_guard lock(mutex_);
    scopes_.insert(scope);
    Own() = scope;
  }
  void End(ErrorLog* scope) {
    std::lock_guard lock(mutex_);
    scopes_.erase(scope);
    Own() = nullptr;
  }

 private:
  static ErrorLog*& Own() {
    thread_local ErrorLog* own = nullptr;
    return own;
  }
  static void Add(ErrorLog* scope, const char* text) {
    constexpr size_t kMost = 4096;
    if (scope->text_.size() > kMost) return;
    if (!scope->text_.empty()) scope->text_ += "; ";
    scope->text_ += text;
  }

  std::mutex mutex_;
  std::set<ErrorLog*> scopes_;
};

ErrorLog::ErrorLog() { Log::Get().Begin(this); }
ErrorLog::~ErrorLog() { Log::Get().End(this); }

void ErrorLog::Fail(int32_t status, const std::string& what) const {
  for (const char* memory : {"OutOfMemory", "out of memory", "MemAlloc", "insufficient memory"})
    if (text_.find(memory) != std::string::npos) status = WEFT_E_OUT_OF_MEMORY;
  throw Failure{status, what + (text_.empty() ? ": TensorRT says no reason" : ": " + text_)};
}

// ---- TensorRT ----

Library::Library() {
  const std::string named = Env("WEFT_TENSORRT");
  void *infer = nullptr, *parser = nullptr;
  std::string why;
  for (const std::string& folder : Folders()) {
    if (!folder.empty() && !Exists(folder + kInfer)) continue;
    infer = Open(folder + kInfer, &why);
    if (!infer) continue;
    // The parser asks for the library that is open by now.
    parser = Open(folder + kParser, &why);
    if (!parser) Lacks("TensorRT's ONNX parser is missing (" + why + "): " + kInstall);
    break;
  }
  if (!infer) {
    if (why.empty()) why = named.empty() ? "no " + std::string(kInfer) : "not in " + named;
    Lacks("TensorRT is not installed (" + why + "): " + kInstall);
  }
#ifdef WEFT_TENSORRT_STAND_IN
  if (!dlsym(infer, kMark))
    Lacks(
        "this plugin was compiled without TensorRT's headers, against a stand-in for tests: build "
        "it again where CMake finds NvInfer.h (-DWEFT_TENSORRT=FOLDER)");
#else
  if (dlsym(infer, kMark)) Lacks("WEFT_TENSORRT names a stand-in for tests, not TensorRT");
#endif
  int32_t (*ask)() = nullptr;
  Find(infer, "getInferLibVersion", &ask);
  const int32_t found = ask();
  version_ = VersionOf(found);
  if (found < 10000 || found / 10000 != NV_TENSORRT_MAJOR ||
      found / 100 < NV_TENSORRT_VERSION / 100)
    Lacks("TensorRT " + version_ + " is another than " + kBuiltFor +
          ", for which this plugin was compiled: install that or a later one of the same major "
          "version, or build the plugin again");
  Find(infer, "createInferBuilder_INTERNAL", &create_builder_);
  Find(infer, "createInferRuntime_INTERNAL", &create_runtime_);
  Find(parser, "createNvOnnxParser_INTERNAL", &create_parser_);
}

const Library& Library::Get() {
  static std::mutex mutex;
  static const Library* library = nullptr;
  std::lock_guard lock(mutex);
  if (!library) library = new Library;  // again, where it threw
  return *library;
}

std::unique_ptr<nvinfer1::IBuilder> Library::NewBuilder() const {
  return std::unique_ptr<nvinfer1::IBuilder>(
      static_cast<nvinfer1::IBuilder*>(create_builder_(&Log::Get(), NV_TENSORRT_VERSION)));
}
std::unique_ptr<nvinfer1::IRuntime> Library::NewRuntime() const {
  return std::unique_ptr<nvinfer1::IRuntime>(
      static_cast<nvinfer1::IRuntime*>(create_runtime_(&Log::Get(), NV_TENSORRT_VERSION)));
}
std::unique_ptr<nvonnxparser::IParser> Library::NewParser(
    nvinfer1::INetworkDefinition& network) const {
  return std::unique_ptr<nvonnxparser::IParser>(static_cast<nvonnxparser::IParser*>(
      create_parser_(&network, &Log::Get(), NV_ONNX_PARSER_VERSION)));
}

// ---- the driver ----

Driver::Driver() {
  const std::string named = Env("WEFT_LIBCUDA");
  const std::string file = named.empty() ? "libcuda.so.1" : named;
  std::string why;
  void* const cuda = Open(file, &why);
  if (!cuda)
    Lacks("TensorRT needs the CUDA driver (" + why +
          "): install NVIDIA's driver; WEFT_LIBCUDA names its file where it is not libcuda.so.1");
  const auto find = [&](const char* name, auto* f) {
    *f = reinterpret_cast<std::remove_reference_t<decltype(*f)>>(dlsym(cuda, name));
    if (!*f) Lacks(file + " lacks " + name + ": install a driver for CUDA 12 or newer");
  };
  find("cuInit", &init_);
  find("cuGetErrorString", &get_error_string_);
  find("cuDeviceGet", &device_get_);
  find("cuDeviceGetName", &device_get_name_);
  find("cuDeviceGetAttribute", &device_get_attribute_);
  find("cuDevicePrimaryCtxRetain", &retain_);
  find("cuCtxGetCurrent", &get_current_);
  find("cuCtxGetDevice", &get_device_);
  find("cuCtxPushCurrent_v2", &push_);
  find("cuCtxPopCurrent_v2", &pop_);
  find("cuMemAlloc_v2", &allocate_);
  find("cuMemFree_v2", &free_);
  find("cuMemcpyDtoDAsync_v2", &copy_);
  find("cuStreamSynchronize", &wait_);
  find("cuEventCreate", &event_create_);
  find("cuEventDestroy_v2", &event_destroy_);
  find("cuEventRecord", &event_record_);
  find("cuEventSynchronize", &event_wait_);
  find("cuStreamWaitEvent", &wait_event_);
  if (const int result = init_(0)) {
    const char* text = nullptr;
    get_error_string_(result, &text);
    Lacks(std::string("the CUDA driver does not start: ") + (text ? text : "unknown error"));
  }
}

const Driver& Driver::Get() {
  static std::mutex mutex;
  static const Driver* driver = nullptr;
  std::lock_guard lock(mutex);
  if (!driver) driver = new Driver;
  return *driver;
}

void Driver::Check(int result, const char* what) const {
  if (result == 0) return;
  constexpr int kNoMemory = 2;
  const char* text = nullptr;
  get_error_string_(result, &text);
  throw Failure{result == kNoMemory ? WEFT_E_OUT_OF_MEMORY : WEFT_E_DEVICE,
                std::string(what) + ": " + (text ? text : "unknown error")};
}

int Driver::DefaultDevice() const {
  const std::string number = Env("WEFT_CUDA_DEVICE");
  int device = 0;
  Check(device_get_(&device, number.empty() ? 0 : std::atoi(number.c_str())), "cuDeviceGet");
  return device;
}

int Driver::DeviceInUse() const {
  Context current = nullptr;
  Check(get_current_(&current), "cuCtxGetCurrent");
  if (!current) return DefaultDevice();
  int device = 0;
  Check(get_device_(&device), "cuCtxGetDevice");
  return device;
}

std::string Driver::NameOf(int device) const {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  char name[256] = {};
  int major = 0, minor = 0;
  Check(device_get_name_(name, sizeof name - 1, device), "cuDeviceGetName");
  Check(device_get_attribute_(&major, kMajor, device), "cuDeviceGetAttribute");
  Check(device_get_attribute_(&minor, kMinor, device), "cuDeviceGetAttribute");
  return std::string(name) + " (sm_" + std::to_string(major) + std::to_string(minor) + ")";
}

/// Retained once for the process, as the runtime of CUDA does it.
Driver::Context Driver::PrimaryOf(int device) const {
  static std::mutex mutex;
  static auto* contexts = new std::vector<Context>;
  std::lock_guard lock(mutex);
  if (contexts->size() <= size_t(device)) contexts->resize(size_t(device) + 1);
  Context& context = (*contexts)[size_t(device)];
  if (!context) Check(retain_(&context, device), "cuDevicePrimaryCtxRetain");
  return context;
}

void* Driver::Allocate(size_t bytes) const {
  uint64_t data = 0;
  Check(allocate_(&data, bytes), "cuMemAlloc");
  return reinterpret_cast<void*>(data);
}
void Driver::Free(void* data) const { free_(reinterpret_cast<uint64_t>(data)); }
void Driver::Copy(void* to, const void* from, size_t bytes, void* stream) const {
  Check(copy_(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), bytes, stream),
        "cuMemcpyDtoDAsync");
}
void Driver::Wait(void* stream) const { Check(wait_(stream), "cuStreamSynchronize"); }

Driver::Event::~Event() {
  if (event_) Get().event_destroy_(event_);
}
void Driver::Event::Record(void* stream) {
  const Driver& d = Get();
  constexpr unsigned kNoTiming = 2;  // CU_EVENT_DISABLE_TIMING
  if (!event_) d.Check(d.event_create_(&event_, kNoTiming), "cuEventCreate");
  d.Check(d.event_record_(event_, stream), "cuEventRecord");
}
void Driver::Event::MakeWait(void* stream) const {
  if (event_) Get().Check(Get().wait_event_(stream, event_, 0), "cuStreamWaitEvent");
}
void Driver::Event::Wait() const noexcept {
  if (event_) Get().event_wait_(event_);
}

Driver::Current::Current(int device) {
  const Driver& d = Get();
  Context current = nullptr;
  d.Check(d.get_current_(&current), "cuCtxGetCurrent");
  if (current) {
    int in_use = 0;
    d.Check(d.get_device_(&in_use), "cuCtxGetDevice");
    if (in_use == device) return;
  }
  d.Check(d.push_(d.PrimaryOf(device)), "cuCtxPushCurrent");
  pushed_ = true;
}
Driver::Current::~Current() {
  Context ignored = nullptr;
  if (pushed_) Get().pop_(&ignored);
}

}  // namespace weft_tensorrt
