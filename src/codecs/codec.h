/// codec.h: the decoders of libweftpart_image.so.
///
/// Each is asked for bytes that begin as its format does. It gives nullopt for a damaged image, and
/// throws for one that is too large, before memory for its pixels is asked for.
#pragma once

#include <optional>

#include "weft/support/decode_image.h"

namespace weft::codecs {

struct Bytes {
  const uint8_t* data;
  size_t size;
  bool BeginsWith(const char* text, size_t length) const;
};

/// An image of these extents, black; nullopt where one is not positive. Throws kLimit.
std::optional<Image> MakeImage(int64_t height, int64_t width);

std::optional<Image> DecodeBmp(Bytes b);
std::optional<Image> DecodePnm(Bytes b);
std::optional<Image> DecodeJpeg(Bytes b);
std::optional<Image> DecodePng(Bytes b);
std::optional<Image> DecodeTiff(Bytes b);
std::optional<Image> DecodeWebp(Bytes b);
std::optional<Image> DecodeJpeg2000(Bytes b);

}  // namespace weft::codecs
