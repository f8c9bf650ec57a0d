/// diagnostics.cc: see diagnostics.h.
#include "diagnostics.h"

#include <utility>

#include "weft/support/check.h"

namespace weft::onnx_import {

const OddityRow& RowOf(Oddity oddity) {
  constexpr ErrorCode kInvalid = ErrorCode::kInvalidModel;
  static constexpr OddityRow kRows[] = {
      {Oddity::kNodeOrder, kInvalid, "node-order", "the nodes are taken in topological order",
       "write the nodes in topological order"},
      {Oddity::kMinusOneDim, kInvalid, "minus-one-dim", "taken as a dimension of any size",
       "a dimension of any size has a name, or neither name nor value"},
      {Oddity::kMissingIr, kInvalid, "missing-ir", "taken as one of the newest", "set ir_version"},
      {Oddity::kMissingOpset, kInvalid, "missing-opset", "the file may mean another",
       "add the version that the file was written for to opset_import"},
      {Oddity::kNewerOpset, ErrorCode::kUnsupported, "newer-opset", "read as that",
       "export the model again with an older operator set"},
      {Oddity::kNewerOperator, ErrorCode::kUnknownOp, "newer-operator", "taken as of that set",
       "import the operator set that has it"},
      {Oddity::kTwoOpsets, kInvalid, "two-opsets", "the newest is used",
       "import the domain in one version"},
      {Oddity::kDeclaredType, kInvalid, "declared-type", "the declaration is ignored",
       "remove the value_info, or infer it again"},
      {Oddity::kDeclaredShape, kInvalid, "declared-shape", "the declaration is ignored",
       "remove the shape, or infer it again"},
      {Oddity::kTwoValueInfos, kInvalid, "two-value-infos", "nothing is taken from either",
       "remove one of them"},
      {Oddity::kTwoInitializers, kInvalid, "two-initializers", "one is used", "remove one of them"},
      {Oddity::kTwoNodeNames, kInvalid, "two-node-names", "names only label nodes",
       "give each node of a graph a name of its own, or none"},
      {Oddity::kHiddenName, kInvalid, "hidden-name", "inside it means the inner one",
       "give the inner value a name of its own"},
      {Oddity::kUntypedInput, kInvalid, "untyped-input", "its type is what it is fed with",
       "declare elem_type"},
      {Oddity::kUntypedAttribute, ErrorCode::kBadAttribute, "untyped-attribute",
       "the field that is filled says it", "set the attribute's type"},
      {Oddity::kUnnamedResult, ErrorCode::kArity, "unnamed-result", "no node reads it",
       "give the result a name"},
      {Oddity::kExternalKey, kInvalid, "external-key", "the entry is ignored",
       "remove the entry from external_data"},
  };
  const OddityRow& row = kRows[size_t(oddity)];
  WEFT_ICHECK(row.oddity == oddity, "oddity {} is not in its row", int(oddity));
  return row;
}

void Diagnostics::Add(ErrorCode code, std::string place, std::string message, std::string hint) {
  ++total_;
  if (!full()) faults_.push_back({code, std::move(place), std::move(message), std::move(hint)});
}

void Diagnostics::Add(const Error& error, const std::string& place) {
  std::string where = place;
  if (!error.place().empty()) where += (where.empty() ? "" : " > ") + error.place();
  Add(error.code(), std::move(where), error.message(), error.hint());
}

void Diagnostics::Tolerate(Oddity oddity, std::string place, std::string message, int64_t count) {
  const OddityRow& row = RowOf(oddity);
  if (strict_) return Add(row.code, std::move(place), std::move(message), std::string(row.cure));
  const auto [it, fresh] = warnings_.try_emplace(oddity);
  if (fresh) it->second = {std::move(place), std::move(message), 0};
  it->second.count += count;
}

void Diagnostics::ThrowIfAny(const std::string& source) const {
  if (faults_.empty()) return;
  const auto at = [&](const std::string& place) {
    if (source.empty()) return place;
    return place.empty() ? source : source + ": " + place;
  };
  const Fault& first = faults_.front();
  if (total_ == 1) ThrowError(first.code, first.message, at(first.place), first.hint);
  std::string text = fmt::format("{} faults", total_);
  if (total_ > faults_.size()) text += fmt::format(", the first {}", faults_.size());
  for (const Fault& f : faults_) {
    text += fmt::format("\n  [{}] ", ErrorCodeName(f.code));
    if (!f.place.empty()) text += f.place + ": ";
    text += f.message;
    if (!f.hint.empty()) text += fmt::format(" (hint: {})", f.hint);
  }
  ThrowError(first.code, std::move(text), source);
}

}  // namespace weft::onnx_import
