/// text_steps.h: the parts of a tokenizer that work on texts, as tokenizer.json names them:
/// normalizers, pre-tokenizers, decoders. Private to the room.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/json/doc.h"

namespace weft {

/// A part of a text.
struct Piece {
  std::string text;
  bool first = false;  ///< the text begins with it
};
using Normalizer = std::function<std::string(const std::string&)>;
/// Cuts pieces further; characters may become others.
using PreTokenizer = std::function<std::vector<Piece>(std::vector<Piece>)>;
/// Tokens as the vocabulary writes them into what, joined, is the text.
using Decoder = std::function<std::vector<std::string>(std::vector<std::string>)>;

/// What the object at `r` says; null says nothing, and the functions change nothing then.
Normalizer ReadNormalizer(const JsonDoc& doc, JsonDoc::Ref r);
PreTokenizer ReadPreTokenizer(const JsonDoc& doc, JsonDoc::Ref r);
Decoder ReadDecoder(const JsonDoc& doc, JsonDoc::Ref r);

/// Members of an object with what they are where it has none.
bool BoolOr(const JsonDoc& doc, JsonDoc::Ref object, const char* key, bool otherwise);
std::string StringOr(const JsonDoc& doc, JsonDoc::Ref object, const char* key,
                     const std::string& otherwise);

}  // namespace weft
