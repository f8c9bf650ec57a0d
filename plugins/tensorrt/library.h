/// library.h: TensorRT's libraries and the CUDA driver, opened when they are first asked for. The
/// plugin links neither.
#pragma once

#include <NvInfer.h>
#include <NvOnnxParser.h>

#include <cstdint>
#include <memory>
#include <string>

namespace weft_tensorrt {

/// The entries of TensorRT that its headers call, and its log.
class Library {
 public:
  /// Opens it. Throws kUnsupported with what this machine lacks, what to install and which variable
  /// says where.
  static const Library& Get();

  std::unique_ptr<nvinfer1::IBuilder> NewBuilder() const;
  std::unique_ptr<nvinfer1::IRuntime> NewRuntime() const;
  std::unique_ptr<nvonnxparser::IParser> NewParser(nvinfer1::INetworkDefinition& network) const;
  const std::string& version() const { return version_; }

 private:
  Library();
  void* (*create_builder_)(void*, int32_t) = nullptr;
  void* (*create_runtime_)(void*, int32_t) = nullptr;
  void* (*create_parser_)(void*, void*, int) = nullptr;
  std::string version_;
};

/// Errors that TensorRT logs while this lives: those of this thread, and those of threads of
/// TensorRT's own, which nobody else claims. Scopes of a thread do not nest.
class ErrorLog {
 public:
  ErrorLog();
  ~ErrorLog();
  ErrorLog(const ErrorLog&) = delete;
  ErrorLog& operator=(const ErrorLog&) = delete;
  /// "what: " and what was logged. Where that tells of memory, the status is kOutOfMemory.
  [[noreturn]] void Fail(int32_t status, const std::string& what) const;

 private:
  friend class Log;
  std::string text_;
};

/// What of the CUDA driver the plugin calls itself.
class Driver {
 public:
  using Context = void*;
  /// Opens it (WEFT_LIBCUDA, else libcuda.so.1). Throws kUnsupported.
  static const Driver& Get();

  /// The device of the context that is current, else of that which WEFT_CUDA_DEVICE numbers.
  int DeviceInUse() const;
  std::string NameOf(int device) const;
  void* Allocate(size_t bytes) const;
  void Free(void* data) const;
  void Copy(void* to, const void* from, size_t bytes, void* stream) const;
  void Wait(void* stream) const;

  /// A place in the order of a stream's work.
  class Event {
   public:
    ~Event();
    Event() = default;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    /// It stands behind what the stream has been given so far.
    void Record(void* stream);
    /// What the stream is given from now on waits for it.
    void MakeWait(void* stream) const;
    /// Returns when what was before it is done.
    void Wait() const noexcept;

   private:
    void* event_ = nullptr;
  };

  /// Makes the primary context of a device current where none of that device is.
  class Current {
   public:
    explicit Current(int device);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    bool pushed_ = false;
  };

 private:
  Driver();
  void Check(int result, const char* what) const;
  int DefaultDevice() const;
  Context PrimaryOf(int device) const;

  int (*init_)(unsigned) = nullptr;
  int (*get_error_string_)(int, const char**) = nullptr;
  int (*device_get_)(int*, int) = nullptr;
  int (*device_get_name_)(char*, int, int) = nullptr;
  int (*device_get_attribute_)(int*, int, int) = nullptr;
  int (*retain_)(Context*, int) = nullptr;
  int (*get_current_)(Context*) = nullptr;
  int (*get_device_)(int*) = nullptr;
  int (*push_)(Context) = nullptr;
  int (*pop_)(Context*) = nullptr;
  int (*allocate_)(uint64_t*, size_t) = nullptr;
  int (*free_)(uint64_t) = nullptr;
  int (*copy_)(uint64_t, uint64_t, size_t, void*) = nullptr;
  int (*wait_)(void*) = nullptr;
  int (*event_create_)(void**, unsigned) = nullptr;
  int (*event_destroy_)(void*) = nullptr;
  int (*event_record_)(void*, void*) = nullptr;
  int (*event_wait_)(void*) = nullptr;
  int (*wait_event_)(void*, void*, unsigned) = nullptr;
};

}  // namespace weft_tensorrt
