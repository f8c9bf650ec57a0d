/// emitter.h: what the emission of all kinds of operations shares; private to l2/.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "emit.h"
#include "placer.h"

namespace hsimd {

/// A stream of words over any number of loops: memory, base and one stride a loop.
struct RawStream {
  int memory = -1;
  int64_t base = 0;
  std::vector<int64_t> strides;
};

/// A VectorOp whose streams are addresses.
struct RawVector {
  std::vector<int64_t> counts;
  std::vector<RawStream> inputs;
  std::vector<BodyStep> steps;
  struct Result {
    BodyOperand from;
    RawStream target;
    std::optional<AluOp> combine;
    bool onto = false;
  };
  std::vector<Result> results;
};

class Emitter {
 public:
  Emitter(const TileProgram& program, const Machine& machine)
      : program_(program), machine_(machine), placer_(machine), scratch_(program.scratch) {}

  void Vector(const VectorOp& op);
  void Matrix(const MatrixOp& op);
  void Transfer(const TransferOp& op);
  std::vector<Instruction> Take() { return std::move(out_); }

 private:
  friend class VectorEmitter;
  RawStream Raw(const TileStream& stream) const;
  void EmitRaw(const RawVector& vector, const Mask& mask, const std::string& note);
  /// One instruction over loops of any number: outer ones become several instructions.
  void Issue(int unit, int op, const std::vector<int64_t>& counts,
             const std::vector<RawStream>& sources, const RawStream& target, const Mask& mask,
             const std::string& note);

  const TileProgram& program_;
  const Machine& machine_;
  Placer placer_;
  std::vector<ScratchRange> scratch_;  ///< what is left of it
  std::vector<Instruction> out_;
};

/// Whether unit and memory ports allow an instruction of rate 1 that reads and writes these
/// memories (-1: an immediate) in every cycle.
bool PortsAllow(const Machine& machine, const std::vector<int>& reads, int write);
/// Whether the unit's operand may name the memory.
bool MayRead(const Machine& machine, int unit, int memory);
bool MayWrite(const Machine& machine, int unit, int memory);
/// Adjacent loops as one wherever every stream allows it; loops of one point vanish.
void MergeLoops(std::vector<int64_t>& counts, const std::vector<std::vector<int64_t>*>& strides);

}  // namespace hsimd
