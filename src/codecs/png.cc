/// png.cc: PNG by libpng.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "codec.h"

namespace weft::codecs {
namespace {

struct Source {
  Bytes bytes;
  size_t at;
};
void ReadSource(png_structp png, png_bytep out, size_t count) {
  auto* s = static_cast<Source*>(png_get_io_ptr(png));
  if (count > s->bytes.size - s->at) png_error(png, "end of data");
  std::memcpy(out, s->bytes.data + s->at, count);
  s->at += count;
}
[[noreturn]] void Leave(png_structp png, png_const_charp) { png_longjmp(png, 1); }
void Say(png_structp, png_const_charp) {}

struct Reader {
  explicit Reader(Bytes b) : source{b, 0} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, Leave, Say);
    if (png) info = png_create_info_struct(png);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Source source;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

/// Nothing with a destructor lives in these two: an error leaves them by longjmp.
bool ReadHead(Reader* r) {
  if (setjmp(png_jmpbuf(r->png))) return false;
  png_set_read_fn(r->png, &r->source, ReadSource);
  png_read_info(r->png, r->info);
  png_set_expand(r->png);
  png_set_strip_16(r->png);
  png_set_strip_alpha(r->png);
  png_set_gray_to_rgb(r->png);
  return true;
}
bool ReadPixels(Reader* r, uint8_t* rgb, size_t height, size_t row_bytes) {
  if (setjmp(png_jmpbuf(r->png))) return false;
  const int passes = png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
  if (png_get_rowbytes(r->png, r->info) != row_bytes) return false;
  for (int pass = 0; pass < passes; ++pass)
    for (size_t y = 0; y < height; ++y) png_read_row(r->png, rgb + y * row_bytes, nullptr);
  return true;
}

}  // namespace

std::optional<Image> DecodePng(Bytes b) {
  Reader r(b);
  if (!r.info || !ReadHead(&r)) return std::nullopt;
  std::optional<Image> image =
      MakeImage(png_get_image_height(r.png, r.info), png_get_image_width(r.png, r.info));
  if (!image || !ReadPixels(&r, image->rgb.data(), size_t(image->height), size_t(image->width) * 3))
    return std::nullopt;
  return image;
}

}  // namespace weft::codecs
