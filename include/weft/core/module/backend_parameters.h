/// backend_parameters.h: what stands behind the colon of a backend's name: "foo:tree64,no-fusion",
/// "cuda:1", "foo:./mine.json,streams=2". A module declares what it knows (BackendModule), every
/// tool and API passes the text on as it is (GetBackend), and the backend's factory gets what was
/// found:
///
///   BackendModule("foo")
///       .set_parameters({{"no-fusion", "one operator a kernel"},
///                        {"FILE", "a machine", BackendParameter::Kind::kFile}})
///       .set_backend([](const BackendParameters& p) {
///         return std::make_shared<Foo>(p.Has("no-fusion"), p.file() ? p.file()->text : kBuiltIn);
///       })
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/api.h"

namespace weft {

/// One that a backend knows.
struct BackendParameter {
  enum class Kind : uint8_t {
    kWord,    ///< the word `name`
    kNumber,  ///< a whole number >= 0; `name`, in upper case by custom, is for messages: "DEVICE"
    kFile,    ///< a path, known by a '/' or '.' in it; `name` is for messages
    kValue,   ///< `name`=TEXT
    kCount,   ///< `name`=N, a whole number >= 0
  };
  std::string name;
  std::string doc;  ///< a line for users, without a full stop
  Kind kind = Kind::kWord;
  /// As users write it: "no-fusion", "DEVICE", "streams=N".
  WEFT_API std::string Spelling() const;
};

/// Parameters apart by commas, so that paths and texts hold none; a path holds no '+' either, which
/// begins the delegates of an engine's name. Blanks around them do not count.
class WEFT_API BackendParameters {
 public:
  /// None.
  BackendParameters() = default;
  /// Throws kUsage for what `backend` does not know, with near names and all that it does, and for
  /// what is given twice; kIo, kLimit for a file that cannot be read.
  BackendParameters(const std::string& backend, std::string_view text,
                    const std::vector<BackendParameter>& known);

  /// Is this word there? This and all below throw kInternal for a name that is not declared so.
  bool Has(const std::string& word) const;
  /// Of kNumber.
  std::optional<int64_t> number() const { return number_; }
  /// Of kFile, read when the backend is asked for: at most 64 MiB.
  struct File {
    std::string path;  ///< as given
    std::string text;
  };
  const std::optional<File>& file() const { return file_; }
  std::optional<std::string> Value(const std::string& name) const;
  std::optional<int64_t> Count(const std::string& name) const;

  /// As given, without blanks.
  const std::string& text() const { return text_; }
  /// Differs where a backend may: the text, and the content of the file.
  std::string Key() const;

 private:
  void Take(const std::string& word);
  void CheckDeclared(const std::string& name, BackendParameter::Kind kind) const;
  [[noreturn]] void ThrowUnknown(const std::string& word) const;

  std::string backend_, text_;
  std::vector<BackendParameter> known_;
  std::map<std::string, std::string> given_;  ///< by name; words have no value
  std::optional<int64_t> number_;
  std::optional<File> file_;
};

}  // namespace weft
