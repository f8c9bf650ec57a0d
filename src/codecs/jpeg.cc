/// jpeg.cc: JPEG by libjpeg-turbo.
#include <csetjmp>
#include <cstdio>

#include "codec.h"
// It needs size_t and FILE.
#include <jpeglib.h>

namespace weft::codecs {
namespace {

/// More passes over an image than any encoder makes only cost time.
constexpr int kMaxScans = 200;

struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf leave;
};
[[noreturn]] void Leave(j_common_ptr c) {
  std::longjmp(reinterpret_cast<Errors*>(c->err)->leave, 1);
}
void Say(j_common_ptr) {}
void CountScans(j_common_ptr c) {
  if (reinterpret_cast<j_decompress_ptr>(c)->input_scan_number > kMaxScans) Leave(c);
}

/// Nothing with a destructor lives in here: an error leaves it by longjmp. `image` gets its pixels
/// between the two halves.
bool ReadHead(jpeg_decompress_struct* d, Errors* errors, Bytes b) {
  if (setjmp(errors->leave)) return false;
  jpeg_mem_src(d, b.data, b.size);
  if (jpeg_read_header(d, TRUE) != JPEG_HEADER_OK) return false;
  d->out_color_space = JCS_RGB;
  jpeg_calc_output_dimensions(d);
  return d->output_components == 3;
}
bool ReadPixels(jpeg_decompress_struct* d, Errors* errors, uint8_t* rgb) {
  if (setjmp(errors->leave)) return false;
  jpeg_start_decompress(d);
  while (d->output_scanline < d->output_height) {
    JSAMPROW row = rgb + size_t(d->output_scanline) * d->output_width * 3;
    jpeg_read_scanlines(d, &row, 1);
  }
  return true;
}

struct Decompressor {
  Decompressor() {
    d.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = Leave;
    errors.base.output_message = Say;
    jpeg_create_decompress(&d);
    d.progress = &progress;
    progress.progress_monitor = CountScans;
  }
  ~Decompressor() { jpeg_destroy_decompress(&d); }
  jpeg_decompress_struct d{};
  Errors errors{};
  jpeg_progress_mgr progress{};
};

}  // namespace

std::optional<Image> DecodeJpeg(Bytes b) {
  Decompressor j;
  if (!ReadHead(&j.d, &j.errors, b)) return std::nullopt;
  std::optional<Image> image = MakeImage(j.d.output_height, j.d.output_width);
  if (!image || !ReadPixels(&j.d, &j.errors, image->rgb.data())) return std::nullopt;
  return image;
}

}  // namespace weft::codecs
