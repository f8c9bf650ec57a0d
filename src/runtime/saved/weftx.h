/// weftx.h: the frame of a `.weftx` file (saved_program.h): tags, and numbers of 8 bytes.
/// Private to the runtime.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/support/hash.h"

namespace weft::weftx {

constexpr char kMagic[8] = {'W', 'E', 'F', 'T',
                            'X', 0,   0,   2};  // the last byte is the format version
constexpr size_t kBodyAt = sizeof kMagic + 16;  // behind the hash of all that follows
constexpr size_t kEntryBytes = 24;              // of the section table
constexpr size_t kAlign = 64;                   // of tensors, in the file

constexpr const char *kMeta = "meta", *kGraph = "graph", *kTensors = "tensors", *kData = "data",
                     *kKernels = "kernels", *kPlugins = "plugins", *kOwn = "own";
/// The section of way `k` of a program (runtime/compile/budget_program.h).
inline std::string GraphTag(size_t k) { return k == 0 ? kGraph : "way" + std::to_string(k); }
/// Attribute of graphs, of the program and of bodies: what is planned when it is loaded.
constexpr const char* kPlanned = "planned";

inline void AppendWord(std::string* out, uint64_t v) {
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = char(v >> (8 * i));
  out->append(bytes, 8);
}
inline uint64_t ReadWord(const char* at) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; --i) v = v << 8 | uint8_t(at[i]);
  return v;
}

/// Of pieces of a size: so several threads make it. A file of hundreds of megabytes is loaded in
/// little more time than this takes.
Hash128 HashOfPieces(std::string_view bytes);

/// Puts the hash of the body, which begins at kBodyAt, in front of it.
inline void Seal(std::string* file) {
  const Hash128 hash = HashOfPieces(std::string_view(*file).substr(kBodyAt));
  std::string digest;
  AppendWord(&digest, hash.hi);
  AppendWord(&digest, hash.lo);
  file->replace(kBodyAt - digest.size(), digest.size(), digest);
}
/// Of a file of at least kBodyAt bytes: nothing has changed since.
inline bool IsSealed(std::string_view file) {
  const Hash128 hash = HashOfPieces(file.substr(kBodyAt));
  const char* saved = file.data() + kBodyAt - 16;
  return hash.hi == ReadWord(saved) && hash.lo == ReadWord(saved + 8);
}

}  // namespace weft::weftx
