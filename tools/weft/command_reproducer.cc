/// command_reproducer.cc: see command_reproducer.h. Nothing in here may fail: it runs while an
/// error is on its way.
#include "command_reproducer.h"

#include <algorithm>
#include <optional>

#include "weft/api/model.h"
#include "weft/core/pass/reproducer.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/log.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

bool NamesModel(const std::string& argument) {
  try {
    return !FormatOfPath(argument).is_program() && FileExists(argument);
  } catch (const Error&) {
    return false;
  }
}

/// Inputs that are given by files have no default in the model that is read.
std::vector<std::string> GivenInputs(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string given;
    if (arguments[i] == "--input" && i + 1 < arguments.size()) given = arguments[++i];
    if (StartsWith(arguments[i], "--input=")) given = arguments[i].substr(8);
    if (const size_t eq = given.find('='); eq != std::string::npos)
      out.push_back(given.substr(0, eq));
  }
  return out;
}

}  // namespace

std::vector<std::string>& CommandArguments() {
  static std::vector<std::string> arguments;
  return arguments;
}

bool& ReproducerWritten() {
  static bool written = false;
  return written;
}

void WriteCommandReproducer(const std::vector<std::string>& arguments, Error* error) {
  if (ReproducerWritten() || arguments.empty() || arguments[0] == "repro") return;
  try {
    Reproducer r;
    r.error = ErrorCodeName(error->code());
    r.message = error->message();
    r.place = error->place();
    r.arguments = arguments;
    std::optional<Graph> graph;
    const auto model = std::find_if(r.arguments.begin() + 1, r.arguments.end(), NamesModel);
    if (model != r.arguments.end()) {
      try {
        ImportOptions import;
        import.overridable = GivenInputs(arguments);
        graph = LoadModel(*model, import);
        *model = kReproducerModel;
      } catch (const std::exception&) {
        // Then reading it is what failed: the file that the arguments name is needed
        // to see it again.
      }
    }
    WriteFileAtomic(kReproducerFile, FormatReproducer(std::move(r), graph ? &*graph : nullptr));
    ReproducerWritten() = true;
    if (error->hint().empty())
      error->SetHint(
          fmt::format("this is a bug in Weft; please report it with the file {}", kReproducerFile));
  } catch (const std::exception& e) {
    WEFT_LOG(kWarning, "no reproducer: {}", e.what());
  }
}

}  // namespace weft::tool
