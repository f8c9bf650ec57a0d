/// text.cc: see text.h.
#include "tinyflow/text.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>

#include "weft/support/check.h"
#include "weft/support/file.h"

namespace tf::data {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;
constexpr unsigned kBlock = 1 << 16;

std::string ReadCompressed(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  WEFT_CHECK(file, kIo, "cannot read '{}'", path);
  std::string bytes;
  for (int n = 1; n > 0;) {
    const size_t at = bytes.size();
    WEFT_CHECK(at <= kMostBytes, kLimit,
               "'{}' holds more than {} bytes, which is more than is read", path, kMostBytes);
    bytes.resize(at + kBlock);
    n = gzread(file.get(), bytes.data() + at, kBlock);
    int code = Z_OK;
    const char* why = gzerror(file.get(), &code);  // begins with the path
    WEFT_CHECK(n >= 0 && code == Z_OK, kInvalidModel, "damaged: {}", why);
    bytes.resize(at + size_t(n));
  }
  return bytes;
}

/// The character at `at`; empty where there is none that UTF-8 allows.
std::string_view CharacterAt(const std::string& bytes, size_t at) {
  const auto lead = static_cast<unsigned char>(bytes[at]);
  const size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (size == 0 || lead >= 0xf5 || at + size > bytes.size()) return {};
  for (size_t i = 1; i < size; ++i)
    if ((static_cast<unsigned char>(bytes[at + i]) & 0xc0) != 0x80) return {};
  return std::string_view(bytes).substr(at, size);
}

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f'; }

}  // namespace

Text TextOf(const std::string& bytes, const std::string& name) {
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < bytes.size();) {
    if (IsSpace(bytes[at])) {
      int lines = 0;
      for (; at < bytes.size() && IsSpace(bytes[at]); ++at) lines += bytes[at] == '\n';
      if (!characters.empty()) characters.emplace_back(lines > 1 ? "\n" : " ");
      continue;
    }
    const std::string_view c = CharacterAt(bytes, at);
    WEFT_CHECK(!c.empty(), kInvalidModel, "'{}' is not UTF-8 at byte {}", name, at);
    characters.push_back(c);
    at += c.size();
  }
  WEFT_CHECK(!characters.empty(), kInvalidModel, "'{}' holds no characters", name);
  const std::set<std::string_view> alphabet(characters.begin(), characters.end());
  Text text;
  text.alphabet.assign(alphabet.begin(), alphabet.end());  // of UTF-8: by code point
  text.characters.reserve(characters.size());
  for (const std::string_view c : characters)
    text.characters.push_back(int32_t(
        std::lower_bound(text.alphabet.begin(), text.alphabet.end(), c) - text.alphabet.begin()));
  return text;
}

Text ReadText(const std::string& path) {
  if (!weft::FileExists(path))
    weft::ThrowError(weft::ErrorCode::kIo, "the text is not there: no file '" + path + "'", "",
                     fmt::format("install the Debian package {}, or name a text with --data",
                                 path == kLicence ? "base-files" : "jargon-text"));
  return TextOf(ReadCompressed(path), path);
}

Batch MakeTextBatch(const Text& text, const TextLayout& o, int64_t index) {
  WEFT_CHECK(o.begin >= 0 && o.end <= text.size() && o.batch > 0 && o.steps > 0 && index >= 0 &&
                 index < o.batches(),
             kApiMisuse, "batch {} of characters {} to {} of {}, {} rows of {} at a time", index,
             o.begin, o.end, text.size(), o.batch, o.steps);
  Batch batch;
  batch.x = std::make_shared<weft::Tensor>(int64, Ints{o.batch, o.steps});
  batch.y = std::make_shared<weft::Tensor>(int64, Ints{o.batch, o.steps});
  int64_t* x = batch.x->mutable_data_as<int64_t>();
  int64_t* y = batch.y->mutable_data_as<int64_t>();
  const int64_t row = o.batches() * o.steps;
  for (int64_t b = 0; b < o.batch; ++b) {
    const int32_t* from = text.characters.data() + o.begin + b * row + index * o.steps;
    x = std::copy_n(from, o.steps, x);
    y = std::copy_n(from + 1, o.steps, y);
  }
  return batch;
}

}  // namespace tf::data
