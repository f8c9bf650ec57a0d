/// program_report.h: what a backend's own program (weft/runtime/program/backend_program.h) tells of
/// itself, as commands print and write it.
#pragma once

#include <string>
#include <vector>

#include "json.h"
#include "weft/runtime/program/backend_program.h"

namespace weft::tool {

/// Its fields beside those of the command. Throws kPlugin for a name that the command uses itself,
/// or that is told twice.
void AddFields(const std::vector<ProgramField>& fields, const std::string& backend, Json* object);
/// A line each, behind names of eight letters as the other lines of reports.
std::string FieldsText(const std::vector<ProgramField>& fields);
/// Writes each into the folder, which is made. Throws kUnsupported where there are none, kPlugin
/// for a name that is not one of a file, kIo.
void WriteArtifacts(const BackendProgram& program, const std::string& backend,
                    const std::string& folder);
/// Throws kUnsupported where there is none, kIo.
void WriteReportPage(const BackendProgram& program, const std::string& backend,
                     const std::string& path);

}  // namespace weft::tool
