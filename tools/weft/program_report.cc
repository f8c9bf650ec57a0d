/// program_report.cc: see program_report.h.
#include "program_report.h"

#include <algorithm>
#include <cctype>

#include "weft/support/check.h"
#include "weft/support/file.h"

namespace weft::tool {
namespace {

Json ToJson(const ProgramField& field, const std::string& backend) {
  if (const auto* inner = std::get_if<std::vector<ProgramField>>(&field.value)) {
    Json object = Json::object();
    AddFields(*inner, backend, &object);
    return object;
  }
  if (const auto* n = std::get_if<int64_t>(&field.value)) return *n;
  if (const auto* x = std::get_if<double>(&field.value)) return *x;
  return std::get<std::string>(field.value);
}

std::string ValueText(const ProgramField& field) {
  if (const auto* inner = std::get_if<std::vector<ProgramField>>(&field.value)) {
    std::string out;
    for (const ProgramField& f : *inner)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", f.name, ValueText(f));
    return out;
  }
  if (const auto* n = std::get_if<int64_t>(&field.value)) return std::to_string(*n);
  if (const auto* x = std::get_if<double>(&field.value)) return fmt::format("{:.4g}", *x);
  return std::get<std::string>(field.value);
}

bool IsFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace

void AddFields(const std::vector<ProgramField>& fields, const std::string& backend, Json* object) {
  for (const ProgramField& f : fields) {
    WEFT_CHECK(!object->Has(f.name), kPlugin,
               "the program of backend '{}' tells a field '{}', which is there already", backend,
               f.name);
    (*object)[f.name] = ToJson(f, backend);
  }
}

std::string FieldsText(const std::vector<ProgramField>& fields) {
  std::string out;
  for (const ProgramField& f : fields) out += fmt::format("{:<8} {}\n", f.name, ValueText(f));
  return out;
}

void WriteArtifacts(const BackendProgram& program, const std::string& backend,
                    const std::string& folder) {
  const std::vector<NamedBytes> artifacts = program.Artifacts();
  WEFT_CHECK(!artifacts.empty(), kUnsupported, "programs of backend '{}' show nothing to write",
             backend);
  for (const NamedBytes& a : artifacts)
    WEFT_CHECK(IsFileName(a.name), kPlugin,
               "the program of backend '{}' calls a file '{}', which is not a name of a file",
               backend, a.name);
  MakeDirectories(folder);
  for (const NamedBytes& a : artifacts) WriteFileAtomic(JoinPath(folder, a.name), a.bytes);
}

void WriteReportPage(const BackendProgram& program, const std::string& backend,
                     const std::string& path) {
  const std::string page = program.ReportPage();
  WEFT_CHECK(!page.empty(), kUnsupported, "programs of backend '{}' have no page to write",
             backend);
  WriteFileAtomic(path, page);
}

}  // namespace weft::tool
