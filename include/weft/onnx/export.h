/// export.h: graphs of any stage as ONNX models.
///
/// What ONNX has is written as it is: operators under their names, attributes typed as ONNX's
/// schemas say, inputs, outputs, nodes and parameters under the names they have in the graph. What
/// it lacks becomes local functions of the domain `weft`: a fused node calls a function that holds
/// its body (`weft.Exp_Neg_Tanh`, named for what it holds; equal bodies share one), an operator of
/// Weft's own one with its form in ONNX's operators (FOnnxBody of weft/core/op/onnx_body.h). So
/// ONNX's checker and any runtime that knows functions accept the model.
///
/// The operator set is that of the file that the graph comes from (else 17), or the first newer one
/// in which every operator, as it is used, means what it means in the graph. Symbolic extents are
/// written as named dims, expressions as their text. A model that no pass has touched is written as
/// it was, but for order, functions (inlined) and what import lifts to newer operators: names of
/// values, nodes and dims, operands, attributes, declared types. Metadata is kept. Derived
/// attributes other than shape and dtype (order, storage, kernels) have no ONNX form and are left
/// out, and so are control edges: what depends on them (weft::Assign) is refused. An output of
/// unknown rank is written without a shape, which runtimes accept and ONNX's checker does not.
/// Equal graphs give equal bytes.
#pragma once

#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"
#include "weft/support/limits.h"

namespace weft {

struct ExportOptions {
  /// Tensors of `external_bytes` and more go to `<file>.data` beside the model: when the model
  /// would not fit into a protobuf message (2 GiB) otherwise, always, or never.
  enum class External { kAuto, kAlways, kNever };
  External external = External::kAuto;
  int64_t external_bytes = 4096;
  /// What is written is on the disk when the call returns.
  bool flush = true;
  /// Dtypes and shapes of the values in between: where they are known, of those alone that the
  /// source declared, or of none.
  enum class ValueInfo { kKnown, kDeclared, kNone };
  ValueInfo value_info = ValueInfo::kKnown;
  /// Operators of other domains without a form in ONNX's operators are written as they are, for a
  /// runtime that knows them; else they are refused.
  bool allow_custom_ops = false;
  /// What a graph that knows no dtypes and shapes is inferred with.
  Limits limits;
};

/// A serialized ModelProto, everything inside. Throws kUnsupported naming all nodes that have no
/// ONNX form, kLimit above 2 GiB.
WEFT_API std::string ExportOnnxBytes(const Graph& graph, const ExportOptions& options = {});
/// A serialized TensorProto named `name`, or SequenceProto, OptionalProto or MapProto: what
/// ReadValueProto of weft/onnx/import.h reads. Throws kLimit above 2 GiB.
WEFT_API std::string FormatValueProto(const Tensor& value, const std::string& name);
/// Writes the file (and its `.data`) so that a reader sees the old or the new one; in protobuf's
/// text form where the path ends so (weft/support/text_proto.h). Throws kIo too.
WEFT_API void ExportOnnx(const Graph& graph, const std::string& path,
                         const ExportOptions& options = {});

}  // namespace weft
