/// decode_image.h: pixels of an encoded image: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF, WebP.
///
/// The bytes are untrusted, and what decodes them is the system's libraries. They are in a library
/// of their own, libweftpart_image.so, which is opened when the first image is asked for: who
/// decodes none loads none of them, and a build without them lacks nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "weft/support/api.h"

namespace weft {

struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  ///< height x width x 3, the first row on top
};

/// Nullopt where the bytes are no image of these formats, or a damaged one. Of channels of more
/// than 8 bits the upper 8 are kept; an alpha channel is left out. Throws kLimit for more than 2^28
/// pixels, judged by the head alone, and beyond the limits of the request; kUnsupported where this
/// build has no libweftpart_image.so.
WEFT_API std::optional<Image> DecodeImage(const uint8_t* bytes, size_t size);

}  // namespace weft
