/// variable_store.h: the state variables of one model: tensors by name that outlive runs and
/// are shared by sessions.
///
///   auto store = std::make_shared<VariableStore>();
///   Session train(training_program, store), test(evaluation_program, store);
///   train.Run({x, y});          // writes variables in place
///   test.Run({x});              // reads what training has left
///   store->Save("model.ckpt");
///
/// A run works on the store's own tensors. The store is locked while it does: by a run that
/// writes variables for itself alone, by runs that only read together with other readers. So
/// Get and Save, which copy, see the state before or after a run and never the middle of one;
/// they wait for a writing run to end, and it for them. A run that fails half-way leaves what
/// it had written until then.
///
/// A variable may lie in memory of the caller (Adopt), which runs, Set and Load then read and write
/// in place. The caller may do so too while no run that uses the store is under way.
///
/// A checkpoint file is one self-verifying block, written to a temporary file, flushed and renamed:
///
///   "WEFTV\0\0\1" | hash of the rest, 16 bytes
///                 | entries of metadata, u64 | {key, value} ...
///                 | tensors, u64 | {name; dtype, rank, extents, bytes as u64; content} ...
///
/// Texts are a length (u64) and bytes; numbers are little-endian. A damaged, cut or foreign file is
/// kInvalidModel, a newer format too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/tensor/tensor.h"

namespace weft {

class WEFT_API VariableStore {
 public:
  VariableStore();
  ~VariableStore();
  VariableStore(const VariableStore&) = delete;
  VariableStore& operator=(const VariableStore&) = delete;

  /// Copies `value` in; a variable of another dtype or other extents is replaced, unless it was
  /// adopted (kBadBinding). Throws kApiMisuse on an empty name or a null tensor.
  void Set(const std::string& name, const TensorPtr& value);
  /// From now on the variable is what lies in `tensor`, in place of one of that name; its memory is
  /// the caller's, and kept alive. Throws kBadBinding for a read-only tensor and for memory that
  /// another variable of the store has, kUnsupported for values without memory of the host. Runs
  /// refuse (kBadBinding) inputs that share memory with adopted variables that they write, and
  /// results that share memory with any.
  void Adopt(const std::string& name, std::shared_ptr<Tensor> tensor);
  /// For callers that look at adopted memory, or write to it, between runs on a device: it has what
  /// the runs so far have written, and the next ones see what it has then. On the host that is
  /// always so.
  void Sync();
  /// As Set, where there is none of that name. Says whether it was set.
  bool SetIfAbsent(const std::string& name, const TensorPtr& value);
  /// A copy that later runs do not change. Throws kBadBinding with near names.
  std::shared_ptr<Tensor> Get(const std::string& name) const;
  bool Has(const std::string& name) const;
  /// Says whether there was one.
  bool Erase(const std::string& name);
  /// Sorted.
  std::vector<std::string> Names() const;
  int64_t num_bytes() const;

  /// Texts that go with the variables into checkpoints: the epoch, a seed, a learning rate.
  void SetMetadata(const std::string& key, std::string value);
  /// Empty where there is none.
  std::string Metadata(const std::string& key) const;
  std::map<std::string, std::string> AllMetadata() const;

  /// Writes all variables and metadata; at any moment the old or the new file is there. Throws kIo,
  /// kUnsupported for tensors of strings.
  void Save(const std::string& path) const;
  /// Takes variables and metadata from a file. The store is unchanged where anything is wrong: kIo,
  /// kInvalidModel; or kBadBinding, naming the first of the store's variables that the file lacks
  /// or has with another dtype or other extents (a checkpoint of another model). A store without
  /// variables takes any file.
  void Load(const std::string& path);

 private:
  friend class VariableAccess;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
