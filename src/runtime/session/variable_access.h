/// variable_access.h: how runs reach the tensors of a VariableStore. Private to the runtime.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "weft/runtime/session/variable_store.h"

namespace weft {

class HomeSlot;
struct IoSpec;

/// While it lives, the store is locked: for this run alone where it writes, else for readers.
class VariableAccess {
 public:
  /// `has_homes`: the run takes Home; else what homes have that the host has not is fetched, and
  /// what the run may write is known to change.
  VariableAccess(VariableStore& store, bool writes, bool has_homes);
  /// Changes whenever a tensor comes, goes or is replaced; not when one is written.
  uint64_t version() const;
  /// Null where there is none.
  std::shared_ptr<Tensor> Find(const std::string& name) const;
  /// The same, with what its home has.
  std::shared_ptr<Tensor> OnHost(const std::string& name) const;
  /// Puts a tensor in the place of the one of that name, which is not the caller's; for a run that
  /// writes.
  void Replace(const std::string& name, std::shared_ptr<Tensor> tensor);
  /// Of a cache, the first rows, which runs have written; nothing: a caller put the tensor there,
  /// and all of it is rows.
  std::optional<int64_t> Rows(const std::string& name) const;
  void SetRows(const std::string& name, int64_t rows);
  /// It lies in memory of the caller.
  bool IsAdopted(const std::string& name) const;
  /// Of a variable that there is.
  HomeSlot* Home(const std::string& name) const;
  std::vector<std::string> Names() const;

 private:
  VariableStore& store_;
  std::shared_lock<std::shared_mutex> shared_;
  std::unique_lock<std::shared_mutex> alone_;
};

/// Throws kBadBinding where `t`, which the store has under the name of a variable, is not of its
/// dtype, rank and constant extents; null: the store has none.
void CheckVariable(const IoSpec& spec, const Tensor* t, const VariableAccess& access);

}  // namespace weft
