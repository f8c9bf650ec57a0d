/// kernel_cases.h: kernels built by hand with inputs and independently computed results, for the
/// tests of all printers.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "weft/codegen/kernel/kernel.h"

namespace weft::kernel_cases {

using Values = std::vector<double>;

struct Case {
  std::string name;
  std::shared_ptr<Kernel> kernel;
  std::vector<Values> inputs, expected;
  std::vector<int64_t> dims;   ///< values of d0 ..
  int64_t total = 0, row = 1;  ///< work items, elements of a row
  double tolerance = 0;        ///< relative to max(1, |expected|)
};

inline size_t Bytes(DType t) { return t == DType::kBool ? 1 : size_t(DTypeBits(t) / 8); }

inline void Encode(DType t, double v, void* to) {
  const auto put = [&](auto x) { std::memcpy(to, &x, sizeof x); };
  switch (t) {
    case DType::kBool:
      return put(uint8_t(v != 0));
    case DType::kI8:
      return put(int8_t(v));
    case DType::kI16:
      return put(int16_t(v));
    case DType::kI32:
      return put(int32_t(v));
    case DType::kI64:
      return put(int64_t(v));
    case DType::kU8:
      return put(uint8_t(v));
    case DType::kU16:
      return put(uint16_t(v));
    case DType::kU32:
      return put(uint32_t(v));
    case DType::kU64:
      return put(uint64_t(v));
    case DType::kF16:
      return put(FloatToHalf(float(v)));
    case DType::kBF16:
      return put(FloatToBFloat16(float(v)));
    case DType::kF32:
      return put(float(v));
    default:
      return put(v);
  }
}
template <class T>
T Get(const void* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
inline double Decode(DType t, const void* from) {
  switch (t) {
    case DType::kBool:
      return Get<uint8_t>(from);
    case DType::kI8:
      return Get<int8_t>(from);
    case DType::kI16:
      return Get<int16_t>(from);
    case DType::kI32:
      return Get<int32_t>(from);
    case DType::kI64:
      return double(Get<int64_t>(from));
    case DType::kU8:
      return Get<uint8_t>(from);
    case DType::kU16:
      return Get<uint16_t>(from);
    case DType::kU32:
      return Get<uint32_t>(from);
    case DType::kU64:
      return double(Get<uint64_t>(from));
    case DType::kF16:
      return HalfToFloat(Get<uint16_t>(from));
    case DType::kBF16:
      return BFloat16ToFloat(Get<uint16_t>(from));
    case DType::kF32:
      return Get<float>(from);
    default:
      return Get<double>(from);
  }
}
/// The value that memory of type `t` holds for `v`.
inline double Rounded(DType t, double v) {
  char bytes[8];
  Encode(t, v, bytes);
  return Decode(t, bytes);
}

/// Runs a printed kernel through `run` (buffers) on fresh memory, offset by `misalign` elements,
/// and compares. `in_place`: the first output lies on the first input.
inline void Check(const Case& c, const std::function<void(std::vector<void*>)>& run,
                  size_t misalign = 0, bool in_place = false) {
  INFO("case ", c.name);
  std::vector<std::vector<unsigned char>> memory;
  std::vector<void*> buffers;
  for (size_t b = 0; b < c.kernel->buffers.size(); ++b) {
    const DType t = c.kernel->buffers[b].dtype;
    const bool input = b < c.inputs.size();
    const size_t count = input ? c.inputs[b].size() : c.expected[b - c.inputs.size()].size();
    memory.emplace_back((count + 16 + misalign) * Bytes(t) + 64, uint8_t(0xab));
    auto base = reinterpret_cast<uintptr_t>(memory.back().data());
    base = (base + 15) / 16 * 16 + misalign * Bytes(t);
    buffers.push_back(reinterpret_cast<void*>(base));
    for (size_t i = 0; input && i < count; ++i)
      Encode(t, c.inputs[b][i], static_cast<char*>(buffers[b]) + i * Bytes(t));
  }
  if (c.kernel->has_flag()) *static_cast<char*>(buffers.back()) = 0;
  if (in_place) buffers[c.inputs.size()] = buffers[0];
  run(buffers);
  for (size_t k = 0; k < c.expected.size(); ++k) {
    const size_t b = c.inputs.size() + k;
    const DType t = c.kernel->buffers[b].dtype;
    const char* data = static_cast<const char*>(buffers[b]);
    int wrong = 0;
    for (size_t i = 0; i < c.expected[k].size() && wrong < 3; ++i) {
      const double got = Decode(t, data + i * Bytes(t)), want = Rounded(t, c.expected[k][i]);
      const bool same = got == want || (std::isnan(got) && std::isnan(want)) ||
                        std::fabs(got - want) <= c.tolerance * std::max(1.0, std::fabs(want));
      if (same) continue;
      ++wrong;
      CHECK_MESSAGE(same, c.name, " output ", k, " element ", i, ": got ", got, ", expected ",
                    want);
    }
    for (size_t g = 0; g < 8; ++g)
      CHECK(uint8_t(data[c.expected[k].size() * Bytes(t) + g]) == 0xab);
  }
}

/// Builds a shared library from source text with the system's compiler; null where there is none.
inline void* BuildAndOpen(const std::vector<std::string>& sources, const std::string& extension,
                          const std::string& compiler) {
  std::string dir = (std::filesystem::temp_directory_path() / "weft_printer_XXXXXX").string();
  if (mkdtemp(dir.data()) == nullptr) return nullptr;
  std::string files;
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string file = fmt::format("{}/{}{}", dir, i, extension);
    std::ofstream(file) << sources[i];
    files += " " + file;
  }
  const std::string library = dir + "/k.so";
  const std::string command = fmt::format(
      "{} -shared -fPIC -ffp-contract=off -fno-strict-aliasing -o {}{} -lm > {}/log 2>&1", compiler,
      library, files, dir);
  const bool have = std::system(fmt::format("{} --version > /dev/null 2>&1",
                                            compiler.substr(0, compiler.find(' ')))
                                    .c_str()) == 0;
  void* handle = nullptr;
  if (have) {
    const int rc = std::system(command.c_str());
    std::ifstream log(dir + "/log");
    const std::string text((std::istreambuf_iterator<char>(log)), {});
    CHECK_MESSAGE(rc == 0, text);
    if (rc == 0) handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (std::getenv("WEFT_KEEP_SOURCES") == nullptr) std::filesystem::remove_all(dir);
  return handle;
}

/// Whether the first output may lie on the first input: same type and size, read only where it is
/// written.
inline bool MayRunInPlace(const Case& c) {
  return c.name == "add_mul" || c.name.rfind("softmax", 0) == 0;
}

/// All cases, in a fixed order.
std::vector<Case> AllCases();

/// Their kernels, equal ones once: cases that differ in run-time sizes share a kernel.
inline std::vector<KernelPtr> DistinctKernels(const std::vector<Case>& cases) {
  std::vector<KernelPtr> kernels;
  std::set<std::string> names;
  for (const Case& c : cases) {
    if (names.insert(c.kernel->Name()).second) kernels.push_back(c.kernel);
  }
  return kernels;
}

}  // namespace weft::kernel_cases
