/// emit.h: tile programs as blocks of instructions, one block an operation.
///
/// A block is free of hazards by itself: within it instructions start as early as words, ports and
/// slots allow (placer.h). l1/merge.h places the blocks of a program on one timeline.
///
/// Vectors run in chunks of points: every step of the body is one instruction over a chunk, so that
/// a latency is waited for once a chunk; temporaries lie in the program's scratch ranges. Operands
/// that a memory has not the ports for are copied to another first. Results that are combined are
/// kept in as many partial sums as the latency needs. Matrix operations keep sums in a memory that
/// reads and writes in one cycle, load the blocks of A behind the products, and visit a sum again
/// only when it is there.
///
/// Throws kUnsupported naming operation, unit and memory where the machine lacks an operation or
/// the ports for it, kLimit where scratch ranges are too small (with how many words are missing),
/// and what VerifyTiles throws.
#pragma once

#include <vector>

#include "../l1/merge.h"
#include "tile_program.h"

namespace hsimd {

/// A MoveOp is the mover's block (move/move.h), with the program's scratch ranges as spare words.
std::vector<Block> EmitTiles(const TileProgram& program, const Machine& machine);

/// The unit that does `op` on words of the PEs, and the index of the operation; nullopt where none
/// does. Of several units the one with the most operations.
std::optional<std::pair<int, int>> FindAluOp(const Machine& machine, AluOp op);

/// Whether the matrix unit can have blocks of A from `memory`: there is a unit that brings them.
bool MatrixTakesFrom(const Machine& machine, int memory);

}  // namespace hsimd
