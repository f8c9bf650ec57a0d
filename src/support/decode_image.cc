/// decode_image.cc: opens libweft_image.so.
#include "weft/support/decode_image.h"

#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/shared_library.h"

namespace weft {
namespace {

using Decoder = bool(const uint8_t*, size_t, Image*);

/// Only from beside the library, as built, or from weft/ below it, as installed: a name that is
/// searched would let the environment choose the code.
Decoder* FindDecoder(std::string* why) {
  const std::string beside = DirectoryOf(CurrentLibraryPath());
  for (const std::string& folder : {beside, JoinPath(beside, "weft")}) {
    const std::string path = JoinPath(folder, "libweft_image.so");
    if (!FileExists(path)) continue;
    SharedLibrary library = SharedLibrary::TryOpen(path, why);
    if (!library.is_open()) return nullptr;
    library.KeepOpen();
    return library.GetFunction<Decoder>("weft_decode_image");
  }
  *why = fmt::format("libweft_image.so is not in {} (built without it?)", beside);
  return nullptr;
}

}  // namespace

std::optional<Image> DecodeImage(const uint8_t* bytes, size_t size) {
  static std::string why;
  static Decoder* const decoder = FindDecoder(&why);
  WEFT_CHECK(decoder != nullptr, kUnsupported, "images cannot be decoded: {}", why);
  Image image;
  if (!decoder(bytes, size, &image)) return std::nullopt;
  return image;
}

}  // namespace weft
