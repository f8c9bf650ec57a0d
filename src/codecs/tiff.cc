/// tiff.cc: TIFF by libtiff; the first image of the file.
#include <tiffio.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "codec.h"

namespace weft::codecs {
namespace {

struct Source {
  Bytes bytes;
  uint64_t at = 0;
};
tmsize_t ReadSource(thandle_t h, void* out, tmsize_t count) {
  auto* s = static_cast<Source*>(h);
  const uint64_t left = s->at < s->bytes.size ? s->bytes.size - s->at : 0;
  const uint64_t n = std::min<uint64_t>(left, uint64_t(count));
  std::memcpy(out, s->bytes.data + s->at, n);
  s->at += n;
  return tmsize_t(n);
}
tmsize_t WriteNothing(thandle_t, void*, tmsize_t) { return 0; }
toff_t SeekSource(thandle_t h, toff_t to, int whence) {
  auto* s = static_cast<Source*>(h);
  s->at = whence == SEEK_CUR ? s->at + to : whence == SEEK_END ? s->bytes.size + to : to;
  return s->at;
}
int CloseSource(thandle_t) { return 0; }
toff_t SizeOfSource(thandle_t h) { return static_cast<Source*>(h)->bytes.size; }
int SayNothing(TIFF*, void*, const char*, const char*, va_list) { return 1; }

/// What one buffer of the decoder may take: strips and tiles of any sane file are smaller.
constexpr tmsize_t kMaxBuffer = tmsize_t{1} << 30;

}  // namespace

std::optional<Image> DecodeTiff(Bytes b) {
  Source source{b};
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  if (!options) return std::nullopt;
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxBuffer);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), SayNothing, nullptr);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), SayNothing, nullptr);
  const std::unique_ptr<TIFF, void (*)(TIFF*)> tiff(
      TIFFClientOpenExt("image", "rm", &source, ReadSource, WriteNothing, SeekSource, CloseSource,
                        SizeOfSource, nullptr, nullptr, options.get()),
      TIFFClose);
  uint32_t width = 0, height = 0;
  if (!tiff || !TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width) ||
      !TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height))
    return std::nullopt;
  std::optional<Image> image = MakeImage(height, width);
  if (!image) return std::nullopt;
  std::vector<uint32_t> pixels(size_t(height) * width);
  if (!TIFFReadRGBAImageOriented(tiff.get(), width, height, pixels.data(), ORIENTATION_TOPLEFT, 1))
    return std::nullopt;
  for (size_t i = 0; i < pixels.size(); ++i) {
    image->rgb[3 * i] = uint8_t(TIFFGetR(pixels[i]));
    image->rgb[3 * i + 1] = uint8_t(TIFFGetG(pixels[i]));
    image->rgb[3 * i + 2] = uint8_t(TIFFGetB(pixels[i]));
  }
  return image;
}

}  // namespace weft::codecs
