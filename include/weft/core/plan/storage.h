/// storage.h: where every entry lives: the attribute "storage" that PlanMemory provides
/// and the runtime reads.
#pragma once

#include <string>
#include <vector>

#include "weft/core/graph/graph_attr.h"

namespace weft {

enum class StorageKind : uint8_t {
  kArena,     ///< a stretch of the session's arena; offset fixed per binding
  kInput,     ///< the caller's tensor number `number`
  kOutput,    ///< result number `number`, written in place
  kConstant,  ///< a parameter or constant; `number` is its node id
  kVariable,  ///< a state variable, written in place; `number` is its node id
};

/// Tensors of numbers have a place in an arena; strings, sequences and unknown types have none.
inline bool HasArenaPlace(const Type& type) {
  return type.is_tensor() && DTypeBits(type.dtype) > 0;
}

/// Of offsets in an arena, in bytes: what kernels and library calls are made for.
inline constexpr int64_t kArenaAlign = 64;

/// Bytes of a tensor in an arena; unknown where it has no place there.
WEFT_API SymInt ArenaBytes(const Type& type, const Shape& shape);

/// A block of bytes that one or more entries share (views, in-place results).
struct Storage {
  StorageKind kind = StorageKind::kArena;
  int64_t number = 0;
  SymInt bytes;            ///< largest of its entries
  int begin = 0, end = 0;  ///< half-open steps of the order in which its content matters
};

/// A block of the arena that may lie in another one, where the sizes of a run allow it and its
/// memory does not grow (src/runtime/binding/join_blocks.h).
struct StoragePart {
  NodeId node = 0;            ///< by whose step: FAlias, or a result as small as an operand
  int part = -1, whole = -1;  ///< storages
  SymInt bytes_before;        ///< of the part in the whole
  SymInt rows;                ///< only where it is 1
  /// The node only copies: with all of its parts where they belong its step is left out. Else it
  /// reads the whole for the last time, and may write over it.
  bool copies = true;
};

struct StoragePlan {
  std::vector<Storage> storages;
  EntryMap<int> of;  ///< storage of an entry; absent: nothing reads it as a tensor
  /// outputs (by number) whose entry lives elsewhere and is copied at the end
  std::vector<int> copies;
  std::vector<StoragePart> parts;  ///< in the order of their steps, those of a node together
  int aliased = 0, in_place = 0;   ///< entries that share their producer's block
};

/// Follows the plan step by step and throws kInternal when a step would read a block that another
/// entry has overwritten, or when two blocks of one arena overlap while both live. Independent of
/// how plans are made. A result that is written into a variable lies in its storage, or is copied
/// there when its step ends (core/graph/effects.h).
WEFT_API void VerifyStorage(const Graph& graph, const std::vector<NodeId>& order,
                            const StoragePlan& plan);

}  // namespace weft
