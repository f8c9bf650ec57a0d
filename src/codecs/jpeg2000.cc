/// jpeg2000.cc: JPEG 2000, files and bare code streams, by OpenJPEG. Gray and RGB, no subsampling.
#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "codec.h"

namespace weft::codecs {
namespace {

struct Source {
  Bytes bytes;
  size_t at = 0;
};
OPJ_SIZE_T ReadSource(void* out, OPJ_SIZE_T count, void* user) {
  auto* s = static_cast<Source*>(user);
  const size_t n = std::min(count, s->bytes.size - s->at);
  if (n == 0) return OPJ_SIZE_T(-1);
  std::memcpy(out, s->bytes.data + s->at, n);
  s->at += n;
  return n;
}
OPJ_OFF_T SkipSource(OPJ_OFF_T count, void* user) {
  auto* s = static_cast<Source*>(user);
  const auto left = OPJ_OFF_T(s->bytes.size - s->at);
  const OPJ_OFF_T n = std::clamp<OPJ_OFF_T>(count, -OPJ_OFF_T(s->at), left);
  s->at = size_t(OPJ_OFF_T(s->at) + n);
  return n;
}
OPJ_BOOL SeekSource(OPJ_OFF_T to, void* user) {
  auto* s = static_cast<Source*>(user);
  if (to < 0 || size_t(to) > s->bytes.size) return OPJ_FALSE;
  s->at = size_t(to);
  return OPJ_TRUE;
}

/// What all components have in common.
bool IsPlain(const opj_image_t& image) {
  if (image.numcomps < 1 || image.color_space == OPJ_CLRSPC_SYCC) return false;
  for (OPJ_UINT32 c = 0; c < image.numcomps; ++c) {
    const opj_image_comp_t& k = image.comps[c];
    if (k.dx != 1 || k.dy != 1 || k.prec < 1 || k.prec > 16 || k.sgnd || k.w != image.comps[0].w ||
        k.h != image.comps[0].h)
      return false;
  }
  return true;
}

}  // namespace

std::optional<Image> DecodeJpeg2000(Bytes b) {
  Source source{b};
  const bool bare = b.data[0] == 0xff;
  const std::unique_ptr<opj_stream_t, void (*)(opj_stream_t*)> stream(
      opj_stream_default_create(OPJ_TRUE), [](opj_stream_t* s) { opj_stream_destroy(s); });
  const std::unique_ptr<opj_codec_t, void (*)(opj_codec_t*)> codec(
      opj_create_decompress(bare ? OPJ_CODEC_J2K : OPJ_CODEC_JP2),
      [](opj_codec_t* c) { opj_destroy_codec(c); });
  if (!stream || !codec) return std::nullopt;
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), b.size);
  opj_stream_set_read_function(stream.get(), ReadSource);
  opj_stream_set_skip_function(stream.get(), SkipSource);
  opj_stream_set_seek_function(stream.get(), SeekSource);
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  opj_image_t* made = nullptr;
  const bool head = opj_setup_decoder(codec.get(), &parameters) &&
                    opj_read_header(stream.get(), codec.get(), &made);
  const std::unique_ptr<opj_image_t, void (*)(opj_image_t*)> decoded(
      made, [](opj_image_t* i) { opj_image_destroy(i); });
  if (!head || !decoded || decoded->x1 <= decoded->x0 || decoded->y1 <= decoded->y0)
    return std::nullopt;
  std::optional<Image> image = MakeImage(decoded->y1 - decoded->y0, decoded->x1 - decoded->x0);
  if (!image || !opj_decode(codec.get(), stream.get(), decoded.get()) ||
      !opj_end_decompress(codec.get(), stream.get()) || !IsPlain(*decoded) ||
      decoded->comps[0].w != image->width || decoded->comps[0].h != image->height)
    return std::nullopt;
  const bool gray = decoded->numcomps < 3;
  for (size_t i = 0; i < image->rgb.size(); ++i) {
    const opj_image_comp_t& c = decoded->comps[gray ? 0 : i % 3];
    const int v = c.data[i / 3];
    const int byte = c.prec > 8 ? v >> (c.prec - 8) : v * 255 / ((1 << c.prec) - 1);
    image->rgb[i] = uint8_t(std::clamp(byte, 0, 255));
  }
  return image;
}

}  // namespace weft::codecs
