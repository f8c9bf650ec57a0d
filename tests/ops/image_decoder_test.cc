/// image_decoder_test.cc: images made by hand, their pixels known; images cut off and damaged.
/// Formats that others write: tests/conformance, on the images that come with ONNX.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/support/e2e_util.h"
#include "weft/onnx/import.h"
#include "weft/support/decode_image.h"
#include "weft/support/file.h"

namespace {

using namespace weft;

std::string Word(int64_t v, int bytes) {
  std::string s;
  for (int k = 0; k < bytes; ++k) s += char(v >> (8 * k) & 255);
  return s;
}
std::string Bmp(int64_t width, int64_t height, int bits, const std::string& palette,
                const std::string& pixels) {
  return "BM" + Word(0, 8) + Word(54 + int64_t(palette.size()), 4) + Word(40, 4) + Word(width, 4) +
         Word(height, 4) + Word(1, 2) + Word(bits, 2) + Word(0, 24) + palette + pixels;
}
TensorPtr BytesOf(const std::string& s) {
  auto t = std::make_shared<Tensor>(DType::kU8, std::vector<int64_t>{int64_t(s.size())});
  std::copy(s.begin(), s.end(), t->mutable_data_as<uint8_t>());
  return t;
}
TensorPtr Decoded(const std::string& image, const std::string& format = "RGB") {
  const Graph g = e2e::FromText(
      "graph @g(%x: u8[n]) -> (%y) {\n  %y = ImageDecoder(%x) "
      "{pixel_format = \"" +
      format + "\"} : ?\n}");
  return GetEvaluator()->Eval(g, {BytesOf(image)})[0];
}
std::vector<int64_t> Values(const Tensor& t) {
  std::vector<int64_t> v;
  for (int64_t i = 0; i < t.num_elements(); ++i) v.push_back(t.at_int(i));
  return v;
}
using Ns = std::vector<int64_t>;

bool CanDecode() {
  const auto caught = e2e::Catch([] { DecodeImage(nullptr, 0); });
  if (!caught) return true;
  CHECK(caught->code == ErrorCode::kUnsupported);  // this build has no decoders, and says so
  return false;
}

}  // namespace

TEST_CASE("images of few pixels, in every format of their channels") {
  if (!CanDecode()) return;
  // Two rows of one pixel, the lower one first: blue, green, red and a byte to fill up.
  const std::string bmp = Bmp(1, 2, 24, "", std::string("\1\2\3\0\4\5\6\0", 8));
  const TensorPtr rgb = Decoded(bmp);
  CHECK(rgb->dims() == Ns{2, 1, 3});
  CHECK(Values(*rgb) == Ns{6, 5, 4, 3, 2, 1});
  CHECK(Values(*Decoded(bmp, "BGR")) == Ns{4, 5, 6, 1, 2, 3});
  const TensorPtr gray =
      Decoded("P6 2 1 255\n" + std::string("\xff\0\0\x80\x80\x80", 6), "Grayscale");
  CHECK(gray->dims() == Ns{1, 2, 1});
  CHECK(Values(*gray) == Ns{76, 128});  // 0.299 of 255
  CHECK(Values(*Decoded(Bmp(1, -2, 24, "", std::string("\1\2\3\0\4\5\6\0", 8)))) ==
        Ns{3, 2, 1, 6, 5, 4});
  CHECK(Values(*Decoded(Bmp(2, 1, 4, std::string("\1\2\3\0\7\x8\x9\0", 8) + std::string(56, '\0'),
                            std::string("\x10\0\0\0", 4)))) == Ns{9, 8, 7, 3, 2, 1});
  CHECK(Values(*Decoded("P1 3 1\n101")) == Ns{0, 0, 0, 255, 255, 255, 0, 0, 0});
  CHECK(Values(*Decoded("P2\n# one\n2 1 15\n0 15")) == Ns{0, 0, 0, 255, 255, 255});
  CHECK(Values(*Decoded("P5 1 1 65535\n" + std::string("\x80\0", 2))) == Ns{128, 128, 128});
  CHECK(e2e::Catch([&] { Decoded(bmp, "CMYK"); })->code == ErrorCode::kBadAttribute);
}

TEST_CASE("bytes that are no image give an empty one") {
  if (!CanDecode()) return;
  const std::string bmp = Bmp(1, 2, 24, "", std::string("\1\2\3\0\4\5\6\0", 8));
  for (const std::string& bad :
       {std::string(), std::string("BM"), std::string("hello, no image"), bmp.substr(0, 60),
        Bmp(-1, 2, 24, "", "12345678"), Bmp(1, 2, 16, "", "12345678"),
        Bmp(1 << 30, 1 << 30, 24, "", "12345678"), Bmp(2, 1, 8, "", "12345678"),
        std::string("P6 1000000000 1000000000 255\n1"), std::string("P6 1 1 0\n123"),
        std::string("P1 3 1\n10"), std::string("\x89PNG\r\n\x1a\n....", 12),
        std::string("\xff\xd8\xff\xe0....", 8), std::string("II*\0........", 12),
        std::string("RIFF....WEBPVP8 "), std::string("\xff\x4f\xff\x51....", 8),
        std::string("\0\0\0\x0cjP  \r\n\x87\n....", 16)}) {
    CAPTURE(bad);
    CHECK(Decoded(bad)->dims() == Ns{0, 0, 0});
  }
}

TEST_CASE("an image of more pixels than the limits allow is refused by its head") {
  if (!CanDecode()) return;
  // A PNG's signature and head alone: 2^15 by 2^15 pixels, their checksum worked out by zlib.
  const std::string head("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x80\0\0\0\x80\0\x08\x02\0\0\0", 29);
  const std::string png = head + "\x4b\x1e\x34\x28" + std::string("\0\0\0\1IDAT", 8);
  const auto caught = e2e::Catch([&] { Decoded(png); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kLimit);
}

TEST_CASE("images of every format, damaged anywhere, are decoded or refused") {
  if (!CanDecode()) return;
  const char* data = std::getenv("WEFT_DATA_DIR");
  if (!data) return;
  std::mt19937 rng(7);
  int images = 0;
  for (const char* format : {"bmp", "jpeg2k", "jpeg", "png", "pnm", "tiff", "webp"}) {
    const std::string path = std::string(data) + "/onnx/node/test_image_decoder_decode_" + format +
                             "_rgb/test_data_set_0/input_0.pb";
    if (!FileExists(path)) continue;
    ++images;
    const TensorPtr whole = ReadTensorProto(path);
    const auto size = size_t(whole->num_bytes());
    const std::string bytes(whole->data_as<char>(), size);
    CHECK(DecodeImage(whole->data_as<uint8_t>(), size));
    for (int k = 0; k < 60; ++k) {
      std::string damaged = bytes.substr(0, k % 3 == 0 ? rng() % size : size);
      for (uint32_t flips = rng() % 8; flips > 0 && !damaged.empty(); --flips)
        damaged[rng() % std::min<size_t>(damaged.size(), k % 2 ? 64 : size)] = char(rng());
      const auto caught = e2e::Catch(
          [&] { DecodeImage(reinterpret_cast<const uint8_t*>(damaged.data()), damaged.size()); });
      CHECK((!caught || caught->code == ErrorCode::kLimit));
    }
  }
  MESSAGE(images, " images");
}
