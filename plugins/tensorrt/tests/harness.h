/// harness.h: what the parts of tensorrt_test share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/core/module/delegate.h"
#include "weft/support/error.h"

namespace test {

/// Folder of the build, with the libraries that stand in for TensorRT below it.
extern std::string folder;

void Check(bool good, const std::string& what);
#define CHECK(condition) \
  ::test::Check((condition), std::string(__FILE__ ":") + std::to_string(__LINE__) + ": " #condition)

/// `f` must throw that, and say these words.
template <class F>
void Throws(weft::ErrorCode code, const std::vector<std::string>& says, F f) {
  try {
    f();
    Check(false, "nothing is thrown that says '" + says[0] + "'");
  } catch (const weft::Error& e) {
    Check(e.code() == code, std::string("another code: ") + e.what());
    for (const std::string& s : says)
      Check(std::string(e.what()).find(s) != std::string::npos,
            "'" + s + "' is not in: " + e.what());
  }
}

/// FAKE_TENSORRT, or another variable, while this lives.
class Setting {
 public:
  explicit Setting(const std::string& value, const char* name = "FAKE_TENSORRT") : name_(name) {
    if (const char* old = std::getenv(name)) old_ = std::make_unique<std::string>(old);
    setenv(name, value.c_str(), 1);
  }
  ~Setting() {
    if (old_)
      setenv(name_, old_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Setting(const Setting&) = delete;

 private:
  const char* name_;
  std::unique_ptr<std::string> old_;
};

/// What the stand-in was asked while this lives.
class Calls {
 public:
  Calls() : setting_(folder + "/calls", "FAKE_TENSORRT_LOG") { Clear(); }
  void Clear() const { std::ofstream(folder + "/calls"); }
  std::string text() const {
    std::ifstream in(folder + "/calls");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool Have(const std::string& line) const {
    return ("\n" + text()).find("\n" + line + "\n") != std::string::npos;
  }

 private:
  Setting setting_;
};

/// "device memory", whose address is `offset` behind a multiple of 256.
class Buffer {
 public:
  Buffer(std::vector<int64_t> dims, std::vector<float> values, size_t offset = 0)
      : dims_(std::move(dims)),
        bytes_(std::make_shared<std::vector<char>>(values.size() * sizeof(float) + 512)) {
    const auto at = reinterpret_cast<uintptr_t>(bytes_->data());
    data_ = reinterpret_cast<float*>((at + 255) / 256 * 256 + offset);
    for (size_t i = 0; i < values.size(); ++i) data_[i] = values[i];
    size_ = values.size();
  }
  /// Numbers that are not alike.
  static Buffer Filled(std::vector<int64_t> dims, size_t offset = 0);
  weft::DelegateTensor tensor() const { return {weft::DType::kF32, dims_, data_}; }
  std::vector<float> values() const { return {data_, data_ + size_}; }
  const std::vector<int64_t>& dims() const { return dims_; }

 private:
  std::vector<int64_t> dims_;
  std::shared_ptr<std::vector<char>> bytes_;  // copies share it
  float* data_;
  size_t size_;
};

/// A graph with types, of statements over inputs and outputs of a text's first line.
weft::Graph Typed(const std::string& head, const std::string& body);
/// As the plugin compiles it; `options` as on the command line, "tf32=true,level=5".
std::shared_ptr<weft::DelegateEngine> Compiled(const weft::Graph& graph,
                                               const std::string& options = "", int threads = 1);
std::shared_ptr<weft::DelegateEngine> Imported(const weft::Graph& graph, const std::string& bytes,
                                               const std::string& options = "");
/// Results of the engine, with one output of extents `dims`.
std::vector<float> Ran(weft::DelegateInstance* instance, const std::vector<Buffer>& inputs,
                       const std::vector<int64_t>& dims, int64_t* copied = nullptr);
/// The same by Weft's reference.
std::vector<float> Expected(const weft::Graph& graph, const std::vector<Buffer>& inputs);
/// A counter of the stand-in for the driver, "fake_cuda_waits".
int OfCuda(const char* counter);
/// The greatest difference.
double Apart(const std::vector<float>& a, const std::vector<float>& b);

// The parts.
void Opening();
void Building();
void Extents();
void Running();
void Keeping();
void Faults();
void Operators();

}  // namespace test
