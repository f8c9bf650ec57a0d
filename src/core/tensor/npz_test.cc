/// npz_test.cc: archives byte by byte from the description of the format, and damaged ones.
#include "weft/core/tensor/npz.h"

#include <doctest/doctest.h>

#include <ostream>

#include "weft/core/tensor/npy.h"
#include "weft/support/error.h"

namespace weft {
namespace {

std::string Little(uint64_t v, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += char(v >> (8 * i) & 0xff);
  return out;
}
/// Bit by bit, as the polynomial says.
uint32_t Checksum(const std::string& bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = (crc ^ uint32_t(static_cast<unsigned char>(c)) >> bit) & 1;
      crc = crc >> 1 ^ (one ? 0xedb88320u : 0);
    }
  return ~crc;
}

struct Entry {
  std::string name, content;
  int method = 0, flags = 0;
};
/// As zipfile writes it. `in_64`: sizes and places stand in the fields of 64 bits.
std::string Zip(const std::vector<Entry>& entries, bool in_64 = false) {
  std::string out, directory;
  for (const Entry& e : entries) {
    const uint64_t at = out.size(), size = e.content.size();
    const std::string same = Little(uint64_t(e.flags), 2) + Little(uint64_t(e.method), 2) +
                             Little(0, 4) + Little(Checksum(e.content), 4);
    const std::string in_32 = in_64 ? std::string(8, '\xff') : Little(size, 4) + Little(size, 4);
    const std::string extra =
        in_64 ? Little(1, 2) + Little(24, 2) + Little(size, 8) + Little(size, 8) + Little(at, 8)
              : "";
    const std::string sizes = in_32 + Little(e.name.size(), 2) + Little(extra.size(), 2);
    out += "PK\3\4" + Little(45, 2) + same + sizes + e.name + extra + e.content;
    directory += "PK\1\2" + Little(45, 2) + Little(45, 2) + same + sizes +
                 Little(0, 2 + 2 + 2 + 4) + (in_64 ? std::string(4, '\xff') : Little(at, 4)) +
                 e.name + extra;
  }
  const uint64_t start = out.size(), n = entries.size();
  out += directory;
  if (in_64) {
    const uint64_t end = out.size();
    out += "PK\6\6" + Little(44, 8) + Little(45, 2) + Little(45, 2) + Little(0, 8) + Little(n, 8) +
           Little(n, 8) + Little(directory.size(), 8) + Little(start, 8);
    out += "PK\6\7" + Little(0, 4) + Little(end, 8) + Little(1, 4);
  }
  return out + "PK\5\6" + Little(0, 4) + Little(n, 2) + Little(n, 2) + Little(directory.size(), 4) +
         (in_64 ? std::string(4, '\xff') : Little(start, 4)) + Little(0, 2);
}
std::string Npy(std::vector<double> values) {
  Tensor t(DType::kF32, {int64_t(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.set(int64_t(i), values[i]);
  return FormatNpy(t);
}
std::string Problem(const std::string& bytes) {
  try {
    ParseNpz(bytes, "f.npz");
  } catch (const UserError& e) {
    CHECK(e.code() == ErrorCode::kBadTensorFile);
    return e.what();
  }
  return "nothing was thrown";
}
bool Has(const std::string& s, const char* part) { return s.find(part) != std::string::npos; }

TEST_CASE("npz: every entry by its name, with sizes of 32 and of 64 bits") {
  CHECK(Checksum("123456789") == 0xcbf43926);  // the check value of CRC-32
  for (const bool in_64 : {false, true}) {
    const auto t =
        ParseNpz(Zip({{"x.npy", Npy({1, 2, 3})}, {"in/ids:0.npy", Npy({7})}}, in_64), "f.npz");
    REQUIRE(t.size() == 2);
    CHECK(t.at("x")->dims() == std::vector<int64_t>{3});
    CHECK(t.at("x")->at(2) == 3);
    CHECK(t.at("in/ids:0")->at(0) == 7);
  }
  CHECK(ParseNpz(Zip({})).empty());
  // A comment behind the directory.
  std::string commented = Zip({{"x.npy", Npy({1})}});
  commented.replace(commented.size() - 2, 2, Little(4, 2));
  CHECK(ParseNpz(commented + "PK??").size() == 1);
}

TEST_CASE("npz: what is refused") {
  const std::string good = Zip({{"x.npy", Npy({1, 2})}});
  CHECK(Has(Problem(Zip({{"x.npy", "abc", 8}})), "'x' is compressed"));
  CHECK(Has(Problem(Zip({{"x.npy", "abc", 8}})), "numpy.savez"));
  CHECK(Has(Problem(Zip({{"x.npy", Npy({1}), 0, 1}})), "encrypted"));
  CHECK(Has(Problem(Zip({{"x.txt", "abc"}})), "'x.txt' is not a .npy file"));
  CHECK(Has(Problem(Zip({{"x.npy", Npy({1})}, {"x.npy", Npy({2})}})), "two entries 'x'"));
  CHECK(Has(Problem(Zip({{"x.npy", "no header"}})), "f.npz:x"));
  CHECK(Has(Problem("this is text"), "truncated"));
  CHECK(Has(Problem(std::string(100, 'x')), "no directory"));
  std::string flipped = good;
  flipped[good.find("PK\1\2") - 1] ^= 1;  // the last byte of the tensor
  CHECK(Has(Problem(flipped), "damaged"));
}

TEST_CASE("npz: no damage is read beyond the file") {
  for (const bool in_64 : {false, true}) {
    const std::string good = Zip({{"x.npy", Npy({1, 2})}, {"y.npy", Npy({3})}}, in_64);
    for (size_t size = 0; size < good.size(); ++size)
      CHECK_THROWS_AS(ParseNpz(good.substr(0, size)), UserError);
    for (size_t at = 0; at < good.size(); ++at)
      for (const char c : {'\0', '\x7f', '\xff'}) {
        std::string bad = good;
        bad[at] = c;
        try {
          ParseNpz(bad);
        } catch (const UserError&) {
        }
      }
  }
}

}  // namespace
}  // namespace weft
