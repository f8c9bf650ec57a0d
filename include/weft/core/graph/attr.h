/// attr.h: typed attributes of a node (`axis = -1`, `perm = [0, 2, 1]`, `value = <tensor>`).
#pragma once

#include <any>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "weft/core/tensor/dtype.h"
#include "weft/core/tensor/shape.h"
#include "weft/core/tensor/tensor.h"

namespace weft {

class Graph;
class Op;
using GraphPtr = std::shared_ptr<const Graph>;

/// Lists of integers, floating point numbers and strings. Own types, so that dmlc::Parameter can
/// read and print them.
struct Ints : std::vector<int64_t> {
  using std::vector<int64_t>::vector;
  Ints(std::vector<int64_t> v) : std::vector<int64_t>(std::move(v)) {}  // NOLINT
};
struct Floats : std::vector<double> {
  using std::vector<double>::vector;
  Floats(std::vector<double> v) : std::vector<double>(std::move(v)) {}  // NOLINT
};
struct Strings : std::vector<std::string> {
  using std::vector<std::string>::vector;
  Strings(std::vector<std::string> v) : std::vector<std::string>(std::move(v)) {}  // NOLINT
};

/// One attribute value. Booleans are integers. Assignable from what it can hold; equality is by
/// value (tensors by content, graphs by text).
class WEFT_API AttrValue {
 public:
  /// Numbers and lists of floats are given by value, because an integer may have to become one;
  /// the rest by reference.
  template <class T>
  using Result =
      std::conditional_t<std::is_arithmetic_v<T> || std::is_same_v<T, Floats>, T, const T&>;
  using Storage = std::variant<std::monostate, int64_t, double, std::string, DType, Shape, Ints,
                               Floats, Strings, TensorPtr, GraphPtr>;

  AttrValue() = default;
  AttrValue(int v) : v_(int64_t{v}) {}              // NOLINT
  AttrValue(bool v) : v_(int64_t{v}) {}             // NOLINT
  AttrValue(int64_t v) : v_(v) {}                   // NOLINT
  AttrValue(double v) : v_(v) {}                    // NOLINT
  AttrValue(float v) : v_(double{v}) {}             // NOLINT
  AttrValue(const char* v) : v_(std::string(v)) {}  // NOLINT
  AttrValue(std::string v) : v_(std::move(v)) {}    // NOLINT
  AttrValue(DType v) : v_(v) {}                     // NOLINT
  AttrValue(Shape v) : v_(std::move(v)) {}          // NOLINT
  AttrValue(Ints v) : v_(std::move(v)) {}           // NOLINT
  AttrValue(Floats v) : v_(std::move(v)) {}         // NOLINT
  AttrValue(Strings v) : v_(std::move(v)) {}        // NOLINT
  AttrValue(TensorPtr v) : v_(std::move(v)) {}      // NOLINT
  AttrValue(GraphPtr v) : v_(std::move(v)) {}       // NOLINT

  const Storage& storage() const { return v_; }
  bool empty() const { return v_.index() == 0; }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(v_);
  }
  /// The value as T; an integer where a double is asked for converts (lists too), and narrower
  /// integers and bool are range-checked; throws kBadAttribute naming both types.
  template <class T>
  Result<T> get() const;
  /// "int", "float", "string", "dtype", "shape", "ints", "floats",
  /// "strings", "tensor", "graph", "none".
  std::string_view type_name() const;
  /// Canonical text of scalars and lists; a string gives itself (2016 dictionaries are strings).
  operator std::string() const;  // NOLINT
  friend WEFT_API bool operator==(const AttrValue& a, const AttrValue& b);
  friend bool operator!=(const AttrValue& a, const AttrValue& b) { return !(a == b); }

 private:
  [[noreturn]] void ThrowType(std::string_view wanted) const;
  int64_t ToInt(int64_t lo, int64_t hi) const;
  double ToDouble() const;
  Floats ToFloats() const;
  Storage v_;
};

template <class T>
AttrValue::Result<T> AttrValue::get() const {
  if constexpr (std::is_same_v<T, bool>) {
    return ToInt(0, 1) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    static_assert(std::is_signed_v<T>, "attributes are signed");
    return T(ToInt(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return T(ToDouble());
  } else if constexpr (std::is_same_v<T, Floats>) {
    return ToFloats();
  } else {
    if (const T* p = std::get_if<T>(&v_)) return *p;
    ThrowType(AttrValue(T{}).type_name());
  }
}

/// Attributes by name, kept sorted by name. Small: linear search.
class WEFT_API AttrDict {
 public:
  using Item = std::pair<std::string, AttrValue>;
  AttrDict() = default;
  AttrDict(std::initializer_list<Item> items) {
    for (const Item& i : items) (*this)[i.first] = i.second;
  }
  AttrValue& operator[](std::string_view name);
  const AttrValue* find(std::string_view name) const;
  /// Throws kBadAttribute when absent.
  const AttrValue& at(std::string_view name) const;
  size_t count(std::string_view name) const { return find(name) ? 1 : 0; }
  bool erase(std::string_view name);
  void clear() { items_.clear(); }
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  friend bool operator==(const AttrDict& a, const AttrDict& b) { return a.items_ == b.items_; }

 private:
  std::vector<Item> items_;
};

/// What a node does and is called. `op` null: a variable (input or parameter).
struct NodeAttrs {
  const Op* op = nullptr;
  std::string name;
  AttrDict dict;
  /// What the op's attribute parser made of `dict`; shared, immutable.
  std::shared_ptr<const void> param;
  /// Free for a 2016 attribute parser.
  std::any parsed;
};

}  // namespace weft
