/// symbols.h: names of dims. ONNX lets a dim be called anything ("batch size", "2*h", "u0");
/// symbols of the IR are identifiers. Different names stay different symbols, and the same model
/// always gives the same ones.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "proto.h"
#include "weft/core/tensor/dtype.h"
#include "weft/core/tensor/shape.h"

namespace weft::onnx_import {

class SymbolNames {
 public:
  /// Names of the model that are fine as they are keep themselves whatever comes first.
  void Reserve(const pb::GraphProto& graph);
  /// The symbol of a named dim.
  SymInt Named(const std::string& dim_param);
  /// A symbol of its own for dim k of `input`: `<input>_d<k>`.
  SymInt Fresh(std::string_view input, int k);
  /// Names of dims that are no symbols, by the symbols that stand for them.
  std::map<std::string, std::string> Renamed() const;

 private:
  std::string Unique(std::string base);
  std::map<std::string, std::string> by_name_;
  std::set<std::string> taken_;
};

Type TypeOfValue(const pb::TypeProto& type);
/// Declared shape of a graph input; unnamed dims get fresh symbols, an absent shape is an unknown
/// rank.
Shape ShapeOfInput(const pb::ValueInfoProto& input, SymbolNames* symbols);

}  // namespace weft::onnx_import
