// Streamed products: right on the simulator, and how near to the bound.
#include "stream_product.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "../l1/simulator.h"
#include "../l2/emit.h"
#include "../tests/place_blocks.h"

namespace hsimd {
namespace {

double Ratio(int64_t n) {
  const Machine machine = FindMachine("tree64");
  StreamedProduct p;
  p.rows = p.inner = p.columns = n;
  p.b = n * n;
  p.y = 2 * n * n;
  const TileProgram tiles = StreamProduct(machine, p, "product");
  const std::vector<Block> blocks = EmitTiles(tiles, machine);
  Program program = PlaceBlocks(tiles, machine, blocks);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> d(-1, 1);
  std::vector<float> a(size_t(n * n)), b(a.size()), y(a.size());
  for (float& v : a) v = d(random);
  for (float& v : b) v = d(random);
  const int dram = machine.MemoryNamed("DRAM");
  const int64_t predicted = PredictCycles(program, machine);
  Simulator simulator(machine, std::move(program));
  simulator.SetWords(dram, p.a, reinterpret_cast<const uint32_t*>(a.data()), n * n);
  simulator.SetWords(dram, p.b, reinterpret_cast<const uint32_t*>(b.data()), n * n);
  const Execution execution = simulator.Run();
  CHECK(execution.cycles == predicted);
  simulator.GetWords(dram, p.y, reinterpret_cast<uint32_t*>(y.data()), n * n);
  double worst = 0;
  for (int64_t i = 0; i < n; i += 5)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < n; ++k)
        sum += double(a[size_t(i * n + k)]) * double(b[size_t(k * n + j)]);
      worst = std::max(worst, std::fabs(sum - double(y[size_t(i * n + j)])));
    }
  CHECK(worst < 1e-4);
  MESSAGE(n << "^3: " << execution.cycles << " cycles, bound " << StreamProductBound(machine, p));
  return double(StreamProductBound(machine, p)) / double(execution.cycles);
}

TEST_CASE("streamed products reach their bound") {
  CHECK(Ratio(64) >= 0.75);
  CHECK(Ratio(128) >= 0.85);
  CHECK(Ratio(256) >= 0.95);
}

}  // namespace
}  // namespace hsimd
