/// text_steps.cc: see text_steps.h.
#include "text_steps.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "split_pattern.h"
#include "unicode.h"
#include "weft/support/check.h"

namespace weft {
namespace {

using Ref = JsonDoc::Ref;
using Kind = JsonDoc::Kind;

/// How GPT-2 and those behind it cut texts (ByteLevel with use_regex).
constexpr const char* kWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string TypeOf(const JsonDoc& doc, Ref r) {
  doc.Expect(r, Kind::kObject, "an object with a type");
  const auto type = doc.Find(r, "type");
  if (!type) doc.Fail(ErrorCode::kInvalidModel, "an object without a type", r);
  return doc.String(*type, "the type");
}
[[noreturn]] void Unknown(const JsonDoc& doc, Ref r, const char* what, const std::string& type) {
  doc.Fail(ErrorCode::kUnsupported, fmt::format("the {} {} is not known", what, type), r);
}
Ref Member(const JsonDoc& doc, Ref r, const char* key) {
  const auto member = doc.Find(r, key);
  if (!member) doc.Fail(ErrorCode::kInvalidModel, fmt::format("there is no '{}'", key), r);
  return *member;
}
std::string StringAt(const JsonDoc& doc, Ref r, const char* key) {
  return doc.String(Member(doc, r, key), key);
}
template <class F>
void EachIn(const JsonDoc& doc, Ref r, const char* key, F&& each) {
  const Ref list = Member(doc, r, key);
  doc.Expect(list, Kind::kArray, key);
  for (Ref e = JsonDoc::First(list); e != doc.End(list); e = doc.Next(e)) each(e);
}

std::string Replaced(const std::string& text, const std::string& from, const std::string& to) {
  std::string out;
  size_t at = 0;
  for (size_t hit; !from.empty() && (hit = text.find(from, at)) != std::string::npos;
       at = hit + from.size()) {
    out.append(text, at, hit - at);
    out += to;
  }
  return out.append(text, at);
}

/// A pattern {"String": ..} or {"Regex": ..}; where it matches.
using Matches = std::function<std::vector<std::pair<size_t, size_t>>(const std::string&)>;
Matches ReadPattern(const JsonDoc& doc, Ref r) {
  doc.Expect(r, Kind::kObject, "a pattern");
  if (const auto regex = doc.Find(r, "Regex")) {
    try {
      auto pattern = std::make_shared<SplitPattern>(doc.String(*regex, "a regular expression"));
      return [pattern](const std::string& text) { return pattern->FindAll(text); };
    } catch (Error& e) {
      e.AddPlace(doc.Place(*regex));
      throw;
    }
  }
  const std::string literal = StringAt(doc, r, "String");
  return [literal](const std::string& text) {
    std::vector<std::pair<size_t, size_t>> found;
    for (size_t at = 0; !literal.empty() && (at = text.find(literal, at)) != std::string::npos;
         at += literal.size())
      found.emplace_back(at, at + literal.size());
    return found;
  };
}
std::string ReplacedBy(const Matches& matches, const std::string& text, const std::string& to) {
  std::string out;
  size_t at = 0;
  for (auto [begin, end] : matches(text)) {
    out.append(text, at, begin - at);
    out += to;
    at = end;
  }
  return out.append(text, at);
}

// ---- bytes as characters ----

/// The character that stands for each byte: itself where it can be seen, else one from U+0100 on.
struct ByteCharacters {
  std::string of[256];
  std::unordered_map<uint32_t, char> byte;
  ByteCharacters() {
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool seen = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      const uint32_t c = seen ? b : next++;
      AppendCodePoint(&of[b], c);
      byte[c] = char(uint8_t(b));
    }
  }
};
const ByteCharacters& Characters() {
  static const auto* const characters = new ByteCharacters;
  return *characters;
}

std::string InCharacters(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += Characters().of[uint8_t(c)];
  return out;
}
/// A token that holds other characters, one that was added, is its own bytes.
std::string OutOfCharacters(const std::string& token) {
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const CodePoint c = CodePointAt(token, at);
    const auto it = Characters().byte.find(c.value);
    if (it == Characters().byte.end()) return token;
    out.push_back(it->second);
    at += c.bytes;
  }
  return out;
}

// ---- pieces ----

/// What matches and what does not, in order.
enum class Behavior { kIsolated, kRemoved, kWithPrevious, kWithNext, kContiguous };
Behavior BehaviorOf(const JsonDoc& doc, Ref r) {
  const std::string name = StringAt(doc, r, "behavior");
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "MergedWithPrevious") return Behavior::kWithPrevious;
  if (name == "MergedWithNext") return Behavior::kWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  Unknown(doc, r, "behavior", name);
}

std::vector<std::string> Cut(const std::string& text, const Matches& matches, Behavior behavior,
                             bool invert) {
  struct Part {
    std::string text;
    bool match;
  };
  std::vector<Part> parts;
  size_t at = 0;
  const auto add = [&](size_t begin, size_t end, bool match) {
    if (end > begin) parts.push_back({text.substr(begin, end - begin), match != invert});
  };
  for (auto [begin, end] : matches(text)) {
    add(at, begin, false);
    add(begin, end, true);
    at = end;
  }
  add(at, text.size(), false);
  std::vector<std::string> out;
  bool before = false;  // the last part is a match
  std::string waiting;  // a match that goes to what is next
  for (const Part& p : parts) {
    const bool joins = behavior == Behavior::kWithPrevious ? p.match && !before && !out.empty()
                       : behavior == Behavior::kContiguous ? p.match && before
                                                           : false;
    if (joins)
      out.back() += p.text;
    else if (behavior == Behavior::kWithNext && p.match) {
      if (!waiting.empty()) out.push_back(waiting);
      waiting = p.text;
    } else if (behavior != Behavior::kRemoved || !p.match) {
      out.push_back(waiting + p.text);
      waiting.clear();
    }
    before = p.match;
  }
  if (!waiting.empty()) out.push_back(waiting);
  return out;
}

template <class F>
PreTokenizer OnEach(F each) {
  return [each](std::vector<Piece> pieces) {
    std::vector<Piece> out;
    for (const Piece& p : pieces) {
      bool first = p.first;
      for (std::string& text : each(p)) {
        out.push_back({std::move(text), first});
        first = false;
      }
    }
    return out;
  };
}

/// Where Metaspace, or its decoder, has a mark in front of a text.
std::string SchemeOf(const JsonDoc& doc, Ref r) {
  const std::string scheme = StringOr(
      doc, r, "prepend_scheme", BoolOr(doc, r, "add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "never" && scheme != "first")
    Unknown(doc, r, "prepend_scheme", scheme);
  return scheme;
}

std::vector<std::string> JoinedBytes(const std::vector<std::string>& tokens) {
  // <0x41>: a byte. Those that stand together are characters, or each is none.
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (IsUtf8(bytes)) {
      out.push_back(bytes);
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) out.emplace_back("\xef\xbf\xbd");
    }
    bytes.clear();
  };
  for (const std::string& t : tokens) {
    const auto digit = [&](size_t i) {
      const char c = t[i];
      return c >= '0' && c <= '9'   ? c - '0'
             : c >= 'A' && c <= 'F' ? c - 'A' + 10
             : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                    : -1;
    };
    if (t.size() == 6 && t.compare(0, 3, "<0x") == 0 && t[5] == '>' && digit(3) >= 0 &&
        digit(4) >= 0) {
      bytes.push_back(char(uint8_t(digit(3) * 16 + digit(4))));
      continue;
    }
    flush();
    out.push_back(t);
  }
  flush();
  return out;
}

}  // namespace

bool BoolOr(const JsonDoc& doc, Ref object, const char* key, bool otherwise) {
  const auto r = doc.Find(object, key);
  if (!r || doc.is(*r, Kind::kNull)) return otherwise;
  if (!doc.is(*r, Kind::kTrue)) doc.Expect(*r, Kind::kFalse, key);
  return doc.is(*r, Kind::kTrue);
}
std::string StringOr(const JsonDoc& doc, Ref object, const char* key,
                     const std::string& otherwise) {
  const auto r = doc.Find(object, key);
  return !r || doc.is(*r, Kind::kNull) ? otherwise : doc.String(*r, key);
}

Normalizer ReadNormalizer(const JsonDoc& doc, Ref r) {
  if (doc.is(r, Kind::kNull)) return [](const std::string& text) { return text; };
  const std::string type = TypeOf(doc, r);
  if (type == "Sequence") {
    std::vector<Normalizer> all;
    EachIn(doc, r, "normalizers", [&](Ref e) { all.push_back(ReadNormalizer(doc, e)); });
    return [all](const std::string& text) {
      std::string out = text;
      for (const Normalizer& n : all) out = n(out);
      return out;
    };
  }
  if (type == "NFC") return [](const std::string& text) { return ComposedForm(text); };
  if (type == "Prepend") {
    const std::string mark = StringAt(doc, r, "prepend");
    return [mark](const std::string& text) { return text.empty() ? text : mark + text; };
  }
  if (type == "Replace") {
    const Matches matches = ReadPattern(doc, Member(doc, r, "pattern"));
    const std::string to = StringAt(doc, r, "content");
    return [matches, to](const std::string& text) { return ReplacedBy(matches, text, to); };
  }
  if (type == "Strip") {
    const bool left = BoolOr(doc, r, "strip_left", true),
               right = BoolOr(doc, r, "strip_right", true);
    return [left, right](const std::string& text) {
      size_t begin = 0, end = text.size(), last = 0;
      bool seen = false;
      for (size_t at = 0; at < text.size();) {
        const CodePoint c = CodePointAt(text, at);
        if (!IsSpace(c.value)) {
          if (!seen) begin = at;
          seen = true;
          last = at + c.bytes;
        }
        at += c.bytes;
      }
      if (!seen) return left || right ? std::string() : text;
      if (!left) begin = 0;
      if (right) end = last;
      return text.substr(begin, end - begin);
    };
  }
  Unknown(doc, r, "normalizer", type);
}

PreTokenizer ReadPreTokenizer(const JsonDoc& doc, Ref r) {
  if (doc.is(r, Kind::kNull)) return [](std::vector<Piece> pieces) { return pieces; };
  const std::string type = TypeOf(doc, r);
  if (type == "Sequence") {
    std::vector<PreTokenizer> all;
    EachIn(doc, r, "pretokenizers", [&](Ref e) { all.push_back(ReadPreTokenizer(doc, e)); });
    return [all](std::vector<Piece> pieces) {
      for (const PreTokenizer& p : all) pieces = p(std::move(pieces));
      return pieces;
    };
  }
  if (type == "ByteLevel") {
    const bool space = BoolOr(doc, r, "add_prefix_space", true),
               words = BoolOr(doc, r, "use_regex", true);
    const auto pattern = words ? std::make_shared<SplitPattern>(kWords) : nullptr;
    return OnEach([space, pattern](const Piece& p) {
      const std::string text = space && p.text.compare(0, 1, " ") != 0 ? " " + p.text : p.text;
      std::vector<std::string> out;
      if (!pattern) return std::vector<std::string>{InCharacters(text)};
      const auto matches = [&](const std::string& t) { return pattern->FindAll(t); };
      for (const std::string& word : Cut(text, matches, Behavior::kIsolated, false))
        out.push_back(InCharacters(word));
      return out;
    });
  }
  if (type == "Split") {
    const Matches matches = ReadPattern(doc, Member(doc, r, "pattern"));
    const Behavior behavior = BehaviorOf(doc, r);
    const bool invert = BoolOr(doc, r, "invert", false);
    return OnEach([=](const Piece& p) { return Cut(p.text, matches, behavior, invert); });
  }
  if (type == "Digits") {
    const auto pattern = std::make_shared<SplitPattern>(
        BoolOr(doc, r, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
    return OnEach([pattern](const Piece& p) {
      const auto matches = [&](const std::string& t) { return pattern->FindAll(t); };
      return Cut(p.text, matches, Behavior::kIsolated, false);
    });
  }
  if (type == "Metaspace") {
    const std::string mark = StringOr(doc, r, "replacement", "\xe2\x96\x81");
    const std::string scheme = SchemeOf(doc, r);
    const bool split = BoolOr(doc, r, "split", true);
    return OnEach([=](const Piece& p) {
      std::string text = Replaced(p.text, " ", mark);
      if ((scheme == "always" || (scheme == "first" && p.first)) &&
          text.compare(0, mark.size(), mark) != 0)
        text = mark + text;
      if (!split) return std::vector<std::string>{text};
      const auto matches = [&](const std::string& t) {
        std::vector<std::pair<size_t, size_t>> found;
        for (size_t at = 0; (at = t.find(mark, at)) != std::string::npos; at += mark.size())
          found.emplace_back(at, at + mark.size());
        return found;
      };
      return Cut(text, matches, Behavior::kWithNext, false);
    });
  }
  Unknown(doc, r, "pre-tokenizer", type);
}

Decoder ReadDecoder(const JsonDoc& doc, Ref r) {
  if (doc.is(r, Kind::kNull)) {
    // Tokens are words then.
    return [](std::vector<std::string> tokens) {
      for (size_t i = 1; i < tokens.size(); ++i) tokens[i] = " " + tokens[i];
      return tokens;
    };
  }
  const std::string type = TypeOf(doc, r);
  if (type == "Sequence") {
    std::vector<Decoder> all;
    EachIn(doc, r, "decoders", [&](Ref e) { all.push_back(ReadDecoder(doc, e)); });
    return [all](std::vector<std::string> tokens) {
      for (const Decoder& d : all) tokens = d(std::move(tokens));
      return tokens;
    };
  }
  if (type == "ByteLevel")
    return [](std::vector<std::string> tokens) {
      for (std::string& t : tokens) t = OutOfCharacters(t);
      return tokens;
    };
  if (type == "ByteFallback") return JoinedBytes;
  if (type == "Fuse")
    return [](const std::vector<std::string>& tokens) {
      std::string all;
      for (const std::string& t : tokens) all += t;
      return std::vector<std::string>{all};
    };
  if (type == "Replace") {
    const Matches matches = ReadPattern(doc, Member(doc, r, "pattern"));
    const std::string to = StringAt(doc, r, "content");
    return [matches, to](std::vector<std::string> tokens) {
      for (std::string& t : tokens) t = ReplacedBy(matches, t, to);
      return tokens;
    };
  }
  if (type == "Strip") {
    const std::string content = StringAt(doc, r, "content");
    const int64_t start = doc.Int(Member(doc, r, "start"), "a number"),
                  stop = doc.Int(Member(doc, r, "stop"), "a number");
    if (content.empty() || CodePointAt(content, 0).bytes != content.size())
      doc.Fail(ErrorCode::kInvalidModel, "Strip is about one character", r);
    return [=](std::vector<std::string> tokens) {
      const size_t n = content.size();
      for (std::string& t : tokens) {
        for (int64_t k = 0; k < start && t.compare(0, n, content) == 0; ++k) t.erase(0, n);
        for (int64_t k = 0; k < stop && t.size() >= n && t.compare(t.size() - n, n, content) == 0;
             ++k)
          t.erase(t.size() - n);
      }
      return tokens;
    };
  }
  if (type == "Metaspace") {
    const std::string mark = StringOr(doc, r, "replacement", "\xe2\x96\x81");
    const bool drops = SchemeOf(doc, r) != "never";
    return [mark, drops](std::vector<std::string> tokens) {
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (i == 0 && drops && tokens[i].compare(0, mark.size(), mark) == 0)
          tokens[i].erase(0, mark.size());
        tokens[i] = Replaced(tokens[i], mark, " ");
      }
      return tokens;
    };
  }
  Unknown(doc, r, "decoder", type);
}

}  // namespace weft
