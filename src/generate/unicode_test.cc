/// unicode_test.cc: kinds and forms of characters; what Python's unicodedata says of them.
#include "unicode.h"

#include <doctest/doctest.h>

#include "weft/support/error.h"

namespace weft {
namespace {

TEST_CASE("kinds of characters") {
  // unicodedata.category of Python: letters, marks, numbers; then all others.
  for (const uint32_t c : {uint32_t('a'), uint32_t('0'), uint32_t('_'), 0xe9u, 0x301u, 0xb2u,
                           0x3042u, 0x4e00u, 0x3007u, 0x2160u, 0xac00u, 0xd7a3u, 0xe33u, 0xe34u})
    CHECK_MESSAGE(IsWord(c), c);
  for (const uint32_t c : {uint32_t(' '), uint32_t('\n'), uint32_t('.'), uint32_t('$'), 0x1f600u,
                           0x2028u, 0x10ffffu, 0xadu, 0xff01u, 0xd7a4u, 0x20acu})
    CHECK_MESSAGE(!IsWord(c), c);
  for (const uint32_t c : {9u, 10u, 11u, 12u, 13u, 32u, 0x85u, 0xa0u, 0x2003u, 0x3000u, 0x2029u})
    CHECK_MESSAGE(IsSpace(c), c);
  for (const uint32_t c : {8u, 14u, 31u, 0x200bu, 0xfeffu, 0x1cu, uint32_t('a')})
    CHECK_MESSAGE(!IsSpace(c), c);
}

TEST_CASE("code points: whole ones, and bytes that are none") {
  std::string text;
  for (const uint32_t c : {0x24u, 0xa3u, 0x939u, 0x20acu, 0xd55cu, 0x10348u, 0x10ffffu})
    AppendCodePoint(&text, c);
  CHECK(text == "$\xc2\xa3\xe0\xa4\xb9\xe2\x82\xac\xed\x95\x9c\xf0\x90\x8d\x88\xf4\x8f\xbf\xbf");
  CHECK(IsUtf8(text));
  for (const char* bad : {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xf8\x88\x80\x80\x80", "\xe2\x82", "a\xff"})
    CHECK_MESSAGE(!IsUtf8(bad), bad);
}

TEST_CASE("composed forms") {
  const auto form = [](const std::string& s) { return ComposedForm(s); };
  CHECK(form("plain") == "plain");
  CHECK(form("e\xcc\x81") == "\xc3\xa9");
  CHECK(form("\xc3\xa9") == "\xc3\xa9");
  // U+1E9B U+0323 -> U+1E9B U+0323 (Standard Annex 15, figure 6)
  CHECK(form("\xe1\xba\x9b\xcc\xa3") == "\xe1\xba\x9b\xcc\xa3");
  // Marks are put in order: q, dot above, dot below.
  CHECK(form("q\xcc\x87\xcc\xa3") == "q\xcc\xa3\xcc\x87");
  // Angstrom sign, ohm sign: one letter in the place of another.
  CHECK(form("\xe2\x84\xab\xe2\x84\xa6") == "\xc3\x85\xce\xa9");
  // Hangul: leading, vowel, trailing.
  CHECK(form("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab") == "\xed\x95\x9c");
  // A composition that is excluded: U+0958.
  CHECK(form("\xe0\xa5\x98") == "\xe0\xa4\x95\xe0\xa4\xbc");
  CHECK(form(std::string("a\0e\xcc\x81", 5)) == std::string("a\0\xc3\xa9", 4));
  CHECK_THROWS_AS(form("a\xff"), UserError);
}

}  // namespace
}  // namespace weft
