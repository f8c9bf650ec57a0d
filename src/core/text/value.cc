/// value.cc: how types, tensors and attribute texts are written and read.
#include "value.h"

#include "core/tensor/scalar_io.h"
#include "util.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

bool IsComplex(DType t) { return t == DType::kC64 || t == DType::kC128; }
/// Dtypes whose elements are written with a point; the others are integers (or strings).
bool IsReal(DType t) { return IsFloat(t) || t >= DType::kF8E4M3FN; }

void AppendElement(std::string* out, const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) {
    AppendQuoted(out, t.strings()[size_t(i)]);
  } else if (t.dtype() == DType::kBool) {
    *out += t.at_int(i) ? "true" : "false";
  } else if (t.dtype() == DType::kF64) {
    AppendDouble(out, t.at(i));
  } else if (IsReal(t.dtype())) {
    AppendFloat(out, float(t.at(i)));
  } else if (t.dtype() == DType::kU64) {
    *out += fmt::format_int(uint64_t(t.at_int(i))).c_str();
  } else {
    AppendInt(out, t.at_int(i));
  }
}

void AppendHex(std::string* out, const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  out->reserve(out->size() + 2 * bytes);
  for (size_t i = 0; i < bytes; ++i) {
    *out += kHexDigits[p[i] >> 4];
    *out += kHexDigits[p[i] & 15];
  }
}

}  // namespace

void AppendType(std::string* out, Type type, const Shape& shape) {
  if (!type.is_tensor()) {
    *out += type.ToString();
    if (shape.has_rank()) *out += shape.ToString();
    return;
  }
  *out += DTypeName(type.dtype);
  if (shape.has_rank()) {
    *out += shape.ToString();
  } else if (type.known()) {
    *out += '?';
  }
}

void AppendTensorData(std::string* out, const TensorPtr& tensor, const PrintOptions& options) {
  const Tensor& t = *tensor;
  const bool is_small = t.num_elements() <= options.inline_elements && !IsComplex(t.dtype());
  if (is_small || (options.inline_all && t.dtype() == DType::kString)) {
    *out += '[';
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      if (i) *out += ", ";
      AppendElement(out, t, i);
    }
    *out += ']';
  } else if (options.inline_all) {
    *out += "#hex=";
    AppendHex(out, t.data(), size_t(t.num_bytes()));
  } else {
    const uint64_t hash = t.ContentHash();
    if (options.side_data) options.side_data->emplace(hash, tensor);
    *out += fmt::format("#hash={:016x}", hash);
  }
}

void AppendAttrText(std::string* out, std::string_view text) {
  bool is_word = !text.empty(), is_list = !text.empty() && text.front() == '[';
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    is_word = is_word && (letter || c == '_' || c == '.' || c == '+' || c == '-' || c == '?');
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    is_list = is_list && c >= ' ' && c < 127 && c != '"' && c != '\\' && c != '#' && c != '{' &&
              c != '}' && (depth > 0 || i + 1 == text.size());
  }
  if (is_word || (is_list && depth == 0 && text.back() == ']')) {
    *out += text;
  } else {
    AppendQuoted(out, text);
  }
}

Shape ReadShape(TextCursor& in, TextCache* cache) {
  if (in.Accept('?')) return Shape();
  const size_t at = in.pos();
  const std::string_view text = in.Bracketed("a shape such as '[2, n]' or '?'");
  const auto it = cache->shapes.find(text);
  if (it != cache->shapes.end()) return it->second;
  try {
    return cache->shapes.emplace(text, Shape::Parse(text)).first->second;
  } catch (const Error& e) {
    in.Fail(e.code(), e.message(), at, e.hint());
  }
}

namespace {

std::optional<DType> ReadDType(TextCursor& in) {
  if (in.Accept('?')) return DType::kUnknown;
  return ParseDType(in.Word("a dtype"));
}

[[noreturn]] void FailDType(TextCursor& in, size_t at) {
  std::vector<std::string> names;
  for (int i = 1; i < kNumDTypes; ++i) names.emplace_back(DTypeName(DType(i)));
  const std::string word(in.Slice(at, in.pos()));
  in.Fail(ErrorCode::kSyntax, fmt::format("unknown dtype '{}'", word), at, DidYouMean(word, names));
}

}  // namespace

namespace {

DType ReadElement(TextCursor& in) {
  const size_t at = in.pos();
  const auto dtype = ReadDType(in);
  if (!dtype) FailDType(in, at);
  return *dtype;
}
/// What is behind the word map.
Type ReadMap(TextCursor& in) {
  in.Expect('(', "before the type of the keys");
  const size_t at = in.pos();
  const DType key = ReadElement(in);
  if (key != DType::kI64 && key != DType::kString)
    in.Fail(ErrorCode::kSyntax,
            fmt::format("keys of dtype {}: expected i64 or str", DTypeName(key)), at, {});
  in.Expect(',', "before the type of the values");
  in.SkipSpace();
  const DType value = ReadElement(in);
  in.Expect(')', "after the type of the values");
  return Type(TypeKind::kMap, value, key);
}

}  // namespace

TypeAndShape ReadType(TextCursor& in, TextCache* cache) {
  TypeAndShape out;
  in.SkipSpace();
  const size_t at = in.pos();
  if (in.AcceptWord("opaque")) {
    out.type = Type(TypeKind::kOpaque, DType::kUnknown);
  } else if (in.AcceptWord("map")) {
    out.type = ReadMap(in);
  } else if (const bool is_sequence = in.AcceptWord("seq"); is_sequence || in.AcceptWord("opt")) {
    in.Expect('(', "before the type of the elements");
    const bool of_sequences = !is_sequence && in.AcceptWord("seq");
    if (of_sequences) in.Expect('(', "before the type of the elements");
    if (is_sequence && in.AcceptWord("map")) {
      const Type map = ReadMap(in);
      out.type = Type(TypeKind::kMapSequence, map.dtype, map.key);
    } else {
      out.type = Type(is_sequence    ? TypeKind::kSequence
                      : of_sequences ? TypeKind::kOptionalSequence
                                     : TypeKind::kOptional,
                      ReadElement(in));
    }
    in.Expect(')', "after the type of the elements");
    if (of_sequences) in.Expect(')', "after the type of the elements");
  } else {
    const auto dtype = ReadDType(in);
    if (!dtype) FailDType(in, at);
    out.type = Type(*dtype);
    if (out.type.known() && in.Here() != '[' && in.Here() != '?')
      in.FailExpected("'[' or '?' right after a dtype");
    if (out.type.known() && in.Here() == '?') {
      in.Advance(1);
      return out;
    }
  }
  if (in.Here() == '[') out.shape = ReadShape(in, cache);
  return out;
}

namespace {

void FillFromHex(Tensor* t, std::string_view digits) {
  auto* bytes = t->mutable_data_as<unsigned char>();
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes[i / 2] = uint8_t(value(digits[i]) * 16 + value(digits[i + 1]));
}

/// One element of an inline list.
struct Element {
  std::string string;
  std::string_view number;
  size_t at;
};

void StoreElement(TextCursor& in, Tensor* t, int64_t i, Element& e) {
  const DType dtype = t->dtype();
  if (dtype == DType::kString) {
    t->mutable_strings()[size_t(i)] = std::move(e.string);
    return;
  }
  if (IsReal(dtype)) {
    // Narrow types by way of float: text that is shortest for a float need not round the same way
    // through a double.
    const auto wide = dtype == DType::kF64 ? TryParseDouble(e.number) : std::nullopt;
    const auto narrow = dtype == DType::kF64 ? std::nullopt : TryParseFloat(e.number);
    if (wide || narrow) return t->set(i, wide ? *wide : double(*narrow));
  } else if (dtype == DType::kBool) {
    if (e.number == "true" || e.number == "false") return t->set_int(i, e.number == "true");
  } else if (dtype == DType::kU64 && e.number.size() >= 19 && e.number[0] != '-') {
    // Values above 2^63 are out of the reach of an int64.
    uint64_t v = 0;
    bool fits = true;
    for (const char c : e.number) {
      fits = fits && c >= '0' && c <= '9' && !__builtin_mul_overflow(v, uint64_t{10}, &v) &&
             !__builtin_add_overflow(v, uint64_t(c - '0'), &v);
    }
    if (fits) return t->set_int(i, int64_t(v));
  } else if (const auto v = TryParseInt64(e.number)) {
    t->set_int(i, *v);
    if (t->at_int(i) == *v) return;
    in.Fail(ErrorCode::kSyntax, fmt::format("{} is out of the range of {}", *v, DTypeName(dtype)),
            e.at);
  }
  in.Fail(ErrorCode::kSyntax,
          fmt::format("expected an element of {}, got '{}'", DTypeName(dtype), e.number), e.at);
}

TensorPtr ReadInline(TextCursor& in, DType dtype, const std::vector<int64_t>& dims, int64_t count) {
  const size_t at = in.pos();
  in.Expect('[', "before the elements");
  std::vector<Element> elements;
  while (!in.Accept(']')) {
    if (!elements.empty()) in.Expect(',', "between elements");
    in.SkipSpace();
    Element e;
    e.at = in.pos();
    if (dtype == DType::kString) {
      e.string = in.QuotedString("a string");
    } else {
      e.number = in.NumberText();
    }
    elements.push_back(std::move(e));
  }
  if (int64_t(elements.size()) != count) {
    in.Fail(ErrorCode::kSyntax, fmt::format("expected {} elements, got {}", count, elements.size()),
            at);
  }
  auto t = std::make_shared<Tensor>(dtype, dims);
  for (size_t i = 0; i < elements.size(); ++i) StoreElement(in, t.get(), int64_t(i), elements[i]);
  return t;
}

}  // namespace

TensorPtr ReadTensorData(TextCursor& in, const TypeAndShape& type, const ParseOptions& options) {
  const size_t at = in.pos();
  if (!type.type.is_tensor() || !type.type.known() || !type.shape.is_static()) {
    in.Fail(ErrorCode::kSyntax, "a tensor needs a dtype and integer dimensions", at);
  }
  const std::vector<int64_t> dims = type.shape.ints();
  const DType dtype = type.type.dtype;
  const int64_t count = NumElements(dims);
  if (in.Peek() == '[') return ReadInline(in, dtype, dims, count);
  if (in.Accept("#hex=")) {
    const std::string_view digits = in.HexDigits();
    const int64_t bytes = DTypeBytes(dtype, count);
    if (dtype == DType::kString || int64_t(digits.size() / 2) != bytes || digits.size() % 2) {
      in.Fail(ErrorCode::kSyntax,
              fmt::format("expected {} bytes in hexadecimal, got {} digits", bytes, digits.size()),
              at);
    }
    auto t = std::make_shared<Tensor>(dtype, dims);
    FillFromHex(t.get(), digits);
    return t;
  }
  in.Expect("#hash=", "or a list of elements");
  const std::string_view digits = in.HexDigits();
  if (digits.size() != 16)
    in.Fail(ErrorCode::kSyntax, "expected 16 hexadecimal digits after '#hash='", at);
  uint64_t hash = 0;
  for (const char c : digits) hash = hash * 16 + uint64_t(c <= '9' ? c - '0' : c - 'a' + 10);
  if (options.side_data) {
    const auto it = options.side_data->find(hash);
    if (it != options.side_data->end() && it->second->dtype() == dtype &&
        it->second->dims() == dims)
      return it->second;
  }
  if (options.make_missing) return options.make_missing(dtype, dims);
  if (options.allow_missing_data) return std::make_shared<Tensor>(dtype, dims);
  in.Fail(ErrorCode::kInvalidModel, fmt::format("the data of tensor {} is not available", digits),
          at, "give the side file that was written with this text, or print with the data inline");
}

std::string ReadAttrText(TextCursor& in, bool* opaque) {
  *opaque = false;
  const char c = in.Peek();
  if (c == '"') return in.QuotedString("an attribute");
  if (c == '[') return std::string(in.Bracketed("an attribute"));
  if (in.Accept(kOpaqueText)) {
    *opaque = true;
    return std::string(kOpaqueText);
  }
  const size_t begin = in.pos();
  const auto is_word = [](char w) {
    return (w >= 'a' && w <= 'z') || (w >= 'A' && w <= 'Z') || (w >= '0' && w <= '9') || w == '_' ||
           w == '.' || w == '+' || w == '-' || w == '?';
  };
  while (is_word(in.Here())) in.Advance(1);
  if (in.pos() == begin) in.FailExpected("an attribute's value");
  return std::string(in.Slice(begin, in.pos()));
}

}  // namespace weft
