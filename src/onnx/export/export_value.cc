/// export_value.cc: tensors, sequences and optionals of them as messages of their own.
#include <onnx/onnx-data.pb.h>

#include <climits>

#include "export_proto.h"
#include "weft/onnx/export.h"
#include "weft/support/check.h"

namespace weft {
namespace {

using onnx_export::WriteTensor;
namespace pb = ::weft_onnx;

void WriteSequence(const Tensor& list, pb::SequenceProto* out) {
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
  if (type.is_sequence()) {
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
