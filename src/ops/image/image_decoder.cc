/// image_decoder.cc: ImageDecoder: pixels of an encoded image (weft/support/decode_image.h).
///
///   formula gray is (19595 R + 38470 G + 7471 B + 2^15) / 2^16, the luma of ITU-R BT.601
///   throws  kBadAttribute for another pixel_format; kLimit for more pixels than the limits allow;
///           kUnsupported where this build has no decoder
/// Bytes that are no image, or a damaged one, give an empty result, as the standard says.
#include "ops/util/host_util.h"
#include "weft/support/decode_image.h"

namespace weft::ops {
namespace {

constexpr DTypeSet kBytes{DType::kU8};

struct ImageDecoderParam : OpParam<ImageDecoderParam> {
  std::string pixel_format;
  WEFT_OP_PARAM(ImageDecoderParam) {
    WEFT_FIELD(pixel_format).set_default("RGB").describe("\"RGB\", \"BGR\" or \"Grayscale\"");
  }
};
WEFT_REGISTER_OP_PARAM(ImageDecoderParam);

const std::string& FormatOf(const NodePtr& n) {
  const std::string& f = ParamOf<ImageDecoderParam>(n).pixel_format;
  WEFT_CHECK(f == "RGB" || f == "BGR" || f == "Grayscale", kBadAttribute, "{}: pixel_format \"{}\"",
             n->Describe(), f);
  return f;
}
void ImageDecoderType(InferTypeContext& ctx) {
  FormatOf(ctx.node());
  CheckInputType(ctx, 0, kBytes);
  ctx.set_out(0, DType::kU8);
}
void ImageDecoderShape(InferShapeContext& ctx) {
  CheckRank(ctx, 0, 1, "encoded_stream");
  // An image that cannot be decoded has no channels either.
  ctx.set_out(0, Shape({ctx.unbacked(0), ctx.unbacked(1), ctx.unbacked(2)}));
  Unknown(ctx, 0, "the encoded image says it");
}
Tensors ImageDecoderHost(const NodePtr& n, const Tensors& in) {
  const std::string& format = FormatOf(n);
  const Tensor& bytes = *in.at(0);
  const auto image = DecodeImage(bytes.data_as<uint8_t>(), size_t(bytes.num_bytes()));
  if (!image) return {NewTensor(DType::kU8, {0, 0, 0})};
  const bool gray = format == "Grayscale";
  auto y = NewTensor(DType::kU8, {image->height, image->width, gray ? 1 : 3});
  auto* out = y->mutable_data_as<uint8_t>();
  const std::vector<uint8_t>& rgb = image->rgb;
  for (size_t i = 0; i < rgb.size(); i += 3) {
    if (gray) {
      *out++ = uint8_t((rgb[i] * 19595 + rgb[i + 1] * 38470 + rgb[i + 2] * 7471 + 0x8000) >> 16);
      continue;
    }
    const bool swapped = format == "BGR";
    for (size_t k = 0; k < 3; ++k) *out++ = rgb[i + (swapped ? 2 - k : k)];
  }
  return {y};
}

}  // namespace

WEFT_REGISTER_OP(ImageDecoder)
    .describe(
        "The pixels of a BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP image; an empty tensor where "
        "it cannot be decoded. The first 8 bits of each channel, without alpha. Source: ONNX "
        "ImageDecoder-20.")
    .input("encoded_stream", "u8", "[bytes]")
    .output("image", "u8", "[height, width, channels]")
    .param<ImageDecoderParam>()
    .set_attr<FInferType>("FInferType", ImageDecoderType)
    .set_attr<FInferShape>("FInferShape", ImageDecoderShape)
    .set_attr<FHostEval>("FHostEval", ImageDecoderHost)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
