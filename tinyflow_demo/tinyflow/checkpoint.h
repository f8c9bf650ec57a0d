/// checkpoint.h: the values of all variables in one file, with what a program wants to know when it goes on. The file is
/// weft's (runtime/variable_store.h): it verifies itself, and is written under another name and renamed, so that one that
/// is being written never costs the one before.
#pragma once

#include <map>
#include <string>

#include "tinyflow/session.h"

namespace tf {

/// "epoch" -> "3".
using CheckpointNotes = std::map<std::string, std::string>;

/// Writes every variable of the session. Throws kBadBinding for one of its graph without a value, kIo.
void save_checkpoint(const Session& session, const std::string& path,
                     const CheckpointNotes& notes = {});
/// Reads what save_checkpoint wrote. Throws kIo, kInvalidModel for a damaged file and for one of another graph, naming what
/// does not fit; then no variable has changed.
CheckpointNotes load_checkpoint(Session* session, const std::string& path);
/// The notes alone; the whole file is checked.
CheckpointNotes read_checkpoint_notes(const std::string& path);

}  // namespace tf
