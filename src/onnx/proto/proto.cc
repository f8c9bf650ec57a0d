/// proto.cc: names, and the newest operator set.
#include "proto.h"

#include <onnx/defs/schema.h>

#include <utility>

#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::onnx_import {
std::string OpKey(std::string_view domain, std::string_view op_type) {
  domain = CanonicalDomain(domain);
  std::string key(domain);
  if (!domain.empty()) key += "::";
  key += op_type;
  return key;
}

std::string Printable(std::string_view name) {
  constexpr size_t kMaxShown = 120;
  std::string text = Quote(name.substr(0, kMaxShown));
  text.front() = text.back() = '\'';
  if (name.size() > kMaxShown) text += "...";
  return text;
}

std::string UnknownDType(int64_t code) {
  if (code == int(code) && pb::TensorProto::DataType_IsValid(int(code)))
    return fmt::format("dtype {} is not supported",
                       pb::TensorProto::DataType_Name(pb::TensorProto::DataType(int(code))));
  return fmt::format("dtype code {} is not known", code);
}

int NewestOpset() {
  static const int newest = [] {
    const auto& map = pb::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
    return map.at("").second;
  }();
  return newest;
}

}  // namespace weft::onnx_import
