/// text_test.cc: texts as numbers, and how they become batches.
#include <unistd.h>
#include <zlib.h>

#include <filesystem>

#include "tests/util.h"
#include "weft/support/file.h"

namespace tf::test {
namespace {

using data::Text;
using weft::ErrorCode;

std::string Spelled(const Text& text) {
  std::string s;
  for (const int32_t c : text.characters) s += text.alphabet.at(size_t(c));
  return s;
}

TEST_CASE("a paragraph becomes a line") {
  const Text text =
      data::TextOf("\n\n  Two\n  lines,\tone.\r\n \r\nAnother \xe2\x80\x94 \xc3\xa9.\n");
  CHECK(Spelled(text) == "Two lines, one.\nAnother \xe2\x80\x94 \xc3\xa9. ");
  CHECK(text.alphabet.front() == "\n");
  CHECK(text.alphabet.back() == "\xe2\x80\x94");
  for (size_t i = 1; i < text.alphabet.size(); ++i) CHECK(text.alphabet[i - 1] < text.alphabet[i]);
}

TEST_CASE("what is not UTF-8, or nothing") {
  for (const char* bad : {"a\xff", "a\xc0\xaf", "a\xe2\x80", "\x80", "a\xf5\x80\x80\x80"})
    CheckThrows([&] { data::TextOf(bad, "my text"); }, ErrorCode::kInvalidModel,
                "'my text' is not UTF-8 at byte");
  for (const char* empty : {"", " \n\n "})
    CheckThrows([&] { data::TextOf(empty); }, ErrorCode::kInvalidModel, "no characters");
}

TEST_CASE("files, compressed or not, and none") {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("tinyflow_text_" + std::to_string(getpid()) + ".gz"))
                               .string();
  const gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "a text\n");
  gzclose(file);
  CHECK(Spelled(data::ReadText(path)) == "a text ");
  std::string bytes = weft::ReadFile(path);
  weft::WriteFileAtomic(path, bytes.substr(0, bytes.size() - 6));
  CheckThrows([&] { data::ReadText(path); }, ErrorCode::kInvalidModel, "damaged");
  weft::WriteFileAtomic(path, "plain");
  CHECK(Spelled(data::ReadText(path)) == "plain");
  std::filesystem::remove(path);
  CheckThrows([&] { data::ReadText(path); }, ErrorCode::kIo, "the text is not there: no file");
  CheckThrows([&] { data::ReadText(path); }, ErrorCode::kIo, "Debian package jargon-text");
}

TEST_CASE("rows go on from batch to batch, labels are one character further") {
  const Text text = data::TextOf("abcdefghijklmnopqrstuvwxyz");
  const data::TextLayout layout{2, 25, 2, 3};  // c..y, 11 a row, of which 9 are used
  REQUIRE(layout.batches() == 3);
  for (int64_t i = 0; i < layout.batches(); ++i) {
    const data::Batch batch = data::MakeTextBatch(text, layout, i);
    REQUIRE(batch.x->dims() == Ints{2, 3});
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t t = 0; t < 3; ++t) {
        CHECK(batch.x->at_int(b * 3 + t) == 2 + b * 9 + i * 3 + t);
        CHECK(batch.y->at_int(b * 3 + t) == 3 + b * 9 + i * 3 + t);
      }
  }
  CheckThrows([&] { data::MakeTextBatch(text, layout, 3); }, ErrorCode::kApiMisuse, "batch 3");
  CHECK(data::TextLayout{0, 6, 2, 3}.batches() == 0);
  CHECK(data::TextLayout{0, 7, 2, 3}.batches() == 1);
}

}  // namespace
}  // namespace tf::test
