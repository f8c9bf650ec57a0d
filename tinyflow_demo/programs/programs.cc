/// programs.cc: the list of programs.
#include <cmath>

#include "programs/program.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"

namespace programs {

const std::vector<Program>& All() {
  static const std::vector<Program> programs{
      AdditionLoop(),
      CharLstm(),
      CifarResnet(),
      MnistLenet(),
      MnistMlpAutoShapeInference(),
      MnistSoftmax(),
      MnistSoftmaxMinimum(),
      MyOptimizer(),
      MySigmoid(),
      Resnet50(),
      Transformer(),
      Unet(),
  };
  return programs;
}

const Program& Find(const std::string& name) {
  std::vector<std::string> names;
  for (const Program& p : All()) {
    if (p.name == name || p.alias == name) return p;
    names.push_back(p.name);
    if (!p.alias.empty()) names.push_back(p.alias);
  }
  const std::string near = weft::DidYouMean(name, names);
  weft::ThrowError(weft::ErrorCode::kUsage, "there is no program '" + name + "'", "",
                   near.empty() ? "see tinyflow --list" : near);
}

void CheckChoices(const Program& program, int64_t size, int blocks) {
  WEFT_CHECK(program.size_is || size == 0, kUsage, "program '{}' has no choice of size",
             program.name);
  WEFT_CHECK(program.blocks_are || blocks == 0, kUsage, "program '{}' has no choice of blocks",
             program.name);
}

double CheckedRate(double rate) {
  const auto f = float(rate);
  WEFT_CHECK(std::isfinite(f) && f > 0, kUsage,
             "a learning rate is a number above 0, as far as f32 goes, not {}", rate);
  return rate;
}

tf::data::Layout FlatPictures() {
  tf::data::Layout layout;
  layout.flat = true;
  return layout;
}

}  // namespace programs
