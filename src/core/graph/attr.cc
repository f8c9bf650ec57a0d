/// attr.cc: attribute values and the small sorted dictionary that holds them.
#include "weft/core/graph/attr.h"

#include <algorithm>
#include <cstring>

#include "core/text/util.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"

namespace weft {
namespace {

constexpr std::string_view kTypeNames[] = {"none", "int",    "float",   "string", "dtype", "shape",
                                           "ints", "floats", "strings", "tensor", "graph"};
static_assert(std::variant_size_v<AttrValue::Storage> == std::size(kTypeNames));

/// By bits, so that a NaN equals itself and attributes can key a cache.
bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool Same(const TensorPtr& a, const TensorPtr& b) { return a == b || (a && b && a->Equals(*b)); }
bool Same(const GraphPtr& a, const GraphPtr& b) {
  if (a == b || !a || !b) return a == b;
  PrintOptions options;
  options.inline_all = true;
  return PrintGraph(*a, options) == PrintGraph(*b, options);
}
bool Same(double a, double b) { return SameBits(a, b); }
bool Same(const Shape& a, const Shape& b) { return a.same(b); }
bool Same(const Floats& a, const Floats& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), SameBits);
}
template <class T>
bool Same(const T& a, const T& b) {
  return a == b;
}

}  // namespace

std::string_view AttrValue::type_name() const { return kTypeNames[v_.index()]; }

void AttrValue::ThrowType(std::string_view wanted) const {
  std::string shown = *this;
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  WEFT_THROW(kBadAttribute, "expected a value of type {}, got {} {}", wanted, type_name(), shown);
}

int64_t AttrValue::ToInt(int64_t lo, int64_t hi) const {
  const int64_t* p = std::get_if<int64_t>(&v_);
  if (!p) ThrowType("int");
  WEFT_CHECK(*p >= lo && *p <= hi, kBadAttribute, "value {} is out of range [{}, {}]", *p, lo, hi);
  return *p;
}

double AttrValue::ToDouble() const {
  if (const double* p = std::get_if<double>(&v_)) return *p;
  if (const int64_t* p = std::get_if<int64_t>(&v_)) return double(*p);
  ThrowType("float");
}

Floats AttrValue::ToFloats() const {
  if (const Floats* p = std::get_if<Floats>(&v_)) return *p;
  if (const Ints* p = std::get_if<Ints>(&v_)) return Floats(p->begin(), p->end());
  ThrowType("floats");
}

AttrValue::operator std::string() const {
  std::string out;
  const auto list = [&out](const auto& items, auto append) {
    out += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) out += ", ";
      append(&out, items[i]);
    }
    out += ']';
  };
  if (const auto* s = std::get_if<std::string>(&v_)) return *s;
  if (const auto* i = std::get_if<int64_t>(&v_)) AppendInt(&out, *i);
  if (const auto* d = std::get_if<double>(&v_)) AppendDouble(&out, *d);
  if (const auto* t = std::get_if<DType>(&v_)) out += DTypeName(*t);
  if (const auto* s = std::get_if<Shape>(&v_)) out += s->ToString();
  if (const auto* v = std::get_if<Ints>(&v_)) list(*v, AppendInt);
  if (const auto* v = std::get_if<Floats>(&v_)) list(*v, AppendDouble);
  if (const auto* v = std::get_if<Strings>(&v_)) list(*v, AppendQuoted);
  if (const auto* t = std::get_if<TensorPtr>(&v_)) {
    out += *t ? fmt::format("<tensor {}{}>", DTypeName((*t)->dtype()), (*t)->shape().ToString())
              : "<no tensor>";
  }
  if (const auto* g = std::get_if<GraphPtr>(&v_)) out += *g ? "<graph>" : "<no graph>";
  return out;
}

bool operator==(const AttrValue& a, const AttrValue& b) {
  if (a.v_.index() != b.v_.index()) return false;
  return std::visit(
      [&b](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        return Same(x, std::get<T>(b.v_));
      },
      a.v_);
}

AttrValue& AttrDict::operator[](std::string_view name) {
  const auto it =
      std::lower_bound(items_.begin(), items_.end(), name,
                       [](const Item& item, std::string_view n) { return item.first < n; });
  if (it != items_.end() && it->first == name) return it->second;
  return items_.emplace(it, std::string(name), AttrValue())->second;
}

const AttrValue* AttrDict::find(std::string_view name) const {
  for (const Item& item : items_) {
    if (item.first == name) return &item.second;
  }
  return nullptr;
}

const AttrValue& AttrDict::at(std::string_view name) const {
  if (const AttrValue* v = find(name)) return *v;
  std::vector<std::string> names;
  for (const Item& item : items_) names.push_back(item.first);
  ThrowError(ErrorCode::kBadAttribute, fmt::format("there is no attribute '{}'", name), {},
             DidYouMean(name, names));
}

bool AttrDict::erase(std::string_view name) {
  const auto it = std::find_if(items_.begin(), items_.end(),
                               [&](const Item& item) { return item.first == name; });
  if (it == items_.end()) return false;
  items_.erase(it);
  return true;
}

}  // namespace weft
