/// tensorrt_test.cc: the plugin through Weft's own interface of delegates, with libraries that
/// stand in for TensorRT and the driver. The oracle for results is Weft's reference.
///
///   tensorrt_test PLUGIN BUILD_FOLDER FAKE_CUDA
#include <dlfcn.h>

#include <cmath>
#include <cstdio>

#include "harness.h"
#include "weft/core/module/plugin.h"
#include "weft/core/pass/provide.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"

using namespace weft;

namespace test {

std::string folder;

namespace {
int failures = 0, checks = 0;
}

void Check(bool good, const std::string& what) {
  ++checks;
  if (good) return;
  ++failures;
  std::printf("FAILED: %s\n", what.c_str());
}

Buffer Buffer::Filled(std::vector<int64_t> dims, size_t offset) {
  size_t n = 1;
  for (const int64_t d : dims) n *= size_t(d);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = float(std::sin(1.3 * double(i) + double(n)));
  return {std::move(dims), std::move(values), offset};
}

Graph Typed(const std::string& head, const std::string& body) {
  return ProvideTypes(ParseGraph("weft 1\ngraph @m" + head + " {\n" + body + "\n}\n"));
}

namespace {
DelegateSpec SpecOf(const std::string& options) {
  return ParseDelegates(options.empty() ? "tensorrt" : "tensorrt:" + options).at(0);
}
}  // namespace

std::shared_ptr<DelegateEngine> Compiled(const Graph& graph, const std::string& options,
                                         int threads) {
  const DelegateSpec spec = SpecOf(options);
  return spec.delegate->Compile({&graph, spec.options, threads});
}
std::shared_ptr<DelegateEngine> Imported(const Graph& graph, const std::string& bytes,
                                         const std::string& options) {
  const DelegateSpec spec = SpecOf(options);
  return spec.delegate->Import({&graph, spec.options, 1}, bytes);
}

std::vector<float> Ran(DelegateInstance* instance, const std::vector<Buffer>& inputs,
                       const std::vector<int64_t>& dims, int64_t* copied) {
  size_t n = 1;
  for (const int64_t d : dims) n *= size_t(d);
  const Buffer out(dims, std::vector<float>(n, -77));
  std::vector<DelegateTensor> in;
  for (const Buffer& b : inputs) in.push_back(b.tensor());
  const int64_t bytes = instance->Run(in, {out.tensor()}, nullptr);
  if (copied) *copied = bytes;
  return out.values();
}

std::vector<float> Expected(const Graph& graph, const std::vector<Buffer>& inputs) {
  CompileOptions options;
  options.backend = "ref";
  Session session(weft::Compile(graph, options));
  std::vector<TensorPtr> in;
  for (const Buffer& b : inputs) {
    const std::vector<float> v = b.values();
    in.push_back(Tensor::FromDoubles(DType::kF32, b.dims(), {v.begin(), v.end()}));
  }
  const TensorPtr y = session.Run(in).at(0);
  std::vector<float> out;
  for (int64_t i = 0; i < y->num_elements(); ++i) out.push_back(float(y->at(i)));
  return out;
}

int OfCuda(const char* counter) {
  void* const cuda = dlopen(std::getenv("WEFT_LIBCUDA"), RTLD_NOW);
  return reinterpret_cast<int (*)()>(dlsym(cuda, counter))();
}

double Apart(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::fabs(double(a[i]) - double(b[i])));
  return most;
}

}  // namespace test

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  test::folder = argv[2];
  unsetenv("FAKE_TENSORRT");
  unsetenv("FAKE_CUDA");
  LoadPlugin(argv[1]);
  setenv("WEFT_LIBCUDA", argv[3], 1);
  try {
    test::Opening();
    test::Building();
    test::Extents();
    test::Running();
    test::Keeping();
    test::Faults();
    test::Operators();
  } catch (const std::exception& e) {
    test::Check(false, e.what());
  }
  // What was made current was taken back.
  test::Check(test::OfCuda("fake_cuda_depth") == 0, "a context is still current");
  std::printf("tensorrt: %d checks, %d failed\n", test::checks, test::failures);
  return test::failures != 0;
}
