/// params.cc: attributes of operators that are declared while the program runs. The core's schemas
/// describe the fields of a struct; here the struct is a table.
#include <map>
#include <optional>
#include <sstream>

#include "define.h"
#include "weft/core/text/attr_text.h"
#include "weft/support/check.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

using Values = std::map<std::string, AttrValue>;

Values& ValuesAt(void* head) { return *static_cast<Values*>(head); }
const Values& ValuesAt(const void* head) { return *static_cast<const Values*>(head); }

/// Of the declared type; throws kBadAttribute.
AttrValue Converted(const std::string& type, const AttrValue& v) {
  if (type == "int") return v.get<int64_t>();
  if (type == "float") return v.get<double>();
  if (type == "bool") return v.get<bool>();
  if (type == "string") return v.get<std::string>();
  // An empty list says nothing of what it would hold.
  if (v.is<Ints>() && v.get<Ints>().empty()) {
    if (type == "floats") return Floats();
    if (type == "strings") return Strings();
  }
  if (type == "ints") return v.get<Ints>();
  if (type == "floats") return v.get<Floats>();
  if (type == "strings") return v.get<Strings>();
  WEFT_THROW(kBadAttribute, "there is no type '{}'", type);
}

/// One attribute, as dmlc's fields are asked for.
class Field final : public dmlc::parameter::FieldAccessEntry {
 public:
  Field(std::string name, std::string type, std::optional<AttrValue> otherwise)
      : name_(std::move(name)), otherwise_(std::move(otherwise)) {
    type_ = std::move(type);
    key_ = name_;
    has_default_ = otherwise_.has_value();
  }
  void SetDefault(void* head) const override { ValuesAt(head)[name_] = otherwise_.value(); }
  /// Graphs of 2016 have all attributes as text.
  void Set(void* head, const std::string& text) const override {
    const AttrDict parsed = ParseAttrDict("value = " + text);
    ValuesAt(head)[name_] = Converted(type_, *parsed.find("value"));
  }
  std::string GetStringValue(void* head) const override {
    return std::string(ValuesAt(head).at(name_));
  }
  dmlc::ParamFieldInfo GetFieldInfo() const override { return {name_, type_, type_, ""}; }

 protected:
  void PrintDefaultValueString(std::ostream& os) const override {
    if (otherwise_) os << std::string(*otherwise_);
  }

 private:
  std::string name_;
  std::optional<AttrValue> otherwise_;
};

nb::object ObjectOf(const std::string& type, const AttrValue& value) {
  return type == "bool" ? nb::object(nb::bool_(value.get<bool>())) : AttrObject(value);
}

}  // namespace

const ParamSchema* DeclareAttributes(const std::string& op, const nb::list& fields) {
  auto schema = std::make_unique<ParamSchema>();
  schema->name = op;
  schema->make = [] { return std::shared_ptr<void>(std::make_shared<Values>()); };
  for (const nb::handle item : fields) {
    const nb::dict given = nb::cast<nb::dict>(item);
    ParamField field;
    field.name = nb::cast<std::string>(given["name"]);
    field.type = nb::cast<std::string>(given["type"]);
    field.doc = nb::cast<std::string>(given["doc"]);
    field.required = !given.contains("default");
    std::optional<AttrValue> otherwise;
    if (!field.required) {
      otherwise = Converted(field.type, ToAttrValue(given["default"], field.type, field.name));
      field.default_text = std::string(*otherwise);
      if (otherwise->is<std::string>()) field.default_text = '"' + field.default_text + '"';
    }
    // Kept for ever, as all of the registry.
    field.dmlc_entry = new Field(field.name, field.type, std::move(otherwise));  // NOLINT
    field.assign = [name = field.name, type = field.type](void* head, const AttrValue& v) {
      ValuesAt(head)[name] = Converted(type, v);
    };
    field.read = [name = field.name](const void* head) { return ValuesAt(head).at(name); };
    schema->fields.push_back(std::move(field));
  }
  return schema.release();
}

nb::dict AttributesOf(const ParamSchema& schema, const void* values) {
  nb::dict keywords;
  for (const ParamField& f : schema.fields)
    keywords[nb::cast(f.name)] = ObjectOf(f.type, ValuesAt(values).at(f.name));
  return keywords;
}

std::string AttributesText(const ParamSchema& schema, const void* values) {
  std::string text;
  for (const ParamField& f : schema.fields) {
    const std::string value(ValuesAt(values).at(f.name));
    text += f.name + '=' + std::to_string(value.size()) + ':' + value + ';';
  }
  return text;
}

}  // namespace weft::python
