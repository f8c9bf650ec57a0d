/// export_proto.cc: see export_proto.h.
#include "export_proto.h"

#include "weft/support/check.h"

namespace weft::onnx_export {

void WriteTensorHead(const Tensor& t, pb::TensorProto* out) {
  out->set_data_type(TraitsOf(t.dtype()).onnx);
  for (const int64_t d : t.dims()) out->add_dims(d);
}

void WriteTensor(const Tensor& t, pb::TensorProto* out) {
  WriteTensorHead(t, out);
  if (t.dtype() == DType::kString) {
    for (const std::string& s : t.strings()) out->add_string_data(s);
  } else if (t.num_elements() > 0) {
    out->set_raw_data(t.data(), size_t(t.num_bytes()));
  }
}

bool WriteType(Type type, const Shape& shape, pb::TypeProto* out) {
  const int code = TraitsOf(type.dtype).onnx;
  if (code == 0 || type.kind == TypeKind::kOpaque) return false;
  if (type.kind == TypeKind::kSequence) {
    out->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(code);
    return true;
  }
  if (type.is_map()) {
    out->mutable_map_type()->set_key_type(TraitsOf(type.key).onnx);
    out->mutable_map_type()->mutable_value_type()->mutable_tensor_type()->set_elem_type(code);
    return true;
  }
  if (type.is_map_sequence())
    return WriteType(type.element(), shape, out->mutable_sequence_type()->mutable_elem_type());
  if (type.kind == TypeKind::kOptional) {
    out->mutable_optional_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(code);
    return true;
  }
  if (type.kind == TypeKind::kOptionalSequence) {
    pb::TypeProto* sequence = out->mutable_optional_type()->mutable_elem_type();
    return WriteType(type.element(), shape, sequence);
  }
  out->mutable_tensor_type()->set_elem_type(code);
  if (!shape.has_rank()) return true;
  auto* dims = out->mutable_tensor_type()->mutable_shape();
  for (const SymInt d : shape.dims()) {
    auto* dim = dims->add_dim();
    if (!d.known()) continue;
    if (d.is_const())
      dim->set_dim_value(d.value());
    else
      dim->set_dim_param(d.ToString());
  }
  return true;
}

namespace {

using Kind = pb::AttributeProto;

Kind::AttributeType OwnType(const AttrValue& v) {
  if (v.is<int64_t>() || v.is<DType>()) return Kind::INT;
  if (v.is<double>()) return Kind::FLOAT;
  if (v.is<std::string>()) return Kind::STRING;
  if (v.is<Ints>() || v.is<Shape>()) return Kind::INTS;
  if (v.is<Floats>()) return Kind::FLOATS;
  if (v.is<Strings>()) return Kind::STRINGS;
  if (v.is<TensorPtr>()) return Kind::TENSOR;
  return Kind::UNDEFINED;
}

int64_t DTypeCode(const std::string& name, DType dtype) {
  const int code = TraitsOf(dtype).onnx;
  WEFT_CHECK(code != 0, kUnsupported, "attribute '{}' names no dtype", name);
  return code;
}

/// An empty list of integers is what text makes of any empty list.
bool IsEmptyList(const AttrValue& v) { return v.is<Ints>() && v.get<Ints>().empty(); }

}  // namespace

void WriteAttribute(const std::string& name, const AttrValue& v,
                    pb::AttributeProto::AttributeType type, pb::AttributeProto* out) {
  if (type == Kind::UNDEFINED) type = OwnType(v);
  out->set_name(name);
  out->set_type(type);
  switch (type) {
    case Kind::INT:
      return out->set_i(v.is<DType>() ? DTypeCode(name, v.get<DType>()) : v.get<int64_t>());
    case Kind::FLOAT:
      return out->set_f(float(v.get<double>()));
    case Kind::STRING:
      return out->set_s(v.get<std::string>());
    case Kind::INTS:
      if (v.is<Shape>()) {
        WEFT_CHECK(v.get<Shape>().is_static(), kUnsupported,
                   "attribute '{}' is the symbolic shape {}, ONNX takes integers", name,
                   v.get<Shape>().ToString());
        for (const int64_t d : v.get<Shape>().ints()) out->add_ints(d);
        return;
      }
      for (const int64_t i : v.get<Ints>()) out->add_ints(i);
      return;
    case Kind::FLOATS:
      for (const double f : v.get<Floats>()) out->add_floats(float(f));
      return;
    case Kind::STRINGS:
      if (IsEmptyList(v)) return;
      for (const std::string& s : v.get<Strings>()) out->add_strings(s);
      return;
    case Kind::TENSOR:
      WEFT_CHECK(v.is<TensorPtr>() && v.get<TensorPtr>(), kUnsupported,
                 "attribute '{}' holds no tensor", name);
      return WriteTensor(*v.get<TensorPtr>(), out->mutable_t());
    default:
      WEFT_THROW(kUnsupported, "attribute '{}' of type {} has no ONNX form", name, v.type_name());
  }
}

}  // namespace weft::onnx_export
