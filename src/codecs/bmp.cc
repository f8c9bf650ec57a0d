/// bmp.cc: uncompressed BMP of 1, 4, 8, 24 and 32 bits a pixel.
#include <cstdlib>

#include "codec.h"

namespace weft::codecs {
namespace {

uint32_t Word(Bytes b, size_t at, int bytes) {
  uint32_t v = 0;
  for (int k = bytes; k-- > 0;) v = v << 8 | b.data[at + size_t(k)];
  return v;
}

}  // namespace

std::optional<Image> DecodeBmp(Bytes b) {
  constexpr size_t kFileHead = 14, kInfoHead = 40;
  if (b.size < kFileHead + kInfoHead) return std::nullopt;
  const size_t pixels = Word(b, 10, 4), head = Word(b, kFileHead, 4);
  const int64_t width = int32_t(Word(b, 18, 4)), signed_height = int32_t(Word(b, 22, 4));
  const int64_t height = std::llabs(signed_height);  // negative: the first row comes first
  const uint32_t bits = Word(b, 28, 2), compression = Word(b, 30, 4);
  if (head < kInfoHead || compression != 0 || width <= 0 || height == 0) return std::nullopt;
  if (bits != 1 && bits != 4 && bits != 8 && bits != 24 && bits != 32) return std::nullopt;
  const uint64_t stride = (uint64_t(width) * bits + 31) / 32 * 4;
  if (pixels > b.size || stride > (b.size - pixels) / uint64_t(height)) return std::nullopt;
  const size_t palette = kFileHead + head;
  const size_t used = Word(b, 46, 4), colours = bits > 8 ? 0 : used ? used : size_t{1} << bits;
  if (palette > b.size || colours > (b.size - palette) / 4) return std::nullopt;
  std::optional<Image> image = MakeImage(height, width);
  if (!image) return std::nullopt;
  uint8_t* out = image->rgb.data();
  for (int64_t y = 0; y < height; ++y) {
    const int64_t line = signed_height < 0 ? y : height - 1 - y;
    const uint8_t* row = b.data + pixels + size_t(line) * stride;
    for (int64_t x = 0; x < width; ++x, out += 3) {
      const uint8_t* from = row + size_t(x) * (bits / 8);
      if (bits <= 8) {
        const size_t at = size_t(x) * bits;
        const size_t shift = 8 - bits - at % 8;
        const size_t index = size_t(row[at / 8] >> shift) & ((1u << bits) - 1);
        if (index >= colours) return std::nullopt;
        from = b.data + palette + 4 * index;
      }
      for (int k = 0; k < 3; ++k) out[k] = from[2 - k];
    }
  }
  return image;
}

}  // namespace weft::codecs
