/// backend_parameters.cc: see backend_parameters.h.
#include "weft/core/module/backend_parameters.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/file.h"
#include "weft/support/hash.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

using Kind = BackendParameter::Kind;

constexpr int64_t kMostBytes = int64_t{64} << 20;  // of a file

const BackendParameter* FindKnown(const std::vector<BackendParameter>& known, Kind kind,
                                  std::string_view name = {}) {
  const auto it = std::find_if(known.begin(), known.end(), [&](const BackendParameter& p) {
    return p.kind == kind && (name.empty() || p.name == name);
  });
  return it == known.end() ? nullptr : &*it;
}

std::optional<int64_t> TryCount(const std::string& text) {
  const std::optional<int64_t> n = TryParseInt64(text);
  return n && *n >= 0 ? n : std::nullopt;
}

/// The text of a file, read again only where it has changed: a backend is asked for many times in
/// one compilation.
std::string ReadOnce(const std::string& path) {
  using Stamp = std::tuple<dev_t, ino_t, off_t, time_t, long>;
  static std::mutex mutex;
  static auto* kept = new std::map<std::string, std::pair<Stamp, std::string>>;
  struct stat s {};
  if (stat(path.c_str(), &s) != 0) return ReadFile(path, kMostBytes);  // throws why
  const Stamp now{s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
  {
    std::lock_guard lock(mutex);
    if (const auto it = kept->find(path); it != kept->end() && it->second.first == now)
      return it->second.second;
  }
  std::string text = ReadFile(path, kMostBytes);
  std::lock_guard lock(mutex);
  (*kept)[path] = {now, text};
  return text;
}

}  // namespace

std::string BackendParameter::Spelling() const {
  return kind == Kind::kValue ? name + "=TEXT" : kind == Kind::kCount ? name + "=N" : name;
}

BackendParameters::BackendParameters(const std::string& backend, std::string_view text,
                                     const std::vector<BackendParameter>& known)
    : backend_(backend), known_(known) {
  for (const std::string& part : Split(std::string(text), ',')) {
    const std::string word(Trim(part));
    if (word.empty()) continue;
    text_ += (text_.empty() ? "" : ",") + word;
    Take(word);
  }
}

void BackendParameters::Take(const std::string& word) {
  const auto once = [&](bool fresh) {
    WEFT_CHECK(fresh, kUsage, "backend '{}': the parameter '{}' is given twice", backend_, word);
  };
  if (FindKnown(known_, Kind::kWord, word)) return once(given_.emplace(word, "").second);
  if (const std::optional<int64_t> n = TryCount(word); n && FindKnown(known_, Kind::kNumber)) {
    once(!number_);
    number_ = n;
    return;
  }
  if (const size_t at = word.find('='); at != word.npos) {
    const std::string name = word.substr(0, at), value = word.substr(at + 1);
    const bool counts = FindKnown(known_, Kind::kCount, name) != nullptr;
    if (counts && !TryCount(value))
      ThrowError(ErrorCode::kUsage,
                 fmt::format("backend '{}': expected a whole number for '{}', got '{}'", backend_,
                             name, value),
                 "", fmt::format("as in {}:{}=2", backend_, name));
    if (counts || FindKnown(known_, Kind::kValue, name))
      return once(given_.emplace(name, value).second);
  }
  if (FindKnown(known_, Kind::kFile) && word.find_first_of("./") != word.npos) {
    once(!file_);
    try {
      file_ = File{word, ReadOnce(word)};
    } catch (Error& e) {
      e.AddPlace(fmt::format("backend '{}'", backend_));
      throw;
    }
    return;
  }
  ThrowUnknown(word);
}

void BackendParameters::ThrowUnknown(const std::string& word) const {
  std::vector<std::string> names, all;
  for (const BackendParameter& p : known_) {
    if (p.kind != Kind::kNumber && p.kind != Kind::kFile) names.push_back(p.name);
    all.push_back(p.doc.empty() ? p.Spelling() : fmt::format("{} ({})", p.Spelling(), p.doc));
  }
  const std::string near = DidYouMean(word.substr(0, word.find('=')), names);
  std::string hint = all.empty() ? "it takes none" : "its parameters are: " + Join(all, ", ");
  ThrowError(ErrorCode::kUsage, fmt::format("backend '{}' has no parameter '{}'", backend_, word),
             "", near.empty() ? hint : near + " " + hint);
}

void BackendParameters::CheckDeclared(const std::string& name, Kind kind) const {
  WEFT_ICHECK(backend_.empty() || FindKnown(known_, kind, name),
              "backend '{}' asks for the parameter '{}', which its module does not declare so",
              backend_, name);
}

bool BackendParameters::Has(const std::string& word) const {
  CheckDeclared(word, Kind::kWord);
  return given_.count(word) > 0;
}
std::optional<std::string> BackendParameters::Value(const std::string& name) const {
  CheckDeclared(name, Kind::kValue);
  const auto it = given_.find(name);
  return it == given_.end() ? std::nullopt : std::optional<std::string>(it->second);
}
std::optional<int64_t> BackendParameters::Count(const std::string& name) const {
  CheckDeclared(name, Kind::kCount);
  const auto it = given_.find(name);
  return it == given_.end() ? std::nullopt : TryCount(it->second);
}

std::string BackendParameters::Key() const {
  if (!file_) return text_;
  const Hash128 hash = HashBytes(file_->text.data(), file_->text.size());
  return fmt::format("{}\n{:016x}{:016x}", text_, hash.hi, hash.lo);
}

}  // namespace weft
