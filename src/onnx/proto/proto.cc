/// proto.cc: dtype codes and names.
#include "proto.h"

#include <onnx/defs/schema.h>

#include <utility>

#include "weft/support/strings.h"

namespace weft::onnx_import {
namespace {

constexpr std::pair<int, DType> kCodes[] = {
    {1, DType::kF32},     {2, DType::kU8},          {3, DType::kI8},
    {4, DType::kU16},     {5, DType::kI16},         {6, DType::kI32},
    {7, DType::kI64},     {8, DType::kString},      {9, DType::kBool},
    {10, DType::kF16},    {11, DType::kF64},        {12, DType::kU32},
    {13, DType::kU64},    {14, DType::kC64},        {15, DType::kC128},
    {16, DType::kBF16},   {17, DType::kF8E4M3FN},   {18, DType::kF8E4M3FNUZ},
    {19, DType::kF8E5M2}, {20, DType::kF8E5M2FNUZ}, {21, DType::kU4},
    {22, DType::kI4},     {23, DType::kF4E2M1},     {24, DType::kF8E8M0},
    {25, DType::kU2},     {26, DType::kI2},
};

}  // namespace

std::optional<DType> DTypeOfCode(int code) {
  for (const auto& [c, dtype] : kCodes) {
    if (c == code) return dtype;
  }
  return std::nullopt;
}

int CodeOfDType(DType dtype) {
  for (const auto& [code, d] : kCodes) {
    if (d == dtype) return code;
  }
  return 0;
}

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

int NewestOpset() {
  static const int newest = [] {
    const auto& map = pb::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
    return map.at("").second;
  }();
  return newest;
}

}  // namespace weft::onnx_import
