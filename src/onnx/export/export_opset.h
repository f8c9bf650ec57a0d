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
  /// No version before `oldest` is chosen, the one that a model came in; 0: kOldest.
  explicit OpsetChooser(int64_t oldest) : oldest_(oldest > 0 ? oldest : kOldest) {}
  static constexpr int64_t kOldest = 17;
  /// `inputs` and `outputs` hold what is known of the dtypes, in order; shorter lists are fine.
  /// Throws kUnsupported where not even the newest operator set allows the use.
  void Add(const pb::NodeProto& node, const std::vector<Type>& inputs,
           const std::vector<Type>& outputs);
  /// A function body whose dtypes are not known.
  void AddBody(const pb::FunctionProto& f);
  int64_t version() const { return version_; }

 private:
  int64_t oldest_;
  int64_t version_ = oldest_;
  std::map<std::string, int64_t> known_;  ///< oldest fitting version by what is used
};

/// The version of the file format that came with that operator set, or the first that has local
/// functions.
int64_t IrVersionOf(int64_t opset);

}  // namespace weft::onnx_export
