/// text.h: a text as numbers, one a character, for models that write the next one. By default the
/// Jargon File, as its Debian package installs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tinyflow/loader.h"

namespace tf::data {

/// Part of every Debian: the GNU General Public License, version 3.
inline constexpr const char* kLicence = "/usr/share/common-licenses/GPL-3";
inline constexpr const char* kJargonFile = "/usr/share/doc/jargon-text/jargon.txt.gz";

/// Characters, as numbers in an alphabet.
struct Text {
  std::vector<std::string> alphabet;  ///< in UTF-8, by code point
  std::vector<int32_t> characters;
  int64_t size() const { return int64_t(characters.size()); }
  int64_t classes() const { return int64_t(alphabet.size()); }
};

/// Reads a file in UTF-8, compressed by gzip or not. A paragraph becomes a line: spaces and single
/// line ends one space, empty lines one line end. Throws kIo naming the package where the file is
/// not there, kInvalidModel for one that is damaged, empty or not UTF-8, kLimit for more than a
/// gigabyte.
Text ReadText(const std::string& path = kJargonFile);
/// The same from memory; `name` is what errors call it.
Text TextOf(const std::string& bytes, const std::string& name = "the text");

/// How a stretch [begin, end) of a text becomes batches: it is cut into `batch` rows side by side,
/// and every batch holds the next `steps` characters of all rows, so that what a model remembers of
/// one batch belongs in front of the next. Labels are one character further. What does not fill a
/// batch is left out.
struct TextLayout {
  int64_t begin = 0, end = 0, batch = 1, steps = 1;
  int64_t batches() const { return (end - begin - 1) / batch / steps; }
};
/// x and y are i64 [batch, steps].
Batch MakeTextBatch(const Text& text, const TextLayout& layout, int64_t index);

}  // namespace tf::data
