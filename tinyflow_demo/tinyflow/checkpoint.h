/// checkpoint.h: the values of all variables in one file, with what a program wants to know
/// when it goes on. The file is weft's (runtime/session/variable_store.h): it verifies itself,
/// and is written under another name and renamed, so that one that is being written never
/// costs the one before.
#pragma once

#include <map>
#include <string>

#include "tinyflow/session.h"
#include "weft/runtime/session/variable_store.h"

namespace tf {

/// "epoch" -> "3".
using CheckpointNotes = std::map<std::string, std::string>;

/// Writes every variable of the session. Throws kBadBinding for one of its graph
/// without a value, kIo.
void save_checkpoint(const Session& session, const std::string& path,
                     const CheckpointNotes& notes = {});

/// What save_checkpoint wrote, read once: the notes may decide which graph is built
/// that takes the values.
class Checkpoint {
 public:
  /// The whole file is checked. Throws kIo, kInvalidModel for a damaged file.
  explicit Checkpoint(const std::string& path);
  const CheckpointNotes& notes() const { return notes_; }
  /// Gives every variable of the session its value. Throws kInvalidModel for a checkpoint of
  /// another graph, naming what does not fit; then no variable has changed.
  void Restore(Session* session) const;

 private:
  std::string path_;
  weft::VariableStore values_;
  CheckpointNotes notes_;
};
/// Both at once; gives the notes.
CheckpointNotes load_checkpoint(Session* session, const std::string& path);

}  // namespace tf
