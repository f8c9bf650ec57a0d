/// op_param.h: attribute structs of operators. The only public header that shows dmlc::Parameter.
///
///   struct SoftmaxParam : OpParam<SoftmaxParam> {
///     int64_t axis;
///     WEFT_OP_PARAM(SoftmaxParam) {
///       WEFT_FIELD(axis).set_default(-1).describe("axis of the sum, in [-rank, rank)");
///     }
///   };
///   // in one .cc:  WEFT_REGISTER_OP_PARAM(SoftmaxParam);
///
/// Fields: int64_t, int (enums with add_enum take their names), bool, double, float,
/// std::string, DTypeField, Shape, Ints, Floats, Strings, TensorAttr, GraphAttr. Values are
/// assigned by type, then dmlc's range checks run; only a string given to a field of another
/// type goes through text (2016 dictionaries). A field without set_default is required; one that
/// may be absent says `.set_default({})`.
#pragma once

#include <dmlc/parameter.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/op/op.h"

namespace weft {

/// Field types that dmlc lacks; default: absent.
struct TensorAttr {
  TensorPtr tensor;
};
struct GraphAttr {
  GraphPtr graph;
};
struct DTypeField {
  DType dtype = DType::kUnknown;
};

// dmlc reads and prints fields through streams; used for defaults in docs and
// for 2016 string dictionaries.
WEFT_API std::ostream& operator<<(std::ostream& os, const Ints& v);
WEFT_API std::istream& operator>>(std::istream& is, Ints& v);
WEFT_API std::ostream& operator<<(std::ostream& os, const Floats& v);
WEFT_API std::istream& operator>>(std::istream& is, Floats& v);
WEFT_API std::ostream& operator<<(std::ostream& os, const Strings& v);
WEFT_API std::istream& operator>>(std::istream& is, Strings& v);
WEFT_API std::ostream& operator<<(std::ostream& os, const TensorAttr& v);
WEFT_API std::istream& operator>>(std::istream& is, TensorAttr& v);
WEFT_API std::ostream& operator<<(std::ostream& os, const GraphAttr& v);
WEFT_API std::istream& operator>>(std::istream& is, GraphAttr& v);
WEFT_API std::ostream& operator<<(std::ostream& os, const DTypeField& v);
WEFT_API std::istream& operator>>(std::istream& is, DTypeField& v);
WEFT_API std::ostream& operator<<(std::ostream& os, const Shape& v);
WEFT_API std::istream& operator>>(std::istream& is, Shape& v);

/// One field of an attribute struct.
struct ParamField {
  std::string name, type, doc, default_text;  ///< default_text empty: required
  bool required = false;
  dmlc::parameter::FieldAccessEntry* dmlc_entry = nullptr;
  /// throws kBadAttribute on a wrong type
  std::function<void(void* head, const AttrValue& v)> assign;
  std::function<AttrValue(const void* head)> read;
};

/// Reflection of an attribute struct.
struct WEFT_API ParamSchema {
  std::string name;
  std::vector<ParamField> fields;  ///< in declaration order
  std::function<std::shared_ptr<void>()> make;
  const ParamField* find(std::string_view field) const;
  /// Struct from attributes: by type, defaults filled, ranges checked. Throws kBadAttribute naming
  /// the field; unknown attribute names throw too, with near names.
  std::shared_ptr<const void> Parse(const AttrDict& attrs) const;
};

namespace detail {
template <class T>
void AssignField(T& field, const AttrValue& v);
template <class T>
AttrValue ReadField(const T& field);
#define WEFT_DECLARE_FIELD_TYPE_(T)                            \
  template <>                                                  \
  WEFT_API void AssignField<T>(T & field, const AttrValue& v); \
  template <>                                                  \
  WEFT_API AttrValue ReadField<T>(const T& field);
WEFT_DECLARE_FIELD_TYPE_(int64_t)
WEFT_DECLARE_FIELD_TYPE_(int)
WEFT_DECLARE_FIELD_TYPE_(bool)
WEFT_DECLARE_FIELD_TYPE_(double)
WEFT_DECLARE_FIELD_TYPE_(float)
WEFT_DECLARE_FIELD_TYPE_(std::string)
WEFT_DECLARE_FIELD_TYPE_(DTypeField)
WEFT_DECLARE_FIELD_TYPE_(Shape)
WEFT_DECLARE_FIELD_TYPE_(Ints)
WEFT_DECLARE_FIELD_TYPE_(Floats)
WEFT_DECLARE_FIELD_TYPE_(Strings)
WEFT_DECLARE_FIELD_TYPE_(TensorAttr)
WEFT_DECLARE_FIELD_TYPE_(GraphAttr)
#undef WEFT_DECLARE_FIELD_TYPE_
WEFT_API void FinishSchema(ParamSchema* schema, dmlc::parameter::ParamManager* manager);
WEFT_API std::string ParamName(const std::type_info& type);
}  // namespace detail

/// Base of attribute structs.
template <class P>
struct OpParam : dmlc::Parameter<P> {
  static const ParamSchema* Schema() {
    static const ParamSchema* schema = [] {
      auto* manager = P::__MANAGER__();  // runs P::__DECLARE__, which records the fields
      ParamSchema* s = Recorder();
      s->name = detail::ParamName(typeid(P));
      s->make = [] { return std::shared_ptr<void>(std::make_shared<P>()); };
      detail::FinishSchema(s, manager);
      return s;
    }();
    return schema;
  }
  static ParamSchema* Recorder() {
    static ParamSchema schema;
    return &schema;
  }
  template <class F>
  static void Record(P* self, const char* name, F* field) {
    const auto offset = reinterpret_cast<char*>(field) - reinterpret_cast<char*>(self);
    ParamField f;
    f.name = name;
    f.assign = [offset](void* head, const AttrValue& v) {
      detail::AssignField(*reinterpret_cast<F*>(static_cast<char*>(head) + offset), v);
    };
    f.read = [offset](const void* head) {
      return detail::ReadField(
          *reinterpret_cast<const F*>(static_cast<const char*>(head) + offset));
    };
    Recorder()->fields.push_back(std::move(f));
  }
};

#define WEFT_OP_PARAM(P) DMLC_DECLARE_PARAMETER(P)
#define WEFT_FIELD(Name) \
  (this->Record(this, #Name, &this->Name), this->DECLARE(manager, #Name, this->Name))
#define WEFT_REGISTER_OP_PARAM(P) DMLC_REGISTER_PARAMETER(P)

/// The attribute struct of a node (parsed once); throws InternalError when the op has another one.
template <class P>
const P& ParamOf(const NodePtr& node) {
  return *static_cast<const P*>(node->param());
}

}  // namespace weft
