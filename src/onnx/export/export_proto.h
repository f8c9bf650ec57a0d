/// export_proto.h: tensors, types and attributes as ONNX writes them.
#pragma once

#include <string>

#include "onnx/proto/proto.h"
#include "weft/core/graph/attr.h"
#include "weft/core/tensor/dtype.h"
#include "weft/core/tensor/shape.h"
#include "weft/core/tensor/tensor.h"

namespace weft::onnx_export {

namespace pb = ::weft_onnx;

/// Dtype, extents and bytes. The name stays to be set.
void WriteTensor(const Tensor& t, pb::TensorProto* out);
/// Dtype and extents alone, for a tensor whose bytes are elsewhere.
void WriteTensorHead(const Tensor& t, pb::TensorProto* out);
/// False where ONNX cannot say it: unknown or opaque. Unknown ranks and extents are left open.
bool WriteType(Type type, const Shape& shape, pb::TypeProto* out);
/// `type` is what the schema asks for; UNDEFINED: what the value is. Throws kUnsupported where the
/// value cannot be written as that type. Graphs are not written here.
void WriteAttribute(const std::string& name, const AttrValue& value,
                    pb::AttributeProto::AttributeType type, pb::AttributeProto* out);

}  // namespace weft::onnx_export
