/// tokenizer.cc: see tokenizer.h. A text is cut at tokens that were added to the vocabulary; what
/// is between is normalized, cut into words, and these into tokens.
#include "weft/generate/tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "byte_pairs.h"
#include "core/json/doc.h"
#include "text_steps.h"
#include "unicode.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/file.h"

namespace weft {
namespace {

using Ref = JsonDoc::Ref;
using Kind = JsonDoc::Kind;

constexpr int64_t kMostDepth = 64;
constexpr int64_t kMostFileBytes = int64_t{1} << 28, kMostToken = int64_t{1} << 24;

struct AddedToken {
  int64_t id = 0;
  std::string content;
  std::string sought;  ///< in texts: what the normalizer makes of it, where it is `normalized`
  bool special = false, normalized = false, lstrip = false, rstrip = false, single_word = false;
};

/// The code point that ends at `at`, by the rules of the whole text; 0: the text begins there.
CodePoint Before(std::string_view text, size_t at) {
  if (at == 0) return {};
  size_t begin = at - 1;
  while (begin > 0 && (uint8_t(text[begin]) & 0xc0) == 0x80) --begin;
  return CodePointAt(text, begin);
}

/// As String::from_utf8_lossy of Rust has it, which tokenizers of this kind go by: the longest
/// beginning of a character that does not go on is one U+FFFD.
std::string Lossy(const std::string& bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint c = CodePointAt(bytes, at);
    const bool bad = c.value == 0xfffd && c.bytes == 1;
    if (!bad) {
      out.append(bytes, at, c.bytes);
      at += c.bytes;
      continue;
    }
    out += "\xef\xbf\xbd";
    const auto byte = [&](size_t i) { return i < bytes.size() ? uint32_t(uint8_t(bytes[i])) : 0; };
    const uint32_t first = byte(at), second = byte(at + 1);
    const size_t n = first >= 0xf0 && first < 0xf5   ? 4
                     : first >= 0xe0 && first < 0xf0 ? 3
                     : first >= 0xc2 && first < 0xe0 ? 2
                                                     : 1;
    const uint32_t lo = first == 0xe0   ? 0xa0
                        : first == 0xf0 ? 0x90
                                        : 0x80,
                   hi = first == 0xed   ? 0x9f
                        : first == 0xf4 ? 0x8f
                                        : 0xbf;
    size_t taken = 1;
    if (n > 1 && second >= lo && second <= hi) {
      taken = 2;
      while (taken < n && (byte(at + taken) & 0xc0) == 0x80) ++taken;
    }
    at += taken;
  }
  return out;
}

constexpr const char* kNoCharacter = "\xef\xbf\xbd";

/// The length of the beginning that both have.
size_t Common(const std::string& a, const std::string& b) {
  return size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

/// What the beginning of a text may still be a part of: bytes of a character that has not ended.
size_t Unfinished(const std::string& text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const uint32_t c = uint8_t(text[text.size() - back]);
    if ((c & 0xc0) == 0x80) continue;
    const size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    return n > back ? back : 0;
  }
  return 0;
}

}  // namespace

struct Tokenizer::Impl {
  BytePairs model;
  std::vector<AddedToken> added;
  std::unordered_map<int64_t, size_t> added_by_id;
  std::unordered_map<int64_t, std::string> words;  ///< by token
  int64_t size = 0;
  Normalizer normalize;
  PreTokenizer cut;
  Decoder decode;
  std::vector<int64_t> in_front, behind;  ///< of a text

  /// Cuts `piece` at the added tokens that are `normalized`; what is left over goes to `text`.
  template <class Text, class Token>
  void AtTokens(const Piece& piece, bool normalized, const Text& text, const Token& token) const {
    const std::string& s = piece.text;
    size_t done = 0;
    for (size_t at = 0; at < s.size();) {
      const AddedToken* hit = nullptr;
      for (const AddedToken& a : added) {
        if (a.normalized != normalized || a.sought.empty() ||
            (hit && hit->sought.size() >= a.sought.size()) ||
            s.compare(at, a.sought.size(), a.sought) != 0)
          continue;
        const size_t end = at + a.sought.size();
        const bool inside =
            a.single_word && ((at > 0 && IsWord(Before(s, at).value)) ||
                              (end < s.size() && IsWord(CodePointAt(s, end).value)));
        if (!inside) hit = &a;
      }
      if (!hit) {
        ++at;
        continue;
      }
      size_t begin = at, end = at + hit->sought.size();
      while (hit->lstrip && begin > done && IsSpace(Before(s, begin).value))
        begin -= Before(s, begin).bytes;
      while (hit->rstrip && end < s.size() && IsSpace(CodePointAt(s, end).value))
        end += CodePointAt(s, end).bytes;
      if (begin > done) text(Piece{s.substr(done, begin - done), piece.first && done == 0});
      token(hit->id);
      at = done = end;
    }
    if (done < s.size()) text(Piece{s.substr(done), piece.first && done == 0});
  }

  bool IsSpecial(int64_t token) const {
    const auto it = added_by_id.find(token);
    return it != added_by_id.end() && added[it->second].special;
  }
  /// Bytes, perhaps with parts of characters.
  std::string Bytes(const std::vector<int64_t>& tokens, bool special) const {
    std::vector<std::string> texts;
    for (const int64_t t : tokens) {
      WEFT_CHECK(t >= 0, kBadInput, "{} is not a token", t);
      const auto word = words.find(t);
      if (word != words.end() && (special || !IsSpecial(t))) texts.push_back(word->second);
    }
    std::string all;
    for (const std::string& t : decode(std::move(texts))) all += t;
    return all;
  }
};

namespace {

/// Reads a file.
class Reader {
 public:
  Reader(std::string_view json, const std::string& source) : doc_(json, source, kMostDepth) {}

  template <class Impl>
  void Read(Impl* t) {
    doc_.Expect(0, Kind::kObject, "the object of a tokenizer");
    const auto model = doc_.Find(0, "model");
    if (!model || !doc_.is(*model, Kind::kObject))
      doc_.Fail(ErrorCode::kInvalidModel, "this is not a tokenizer: there is no 'model'", 0,
                "expected is the file tokenizer.json of Hugging Face tokenizers");
    ReadModel(*model, t);
    if (const auto added = doc_.Find(0, "added_tokens"); added && !doc_.is(*added, Kind::kNull))
      ReadAdded(*added, t);
    t->normalize = Part("normalizer", ReadNormalizer, t);
    for (AddedToken& a : t->added) a.sought = a.normalized ? t->normalize(a.content) : a.content;
    t->cut = Part("pre_tokenizer", ReadPreTokenizer, t);
    t->decode = Part("decoder", ReadDecoder, t);
    if (const auto post = doc_.Find(0, "post_processor"); post && !doc_.is(*post, Kind::kNull))
      ReadPost(*post, t);
  }

 private:
  template <class Read, class Impl>
  auto Part(const char* key, Read read, Impl*) {
    const auto r = doc_.Find(0, key);
    static const std::string kNull = "null";
    static const JsonDoc none(kNull, "", kMostDepth);
    return r ? read(doc_, *r) : read(none, 0);
  }
  int64_t Token(Ref r) const {
    const int64_t id = doc_.Int(r, "a token");
    if (id < 0 || id >= kMostToken)
      doc_.Fail(ErrorCode::kInvalidModel, fmt::format("{} is not a token", id), r);
    return id;
  }
  template <class Impl>
  void Add(Impl* t, int64_t id, std::string word, Ref r) {
    const auto [it, fresh] = t->words.emplace(id, std::move(word));
    if (!fresh)
      doc_.Fail(ErrorCode::kInvalidModel,
                fmt::format("token {} is there twice, the first time as '{}'", id, it->second), r);
    t->size = std::max(t->size, id + 1);
  }

  template <class Impl>
  void ReadModel(Ref r, Impl* t) {
    // Files from before types were written have merges in such a model alone.
    const std::string type = StringOr(doc_, r, "type", doc_.Find(r, "merges") ? "BPE" : "");
    if (type != "BPE")
      doc_.Fail(ErrorCode::kUnsupported, fmt::format("the model '{}' is not BPE", type), r);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!StringOr(doc_, r, key, "").empty())
        doc_.Fail(ErrorCode::kUnsupported, fmt::format("'{}' is not known", key), r);
    BytePairs& m = t->model;
    m.byte_fallback = BoolOr(doc_, r, "byte_fallback", false);
    m.fuse_unknown = BoolOr(doc_, r, "fuse_unk", false);
    m.ignore_merges = BoolOr(doc_, r, "ignore_merges", false);
    const Ref vocabulary = Member(r, "vocab", Kind::kObject);
    for (Ref key = JsonDoc::First(vocabulary); key != doc_.End(vocabulary);) {
      const Ref value = doc_.Next(key);
      const std::string word = doc_.String(key, "a token");
      const int64_t id = Token(value);
      m.vocabulary[word] = id;
      Add(t, id, word, key);
      key = doc_.Next(value);
    }
    if (const std::string word = StringOr(doc_, r, "unk_token", ""); !word.empty()) {
      const auto it = m.vocabulary.find(word);
      if (it == m.vocabulary.end())
        doc_.Fail(ErrorCode::kInvalidModel,
                  fmt::format("the unknown token '{}' is not in the vocabulary", word), r);
      m.unknown = it->second;
    }
    const Ref merges = Member(r, "merges", Kind::kArray);
    for (Ref e = JsonDoc::First(merges); e != doc_.End(merges); e = doc_.Next(e)) ReadMerge(e, &m);
  }
  Ref Member(Ref r, const char* key, Kind kind) const {
    const auto member = doc_.Find(r, key);
    if (!member) doc_.Fail(ErrorCode::kInvalidModel, fmt::format("there is no '{}'", key), r);
    doc_.Expect(*member, kind, key);
    return *member;
  }
  /// "a b", or ["a", "b"].
  void ReadMerge(Ref e, BytePairs* m) const {
    std::string a, b;
    if (doc_.is(e, Kind::kArray)) {
      if (doc_.size(e) != 2) doc_.Fail(ErrorCode::kInvalidModel, "a merge is of two tokens", e);
      const Ref first = JsonDoc::First(e);
      a = doc_.String(first, "a token");
      b = doc_.String(doc_.Next(first), "a token");
    } else {
      const std::string both = doc_.String(e, "a merge");
      const size_t space = both.find(' ');
      if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos)
        doc_.Fail(ErrorCode::kInvalidModel,
                  fmt::format("the merge '{}' is not of two tokens", both), e);
      a = both.substr(0, space);
      b = both.substr(space + 1);
    }
    const auto id = [&](const std::string& word) {
      const auto it = m->vocabulary.find(word);
      if (it == m->vocabulary.end())
        doc_.Fail(
            ErrorCode::kInvalidModel,
            fmt::format("the merge of '{}' and '{}': '{}' is not in the vocabulary", a, b, word), e,
            "the file is damaged, or its vocabulary is another's");
      return it->second;
    };
    m->AddMerge(id(a), id(b), id(a + b));
  }

  template <class Impl>
  void ReadAdded(Ref list, Impl* t) {
    doc_.Expect(list, Kind::kArray, "the list of added tokens");
    for (Ref e = JsonDoc::First(list); e != doc_.End(list); e = doc_.Next(e)) {
      doc_.Expect(e, Kind::kObject, "an added token");
      AddedToken a;
      const auto id = doc_.Find(e, "id");
      if (!id) doc_.Fail(ErrorCode::kInvalidModel, "an added token without 'id'", e);
      a.id = Token(*id);
      a.content = StringOr(doc_, e, "content", "");
      if (a.content.empty())
        doc_.Fail(ErrorCode::kInvalidModel, "an added token without 'content'", e);
      a.special = BoolOr(doc_, e, "special", false);
      a.normalized = BoolOr(doc_, e, "normalized", !a.special);
      a.lstrip = BoolOr(doc_, e, "lstrip", false);
      a.rstrip = BoolOr(doc_, e, "rstrip", false);
      a.single_word = BoolOr(doc_, e, "single_word", false);
      const auto it = t->words.find(a.id);
      if (it == t->words.end())
        Add(t, a.id, a.content, e);
      else if (it->second != a.content)
        doc_.Fail(ErrorCode::kInvalidModel,
                  fmt::format("token {} is '{}' in the vocabulary and '{}' among the added tokens",
                              a.id, it->second, a.content),
                  e);
      t->added_by_id[a.id] = t->added.size();
      t->added.push_back(std::move(a));
    }
  }

  template <class Impl>
  void ReadPost(Ref r, Impl* t) {
    doc_.Expect(r, Kind::kObject, "a post-processor");
    const std::string type = StringOr(doc_, r, "type", "");
    if (type == "ByteLevel") return;
    if (type == "Sequence") {
      const Ref list = Member(r, "processors", Kind::kArray);
      for (Ref e = JsonDoc::First(list); e != doc_.End(list); e = doc_.Next(e)) ReadPost(e, t);
      return;
    }
    if (type != "TemplateProcessing")
      doc_.Fail(ErrorCode::kUnsupported, fmt::format("the post-processor '{}' is not known", type),
                r);
    const Ref single = Member(r, "single", Kind::kArray);
    const Ref tokens = Member(r, "special_tokens", Kind::kObject);
    bool seen = false;
    for (Ref e = JsonDoc::First(single); e != doc_.End(single); e = doc_.Next(e)) {
      doc_.Expect(e, Kind::kObject, "a part of the template");
      const auto special = doc_.Find(e, "SpecialToken");
      if (!special) {
        seen = true;
        continue;
      }
      doc_.Expect(*special, Kind::kObject, "a special token");
      const std::string name = StringOr(doc_, *special, "id", "");
      const auto entry = doc_.Find(tokens, name);
      if (!entry)
        doc_.Fail(ErrorCode::kInvalidModel,
                  fmt::format("the template has '{}', which 'special_tokens' lacks", name), e);
      const Ref ids = Member(*entry, "ids", Kind::kArray);
      for (Ref id = JsonDoc::First(ids); id != doc_.End(ids); id = doc_.Next(id)) {
        const int64_t token = Token(id);
        if (!t->words.count(token))
          doc_.Fail(ErrorCode::kInvalidModel, fmt::format("there is no token {}", token), id);
        (seen ? t->behind : t->in_front).push_back(token);
      }
    }
  }

  const JsonDoc doc_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::Parse(std::string_view json, const std::string& source) {
  auto impl = std::make_unique<Impl>();
  Reader(json, source).Read(impl.get());
  return Tokenizer(std::move(impl));
}
Tokenizer Tokenizer::Load(const std::string& path) {
  return Parse(ReadFile(path, kMostFileBytes), path);
}

std::vector<int64_t> Tokenizer::Encode(std::string_view text, bool special) const {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    WEFT_CHECK(c.value != 0xfffd || c.bytes != 1, kBadInput, "byte {} of the text is not UTF-8",
               at);
    at += c.bytes;
  }
  std::vector<int64_t> tokens;
  if (special) tokens = impl_->in_front;
  const auto token = [&](int64_t id) { tokens.push_back(id); };
  const auto words = [&](const Piece& p) {
    for (const Piece& word : impl_->cut({p})) impl_->model.Encode(word.text, &tokens);
  };
  impl_->AtTokens(
      {std::string(text), true}, false,
      [&](const Piece& p) {
        impl_->AtTokens({impl_->normalize(p.text), p.first}, true, words, token);
      },
      token);
  if (special) tokens.insert(tokens.end(), impl_->behind.begin(), impl_->behind.end());
  return tokens;
}

std::string Tokenizer::Decode(const std::vector<int64_t>& tokens, bool special) const {
  return Lossy(impl_->Bytes(tokens, special));
}
int64_t Tokenizer::size() const { return impl_->size; }
bool Tokenizer::IsSpecial(int64_t token) const { return impl_->IsSpecial(token); }
std::optional<int64_t> Tokenizer::Find(std::string_view token) const {
  for (const AddedToken& a : impl_->added)
    if (a.content == token) return a.id;
  const auto it = impl_->model.vocabulary.find(std::string(token));
  if (it == impl_->model.vocabulary.end()) return std::nullopt;
  return it->second;
}

TextStream::TextStream(const Tokenizer& tokenizer, bool special)
    : tokenizer_(tokenizer), special_(special) {}

std::string TextStream::Push(int64_t token) {
  tokens_.push_back(token);
  const std::string text = tokenizer_.impl_->Bytes(tokens_, special_);
  const size_t whole = text.size() - Unfinished(text);
  // Bytes that are tokens of their own are U+FFFD until the others are there.
  const bool waits = text.size() >= 3 && text.compare(text.size() - 3, 3, kNoCharacter) == 0;
  const size_t same = Common(text, given_);
  if (waits || whole <= same) return {};
  std::string fresh = text.substr(same, whole - same);
  given_ = text.substr(0, whole);
  if (whole == text.size() && tokens_.size() > 1) {
    // The last token tells whether what follows begins a text; all before it is done with.
    const std::string last = tokenizer_.impl_->Bytes({token}, special_);
    if (!last.empty() && last.find(kNoCharacter) == std::string::npos) {
      tokens_ = {token};
      given_ = last;
    }
  }
  return Lossy(fresh);
}

std::string TextStream::Finish() {
  const std::string text = tokenizer_.impl_->Bytes(tokens_, special_);
  const std::string left = text.substr(Common(text, given_));
  tokens_.clear();
  given_.clear();
  return Lossy(left);
}

}  // namespace weft
