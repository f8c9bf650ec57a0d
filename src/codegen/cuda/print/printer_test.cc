/// Tests of printer.h without a GPU: what the printed kernels compute, on emulated threads;
/// and the text itself.
#include "printer.h"

#include "codegen/ctext/helpers.h"
#include "codegen/cuda/emulator/cases_test_util.h"
#include "weft/support/error.h"

namespace weft {
namespace {

using cuda::BuildEmulated;
using cuda::CheckEmulated;
using kernel_cases::AllCases;
using kernel_cases::Case;

/// Small numbers in place of those of a large GPU: rows are cut, and some extents need 64 bits.
CudaTuning SmallTuning() {
  CudaTuning t;
  t.narrow_limit = 4000;
  t.slice_elements = 96;
  t.slice_depth = 24;
  t.blocks = 40;
  return t;
}

TEST_CASE("printed CUDA computes every case, on emulated threads") {
  const std::vector<Case> cases = AllCases();
  const CudaTuning tuning;
  const auto library = BuildEmulated(kernel_cases::DistinctKernels(cases), tuning);
  if (library == nullptr) return;
  std::map<std::string, int64_t> entries;
  for (const Case& c : cases) CheckEmulated(*library, c, tuning, &entries);
  CHECK(entries.at("") > 0);
  CHECK(entries.at("_n") > 0);
}

TEST_CASE("printed CUDA computes every case in steps and with wide indices, on emulated threads") {
  const std::vector<Case> cases = AllCases();
  const CudaTuning tuning = SmallTuning();
  const auto library = BuildEmulated(kernel_cases::DistinctKernels(cases), tuning);
  if (library == nullptr) return;
  std::map<std::string, int64_t> entries;
  for (const Case& c : cases) CheckEmulated(*library, c, tuning, &entries);
  // The same entries, and 64-bit indices for nearly all.
  CudaTuning wide = tuning;
  wide.narrow_limit = 50;
  for (const Case& c : cases) {
    if (c.kernel->num_symbols > 0) CheckEmulated(*library, c, wide, &entries);
  }
  // Soft-max: maxima, sums, elements, values of rows.
  for (const std::string entry : {"", "_n", "_s0", "_s1", "_s2", "_s3"}) {
    CAPTURE(entry);
    CHECK(entries[entry] > 0);
  }
}

TEST_CASE("printed CUDA is deterministic and names nothing but itself") {
  const std::vector<Case> a = AllCases(), b = AllCases();
  for (size_t i = 0; i < a.size(); ++i) {
    const std::string text = PrintCuda(*a[i].kernel);
    CHECK(text == PrintCuda(*b[i].kernel));
    CHECK(text.find("#include") == std::string::npos);
  }
  Kernel k;
  k.buffers = {{DType::kF32, true, 8}};
  k.dims = {8};
  k.num_outer = 1;
  k.vector_loop = 0;
  k.small_index = true;
  k.stores = {{0, Expr::Index(0), Expr::Variable("\"); system(\"x"), false}};
  CHECK_THROWS_AS(PrintCuda(k), Error);
  k.stores[0].value = Expr::Cast(DType::kF32, Expr::Dim(SymInt::Symbol("batch_size")));
  CHECK_THROWS_AS(PrintCuda(k), Error);
}

TEST_CASE("an input that an output may lie on is not restrict, others are") {
  for (const Case& c : AllCases()) {
    const std::string text = PrintCuda(*c.kernel);
    if (c.name == "add_mul")
      CHECK(text.find("const f32* b0, const f32* b1, f32* b2") != std::string::npos);
    if (c.name == "broadcast_types")
      CHECK(text.find("const f32* __restrict__ b1") != std::string::npos);
    if (c.name == "broadcast_types") CHECK(text.find("const u16* b0") != std::string::npos);
  }
}

TEST_CASE("schedules cover the work and no more than the machine") {
  for (const Case& c : AllCases()) {
    const CudaSchedule s = ScheduleCuda(*c.kernel);
    INFO(c.name);
    CHECK(s.block % 32 == 0);
    CHECK(s.Blocks(1, c.row, 132) == 1);
    CHECK(s.Blocks(s.items_per_block + 1, 1, 132) == 2);
    CHECK(s.Blocks(int64_t{1} << 40, c.row, 132) * s.block <= 132 * 2048 * 2);
    if (c.name == "add_mul") CHECK(s.items_per_block == 256 * 4);
    if (c.name == "softmax_f32_9x3000_dynamic") CHECK(s.Blocks(9, 3000, 132) == 9);
    if (c.name == "softmax_f32_9x3000_dynamic") CHECK(s.Blocks(9, 700, 132) == 2);
  }
}

}  // namespace
}  // namespace weft
