/// export_value.cc: tensors, sequences, optionals and maps as messages of their own.
#include <onnx/onnx-data.pb.h>

#include <climits>

#include "export_proto.h"
#include "weft/onnx/export.h"
#include "weft/support/check.h"

namespace weft {
namespace {

using onnx_export::WriteTensor;
namespace pb = ::weft_onnx;

/// A tensor without axes for each value, as ONNX's own tools write.
void WriteMap(const Tensor& map, pb::MapProto* out) {
  const Tensor &keys = *map.elements()[0], &values = *map.elements()[1];
  out->set_key_type(TraitsOf(keys.dtype()).onnx);
  out->mutable_values()->set_elem_type(pb::SequenceProto::TENSOR);
  const int64_t width = DTypeBits(values.dtype()) / 8;
  WEFT_CHECK(values.dtype() == DType::kString || width > 0, kUnsupported, "a value of type {}",
             map.type().ToString());
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    if (keys.dtype() == DType::kString)
      out->add_string_keys(keys.strings()[size_t(i)]);
    else
      out->add_keys(keys.at_int(i));
    pb::TensorProto* value = out->mutable_values()->add_tensor_values();
    value->set_data_type(TraitsOf(values.dtype()).onnx);
    if (values.dtype() == DType::kString)
      value->add_string_data(values.strings()[size_t(i)]);
    else
      value->set_raw_data(values.data_as<char>() + i * width, size_t(width));
  }
}

void WriteSequence(const Tensor& list, pb::SequenceProto* out) {
  if (list.type().is_map_sequence()) {
    out->set_elem_type(pb::SequenceProto::MAP);
    for (const TensorPtr& map : list.elements()) WriteMap(*map, out->add_map_values());
    return;
  }
  out->set_elem_type(pb::SequenceProto::TENSOR);
  for (const TensorPtr& t : list.elements()) WriteTensor(*t, out->add_tensor_values());
}

template <class Message>
std::string Serialized(Message* m, const std::string& name) {
  m->set_name(name);
  WEFT_CHECK(m->ByteSizeLong() <= size_t(INT_MAX), kLimit,
             "value '{}' of {} bytes: a protobuf message has at most 2 GiB", name,
             m->ByteSizeLong());
  return m->SerializeAsString();
}

}  // namespace

std::string FormatValueProto(const Tensor& value, const std::string& name) {
  const Type type = value.type();
  if (type.is_tensor()) {
    pb::TensorProto t;
    WriteTensor(value, &t);
    return Serialized(&t, name);
  }
  if (type.is_map()) {
    pb::MapProto m;
    WriteMap(value, &m);
    return Serialized(&m, name);
  }
  if (type.is_sequence() || type.is_map_sequence()) {
    pb::SequenceProto s;
    WriteSequence(value, &s);
    return Serialized(&s, name);
  }
  pb::OptionalProto o;
  const bool of_tensors = type.element().is_tensor();
  o.set_elem_type(of_tensors ? pb::OptionalProto::TENSOR : pb::OptionalProto::SEQUENCE);
  for (const TensorPtr& t : value.elements()) {
    if (of_tensors)
      WriteTensor(*t, o.mutable_tensor_value());
    else
      WriteSequence(*t, o.mutable_sequence_value());
  }
  return Serialized(&o, name);
}

}  // namespace weft
