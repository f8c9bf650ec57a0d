/// cubin_info.cc: reads the register and stack use of a kernel from the `.nv.info` section of a
/// cubin.
///
/// A cubin is a 64-bit little-endian ELF file. `.nv.info` is a list of attributes: one byte format,
/// one byte number, two bytes that are the value or, for format 4, the length of the value that
/// follows. Two of them are tables with one (symbol, value) pair a kernel: registers per thread and
/// bytes of stack frame.
#include "cubin_info.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace weft::cuda {
namespace {

constexpr uint8_t kSizedValue = 4;
constexpr uint8_t kFrameSize = 0x11;
constexpr uint8_t kRegisterCount = 0x2f;

/// Reads that stay inside the file; a read outside gives 0 and clears `ok`.
struct Reader {
  std::string_view bytes;
  bool ok = true;

  template <class T>
  T At(uint64_t offset) {
    T v{};
    if (offset > bytes.size() || bytes.size() - offset < sizeof v) {
      ok = false;
      return v;
    }
    std::memcpy(&v, bytes.data() + offset, sizeof v);
    return v;
  }
  std::string_view Slice(uint64_t offset, uint64_t size) {
    if (offset > bytes.size() || bytes.size() - offset < size) {
      ok = false;
      return {};
    }
    return bytes.substr(offset, size);
  }
  std::string_view Name(std::string_view table, uint64_t offset) {
    if (offset >= table.size()) return {};
    const std::string_view rest = table.substr(offset);
    return rest.substr(0, rest.find('\0'));
  }
};

struct Section {
  uint32_t name = 0, type = 0, link = 0;
  uint64_t offset = 0, size = 0;
};

}  // namespace

CubinInfo ReadCubin(std::string_view binary, const std::string& kernel) {
  CubinInfo info;
  Reader r{binary};
  if (r.Slice(0, 6) != std::string_view("\x7f"
                                        "ELF\x02\x01",
                                        6))
    return info;
  const auto table = r.At<uint64_t>(0x28);
  const auto entry = r.At<uint16_t>(0x3a), count = r.At<uint16_t>(0x3c),
             names_index = r.At<uint16_t>(0x3e);
  std::vector<Section> sections;
  for (uint32_t i = 0; i < count && r.ok; ++i) {
    const uint64_t at = table + uint64_t{i} * entry;
    sections.push_back({r.At<uint32_t>(at), r.At<uint32_t>(at + 4), r.At<uint32_t>(at + 0x28),
                        r.At<uint64_t>(at + 0x18), r.At<uint64_t>(at + 0x20)});
  }
  if (!r.ok || names_index >= sections.size()) return info;
  const std::string_view names = r.Slice(sections[names_index].offset, sections[names_index].size);

  // The kernel's symbol number.
  uint32_t symbol = 0;
  for (const Section& s : sections) {
    if (s.type != 2 || s.link >= sections.size()) continue;  // SHT_SYMTAB
    const std::string_view strings = r.Slice(sections[s.link].offset, sections[s.link].size);
    const uint64_t symbols = s.size / 24;
    for (uint64_t i = 1; i < symbols && r.ok; ++i) {
      if (r.Name(strings, r.At<uint32_t>(s.offset + i * 24)) == kernel) symbol = uint32_t(i);
    }
  }
  if (!r.ok || symbol == 0) return info;
  info.found = true;

  for (const Section& s : sections) {
    if (r.Name(names, s.name) != ".nv.info") continue;
    for (uint64_t at = 0; at + 4 <= s.size && r.ok;) {
      const auto format = r.At<uint8_t>(s.offset + at), number = r.At<uint8_t>(s.offset + at + 1);
      const auto size = r.At<uint16_t>(s.offset + at + 2);
      at += 4;
      if (format != kSizedValue) continue;
      for (uint64_t pair = 0; pair + 8 <= size; pair += 8) {
        if (r.At<uint32_t>(s.offset + at + pair) != symbol) continue;
        const int value = int(r.At<uint32_t>(s.offset + at + pair + 4));
        if (number == kRegisterCount) info.registers = value;
        if (number == kFrameSize) info.local_bytes = value;
      }
      at += size;
    }
  }
  return info;
}

}  // namespace weft::cuda
