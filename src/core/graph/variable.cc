/// variable.cc: see variable.h. Dictionaries of 2016 hold strings, so both attributes may be texts.
#include "weft/core/graph/variable.h"

#include <algorithm>

#include "weft/support/check.h"
#include "weft/support/edit_distance.h"

namespace weft {
namespace {

const Tensor* ValueOf(const NodePtr& variable) {
  const AttrValue* v = variable->attrs.dict.find("value");
  return v ? v->get<TensorPtr>().get() : nullptr;
}

}  // namespace

Type DeclaredType(const NodePtr& variable) {
  if (const Tensor* value = ValueOf(variable)) return value->dtype();
  if (const AttrValue* type = variable->attrs.dict.find("type"))
    return ParseType(type->get<std::string>());
  const AttrValue* v = variable->attrs.dict.find("dtype");
  if (!v) return Type();
  if (v->is<DType>()) return v->get<DType>();
  const std::optional<DType> t = ParseDType(v->get<std::string>());
  WEFT_CHECK(t.has_value(), kBadAttribute, "{}: '{}' is not a dtype", variable->Describe(),
             v->get<std::string>());
  return *t;
}

std::optional<Shape> DeclaredShape(const NodePtr& variable) {
  if (const Tensor* value = ValueOf(variable)) return value->shape();
  const AttrValue* v = variable->attrs.dict.find("shape");
  if (!v) return std::nullopt;
  return v->is<Shape>() ? v->get<Shape>() : Shape::Parse(v->get<std::string>());
}

bool IsSteady(const NodePtr& variable) {
  const AttrValue* v = variable->attrs.dict.find("steady");
  return v && v->get<int64_t>() != 0;
}

void MarkSteady(Graph& graph, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const std::vector<NodePtr> inputs = graph.AllInputs();
  for (const std::string& name : names) {
    const auto it = std::find_if(inputs.begin(), inputs.end(),
                                 [&](const NodePtr& v) { return v->attrs.name == name; });
    if (it == inputs.end()) {
      std::vector<std::string> known;
      for (const NodePtr& v : inputs) known.push_back(v->attrs.name);
      ThrowError(ErrorCode::kBadBinding, fmt::format("the model has no input '{}'", name), "",
                 DidYouMean(name, known));
    }
    graph.SetAttr(*it, "steady", int64_t{1});
  }
}

}  // namespace weft
