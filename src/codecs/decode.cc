/// decode.cc: what libweftpart_image.so exports: the decoder that the first bytes ask for.
#include <cstring>

#include "codec.h"
#include "weft/support/check.h"
#include "weft/support/limits.h"
#include "weft/support/request.h"

namespace weft::codecs {
namespace {

/// Larger than any camera's image; three bytes each.
constexpr int64_t kMaxPixels = int64_t{1} << 28;

struct Format {
  const char* magic;
  size_t length;
  std::optional<Image> (*decode)(Bytes);
};
constexpr Format kFormats[] = {
    {"BM", 2, DecodeBmp},
    {"\xff\xd8\xff", 3, DecodeJpeg},
    {"\x89PNG\r\n\x1a\n", 8, DecodePng},
    {"II*\0", 4, DecodeTiff},
    {"MM\0*", 4, DecodeTiff},
    {"\0\0\0\x0cjP  \r\n\x87\n", 12, DecodeJpeg2000},
    {"\xff\x4f\xff\x51", 4, DecodeJpeg2000},
    {"RIFF", 4, DecodeWebp},
    {"P1", 2, DecodePnm},
    {"P2", 2, DecodePnm},
    {"P3", 2, DecodePnm},
    {"P4", 2, DecodePnm},
    {"P5", 2, DecodePnm},
    {"P6", 2, DecodePnm},
};

}  // namespace

bool Bytes::BeginsWith(const char* text, size_t length) const {
  return size >= length && std::memcmp(data, text, length) == 0;
}

std::optional<Image> MakeImage(int64_t height, int64_t width) {
  if (height <= 0 || width <= 0) return std::nullopt;
  WEFT_CHECK(height <= kMaxPixels / width, kLimit, "an image of {} x {} pixels, more than {}",
             height, width, kMaxPixels);
  RequestScope::CheckTensor(height * width * 3);
  RequestScope::CheckMemory(height * width * 3);
  Image image;
  image.height = height;
  image.width = width;
  image.rgb.resize(size_t(height * width * 3));
  return image;
}

}  // namespace weft::codecs

/// Into `image`; false where the bytes are none.
extern "C" WEFT_API bool weft_decode_image(const uint8_t* bytes, size_t size, weft::Image* image) {
  using namespace weft::codecs;
  const Bytes b{bytes, size};
  for (const Format& f : kFormats) {
    if (!b.BeginsWith(f.magic, f.length)) continue;
    std::optional<weft::Image> decoded = f.decode(b);
    if (decoded) *image = std::move(*decoded);
    return decoded.has_value();
  }
  return false;
}
