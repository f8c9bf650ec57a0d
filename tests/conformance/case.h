/// case.h: one case of ONNX's backend test data: a folder with `model.onnx` and stored inputs and
/// outputs (`test_data_set_<k>/input_<i>.pb`, `output_<i>.pb`).
///
/// A case is right on a backend when every stored output is met: equal dtype and extents, integers
/// and strings exactly, floats within ONNX's own bounds (rtol 1e-3, atol 1e-7, or what the case's
/// data.json says), NaN equal to NaN. Weft saying "I do not support that" is no failure; any other
/// error, a wrong number and a crash are.
#pragma once

#include <string>
#include <vector>

namespace weft::conformance {

enum class Status { kPass, kUnsupported, kWrong, kError };
std::string StatusName(Status s);

struct Outcome {
  Status status = Status::kError;
  /// One line without names of nodes or files. Of kPass: what delegates ran (taken.h), else empty.
  std::string reason;
};

/// What runs a case: a backend of the library, or the command with its files.
using Engines = std::vector<std::string>;
inline constexpr const char* kCommand = "command";

struct Case {
  std::string name;    ///< "node/test_abs"
  std::string folder;  ///< where its stored inputs and outputs lie
  std::string model;   ///< "<folder>/model.onnx"
  /// One of ONNX's `light` models: a network without its weights. Its inputs are those that ONNX's
  /// runner makes, its outputs lie beside it.
  bool is_light() const { return name.rfind("light/", 0) == 0; }
};

/// Every case below `root`, by name. With `light`, those of that folder, which the interpreter has
/// no time for.
std::vector<Case> ListCases(const std::string& root, bool light);

/// Runs one case on one engine; throws nothing.
Outcome RunCase(const Case& c, const std::string& engine);

}  // namespace weft::conformance
