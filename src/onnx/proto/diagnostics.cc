/// diagnostics.cc: see diagnostics.h.
#include "diagnostics.h"

#include <utility>

#include "weft/support/check.h"

namespace weft::onnx_import {

void Diagnostics::Add(ErrorCode code, std::string place, std::string message, std::string hint) {
  ++total_;
  if (!full()) faults_.push_back({code, std::move(place), std::move(message), std::move(hint)});
}

void Diagnostics::Add(const Error& error, const std::string& place) {
  std::string where = place;
  if (!error.place().empty()) where += (where.empty() ? "" : " > ") + error.place();
  Add(error.code(), std::move(where), error.message(), error.hint());
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
