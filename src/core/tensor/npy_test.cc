/// npy_test.cc: files as NumPy writes them, byte by byte from the description of the format, and
/// damaged ones.
#include "weft/core/tensor/npy.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ostream>

#include "weft/support/error.h"

namespace weft {
namespace {

/// A file of the given version around a header and data.
std::string File(int version, std::string header, const std::string& data) {
  header += '\n';
  std::string out = "\x93NUMPY";
  out += char(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += char((header.size() >> (8 * i)) & 0xff);
  return out + header + data;
}
template <class T>
std::string Bytes(std::initializer_list<T> values) {
  std::string out(values.size() * sizeof(T), '\0');
  std::memcpy(out.data(), values.begin(), out.size());
  return out;
}
std::string Problem(const std::string& bytes) {
  try {
    ParseNpy(bytes, "f.npy");
  } catch (const UserError& e) {
    CHECK(e.code() == ErrorCode::kBadTensorFile);
    CHECK(e.place() == "f.npy");
    return e.message();
  }
  return "nothing was thrown";
}
bool Has(const std::string& s, const char* part) { return s.find(part) != std::string::npos; }

TEST_CASE("the three versions, spacing and quotes of the header") {
  const std::string data = Bytes<float>({1, 2, 3, 4, 5, 6});
  for (int version : {1, 2, 3}) {
    const auto t = ParseNpy(
        File(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   ", data));
    CHECK(t->dtype() == DType::kF32);
    CHECK(t->dims() == std::vector<int64_t>{2, 3});
    CHECK(t->at(5) == 6);
  }
  CHECK(ParseNpy(File(1, "{\"shape\":(6,),\"fortran_order\":False,\"descr\":\"<f4\"}", data))
            ->rank() == 1);
  CHECK(ParseNpy(
            File(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", Bytes<float>({7})))
            ->at(0) == 7);
  CHECK(ParseNpy(File(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0), }", ""))
            ->num_elements() == 0);
}

TEST_CASE("Fortran order is transposed") {
  // Column-major 2x3: element (i, j) at i + 2 j.
  const auto t = ParseNpy(File(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
                               Bytes<int32_t>({0, 10, 1, 11, 2, 12})));
  const int want[] = {0, 1, 2, 10, 11, 12};
  for (int i = 0; i < 6; ++i) CHECK(t->at_int(i) == want[i]);
  std::string data;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) data += char(100 * i + 10 * j + k);
  const auto u =
      ParseNpy(File(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }", data));
  for (int i = 0, at = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) CHECK(u->at_int(at++) == 100 * i + 10 * j + k);
}

TEST_CASE("every dtype that NumPy has round-trips") {
  for (int i = 1; i < kNumDTypes; ++i) {
    const DType d = DType(i);
    CAPTURE(DTypeName(d));
    const bool has = d <= DType::kC128 && d != DType::kString;
    if (d == DType::kString || !has) {
      CHECK_THROWS_AS(FormatNpy(Tensor(d, {2})), UserError);
      continue;
    }
    Tensor t(d, {3, 2});
    for (int64_t k = 0; k < t.num_bytes(); ++k)
      t.mutable_data_as<char>()[k] = char(d == DType::kBool ? k % 2 : 17 * k + 3);
    const std::string bytes = FormatNpy(t);
    CHECK((bytes.size() - size_t(t.num_bytes())) % 64 == 0);
    const auto back = ParseNpy(bytes);
    if (d == DType::kBF16) {
      CHECK(back->dtype() == DType::kU16);
      CHECK(std::memcmp(back->data(), t.data(), 12) == 0);
    } else {
      CHECK(back->Equals(t));
    }
  }
  CHECK(ParseNpy(FormatNpy(*Tensor::Scalar(DType::kF64, 2.5)))->at(0) == 2.5);
  CHECK(ParseNpy(FormatNpy(*Tensor::Ints({4, 5})))->Equals(*Tensor::Ints({4, 5})));
}

TEST_CASE("what cannot be read says why") {
  const std::string good = FormatNpy(*Tensor::Ints({1, 2, 3}));
  for (size_t n = 0; n < good.size(); ++n)
    CHECK(Problem(good.substr(0, n)) != "nothing was thrown");
  CHECK(Has(Problem(good + "x"), "expected 24 bytes of elements, got 25"));
  const auto header = [](const char* descr, const char* shape) {
    return File(
        1,
        std::string("{'descr': ") + descr + ", 'fortran_order': False, 'shape': " + shape + ", }",
        "");
  };
  CHECK(Has(Problem(header("'>f4'", "(0,)")), "big-endian"));
  CHECK(Has(Problem(header("'<U5'", "(0,)")), "strings"));
  CHECK(Has(Problem(header("'|S5'", "(0,)")), "strings"));
  CHECK(Has(Problem(header("'|O'", "(0,)")), "Python objects"));
  CHECK(Has(Problem(header("[('a', '<f4')]", "(0,)")), "record"));
  CHECK(Has(Problem(header("''", "(0,)")), "cannot be read"));
  CHECK(Has(Problem(header("'<f4'", "(-1,)")), "expected dimensions"));
  CHECK(Has(Problem(header("'<f4'", "(9999999999, 9999999999)")), "64 bits"));
  CHECK(Has(Problem(header("'<f4'", "(999999999999,)")), "expected 3999999999996 bytes"));
  CHECK(Has(Problem(header("'<f4', 'descr': '<f4'", "(0,)")), "repeated key"));
  CHECK(Has(Problem(File(1, "{'descr': '<f4'}", "")), "lacks"));
  CHECK(Has(Problem(File(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)} x", "")),
            "after the header"));
  CHECK(Has(Problem(File(4, "{}", "")), "version 4.0"));
  CHECK(Has(Problem("not numpy at all"), "not a .npy file"));
  std::string huge = good;
  huge[6] = 2;
  huge[10] = huge[11] = char(0xff);
  CHECK(Problem(huge) != "nothing was thrown");
}

TEST_CASE("files") {
  const std::string path = "/tmp/weft_npy_test_" + std::to_string(::getpid()) + ".npy";
  const TensorPtr t = Tensor::FromDoubles(DType::kF16, {2, 2}, {1, 2, 3, 4});
  WriteNpy(path, *t);
  CHECK(ReadNpy(path)->Equals(*t));
  CHECK_THROWS_AS(ReadNpy(path, 10), UserError);
  std::remove(path.c_str());
  CHECK_THROWS_AS(ReadNpy(path), UserError);
}

}  // namespace
}  // namespace weft
