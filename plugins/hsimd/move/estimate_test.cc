/// estimate_test.cc: estimates beside the plans that they stand for.
#include "estimate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "../rules/rule.h"

namespace hsimd {
namespace {

/// A layout as rules write them: every level dealt out to one axis, or to none.
Layout RandomSplit(const Machine& m, const std::vector<int64_t>& shape, std::mt19937* random) {
  std::vector<std::vector<bool>> levels(shape.size(), std::vector<bool>(m.levels.size(), false));
  for (size_t l = 1; l < m.levels.size(); ++l) {
    const size_t axis = (*random)() % (shape.size() + 1);
    if (axis == shape.size()) continue;
    int64_t places = m.levels[l].count;
    for (size_t k = 1; k < l; ++k)
      if (levels[axis][k]) places *= m.levels[k].count;
    if (places <= shape[axis]) levels[axis][l] = true;
  }
  return SplitLayout(shape, m, levels);
}

std::vector<SpareWords> SpareOf(const Machine& m) {
  std::vector<SpareWords> spare;
  for (int i = 0; i < int(m.memories.size()); ++i) {
    const Memory& memory = m.memories[size_t(i)];
    if (memory.off_chip) continue;
    if (memory.level < m.pe() || memory.name[0] == 'R') spare.push_back({i, 0, memory.words});
  }
  return spare;
}

TEST_CASE("estimates are near to plans") {
  const Machine m = FindMachine("tree64");
  const int dram = m.MemoryNamed("DRAM"), lm0 = m.MemoryNamed("LM0");
  const std::vector<std::vector<int64_t>> shapes{
      {64, 64}, {16, 120}, {64, 4, 16}, {4, 16, 10, 10}, {1, 16, 32, 32}, {400, 120}, {84}};
  std::mt19937 random(7);
  double sum = 0;
  int n = 0;
  std::vector<double> off;
  for (int k = 0; k < 400; ++k) {
    const std::vector<int64_t>& shape = shapes[random() % shapes.size()];
    const Layout a = RandomSplit(m, shape, &random), b = RandomSplit(m, shape, &random);
    TensorAt from{lm0, 0, a}, to{lm0, Words(a), b};
    if (k % 3 == 0) from = {dram, 0, RowMajor(shape)};
    if (k % 3 == 1) to = {dram, 0, RowMajor(shape)};
    if (from.base + Words(from.layout) > m.memories[size_t(from.memory)].words ||
        to.base + Words(to.layout) > m.memories[size_t(to.memory)].words)
      continue;
    const int64_t about = EstimateMove(m, from, to);
    if (k % 3 == 2 && SameMap(a, b)) {
      CHECK(about == 0);
      continue;
    }
    const int64_t plan = PlanMove(m, from, to, SpareOf(m)).cycles;
    const double ratio = double(about) / double(std::max<int64_t>(plan, 1));
    if (std::getenv("HSIMD_SHOW") != nullptr)
      MESSAGE(about, " for ", plan, ": ", PrintLayout(from.layout), " -> ", PrintLayout(to.layout));
    sum += std::log(ratio);
    off.push_back(std::max(ratio, 1 / ratio));
    ++n;
  }
  std::sort(off.begin(), off.end());
  INFO("geometric mean ", std::exp(sum / n), ", median ", off[off.size() / 2], ", 90 % below ",
       off[off.size() * 9 / 10], ", worst ", off.back());
  CHECK(std::abs(sum / n) < std::log(1.25));
  CHECK(off[off.size() / 2] < 1.25);
  CHECK(off[off.size() * 9 / 10] < 2.75);
}

TEST_CASE("what leads nowhere") {
  Machine m = FindMachine("toy4");
  const TensorAt far{m.MemoryNamed("DRAM"), 0, RowMajor({8})};
  const TensorAt near{m.MemoryNamed("R"), 0, ParseLayout("(8)/((4_PE:1, 2:1))")};
  CHECK(EstimateMove(m, far, near) < 40);
  m.units.erase(std::remove_if(m.units.begin(), m.units.end(),
                               [](const Unit& u) { return u.kind == UnitKind::kDown; }),
                m.units.end());
  CHECK(EstimateMove(m, far, near) == INT64_MAX);
}

}  // namespace
}  // namespace hsimd
