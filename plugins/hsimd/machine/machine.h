/// machine.h: a lock-step machine as data: a tree of places, memories, links and units.
///
/// The places of a machine form a tree. Level 0 is the root (one place); each place of level l has
/// `levels[l + 1].count` places of level l + 1. The places of the last level are the PEs. All of
/// them work under one stream of instructions; nothing stalls (l1/program.h has the semantics of
/// an instruction; this file has only the numbers).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hsimd {

struct Level {
  std::string name;   ///< "PE"; unique, no digits at its start; not "Time"
  int64_t count = 1;  ///< places of it in a place of the level above; 1 for level 0
};

/// Words of 32 bits, addressed from 0, one array in every place of its level.
struct Memory {
  std::string name;
  int level = 0;
  int64_t words = 0;
  /// Ports: how often each may be used in one cycle in one place; 0: links alone limit it.
  /// `accesses` counts reads and writes together. In a parent's memory an element of a link is one
  /// access, however many neighbouring words it takes.
  int reads = 0, writes = 0, accesses = 0;
  bool off_chip = false;  ///< inputs, weights and results of a program lie here; on level 0
};

/// Elements a cycle: elements / cycles, lowest terms.
struct Rate {
  int64_t elements = 1, cycles = 1;
  /// After how many cycles element k starts: floor(k * cycles / elements).
  int64_t StartOf(int64_t k) const { return k * cycles / elements; }
};

enum class UnitKind {
  kAlu,  ///< one result of one to three operands in the same PE
  /// y[i] = (acc[i] +) sum_j A_i[j] x[j] over the places i, j of the last level under one parent
  kMatrix,
  kDown,  ///< a word of a memory above into memories of places below
  kUp,    ///< words of places below into a memory above
  kRing,  ///< a word of the neighbouring place of the same level under the same parent
};
/// What a machine's file calls them, in the order of the enumeration.
inline constexpr std::array<const char*, 5> kUnitKinds = {"alu", "matrix", "down", "up", "ring"};

/// A kind of instruction that a unit does: for the ALU an operation, for a link a mode.
struct UnitOp {
  std::string name;  ///< unique in its unit: "add", "distribute", "reduce_sum", "left"
  Rate rate;
  int64_t latency = 1;  ///< cycles from an element's issue until its result can be read, >= 1
  /// Of kDown and kUp: the levels between parent and child along which the word in the parent's
  /// memory differs (its address grows by one from place to place, the innermost level fastest).
  /// Along the others kDown gives all places the same word.
  std::vector<int> indexed;
  /// Of kUp: along levels that are not indexed: "" the mask must choose one place, else "sum",
  /// "max", "min" (f32), "isum", "imax", "imin" (i32), combined in the order of the places.
  std::string reduce;
  int shift = 0;  ///< of kRing: dst[p] = src[(p + shift) mod count]
};

struct Unit {
  std::string name;
  UnitKind kind = UnitKind::kAlu;
  /// Instructions of the units of one slot never overlap in time; those of different slots may.
  std::string slot;
  std::vector<UnitOp> ops;
  /// Of links: the level above (kDown, kUp), and the level of the memories below (kRing: of both).
  /// A down or up link may join two memories of one level.
  int parent = -1, child = -1;
  /// Which memories an operand may name, by index; empty: every memory of a level that fits.
  std::vector<int> sources, targets;
};

struct Machine {
  std::string name;
  std::vector<Level> levels;
  std::vector<Memory> memories;
  std::vector<Unit> units;
  /// Paths of numbers that have no public source, in the order of the file: "levels.PE",
  /// "memories.A.words", "units.LOAD.ops.load.latency".
  std::vector<std::string> assumed;

  int64_t PlacesOf(int level) const;  ///< in the whole machine
  /// Words of the parent's memory that an element of a link touches in one place of the parent: the
  /// product of the counts of op.indexed; 1 where nothing is indexed.
  int64_t WordsAbove(const UnitOp& op) const;
  int pe() const { return int(levels.size()) - 1; }
  /// -1 where there is none of that name.
  int LevelNamed(std::string_view name) const;
  int MemoryNamed(std::string_view name) const;
  int UnitNamed(std::string_view name) const;
};

/// The file is a JSON object:
///
///   name      text
///   levels    {"CHIP": 1, "PE": 4}: from the root, whose count is 1, down
///   memories  {"R": {"level": "PE", "words": 64, "reads": 1, "writes": 1}}; also accesses,
///             off_chip
///   units     {"UP": {"kind": "up", "slot": "LINK", "parent": "CHIP", "child": "PE", "ops": ...}}
///
/// A unit has a kind (alu, matrix, down, up, ring), a slot (its name where none is given), rate and
/// latency for the operations that state none, sources and targets (names of memories; all that fit
/// where none are given), of links parent and child (a ring: child), and ops: a list of names, or
/// an object of {"rate", "latency", "indexed": [levels], "reduce", "shift"} by name; of an ALU also
/// "all". A rate is a number of elements a cycle, or "1/8"; 1 where none is given. A number is
/// `8`, or {"value": 8, "assumed": true} where it has no public source.
///
/// One of the built-in machines ("toy4", "tree64", "mnc2") or, where `name` has a '/' or ends in
/// .json, a file. Throws weft::Error: kUsage with the nearest names, kSyntax with line and
/// column, kInvalidModel naming the path of what is wrong in the file ("units.ALU.ops.add.rate").
Machine FindMachine(const std::string& name);
Machine ParseMachine(std::string_view json, const std::string& source);
/// JSON that ParseMachine reads back to an equal machine.
std::string PrintMachine(const Machine& machine);
std::vector<std::string> BuiltInMachines();

}  // namespace hsimd
