/// tile_program.h: the middle level (l2): values at places, and operations on tiles of them.
///
/// A value is a range of words in one memory, in every place of that memory's level, with the
/// layout that says which element each word is. Operations run one after another, in the order of
/// the list; emission (emit.h) may overlap what does not touch the same words. They are
///
///   Vector    a body of ALU operations at every point of a nest of loops; results may be combined
///             along loops that their stream does not follow (sums, extrema)
///   Matrix    a product of tiles on the matrix unit: y[rows, columns] (+)= A[rows, inner] x[inner,
///             columns], where each index may be several loops
///   Transfer  one mode of a link over a nest of loops: words up, down, or round
///   Move      everything of one value to the layout of another, by the mover
///
/// Streams are affine in the loops of their operation and the same in every place, as the machine
/// has them; an operation works in the places of its mask.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "../l1/program.h"
#include "../layout/layout.h"
#include "../machine/alu_ops.h"
#include "../machine/machine.h"

namespace hsimd {

enum class WordType : uint8_t { kF32, kI32, kBool };

struct TileValue {
  enum class Role : uint8_t { kScratch, kInput, kOutput };
  std::string name;  ///< unique in the program; letters, digits, '_', '.'
  Role role = Role::kScratch;
  WordType type = WordType::kF32;
  int memory = 0;                ///< index in Machine::memories
  int64_t base = 0, words = 0;   ///< in every place of the memory's level
  std::optional<Layout> layout;  ///< none: words without a meaning of their own
};

/// Word offset + sum of loop counter * stride of a value; one stride a loop of the operation.
struct TileStream {
  int value = -1;
  int64_t offset = 0;
  std::vector<int64_t> strides;
};

/// What a step of a body reads.
struct BodyOperand {
  enum class Kind : uint8_t { kInput, kStep, kConstant };
  Kind kind = Kind::kConstant;
  int index = 0;      ///< of VectorOp::inputs or VectorOp::steps
  uint32_t bits = 0;  ///< of a constant
  static BodyOperand Input(int i) { return {Kind::kInput, i, 0}; }
  static BodyOperand Step(int i) { return {Kind::kStep, i, 0}; }
  static BodyOperand Constant(uint32_t bits) { return {Kind::kConstant, 0, bits}; }
  bool operator==(const BodyOperand& o) const {
    return kind == o.kind && index == o.index && bits == o.bits;
  }
};

struct BodyStep {
  AluOp op = AluOp::kCopy;
  std::vector<BodyOperand> operands;  ///< as many as the arity of `op`
};

struct VectorOp {
  std::vector<int64_t> counts;  ///< loops, outermost first; none: one point
  std::vector<TileStream> inputs;
  std::vector<BodyStep> steps;  ///< each reads earlier ones
  struct Result {
    BodyOperand from;
    TileStream target;
    /// Combines the points of the loops of stride 0: kFAdd, kFMul, kFMin, kFMax, kIAdd, kIMul,
    /// kIMin, kIMax, kAnd, kOr; the first point is taken as it is unless `onto` what is there.
    std::optional<AluOp> combine;
    bool onto = false;
  };
  std::vector<Result> results;
  Mask mask;
  std::string note;
};

/// Loops of all streams: rows, then inner, then columns. Place i of the last level has row i of a
/// block of rows and word i of a block of the contraction; a block of A is `n` words, n the places
/// of the last level under one parent, `a_word` apart.
struct MatrixOp {
  std::vector<int64_t> rows, inner, columns;
  TileStream a, x, y;
  int64_t a_word = 1;
  bool onto = false;  ///< adds to what y has
  Mask mask;
  std::string note;
};

struct TransferOp {
  int unit = 0, op = 0;
  std::vector<int64_t> counts;
  TileStream source, target;
  Mask mask;
  std::string note;
};

struct MoveOp {
  int from = 0, to = 0;
  std::string note;
};

using TileOp = std::variant<VectorOp, MatrixOp, TransferOp, MoveOp>;

/// Words [base, base + words) of a memory that emission may use as it likes.
struct ScratchRange {
  int memory = 0;
  int64_t base = 0, words = 0;
};

struct TileProgram {
  std::string machine;
  std::vector<TileValue> values;
  std::vector<ScratchRange> scratch;
  std::vector<TileOp> ops;

  int AddValue(TileValue v) {
    values.push_back(std::move(v));
    return int(values.size()) - 1;
  }
};

/// The text form; ParseTiles(PrintTiles(p, m), m, ..) equals p.
///
///   l2 1
///   machine tree64
///   scratch R0[0:512]
///   value x input f32 LM0[0:16] (16,16)/((4:4, 4_PE:1), (4:1, 4_MAB:1))
///   value t scratch f32 LM1[0:16]
///   vector (4, 4) on PE=0-1   # note
///     in x[0; 4, 1]
///     fmul $0, 0x3f800000
///     out t[0; 4, 0] fadd %0
///   matrix rows (2) inner (4) columns (8) a_word 1
///     a w[0; 16, 4, 0]
///     x v[0; 0, 8, 1]
///     y s[0; 8, 0, 1]
///   transfer L1.distribute (4) p[0; 16] -> x[0; 1]
///   move x -> y
///
/// `$k` is input k, `%k` the result of step k, 0x.. a constant; `onto` after a combining operation
/// or after `matrix` says so. Throws kSyntax with line and column, kInvalidModel for unknown names.
std::string PrintTiles(const TileProgram& program, const Machine& machine);
TileProgram ParseTiles(std::string_view text, const Machine& machine, const std::string& source);

/// Throws kInvalidModel naming operation and value: streams beyond their value, values or scratch
/// beyond their memory, memories on another level than the unit works on, steps that read later
/// ones, arities, loops below 1, results that several points write without combining, values whose
/// layout needs more words than they have, two values of one name.
void VerifyTiles(const TileProgram& program, const Machine& machine);

}  // namespace hsimd
