/// move.h: the cheapest way to bring a tensor from one layout and memory to another.
///
/// The ways that are tried, each made into instructions and counted:
///
///   stay      an element that is in its place moves nothing
///   copies    elements that stay in their PE are copied by the ALU
///   ring      elements that change the place under one parent are shifted by neighbours, in place;
///             rearrangements of few words are searched through
///   tree      up through memories of the parents as far as places differ and down again, at
///             shifted bases under masks, with per-level and broadcast modes where the target has
///             copies; the hop that reorders is the cheapest one
///
/// Work is done on the digits that both layouts have in common (Refine in box.h): an instruction's
/// streams are digits of addresses, its mask digits of places. Where radices do not fit, the runs
/// in between are moved one by one. Only words of elements are read, only words of target elements
/// and spare words are written; source and target may overlap.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../l1/program.h"
#include "../layout/layout.h"

namespace hsimd {

/// A tensor in a memory: local addresses of the layout count from base.
struct TensorAt {
  int memory = 0;
  int64_t base = 0;
  Layout layout;
};

/// Words [base, base + words) in every place of a memory that a move may overwrite.
struct SpareWords {
  int memory = 0;
  int64_t base = 0, words = 0;
};

/// A word that changes its cell within a memory; places count in the whole machine.
struct WordMove {
  int64_t from_place = 0, from_word = 0;
  int64_t to_place = 0, to_word = 0;
};

struct MovePlan {
  std::vector<Instruction> instructions;  ///< starts from 0, by start; every latency respected
  int64_t cycles = 0;        ///< until the last word can be read; 0 where nothing moves
  int64_t bound_cycles = 0;  ///< no way on this machine takes fewer
  std::string way;           ///< "stay", "copies", "ring", "tree", or "ring, tree"
};

/// Throws weft::Error: kShapeMismatch (two shapes), kInvalidModel (a layout that the machine's
/// levels do not hold, an address range beyond its memory), kUnsupported (layouts with `Time` or
/// `W`; no links lead from one memory to the other), kLimit (needs more spare words, says how many
/// in which memory; over 50,000 instructions).
MovePlan PlanMove(const Machine& machine, const TensorAt& from, const TensorAt& to,
                  const std::vector<SpareWords>& spare, const std::string& note = {});

/// Any rearrangement of up to 16 words of one memory among few places, by neighbours and copies:
/// what no layout says. Words that are not listed are not kept in the cells that are targets or
/// spare. Throws kUnsupported where the search finds no way.
MovePlan PlanWords(const Machine& machine, int memory, const std::vector<WordMove>& words,
                   const std::vector<SpareWords>& spare, const std::string& note = {});

}  // namespace hsimd
