/// tokenizer.cc: weft::Tokenizer and weft::MurmurHash3, what text becomes before it is counted.
///
/// They mean what com.microsoft's operators of these names mean, which scikit-learn's converters
/// write. Where alternatives of a pattern match, the longest token is taken.
#include <algorithm>
#include <cstring>

#include "ops/util/host_util.h"
#include "regex.h"
#include "weft/support/request.h"

namespace weft::ops {
namespace {

struct TokenizerParam : OpParam<TokenizerParam> {
  int64_t mark, mincharnum;
  std::string pad_value, tokenexp;
  Strings separators, stopwords;
  WEFT_OP_PARAM(TokenizerParam) {
    WEFT_FIELD(mark).set_range(0, 1).describe("1: rows begin with \\x02 and end with \\x03");
    WEFT_FIELD(mincharnum).set_lower_bound(1).describe("shortest token, in code points");
    WEFT_FIELD(pad_value).describe("behind the tokens of shorter rows");
    WEFT_FIELD(separators)
        .set_default({})
        .describe("expressions between tokens; an empty one: each code point is a token");
    WEFT_FIELD(stopwords).set_default({}).describe("must be empty");
    WEFT_FIELD(tokenexp).set_default("").describe("expression of a token, instead of separators");
  }
};
WEFT_REGISTER_OP_PARAM(TokenizerParam);

struct MurmurHash3Param : OpParam<MurmurHash3Param> {
  int64_t positive, seed;
  WEFT_OP_PARAM(MurmurHash3Param) {
    WEFT_FIELD(positive).set_default(1).set_range(0, 1).describe("1: unsigned");
    WEFT_FIELD(seed).set_default(0).describe("32 bits of it are used");
  }
};
WEFT_REGISTER_OP_PARAM(MurmurHash3Param);

constexpr DTypeSet kText{DType::kString};
constexpr DTypeSet kHashed{DType::kString, DType::kI32, DType::kU32, DType::kI64,
                           DType::kU64,    DType::kF32, DType::kF64};

// ---- Tokenizer ----

using Spans = std::vector<std::pair<size_t, size_t>>;

int64_t CodePointsOf(const std::string& s, size_t begin, size_t end) {
  return std::count_if(s.begin() + long(begin), s.begin() + long(end),
                       [](char c) { return (uint8_t(c) & 0xc0) != 0x80; });
}
/// What lies between the matches of a separator.
Spans Between(const std::string& s, const Spans& spans, const Regex& separator) {
  Spans out;
  for (const auto& [begin, end] : spans) {
    const std::string part = s.substr(begin, end - begin);
    size_t at = 0;
    for (const auto& [from, to] : separator.FindAll(part)) {
      if (from > at) out.emplace_back(begin + at, begin + from);
      at = to;
    }
    if (at < part.size()) out.emplace_back(begin + at, end);
  }
  return out;
}
void TokenizerType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kText);
  ctx.set_out(0, DType::kString);
}
void TokenizerShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  std::vector<SymInt> dims = x.dims();
  dims.push_back(ctx.unbacked(0));
  ctx.set_out(0, Shape(std::move(dims)));
  Unknown(ctx, 0, "it depends on the strings");
}
Tensors TokenizerHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<TokenizerParam>(n);
  WEFT_CHECK(p.tokenexp.empty() != p.separators.empty(), kBadAttribute,
             "{}: {} of 'tokenexp' and 'separators' are given", n->Describe(),
             p.tokenexp.empty() ? "none" : "both");
  WEFT_CHECK(p.stopwords.empty(), kUnsupported, "{}: 'stopwords' are not supported", n->Describe());
  const bool each_point = p.separators.size() == 1 && p.separators[0].empty();
  std::vector<Regex> separators;
  if (!each_point)
    for (const std::string& s : p.separators) separators.emplace_back(s);
  const Regex token(each_point ? "(?s)." : p.tokenexp);
  std::vector<std::vector<std::string>> all;
  size_t longest = 0;
  for (const std::string& s : in[0]->strings()) {
    RequestScope::Poll();
    Spans spans{{0, s.size()}};
    if (separators.empty()) spans = token.FindAll(s);
    for (const Regex& separator : separators) spans = Between(s, spans, separator);
    std::vector<std::string>& row = all.emplace_back();
    if (p.mark) row.emplace_back("\x02");
    for (const auto& [begin, end] : spans)
      if (CodePointsOf(s, begin, end) >= p.mincharnum) row.push_back(s.substr(begin, end - begin));
    if (p.mark) row.emplace_back("\x03");
    longest = std::max(longest, row.size());
  }
  Dims dims = in[0]->dims();
  dims.push_back(int64_t(longest));
  auto y = NewTensor(DType::kString, dims);
  std::fill(y->mutable_strings().begin(), y->mutable_strings().end(), p.pad_value);
  for (size_t i = 0; i < all.size(); ++i)
    std::copy(all[i].begin(), all[i].end(), y->mutable_strings().begin() + long(i * longest));
  return {y};
}

// ---- MurmurHash3 ----

/// A. Appleby's MurmurHash3 for 32 bits, which is in the public domain.
uint32_t Murmur(const char* data, size_t size, uint32_t seed) {
  const auto rotate = [](uint32_t v, int by) { return v << by | v >> (32 - by); };
  const auto mixed = [&](uint32_t k) { return rotate(k * 0xcc9e2d51u, 15) * 0x1b873593u; };
  uint32_t h = seed;
  size_t at = 0;
  for (; at + 4 <= size; at += 4) {
    uint32_t k;
    std::memcpy(&k, data + at, 4);
    h = rotate(h ^ mixed(k), 13) * 5 + 0xe6546b64u;
  }
  uint32_t tail = 0;
  for (size_t i = size; i-- > at;) tail = tail << 8 | uint8_t(data[i]);
  if (at < size) h ^= mixed(tail);
  h ^= uint32_t(size);
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}
void MurmurType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kHashed);
  ctx.set_out(0, ParamOf<MurmurHash3Param>(ctx.node()).positive ? DType::kU32 : DType::kI32);
}
Tensors MurmurHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<MurmurHash3Param>(n);
  const Tensor& x = *in[0];
  auto y = NewTensor(p.positive ? DType::kU32 : DType::kI32, x.dims());
  const size_t width = size_t(DTypeBits(x.dtype())) / 8;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const bool text = x.dtype() == DType::kString;
    const char* data = text ? x.strings()[size_t(i)].data() : x.data_as<char>() + size_t(i) * width;
    const size_t size = text ? x.strings()[size_t(i)].size() : width;
    y->mutable_data_as<uint32_t>()[i] = Murmur(data, size, uint32_t(p.seed));
  }
  return {y};
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Tokenizer)
    .describe(
        "The tokens of each string, in a row of its own. Gradient: none. Source: com.microsoft "
        "Tokenizer-1 of ONNX Runtime.")
    .input("X", "str")
    .output("Y", "str", "[..., most tokens]")
    .param<TokenizerParam>()
    .set_attr<FInferType>("FInferType", TokenizerType)
    .set_attr<FInferShape>("FInferShape", TokenizerShape)
    .set_attr<FHostEval>("FHostEval", TokenizerHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP_IN(weft, MurmurHash3)
    .describe(
        "The hash of each string, or of the bytes of each number. Gradient: none. Source: "
        "com.microsoft MurmurHash3-1 of ONNX Runtime.")
    .input("X", TypeDoc(kHashed))
    .output("Y", "u32 or i32", "the shape of X")
    .param<MurmurHash3Param>()
    .example({"i64[2, n]"})
    .set_attr<FInferType>("FInferType", MurmurType)
    .set_attr<FInferShape>("FInferShape", UnaryShape)
    .set_attr<FHostEval>("FHostEval", MurmurHost)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
