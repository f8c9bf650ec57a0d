/// tokenizer.h: texts into tokens and back, as the file tokenizer.json of a model says.
///
///   const Tokenizer t = Tokenizer::Load("tokenizer.json");
///   std::vector<int64_t> ids = t.Encode("Once upon a time");
///   std::string text = t.Decode(ids);
///
/// Read are files of byte-pair encodings (model.type "BPE"): bytes as characters (GPT-2, Llama 3,
/// Qwen2 ..) and characters with bytes for those that are unknown (Llama 2, Gemma, Mistral ..). Of
/// normalizers NFC, Prepend, Replace and Strip, of pre-tokenizers ByteLevel,
/// Split, Digits, Metaspace, of post-processors ByteLevel and TemplateProcessing, of decoders
/// ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, and Sequence of any.
///
/// Errors: kIo; kSyntax for what is no JSON and kInvalidModel for what is no tokenizer, with line
/// and column; kUnsupported for parts that are not listed here; kBadInput for texts that are not
/// UTF-8 and tokens below 0; kLimit for patterns that are too large, or go back too
/// often over a text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/api.h"

namespace weft {

class WEFT_API Tokenizer {
 public:
  static Tokenizer Load(const std::string& path);
  static Tokenizer Parse(std::string_view json, const std::string& source);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// `special`: with the tokens that the file puts around a text (the begin of a sequence).
  std::vector<int64_t> Encode(std::string_view text, bool special = true) const;
  /// `special`: tokens that are special have their text as well. Bytes that are no UTF-8 become
  /// U+FFFD. Tokens that the file has not have no text: models may know more, to fill up a size.
  std::string Decode(const std::vector<int64_t>& tokens, bool special = false) const;
  /// One more than the largest token.
  int64_t size() const;
  /// The token that is written so in the file ("</s>", "Ġthe"); nothing: there is none.
  std::optional<int64_t> Find(std::string_view token) const;
  bool IsSpecial(int64_t token) const;

 private:
  friend class TextStream;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The text of tokens that come one by one: what Push and Finish return, joined, is what Decode
/// gives of all of them, where their bytes are characters.
class WEFT_API TextStream {
 public:
  /// `tokenizer` must outlive it.
  explicit TextStream(const Tokenizer& tokenizer, bool special = false);
  /// The characters that are whole now.
  std::string Push(int64_t token);
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool special_;
  std::vector<int64_t> tokens_;  ///< whose text is not whole yet, behind those that it depends on
  std::string given_;            ///< of their text
};

}  // namespace weft
