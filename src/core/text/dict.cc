/// dict.cc: reads the attributes of a node, `{axis = 1, perm = [1, 0]}`.
#include "value.h"
#include "weft/core/text/attr_text.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

class DictReader {
 public:
  DictReader(TextCursor* in, TextCache* cache, const ParseOptions& options,
             const std::function<GraphPtr()>& nested)
      : in_(*in), cache_(cache), options_(options), nested_(nested) {}

  AttrDict ReadDict() {
    AttrDict dict;
    in_.Expect('{', "before attributes");
    bool first = true;
    while (!in_.Accept('}')) {
      if (!first) in_.Expect(',', "between attributes");
      first = false;
      in_.SkipSpace();
      const size_t at = in_.pos();
      const std::string_view name = in_.Name("the name of an attribute");
      if (dict.find(name))
        in_.Fail(ErrorCode::kSyntax, fmt::format("attribute '{}' is given twice", name), at);
      in_.Expect('=', "after the name of an attribute");
      dict[name] = ReadValue();
    }
    return dict;
  }

 private:
  AttrValue ReadValue() {
    const char c = in_.Peek();
    if (c == '"') return in_.QuotedString("a string");
    if (c == '[') return ReadList();
    if (in_.Accept('?')) return DType::kUnknown;
    if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.') return ReadNumber();
    const size_t at = in_.pos();
    const std::string_view word = in_.Word("a value");
    if (word == "true") return true;
    if (word == "false") return false;
    if (word == "none") return AttrValue();
    if (word == "inf" || word == "nan") return *TryParseDouble(word);
    if (word == "shape") return ReadShape(in_, cache_);
    if (word == "floats" || word == "strings") {
      in_.Expect("[]", "after the type of an empty list");
      return word == "floats" ? AttrValue(Floats()) : AttrValue(Strings());
    }
    if (word == "tensor") {
      if (in_.AcceptWord("none")) return TensorPtr();
      const TypeAndShape type = ReadType(in_, cache_);
      return ReadTensorData(in_, type, options_);
    }
    if (word == "graph")
      return in_.AcceptWord("none") ? AttrValue(GraphPtr()) : AttrValue(nested_());
    if (const auto dtype = ParseDType(word)) return *dtype;
    in_.Fail(ErrorCode::kSyntax, fmt::format("'{}' is not a value", word), at,
             "values are numbers, \"strings\", lists, true, false, none, dtypes, shape[..], tensor "
             ".. and graph ..");
  }

  AttrValue ReadNumber() {
    in_.SkipSpace();
    const size_t at = in_.pos();
    const std::string_view text = in_.NumberText();
    if (const auto i = TryParseInt64(text)) return *i;
    const bool is_float = text.find_first_of(".einfEINF") != std::string_view::npos;
    if (const auto d = TryParseDouble(text); d && is_float) return *d;
    in_.Fail(ErrorCode::kSyntax, fmt::format("'{}' is not a 64-bit number", text), at);
  }

  AttrValue ReadList() {
    in_.Expect('[', "before a list");
    Ints ints;
    Floats floats;
    Strings strings;
    bool all_ints = true;
    while (!in_.Accept(']')) {
      if (!floats.empty() || !strings.empty()) in_.Expect(',', "between the items of a list");
      const size_t at = in_.pos();
      const AttrValue item =
          in_.Peek() == '"' ? AttrValue(in_.QuotedString("a string")) : ReadNumber();
      if (item.is<std::string>()) {
        strings.push_back(item.get<std::string>());
      } else {
        all_ints = all_ints && item.is<int64_t>();
        if (all_ints) ints.push_back(item.get<int64_t>());
        floats.push_back(item.get<double>());
      }
      if (!floats.empty() && !strings.empty())
        in_.Fail(ErrorCode::kSyntax, "a list holds numbers or strings, not both", at);
    }
    if (!strings.empty()) return strings;
    return all_ints ? AttrValue(std::move(ints)) : AttrValue(std::move(floats));
  }

  TextCursor& in_;
  TextCache* cache_;
  const ParseOptions& options_;
  const std::function<GraphPtr()>& nested_;
};

}  // namespace

AttrDict ReadAttrDict(TextCursor& in, TextCache* cache, const ParseOptions& options,
                      const std::function<GraphPtr()>& nested) {
  return DictReader(&in, cache, options, nested).ReadDict();
}

Strings ReadStringList(TextCursor& in) {
  Strings out;
  in.Expect('[', "before a list of strings");
  while (!in.Accept(']')) {
    if (!out.empty()) in.Expect(',', "between strings");
    out.push_back(in.QuotedString("a string"));
  }
  return out;
}

AttrDict ParseAttrDict(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  const std::string braced = !trimmed.empty() && trimmed[0] == '{'
                                 ? std::string(trimmed)
                                 : "{" + std::string(trimmed) + "}";
  TextCursor in(braced, "attributes");
  TextCache cache;
  const ParseOptions options;
  AttrDict dict = ReadAttrDict(in, &cache, options, [&]() -> GraphPtr {
    in.Fail(ErrorCode::kSyntax, "a graph cannot be given here", in.pos());
  });
  if (!in.AtEnd()) in.Fail(ErrorCode::kSyntax, "expected the end of the attributes", in.pos());
  return dict;
}

}  // namespace weft
