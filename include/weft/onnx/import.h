/// import.h: ONNX models and tensors into Weft.
///
/// A model is untrusted. It is parsed with bounds, then checked whole by Weft's own validator
/// (names, order, types, payload sizes, function graph and its expanded size) before any other code
/// sees it, then built node by node: model-local functions are inlined, older operator versions
/// are lifted to the newest form, operators that Weft lacks are replaced by their ONNX function
/// body where there is one. Up to 20 faults are reported in one exception, each with its graph path
/// (`main/node[7] 'conv1' (Conv)`); operators that are not supported are all reported at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"
#include "weft/support/error.h"
#include "weft/support/limits.h"

namespace weft {

/// Something an import has to say that did not end it.
struct Finding {
  ErrorCode code = ErrorCode::kUnsupported;
  std::string place;  ///< first node concerned, as a graph path
  std::string message;
  std::string hint;
  std::string op;     ///< key of the operator concerned ("Relu", "domain::Name"); may be empty
  int64_t count = 1;  ///< nodes, or other places, concerned
  /// What the standard forbids and was taken all the same ("node-order"); empty: something was left
  /// out.
  std::string oddity;
};

struct ImportOptions {
  Limits limits;
  /// Unsupported nodes do not end the import: each of their outputs becomes a variable without a
  /// value (not among the declared inputs) named after the output, and they are listed in
  /// `findings`.
  bool allow_unsupported = false;
  /// Oddities of real files that have one meaning (nodes out of order, a size of -1, declarations
  /// that are wrong ...; docs/safety.md lists them) are errors; else each kind is reported once.
  bool strict = false;
  /// Receives oddities, unsupported operators (with allow_unsupported) and remarks. Null: oddities
  /// are logged (kInfo), and declared shapes are not compared with inferred ones.
  std::vector<Finding>* findings = nullptr;
  /// Initializers that the model also lists as graph inputs and that the caller will feed: they
  /// become declared inputs and their stored value is not used. All others become parameters, whose
  /// values are folded: below IR version 4 every initializer is listed as an input, and few are
  /// meant to be fed. Other names are refused (kBadBinding).
  std::vector<std::string> overridable;
  /// Folder that external tensor data is read from. ImportOnnx sets it to the folder of the model
  /// where it is empty; ImportOnnxBytes refuses external data where it is empty.
  std::string external_data_dir;
  /// Makes a tensor whose data an elided text or a missing file lacks; null: an error.
  std::function<TensorPtr(DType dtype, const std::vector<int64_t>& dims)> make_missing;
  /// What messages call the model; ImportOnnx sets it to the path where it is empty.
  std::string source_name;
};

/// Throws weft::Error: kIo, kInvalidModel, kCycle, kBadAttribute, kArity, kTypeMismatch,
/// kUnknownOp, kUnsupported, kLimit ...
/// A path that ends as protobuf's text form does (weft/support/text_proto.h) is read as such, here
/// and below.
WEFT_API Graph ImportOnnx(const std::string& path, const ImportOptions& options = {});
/// The same from the bytes of a ModelProto; `bytes` need not outlive the call.
WEFT_API Graph ImportOnnxBytes(std::string_view bytes, const ImportOptions& options = {});

/// A serialized TensorProto (`.pb`). Throws kIo, kBadTensorFile, kLimit. External data is read from
/// the file's folder.
WEFT_API TensorPtr ReadTensorProto(const std::string& path, const Limits& limits = {});
/// A value of `type`: a sequence (of maps, too) from a SequenceProto, an optional from an
/// OptionalProto, a map from a MapProto, anything else as ReadTensorProto. Throws kBadTensorFile
/// where the elements are of another type, too.
WEFT_API TensorPtr ReadValueProto(const std::string& path, Type type, const Limits& limits = {});
/// ReadTensorProto from bytes; external data is refused.
WEFT_API TensorPtr ReadTensorProtoBytes(std::string_view bytes, const Limits& limits = {});

}  // namespace weft
