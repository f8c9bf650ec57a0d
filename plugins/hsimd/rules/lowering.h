/// lowering.h: one operator on its way to a tile program; private to rules/.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "body.h"

namespace hsimd {

class Lowering {
 public:
  /// `in_results`: sums lie where a result will, as far as that result reads them point by point;
  /// otherwise in scratch.
  Lowering(const LowerRequest& request, bool in_results);
  TileProgram Run();

 private:
  // lowering.cc
  void ChooseDigits();
  void LowerReduce(const ReducePart& part);
  /// The result that may hold the value of a reduction: that is the value, or is computed of it
  /// point by point while nothing else reads it; -1.
  int ResultFor(const ReducePart& part) const;
  void LowerResults();
  struct Target {
    Expr value;
    Buffer buffer;
    std::vector<Affine> at;  ///< by dimension of the buffer
  };
  void Vectors(const std::vector<Target>& values, const std::vector<int>& kept,
               const std::vector<int>& reduced, std::optional<weft::ReduceOp> combine,
               weft::DType dtype);
  void Fill(const Buffer& buffer, const std::vector<int>& axes, uint32_t word);
  Buffer NewTemp(const std::string& name, const std::vector<int>& axes, weft::DType dtype);
  /// The last `words` words of a range, as a value; what is left of the range stays free.
  int TakeFrom(ScratchRange& range, const std::string& name, int64_t words, weft::DType dtype);
  /// `memory`: the one that it has to be; -1: any of the PEs.
  int TakeScratch(const std::string& name, int64_t words, weft::DType dtype, int memory = -1);
  std::vector<Affine> Identity(const std::vector<int>& axes) const;

  // product.cc
  bool TryMatrix(const ReducePart& part, const Buffer& target);
  bool Pad(const Expr& load, int shifted, Buffer* buffer, std::vector<Affine>* at);
  int ShiftableAxis(const ProductPart& product, const Expr& a, const Expr& x) const;

  // across.cc
  /// Combines what the places of `level` hold of the words of `value`, for all of them.
  void Across(int value, int level, weft::ReduceOp op, weft::DType dtype);
  void AcrossRing(int value, int unit, int mode, weft::ReduceOp op, weft::DType dtype);
  void AcrossTree(int value, int level, weft::ReduceOp op, weft::DType dtype);
  void AcrossPiece(int value, int level, weft::ReduceOp op, weft::DType dtype);

  const LowerRequest& request_;
  const Machine& machine_;
  const bool in_results_;
  std::set<int> held_;  ///< results that hold a sum already
  std::string note_;
  OperatorParts parts_;
  Points points_;
  TileProgram tiles_;
  std::vector<ScratchRange> scratch_;  ///< what is left
  std::vector<Buffer> buffers_;        ///< by number of Load
  std::vector<Buffer> outputs_;
  int across_other_ = -1, across_total_ = -1;
  std::vector<std::pair<int, int>>
      rings_;  ///< memory of what is passed on, value it passes through
};

std::optional<AluOp> CombineOp(weft::ReduceOp op, weft::DType dtype);
/// The word that changes nothing.
uint32_t NeutralWord(weft::ReduceOp op, weft::DType dtype);
WordType WordTypeOf(weft::DType dtype);

}  // namespace hsimd
