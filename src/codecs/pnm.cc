/// pnm.cc: portable bitmaps, graymaps and pixmaps (P1 to P6).
#include "codec.h"

namespace weft::codecs {
namespace {

class Reader {
 public:
  explicit Reader(Bytes b) : b_(b) {}
  /// A decimal number behind white space and comments; nullopt where there is none.
  std::optional<int64_t> Number() {
    while (at_ < b_.size && (IsSpace(b_.data[at_]) || b_.data[at_] == '#')) {
      if (b_.data[at_] == '#')
        while (at_ < b_.size && b_.data[at_] != '\n') ++at_;
      else
        ++at_;
    }
    int64_t v = 0;
    const size_t begin = at_;
    while (at_ < b_.size && b_.data[at_] >= '0' && b_.data[at_] <= '9' && at_ - begin < 9)
      v = v * 10 + (b_.data[at_++] - '0');
    return at_ == begin ? std::nullopt : std::optional<int64_t>(v);
  }
  /// One digit: the pixels of P1 need no space between them.
  std::optional<int64_t> Bit() {
    while (at_ < b_.size && IsSpace(b_.data[at_])) ++at_;
    if (at_ == b_.size || (b_.data[at_] != '0' && b_.data[at_] != '1')) return std::nullopt;
    return b_.data[at_++] - '0';
  }
  std::optional<int64_t> Sample(int bytes) {
    if (b_.size - at_ < size_t(bytes)) return std::nullopt;
    int64_t v = 0;
    for (int k = 0; k < bytes; ++k) v = v << 8 | b_.data[at_++];
    return v;
  }
  void Skip(size_t bytes) { at_ = bytes > b_.size - at_ ? b_.size : at_ + bytes; }
  size_t left() const { return b_.size - at_; }

 private:
  static bool IsSpace(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  Bytes b_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Image> DecodePnm(Bytes b) {
  const int kind = b.data[1] - '0';
  const bool text = kind <= 3, bitmap = kind == 1 || kind == 4;
  const int channels = kind == 3 || kind == 6 ? 3 : 1;
  Reader r(b);
  r.Skip(2);
  const auto width = r.Number(), height = r.Number();
  const auto greatest = bitmap ? std::optional<int64_t>(1) : r.Number();
  if (!width || !height || !greatest || *greatest < 1 || *greatest > 65535) return std::nullopt;
  if (!text) r.Skip(1);
  // A sample takes a bit at least: no memory for what the bytes cannot hold.
  if (*width <= 0 || *height > int64_t(r.left() * 8) / *width) return std::nullopt;
  std::optional<Image> image = MakeImage(*height, *width);
  if (!image) return std::nullopt;
  int64_t bits = 0;
  for (size_t i = 0; i < image->rgb.size(); i += 3) {
    for (int k = 0; k < channels; ++k) {
      std::optional<int64_t> v;
      if (kind == 4) {
        const size_t x = i / 3 % size_t(*width);  // rows begin with a byte
        if (x % 8 == 0) {
          const auto byte = r.Sample(1);
          if (!byte) return std::nullopt;
          bits = *byte;
        }
        v = bits >> (7 - x % 8) & 1;
      } else {
        v = kind == 1 ? r.Bit() : text ? r.Number() : r.Sample(*greatest > 255 ? 2 : 1);
      }
      if (!v || *v > *greatest) return std::nullopt;
      const int64_t shown = bitmap ? 1 - *v : *v;  // 1 is black
      image->rgb[i + size_t(k)] = uint8_t((shown * 255 + *greatest / 2) / *greatest);
    }
    if (channels == 1) image->rgb[i + 1] = image->rgb[i + 2] = image->rgb[i];
  }
  return image;
}

}  // namespace weft::codecs
