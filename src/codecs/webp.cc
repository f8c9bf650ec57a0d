/// webp.cc: WebP by libwebp.
#include <webp/decode.h>

#include "codec.h"

namespace weft::codecs {

std::optional<Image> DecodeWebp(Bytes b) {
  int width = 0, height = 0;
  if (!WebPGetInfo(b.data, b.size, &width, &height)) return std::nullopt;
  std::optional<Image> image = MakeImage(height, width);
  if (!image || !WebPDecodeRGBInto(b.data, b.size, image->rgb.data(), image->rgb.size(), width * 3))
    return std::nullopt;
  return image;
}

}  // namespace weft::codecs
