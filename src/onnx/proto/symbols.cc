/// symbols.cc: see symbols.h.
#include "symbols.h"

#include <algorithm>

#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

constexpr size_t kMaxLength = 64;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Data-dependent sizes, and functions of dim expressions.
bool IsReserved(std::string_view s) {
  return s == "min" || s == "max" || s == "bcast" || s == "mod" || s == "_" ||
         SymInt::IsUnbackedName(s);
}

/// "?", "*", "-1": what exporters write for a dimension that they know nothing of, and for several
/// that differ.
bool IsName(std::string_view s) {
  const auto says = [](char c) { return IsLetter(c) || IsDigit(c) || (c & 0x80) != 0; };
  return s != "-1" && std::any_of(s.begin(), s.end(), says);
}

bool IsSymbol(std::string_view s) {
  if (s.empty() || s.size() > kMaxLength || !IsLetter(s[0]) || IsReserved(s)) return false;
  for (const char c : s) {
    if (!IsLetter(c) && !IsDigit(c) && c != '.')
      return false;  // '$' is for symbols that the algebra makes
  }
  return true;
}

std::string Sanitized(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, kMaxLength - 12))
    out += IsLetter(c) || IsDigit(c) || c == '.' ? c : '_';
  if (out.empty() || !IsLetter(out[0])) out.insert(out.begin(), '_');
  if (IsReserved(out)) out += '_';
  return out;
}

}  // namespace

void SymbolNames::Reserve(const pb::GraphProto& graph) {
  for (const auto& input : graph.input()) {
    for (const auto& d : input.type().tensor_type().shape().dim()) {
      if (!IsSymbol(d.dim_param())) continue;
      taken_.insert(d.dim_param());
      by_name_.emplace(d.dim_param(), d.dim_param());
    }
  }
}

std::string SymbolNames::Unique(std::string base) {
  std::string name = base;
  for (int k = 2; !taken_.insert(name).second; ++k) name = fmt::format("{}_{}", base, k);
  return name;
}

SymInt SymbolNames::Named(const std::string& dim_param) {
  std::string& name = by_name_[dim_param];
  if (name.empty()) name = Unique(Sanitized(dim_param));
  return SymInt::Symbol(name);
}

SymInt SymbolNames::Fresh(std::string_view input, int k) {
  return SymInt::Symbol(Unique(fmt::format("{}_d{}", Sanitized(input), k)));
}

std::map<std::string, std::string> SymbolNames::Renamed() const {
  std::map<std::string, std::string> out;
  for (const auto& [name, symbol] : by_name_)
    if (name != symbol) out[symbol] = name;
  return out;
}

Type TypeOfValue(const pb::TypeProto& type) {
  const auto tensor = [](const pb::TypeProto& t) {
    return t.has_tensor_type() ? DTypeOfOnnx(t.tensor_type().elem_type()).value_or(DType::kUnknown)
                               : DType::kUnknown;
  };
  const auto map = [&](const pb::TypeProto& t, TypeKind kind) {
    const DType key = DTypeOfOnnx(t.map_type().key_type()).value_or(DType::kUnknown);
    return key == DType::kI64 || key == DType::kString
               ? Type(kind, tensor(t.map_type().value_type()), key)
               : Type(TypeKind::kOpaque, DType::kUnknown);
  };
  if (type.has_tensor_type()) return Type(tensor(type));
  if (type.has_map_type()) return map(type, TypeKind::kMap);
  if (type.has_sequence_type() && type.sequence_type().elem_type().has_map_type())
    return map(type.sequence_type().elem_type(), TypeKind::kMapSequence);
  if (type.has_sequence_type())
    return Type(TypeKind::kSequence, tensor(type.sequence_type().elem_type()));
  if (type.has_optional_type() && type.optional_type().elem_type().has_sequence_type())
    return Type(TypeKind::kOptionalSequence,
                tensor(type.optional_type().elem_type().sequence_type().elem_type()));
  if (type.has_optional_type())
    return Type(TypeKind::kOptional, tensor(type.optional_type().elem_type()));
  if (type.value_case() == pb::TypeProto::VALUE_NOT_SET) return Type();
  return Type(TypeKind::kOpaque, DType::kUnknown);
}

Shape ShapeOfInput(const pb::ValueInfoProto& input, SymbolNames* symbols) {
  const auto& type = input.type();
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return Shape();
  std::vector<SymInt> dims;
  const auto& shape = type.tensor_type().shape();
  for (int i = 0; i < shape.dim_size(); ++i) {
    const auto& d = shape.dim(i);
    if (d.has_dim_value() && d.dim_value() >= 0)
      dims.push_back(SymInt(int64_t{d.dim_value()}));
    else if (IsName(d.dim_param()))
      dims.push_back(symbols->Named(d.dim_param()));
    else
      dims.push_back(symbols->Fresh(input.name(), i));
  }
  return Shape(std::move(dims));
}

}  // namespace weft::onnx_import
