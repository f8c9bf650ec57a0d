/// parts.cc: parts of JSON graphs: members of objects, lists of strings, dtypes, tensors.
#include <algorithm>

#include "load.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace weft {

using Kind = JsonDoc::Kind;

JsonMembers::JsonMembers(const JsonLoadState& s, Ref object,
                         std::initializer_list<std::string_view> keys, const char* what)
    : doc_(s.doc), object_(object) {
  doc_.Expect(object, JsonDoc::Kind::kObject, what);
  for (Ref k = doc_.First(object); k != doc_.End(object); k = doc_.Next(k + 1)) {
    const auto it = std::find_if(keys.begin(), keys.end(),
                                 [&](std::string_view key) { return doc_.Equals(k, key); });
    if (it != keys.end()) {
      found_[size_t(it - keys.begin())] = k + 1;
    } else if (!s.newer) {
      const std::string key = doc_.String(k, "a key");
      s.doc.Fail(ErrorCode::kSyntax, fmt::format("{} has no key {}", what, Quote(key)), k,
                 DidYouMean(key, std::vector<std::string>(keys.begin(), keys.end())));
    }
  }
}

Ref JsonMembers::Need(size_t i, const char* what) const {
  if (!found_[i]) doc_.Fail(ErrorCode::kSyntax, fmt::format("{} is missing", what), object_);
  return found_[i];
}

Strings ReadJsonStrings(const JsonDoc& doc, Ref array, const char* what) {
  Strings list;
  EachJson(doc, array, what, [&](Ref r) { list.push_back(doc.String(r, "a string")); });
  return list;
}

DType ReadJsonDType(const JsonDoc& doc, Ref r) {
  const std::string text = doc.String(r, "a dtype");
  if (text == "?") return DType::kUnknown;
  const auto dtype = ParseDType(text);
  if (dtype) return *dtype;
  doc.Fail(ErrorCode::kSyntax, fmt::format("unknown dtype {}", Quote(text)), r);
}

TensorPtr ReadJsonTensor(const JsonLoadState& s, Ref at) {
  const JsonDoc& doc = s.doc;
  const JsonMembers m(s, at, {"dtype", "dims", "data", "strings"}, "a tensor");
  const DType dtype = ReadJsonDType(doc, m.Need(0, "the dtype of a tensor"));
  if (dtype == DType::kUnknown) s.Fail("a tensor needs a dtype", m[0]);
  std::vector<int64_t> dims;
  EachJson(doc, m.Need(1, "'dims' of a tensor"), "the dimensions of a tensor", [&](Ref r) {
    dims.push_back(doc.Int(r, "a dimension"));
    if (dims.back() < 0) s.Fail("a dimension is negative", r);
    if (dims.size() > 64) s.Fail("a tensor of more than 64 axes", r, ErrorCode::kLimit);
  });
  // The data must be there before memory is.
  return AtPlace(doc, at, [&]() -> TensorPtr {
    const int64_t count = NumElements(dims);
    if (dtype == DType::kString) {
      if (m[2]) s.Fail("strings are under 'strings', not 'data'", m[2]);
      Strings strings = ReadJsonStrings(doc, m.Need(3, "'strings' of a tensor"), "strings");
      if (int64_t(strings.size()) != count)
        s.Fail(fmt::format("expected {} strings, got {}", count, strings.size()), m[3]);
      auto t = std::make_shared<Tensor>(dtype, dims);
      t->mutable_strings() = std::move(strings);
      return t;
    }
    if (m[3]) s.Fail(fmt::format("a tensor of {} has no strings", DTypeName(dtype)), m[3]);
    const int64_t bytes = DTypeBytes(dtype, count);
    Limits::Check("tensor_bytes", bytes, s.options.limits.tensor_bytes);
    const Ref data = m.Need(2, "'data' of a tensor");
    doc.Expect(data, Kind::kString, "base64");
    const auto text = doc.Plain(data);
    if (!text || text->size() / 4 != (size_t(bytes) + 2) / 3)
      s.Fail(fmt::format("expected the base64 of {} bytes", bytes), data);
    auto t = std::make_shared<Tensor>(dtype, dims);
    if (!ReadBase64(*text, t->mutable_data(), size_t(bytes)))
      s.Fail(fmt::format("expected the base64 of {} bytes", bytes), data);
    if (dtype == DType::kBool) {
      auto* p = t->mutable_data_as<uint8_t>();  // anything but 0 is true; kernels rely on 1
      for (int64_t i = 0; i < count; ++i) p[i] = p[i] != 0;
    }
    return t;
  });
}

TensorPtr JsonTensor(JsonLoadState& s, Ref number) {
  if (s.doc.is(number, Kind::kNull)) return nullptr;
  const int64_t k = s.doc.Int(number, "the number of a tensor");
  if (k < 0 || k >= int64_t(s.tensor_at.size()))
    s.Fail(fmt::format("there is no tensor {}, there are {}", k, s.tensor_at.size()), number);
  TensorPtr& made = s.tensor_made[size_t(k)];
  if (!made) made = ReadJsonTensor(s, s.tensor_at[size_t(k)]);
  return made;
}

}  // namespace weft
