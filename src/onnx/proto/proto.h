/// proto.h: the one place that includes ONNX's protobuf types.
#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <string_view>

#include "weft/core/tensor/dtype.h"

namespace weft::onnx_import {

namespace pb = ::weft_onnx;

/// "" for the default domain under both of its spellings.
inline std::string_view CanonicalDomain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}
/// Registry key: "Relu", "domain::Name".
std::string OpKey(std::string_view domain, std::string_view op_type);
/// "'conv1'" for messages: printable and of bounded length whatever the model holds.
std::string Printable(std::string_view name);

/// What is wrong with a code of an element type that no DType stands for.
std::string UnknownDType(int64_t code);

/// The newest version of the default domain that this build knows.
int NewestOpset();

}  // namespace weft::onnx_import
