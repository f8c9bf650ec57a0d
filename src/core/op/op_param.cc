/// op_param.cc: attribute structs: values assigned by type, defaults and ranges checked by
/// dmlc::Parameter.
///
/// dmlc reports through its own exceptions; none of them leaves this file: each becomes a
/// kBadAttribute that names the attribute and carries the field's documentation as a hint.
#include "weft/core/op/op_param.h"

#include <cxxabi.h>

#include <cmath>
#include <cstdlib>
#include <istream>
#include <iterator>
#include <ostream>

#include "core/text/util.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

std::string ReadRest(std::istream& is) {
  std::string all{std::istreambuf_iterator<char>(is), std::istreambuf_iterator<char>()};
  return std::string(Trim(all));
}

/// Items of "[a, b]", of "(a, b)" or "(a,)" (dictionaries of 2016), or of a lone "a"; nullopt where
/// brackets do not match.
std::optional<std::vector<std::string>> SplitList(const std::string& text) {
  std::string_view body = text;
  const bool square = !body.empty() && body.front() == '[',
             round = !body.empty() && body.front() == '(';
  if (square || round) {
    if (body.size() < 2 || body.back() != (square ? ']' : ')')) return std::nullopt;
    body = Trim(body.substr(1, body.size() - 2));
  }
  std::vector<std::string> items;
  while (!body.empty()) {
    size_t end = 0;
    for (bool quoted = false; end < body.size() && (quoted || body[end] != ','); ++end) {
      if (quoted && body[end] == '\\' && end + 1 < body.size())
        ++end;
      else if (body[end] == '"')
        quoted = !quoted;
    }
    items.emplace_back(Trim(body.substr(0, end)));
    body = end < body.size() ? Trim(body.substr(end + 1)) : std::string_view();
  }
  return items;
}

template <class List, class ParseItem>
std::istream& ReadList(std::istream& is, List* out, ParseItem parse) {
  const auto items = SplitList(ReadRest(is));
  List list;
  if (items) {
    for (const std::string& item : *items) {
      if (auto v = parse(item))
        list.push_back(*v);
      else
        break;
    }
  }
  if (!items || list.size() != items->size()) {
    is.setstate(std::ios::failbit);
  } else {
    *out = std::move(list);
  }
  return is;
}

std::optional<std::string> ParseStringItem(const std::string& item) {
  if (item.empty() || item.front() != '"') return item;
  if (item.size() < 2 || item.back() != '"') return std::nullopt;
  return Unescape(std::string_view(item).substr(1, item.size() - 2));
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Ints& v) {
  return os << std::string(AttrValue(v));
}
std::ostream& operator<<(std::ostream& os, const Floats& v) {
  return os << std::string(AttrValue(v));
}
std::ostream& operator<<(std::ostream& os, const Strings& v) {
  return os << std::string(AttrValue(v));
}
std::istream& operator>>(std::istream& is, Ints& v) { return ReadList(is, &v, TryParseInt64); }
std::istream& operator>>(std::istream& is, Floats& v) { return ReadList(is, &v, TryParseDouble); }
std::istream& operator>>(std::istream& is, Strings& v) { return ReadList(is, &v, ParseStringItem); }

// Tensors and graphs have no text in a dictionary of strings; only their absence does.
std::ostream& operator<<(std::ostream& os, const TensorAttr& v) {
  return os << (v.tensor ? std::string(AttrValue(v.tensor)) : "none");
}
std::istream& operator>>(std::istream& is, TensorAttr& v) {
  if (ReadRest(is) != "none") is.setstate(std::ios::failbit);
  v.tensor = nullptr;
  return is;
}
std::ostream& operator<<(std::ostream& os, const GraphAttr& v) {
  return os << (v.graph ? "<graph>" : "none");
}
std::istream& operator>>(std::istream& is, GraphAttr& v) {
  if (ReadRest(is) != "none") is.setstate(std::ios::failbit);
  v.graph = nullptr;
  return is;
}

std::ostream& operator<<(std::ostream& os, const DTypeField& v) { return os << DTypeName(v.dtype); }
std::istream& operator>>(std::istream& is, DTypeField& v) {
  if (const auto dtype = ParseDType(ReadRest(is))) {
    v.dtype = *dtype;
  } else {
    is.setstate(std::ios::failbit);
  }
  return is;
}
std::ostream& operator<<(std::ostream& os, const Shape& v) { return os << v.ToString(); }
std::istream& operator>>(std::istream& is, Shape& v) {
  try {
    v = Shape::Parse(ReadRest(is));
  } catch (const Error&) {
    is.setstate(std::ios::failbit);
  }
  return is;
}

namespace detail {

#define WEFT_PLAIN_FIELD_(T)                           \
  template <>                                          \
  void AssignField<T>(T & field, const AttrValue& v) { \
    field = v.get<T>();                                \
  }                                                    \
  template <>                                          \
  AttrValue ReadField<T>(const T& field) {             \
    return AttrValue(field);                           \
  }
WEFT_PLAIN_FIELD_(int64_t)
WEFT_PLAIN_FIELD_(int)
WEFT_PLAIN_FIELD_(bool)
WEFT_PLAIN_FIELD_(double)
WEFT_PLAIN_FIELD_(std::string)
WEFT_PLAIN_FIELD_(Shape)
WEFT_PLAIN_FIELD_(Ints)
WEFT_PLAIN_FIELD_(Floats)
#undef WEFT_PLAIN_FIELD_

template <>
void AssignField<float>(float& field, const AttrValue& v) {
  const double wide = v.get<double>();
  field = float(wide);
  WEFT_CHECK(std::isinf(field) == std::isinf(wide), kBadAttribute,
             "value {} is out of the range of a 32-bit float", wide);
}
template <>
void AssignField<Strings>(Strings& field, const AttrValue& v) {
  // An empty list in text is a list of integers.
  if (v.is<Ints>() && v.get<Ints>().empty()) return field.clear();
  field = v.get<Strings>();
}
template <>
AttrValue ReadField<Strings>(const Strings& field) {
  return AttrValue(field);
}
template <>
AttrValue ReadField<float>(const float& field) {
  return AttrValue(field);
}
template <>
void AssignField<DTypeField>(DTypeField& field, const AttrValue& v) {
  field.dtype = v.get<DType>();
}
template <>
AttrValue ReadField<DTypeField>(const DTypeField& field) {
  return AttrValue(field.dtype);
}
template <>
void AssignField<TensorAttr>(TensorAttr& field, const AttrValue& v) {
  field.tensor = v.get<TensorPtr>();
}
template <>
AttrValue ReadField<TensorAttr>(const TensorAttr& field) {
  return field.tensor ? AttrValue(field.tensor) : AttrValue();
}
template <>
void AssignField<GraphAttr>(GraphAttr& field, const AttrValue& v) {
  field.graph = v.get<GraphPtr>();
}
template <>
AttrValue ReadField<GraphAttr>(const GraphAttr& field) {
  return field.graph ? AttrValue(field.graph) : AttrValue();
}

std::string ParamName(const std::type_info& type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : type.name();
  std::free(text);
  const size_t colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

void FinishSchema(ParamSchema* schema, dmlc::parameter::ParamManager* manager) {
  const std::shared_ptr<void> probe = schema->make();
  for (ParamField& field : schema->fields) {
    field.dmlc_entry = manager->Find(field.name);
    const dmlc::ParamFieldInfo info = field.dmlc_entry->GetFieldInfo();
    field.doc = info.description;
    try {
      field.dmlc_entry->SetDefault(probe.get());
    } catch (const dmlc::Error&) {
      field.required = true;
    }
    const AttrValue value = field.read(probe.get());
    const bool is_enum = !info.type_info_str.empty() && info.type_info_str[0] == '{';
    if (is_enum) {
      field.type = info.type_info_str.substr(0, info.type_info_str.find('}') + 1);
    } else if (info.type == "boolean") {
      field.type = "bool";
    } else if (value.empty()) {
      // An absent tensor or graph reads as "none"; the type is not in the value then.
      field.type = dynamic_cast<dmlc::parameter::FieldEntry<GraphAttr>*>(field.dmlc_entry)
                       ? "graph"
                       : "tensor";
    } else {
      field.type = value.type_name();
    }
    if (field.required) continue;
    if (is_enum || value.empty()) {
      field.default_text = field.dmlc_entry->GetStringValue(probe.get());
    } else if (value.is<std::string>()) {
      AppendQuoted(&field.default_text, value.get<std::string>());
    } else {
      field.default_text = std::string(value);
    }
  }
}

}  // namespace detail

const ParamField* ParamSchema::find(std::string_view field) const {
  for (const ParamField& f : fields) {
    if (f.name == field) return &f;
  }
  return nullptr;
}

namespace {

/// dmlc lets `__name__` pass as a hidden attribute; so do we, for graphs of that time.
bool IsHidden(std::string_view name) {
  return name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__";
}

[[noreturn]] void ThrowField(const ParamSchema& schema, const ParamField& field,
                             std::string_view problem) {
  problem = Trim(problem.substr(0, problem.find('\n')));
  ThrowError(ErrorCode::kBadAttribute,
             fmt::format("attribute '{}' of {}: {}", field.name, schema.name, problem), {},
             field.doc.empty() ? "" : fmt::format("{}: {}", field.name, field.doc));
}

void Assign(const ParamField& field, void* head, const AttrValue& value) {
  const bool takes_text = field.type == "string";
  if (value.is<std::string>() && !takes_text) {
    field.dmlc_entry->Set(head, value.get<std::string>());
  } else {
    field.assign(head, value);
  }
}

[[noreturn]] void ThrowUnknown(const ParamSchema& schema, std::string_view name) {
  std::vector<std::string> names;
  std::string known;
  for (const ParamField& f : schema.fields) {
    known += (known.empty() ? "" : ", ") + f.name;
    names.push_back(f.name);
  }
  std::string hint = DidYouMean(name, names);
  if (hint.empty()) hint = known.empty() ? "it takes none" : "it takes " + known;
  ThrowError(ErrorCode::kBadAttribute, fmt::format("{} has no attribute '{}'", schema.name, name),
             {}, std::move(hint));
}

}  // namespace

std::shared_ptr<const void> ParamSchema::Parse(const AttrDict& attrs) const {
  for (const auto& [name, value] : attrs) {
    if (!find(name) && !IsHidden(name)) ThrowUnknown(*this, name);
  }
  std::shared_ptr<void> head = make();
  for (const ParamField& field : fields) {
    const AttrValue* given = attrs.find(field.name);
    if (given && given->empty()) given = nullptr;
    try {
      if (!given) {
        if (field.required) ThrowField(*this, field, "is required");
        field.dmlc_entry->SetDefault(head.get());
      } else {
        Assign(field, head.get(), *given);
        field.dmlc_entry->Check(head.get());
      }
    } catch (const dmlc::Error& e) {
      ThrowField(*this, field, e.what());
    } catch (const Error& e) {
      if (e.message().rfind("attribute '", 0) == 0) throw;
      ThrowField(*this, field, e.message());
    }
  }
  return head;
}

}  // namespace weft
