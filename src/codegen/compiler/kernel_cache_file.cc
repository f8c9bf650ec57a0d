/// kernel_cache_file.cc: see kernel_cache_file.h.
#include "kernel_cache_file.h"

#include <cstring>

#include "weft/support/hash.h"

namespace weft {
namespace {

constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'K', 'R', 'N', '1'};
constexpr char kReferenceMagic[8] = {'W', 'E', 'F', 'T', 'K', 'R', 'F', '1'};
constexpr size_t kTail = 2 * sizeof(uint64_t);

void PutU64(std::string* out, uint64_t v) {
  out->append(reinterpret_cast<const char*>(&v), sizeof v);
}
bool TakeU64(std::string_view* in, uint64_t* v) {
  if (in->size() < sizeof *v) return false;
  std::memcpy(v, in->data(), sizeof *v);
  in->remove_prefix(sizeof *v);
  return true;
}

}  // namespace

std::string PackCacheEntry(const std::string& key, const std::string& payload, bool is_reference) {
  std::string out(is_reference ? kReferenceMagic : kMagic, sizeof kMagic);
  PutU64(&out, key.size());
  out += key;
  PutU64(&out, payload.size());
  out += payload;
  const Hash128 h = HashBytes(out.data(), out.size());
  PutU64(&out, h.hi);
  PutU64(&out, h.lo);
  return out;
}

std::string CacheEntryName(std::string_view key) {
  return HashBytes(key.data(), key.size()).ToHex() + ".wk";
}

std::optional<UnpackedEntry> UnpackCacheEntry(std::string_view in, std::string* why) {
  auto bad = [&](const char* reason) {
    *why = reason;
    return std::nullopt;
  };
  if (in.size() < sizeof kMagic + 2 * sizeof(uint64_t) + kTail) return bad("it is cut off");
  UnpackedEntry out;
  out.is_reference = std::memcmp(in.data(), kReferenceMagic, sizeof kMagic) == 0;
  if (!out.is_reference && std::memcmp(in.data(), kMagic, sizeof kMagic) != 0)
    return bad("it does not begin as an entry of this version does");
  const Hash128 h = HashBytes(in.data(), in.size() - kTail);
  std::string_view tail = in.substr(in.size() - kTail);
  uint64_t hi = 0, lo = 0, n = 0;
  TakeU64(&tail, &hi);
  TakeU64(&tail, &lo);
  if (h.hi != hi || h.lo != lo) return bad("its hash is not that of its content");
  in.remove_suffix(kTail);
  in.remove_prefix(sizeof kMagic);
  if (!TakeU64(&in, &n) || n > in.size()) return bad("its key is cut off");
  out.key = in.substr(0, n);
  in.remove_prefix(n);
  if (!TakeU64(&in, &n) || n != in.size()) return bad("its lengths do not fit its size");
  out.payload = in;
  return out;
}

}  // namespace weft
