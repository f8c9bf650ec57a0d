/// npz.cc: the directory at the end of a ZIP archive, and the entries that it points to. Every
/// number of the file is checked against the bytes that are there. Source: PKWARE APPNOTE 6.3,
/// sections 4.3 and 4.5.3.
#include "weft/core/tensor/npz.h"

#include <array>

#include "weft/core/tensor/npy.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50,
                   kDirectoryEnd = 0x06054b50, kDirectoryEnd64 = 0x06064b50,
                   kDirectoryLocator64 = 0x07064b50;
constexpr uint32_t kIn64 = 0xffffffff;  // a number of 32 bits whose value stands elsewhere
constexpr uint16_t kExtraOf64 = 1, kStored = 0, kEncrypted = 1;

uint32_t Crc32(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int k = 0; k < 8; ++k) t[i] = t[i] & 1 ? 0xedb88320u ^ t[i] >> 1 : t[i] >> 1;
    }
    return t;
  }();
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 255] ^ crc >> 8;
  return ~crc;
}

class Archive {
 public:
  Archive(std::string_view bytes, const std::string& place) : bytes_(bytes), place_(place) {}

  std::map<std::string, TensorPtr> Read() const {
    std::map<std::string, TensorPtr> tensors;
    auto [at, entries] = Directory();
    for (uint64_t i = 0; i < entries; ++i) {
      Expect(at, kDirectoryEntry, "an entry of the directory");
      const uint64_t name_size = U16(at + 28), extra_size = U16(at + 30);
      std::string name(Part(at + 46, name_size));
      WEFT_CHECK(EndsWith(name, ".npy"), kBadTensorFile, "{}: '{}' is not a .npy file", place_,
                 name);
      name.resize(name.size() - 4);
      const auto [it, fresh] = tensors.emplace(name, nullptr);
      WEFT_CHECK(fresh, kBadTensorFile, "{}: there are two entries '{}'", place_, name);
      it->second = ParseNpy(Content(at, name), place_ + ":" + name);
      at += 46 + name_size + extra_size + U16(at + 32);
    }
    return tensors;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    ThrowError(ErrorCode::kBadTensorFile, what, place_);
  }
  std::string_view Part(uint64_t at, uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) Fail("the file is truncated");
    return bytes_.substr(at, size);
  }
  uint64_t Number(uint64_t at, int size) const {
    const std::string_view part = Part(at, uint64_t(size));
    uint64_t v = 0;
    for (int i = size - 1; i >= 0; --i) v = v << 8 | static_cast<unsigned char>(part[size_t(i)]);
    return v;
  }
  uint16_t U16(uint64_t at) const { return uint16_t(Number(at, 2)); }
  uint32_t U32(uint64_t at) const { return uint32_t(Number(at, 4)); }
  uint64_t U64(uint64_t at) const { return Number(at, 8); }
  void Expect(uint64_t at, uint32_t signature, const char* what) const {
    if (U32(at) != signature) Fail(fmt::format("not an archive of NumPy: {} is expected", what));
  }

  /// Where the directory begins, and how many entries it has.
  std::pair<uint64_t, uint64_t> Directory() const {
    constexpr uint64_t kEnd = 22, kMostComment = 0xffff, kLocator = 20;
    if (bytes_.size() < kEnd) Fail("the file is truncated");
    const uint64_t last = bytes_.size() - kEnd;
    uint64_t at = last;
    while (U32(at) != kDirectoryEnd) {
      if (at == 0 || last - at == kMostComment)
        Fail("not an archive of NumPy: it has no directory");
      --at;
    }
    if (U16(at + 10) != 0xffff && U32(at + 16) != kIn64) return {U32(at + 16), U16(at + 10)};
    if (at < kLocator) Fail("the file is truncated");
    Expect(at - kLocator, kDirectoryLocator64, "a locator of the directory");
    const uint64_t end = U64(at - kLocator + 8);
    Expect(end, kDirectoryEnd64, "the end of the directory");
    return {U64(end + 48), U64(end + 32)};
  }

  /// Bytes of the entry whose directory entry stands at `at`.
  std::string_view Content(uint64_t at, const std::string& name) const {
    if (U16(at + 8) & kEncrypted) Fail(fmt::format("'{}' is encrypted", name));
    if (U16(at + 10) != kStored)
      ThrowError(ErrorCode::kBadTensorFile, fmt::format("'{}' is compressed", name), place_,
                 "write it with numpy.savez");
    uint64_t size = U32(at + 24), local = U32(at + 42);
    const bool size_in_64 = size == kIn64, stored_in_64 = U32(at + 20) == kIn64,
               local_in_64 = local == kIn64;
    if (size_in_64 || stored_in_64 || local_in_64) {
      uint64_t extra = at + 46 + U16(at + 28);
      const uint64_t end = extra + U16(at + 30);
      while (extra + 4 <= end && U16(extra) != kExtraOf64) extra += 4 + U16(extra + 2);
      if (extra + 4 > end) Fail(fmt::format("'{}' has no sizes of 64 bits", name));
      extra += 4;
      if (size_in_64) size = U64(extra), extra += 8;
      if (stored_in_64) extra += 8;
      if (local_in_64) local = U64(extra);
    }
    Expect(local, kLocalHeader, "an entry");
    const std::string_view content = Part(local + 30 + U16(local + 26) + U16(local + 28), size);
    if (Crc32(content) != U32(at + 16)) Fail(fmt::format("'{}' is damaged", name));
    return content;
  }

  std::string_view bytes_;
  const std::string& place_;
};

}  // namespace

std::map<std::string, TensorPtr> ParseNpz(std::string_view bytes, const std::string& place) {
  return Archive(bytes, place).Read();
}
std::map<std::string, TensorPtr> ReadNpz(const std::string& path, int64_t max_bytes) {
  return ParseNpz(ReadFile(path, max_bytes), path);
}

}  // namespace weft
