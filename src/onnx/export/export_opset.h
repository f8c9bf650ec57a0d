/// export_opset.h: which operator set a model needs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "export_proto.h"

namespace weft::onnx_export {

/// Collects the use that a model makes of ONNX's own operators. A use fits an operator set when the
/// operator there has the attributes, the numbers of inputs and outputs and the dtypes that are
/// used, and when import would take it from there as it is, without lifting.
class OpsetChooser {
 public:
  static constexpr int64_t kOldest = 17;
  /// No version before `oldest` is chosen.
  explicit OpsetChooser(int64_t oldest) : oldest_(oldest) {}
  /// The attribute that operand 1 of the operator is in the oldest version, for an operand 0 of
  /// `type`; null where it is an operand there too. A node written so is not to be added.
  const char* AttributeForOperand1(const std::string& op, Type type) const;
  /// `inputs` and `outputs` hold what is known of the dtypes, in order; shorter lists are fine.
  /// Throws kUnsupported where not even the newest operator set allows the use.
  void Add(const pb::NodeProto& node, const std::vector<Type>& inputs,
           const std::vector<Type>& outputs);
  /// A function body whose dtypes are not known.
  void AddBody(const pb::FunctionProto& f);
  int64_t version() const { return version_; }
  int64_t oldest() const { return oldest_; }

 private:
  int64_t oldest_;
  int64_t version_ = oldest_;
  std::map<std::string, int64_t> known_;  ///< oldest fitting version by what is used
};

/// The version of the file format that came with that operator set, or the first that has local
/// functions.
int64_t IrVersionOf(int64_t opset);

}  // namespace weft::onnx_export
