/// interpreter.h: for tests: executes instructions of moves word by word, place by place, straight
/// from the rules in l1/program.h; says the first rule that is broken.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../l1/program.h"

namespace hsimd {

class MoveInterpreter {
 public:
  explicit MoveInterpreter(const Machine& machine);

  /// Contents: 0 is never written.
  int64_t& At(int memory, int64_t place, int64_t word);
  /// Empty, or what went wrong. `cycles`: the first in which nothing is under way.
  std::string Run(const std::vector<Instruction>& instructions, int64_t* cycles);
  /// Words that instructions wrote.
  const std::vector<std::vector<bool>>& written() const { return written_; }
  size_t Cell(int memory, int64_t place, int64_t word) const;

 private:
  struct Access {
    size_t cell;
    int memory;
    int64_t place;
  };
  struct Element {
    int64_t issue, end;
    std::vector<std::pair<Access, Access>> moves;  ///< target, source
  };
  std::string Expand(const Instruction& i, std::vector<Element>& out);

  const Machine& machine_;
  std::vector<std::vector<int64_t>> words_;
  std::vector<std::vector<bool>> written_;
};

}  // namespace hsimd
