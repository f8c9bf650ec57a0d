/// decode_image.cc: opens libweftpart_image.so.
#include "weft/support/decode_image.h"

#include "weft/support/check.h"
#include "weft/support/shared_library.h"

namespace weft {
namespace {

using Decoder = bool(const uint8_t*, size_t, Image*);

}  // namespace

std::optional<Image> DecodeImage(const uint8_t* bytes, size_t size) {
  static std::string why;
  static Decoder* const decoder =
      FindFunctionOfPart<Decoder>("libweftpart_image.so", "weft_decode_image", &why);
  WEFT_CHECK(decoder != nullptr, kUnsupported, "images cannot be decoded: {}", why);
  Image image;
  if (!decoder(bytes, size, &image)) return std::nullopt;
  return image;
}

}  // namespace weft
