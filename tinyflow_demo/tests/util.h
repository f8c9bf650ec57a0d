/// util.h: values in and out of tensors, and both kinds of session.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tinyflow/tinyflow.h"
#include "weft/support/error.h"

namespace tf::test {

/// A folder of one test.
struct Folder {
  Folder()
      : path(std::filesystem::temp_directory_path() /
             ("tinyflow_test_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  std::filesystem::path path;
};

inline Array Floats(const Ints& dims, const std::vector<double>& values) {
  return weft::Tensor::FromDoubles(float32, dims, values);
}
inline Array Classes(const std::vector<int64_t>& values) { return weft::Tensor::Ints(values); }
inline std::vector<double> Values(const Array& a) {
  std::vector<double> v;
  for (int64_t i = 0; i < a->num_elements(); ++i) v.push_back(a->at(i));
  return v;
}
/// Numbers that are neither round nor equal, in [-1, 1].
inline std::vector<double> Numbers(int64_t n, double phase = 0) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(std::sin(1.7 * double(i) + phase));
  return v;
}
inline void CheckNear(const Array& got, const std::vector<double>& want, double tolerance = 1e-5) {
  REQUIRE(got->num_elements() == int64_t(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got->at(int64_t(i)) - want[i]) <= tolerance * std::max(1.0, std::abs(want[i])));
  }
}
inline bool SameBits(const Array& a, const Array& b) { return a->Equals(*b); }

/// The error that `f` throws; its code, and `part` in its text.
template <class F>
void CheckThrows(F f, weft::ErrorCode code, const std::string& part) {
  try {
    f();
  } catch (const weft::Error& e) {
    CAPTURE(std::string(e.what()));
    CHECK(e.code() == code);
    CHECK(std::string(e.what()).find(part) != std::string::npos);
    return;
  }
  FAIL("nothing was thrown, expected an error about: " << part);
}

/// A graph of its own for one test.
struct Fresh {
  Fresh() { reset_default_graph(); }
};

}  // namespace tf::test
