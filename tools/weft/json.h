/// json.h: the JSON of reports: made and printed, never read.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft::tool {

/// A value; keys keep the order in which they were added. NaN and infinity are null: JSON has no
/// such numbers.
class Json {
 public:
  Json(std::nullptr_t = nullptr) : text_("null") {}
  Json(const char* text) : Json(std::string(text)) {}
  Json(const std::string& text);
  Json(double number);
  Json(bool value) : text_(value ? "true" : "false") {}
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  Json(T number) : text_(std::to_string(number)) {}
  template <class T>
  Json(const std::vector<T>& elements) : kind_(Kind::kArray) {
    for (const T& e : elements) push_back(e);
  }
  template <class T>
  Json(const std::map<std::string, T>& members) : kind_(Kind::kObject) {
    for (const auto& [key, value] : members) (*this)[key] = value;
  }
  /// {{"key", value}, ...}
  Json(std::initializer_list<std::pair<std::string, Json>> members);
  static Json array();
  static Json object();

  /// Elements or members.
  size_t size() const { return values_.size(); }
  void push_back(Json element) { values_.push_back(std::move(element)); }
  bool Has(const std::string& key) const;
  /// The value of a key of an object, null where it is new.
  Json& operator[](const std::string& key);
  /// Indented by two spaces a level, without a line end. What is not UTF-8 is replaced, never an
  /// error: names come from models.
  std::string ToString() const;
  /// The same without line ends.
  std::string ToLine() const;

 private:
  enum class Kind { kLeaf, kArray, kObject } kind_ = Kind::kLeaf;
  /// Without an indent on one line.
  void AppendTo(std::string* out, std::optional<size_t> indent) const;
  std::string text_;               ///< of a leaf, as it is printed
  std::vector<std::string> keys_;  ///< of an object's values
  std::vector<Json> values_;
};

}  // namespace weft::tool
