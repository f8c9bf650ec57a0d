/// schedule.cc: from extents to launches (the contract of printer.h).
#include <algorithm>
#include <cstring>

#include "text.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

/// What is known of a launch once the extents are.
SymBindings Bind(const std::vector<int64_t>& dims) {
  SymBindings bindings;
  for (size_t k = 0; k < dims.size(); ++k) bindings[KernelSymbol(int(k)).symbol_name()] = dims[k];
  return bindings;
}

std::vector<int64_t> Values(const std::vector<SymInt>& extents, const SymBindings& bindings) {
  std::vector<int64_t> values;
  for (SymInt e : extents) values.push_back(Evaluate(e, bindings));
  return values;
}

/// All extents and their product are at most `limit`.
bool Fits(const std::vector<int64_t>& extents, int64_t limit) {
  int64_t product = 1;
  for (int64_t e : extents) {
    if (e > limit) return false;
    if (__builtin_mul_overflow(product, e, &product) || product > limit) return false;
  }
  return true;
}

int64_t CeilDivide(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace

namespace cuda {

uint64_t Multiplier(int64_t divisor) {
  WEFT_ICHECK(divisor > 0 && divisor <= INT32_MAX, "divisor {}", divisor);
  // q = n * m >> 31 + s is n / d for all n below 2^31, where 2^s >= d and m = ceil(2^(31 + s) / d):
  // m exceeds the quotient by less than 1, so n * m / 2^(31 + s) exceeds n / d by less than
  // n / 2^(31 + s) < 1 / d.
  int shift = 0;
  while ((int64_t{1} << shift) < divisor) ++shift;
  const uint64_t power = uint64_t{1} << (31 + shift);
  const uint64_t multiplier = (power + uint64_t(divisor) - 1) / uint64_t(divisor);
  return uint64_t(31 + shift) << 32 | multiplier;
}

bool HasNarrowTwin(const Kernel& k) {
  // Nothing is divided in a single loop: 64 bits cost next to nothing.
  if (k.small_index || k.num_symbols == 0 || k.dims.empty()) return false;
  if (k.has_points() && k.dims.size() == 1) return HasReduce(k.stores);
  return true;
}

bool HasMulti(const Kernel& k) {
  return k.has_points() && k.dims.size() == 1 && !k.dims[0].is_const() && !k.has_flag() &&
         LayoutMulti(kMultiTables[0].bytes, int(k.buffers.size()), k.num_symbols).capacity > 1;
}

bool HasSteps(const Kernel& k, int stages, const CudaTuning& tuning) {
  if (stages == 0) return false;
  const bool columns = k.rows_in_lanes();
  std::vector<int64_t> known_outer, known_row;
  bool outer_known = true, row_known = true;
  for (size_t d = 0; d < k.dims.size(); ++d) {
    const bool outer = d < size_t(k.num_outer);
    if (k.dims[d].is_const())
      (outer ? known_outer : known_row).push_back(k.dims[d].value());
    else
      (outer ? outer_known : row_known) = false;
  }
  // Index arithmetic is of 32 bits there; what is known must fit.
  if (k.num_symbols == 0 && !k.small_index) return false;
  if (outer_known) {
    const int64_t rows = CheckedProduct(known_outer);
    const int64_t blocks = columns ? CeilDivide(rows, 32) : rows;
    if (blocks > (columns ? tuning.split_columns : tuning.split_rows)) return false;
  }
  return !row_known ||
         CheckedProduct(known_row) >= 2 * (columns ? tuning.slice_depth : tuning.slice_elements);
}

std::vector<SymInt> Divisors(const Kernel& k) {
  std::vector<SymInt> divisors;
  for (size_t d = 0; d < k.dims.size(); ++d) {
    if (d == 0 || d == size_t(k.num_outer) || k.dims[d].is_const()) continue;
    if (std::find(divisors.begin(), divisors.end(), k.dims[d]) == divisors.end())
      divisors.push_back(k.dims[d]);
  }
  return divisors;
}

MultiLayout LayoutMulti(int64_t bytes, int buffers, int symbols) {
  MultiLayout t{};
  t.words = buffers + symbols + 1;
  // The records begin on 8 bytes.
  t.capacity = std::max<int64_t>((bytes - 8) / (t.words * 8 + 4), 0);
  t.first_record = (4 + 4 * t.capacity + 7) / 8 * 8;
  t.size = t.first_record + t.capacity * t.words * 8;
  return t;
}

}  // namespace cuda

int64_t CudaSchedule::Blocks(int64_t total, int64_t row, int num_multiprocessors) const {
  const int64_t items = long_row >= 0 && row > long_row ? 1 : items_per_block;
  const int64_t needed = CeilDivide(total, items);
  // 2048 threads fill a multiprocessor; more blocks than that only cost their start. Twice as many
  // even the tail out.
  const int64_t most = int64_t{num_multiprocessors} * std::max(2048 / block, 1) * 2;
  return std::clamp<int64_t>(needed, 1, std::max<int64_t>(most, 1));
}

CudaPlan CudaSchedule::Plan(const std::vector<int64_t>& dims, int num_multiprocessors) const {
  WEFT_ICHECK(int(dims.size()) == num_symbols_, "{} values of {} symbols", dims.size(),
              num_symbols_);
  const SymBindings bindings = Bind(dims);
  const std::vector<int64_t> outer = Values(outer_, bindings), inner = Values(row_, bindings);
  CudaPlan plan;
  plan.total = CheckedProduct(outer);
  const int64_t row = CheckedProduct(inner);
  if (plan.total <= 0) return plan;
  CudaLaunch launch;
  launch.block = uint32_t(block);
  // What is known of known extents, the kernel says.
  const int64_t limit = num_symbols_ == 0 ? INT64_MAX : tuning_.narrow_limit;
  bool narrow = (num_symbols_ > 0 || small_index_) && Fits(outer, limit) && Fits(inner, limit);
  for (const std::vector<SymInt>& extents : reduced_)
    narrow = narrow && Fits(Values(extents, bindings), limit);
  if (narrow) {
    for (int64_t d : Values(divisors_, bindings))
      launch.tail.push_back(cuda::Multiplier(std::max<int64_t>(d, 1)));
  }
  if (narrow && stages_ > 0) {
    const int64_t blocks_x = columns_ ? CeilDivide(plan.total, 32) : plan.total;
    const int64_t slices = std::min(row / (columns_ ? tuning_.slice_depth : tuning_.slice_elements),
                                    CeilDivide(tuning_.blocks, blocks_x));
    if (blocks_x <= (columns_ ? tuning_.split_columns : tuning_.split_rows) && slices >= 2) {
      launch.grid_x = uint32_t(blocks_x);
      launch.tail.push_back(uint64_t(slices));
      launch.workspace = true;
      const int last = stages_ + int(element_stores_) + int(row_stores_);
      for (int k = 0; k < last; ++k) {
        launch.entry = fmt::format("{}_s{}", name_, k);
        launch.grid_y = uint32_t(k < stages_ + int(element_stores_) ? slices : 1);
        plan.launches.push_back(launch);
      }
      plan.workspace_bytes = CheckedProduct(std::vector<int64_t>{8, words_, slices, plan.total});
      return plan;
    }
  }
  const bool twin = narrow && narrow_twin_;
  if (!twin) launch.tail.clear();
  launch.entry = name_ + (twin ? "_n" : "");
  launch.grid_x = uint32_t(Blocks(plan.total, row, num_multiprocessors));
  plan.launches.push_back(launch);
  return plan;
}

std::vector<uint64_t> CudaSchedule::Table(const std::vector<uint64_t>& buffers,
                                          const std::vector<int64_t>& dims) const {
  WEFT_ICHECK(has_table_, "operands of {} are parameters", name_);
  std::vector<uint64_t> words = buffers;
  for (int64_t d : dims) words.push_back(uint64_t(d));
  for (int b : chained_) words.push_back(buffers[size_t(b)]);
  return words;
}

std::vector<CudaMultiLaunch> CudaSchedule::PlanMulti(const std::vector<CudaPart>& parts,
                                                     int num_multiprocessors,
                                                     int64_t parameter_bytes) const {
  WEFT_ICHECK(multi_, "{} has no entry for many parts", name_);
  std::vector<std::pair<const CudaPart*, int64_t>> work;
  for (const CudaPart& p : parts) {
    WEFT_ICHECK(int(p.buffers.size()) == num_buffers_ && int(p.dims.size()) == num_symbols_,
                "a part of {} buffers and {} symbols", p.buffers.size(), p.dims.size());
    const int64_t total = CheckedProduct(Values(outer_, Bind(p.dims)));
    if (total > 0) work.emplace_back(&p, total);
  }
  std::vector<CudaMultiLaunch> launches;
  for (size_t begin = 0; begin < work.size();) {
    const size_t left = work.size() - begin;
    size_t kind = 0;
    const auto layout = [&](size_t k) {
      return cuda::LayoutMulti(cuda::kMultiTables[k].bytes, num_buffers_, num_symbols_);
    };
    while (kind + 1 < std::size(cuda::kMultiTables) && int64_t(left) > layout(kind).capacity &&
           cuda::kMultiTables[kind + 1].bytes <= parameter_bytes)
      ++kind;
    const cuda::MultiLayout t = layout(kind);
    const size_t count = std::min(left, size_t(t.capacity));
    CudaMultiLaunch l;
    l.entry = name_ + cuda::kMultiTables[kind].suffix;
    l.block = uint32_t(block);
    l.table.assign(size_t(t.size), '\0');
    const auto put = [&](int64_t at, auto value) {
      std::memcpy(&l.table[size_t(at)], &value, sizeof value);
    };
    put(0, uint32_t(count));
    l.grid_x = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto& [part, total] = work[begin + i];
      put(4 + 4 * int64_t(i), l.grid_x);
      int64_t at = t.first_record + int64_t(i) * t.words * 8;
      for (uint64_t b : part->buffers) put(at, b), at += 8;
      for (int64_t d : part->dims) put(at, d), at += 8;
      put(at, total);
      l.grid_x += uint32_t(Blocks(total, 1, num_multiprocessors));
    }
    launches.push_back(std::move(l));
    begin += count;
  }
  return launches;
}

}  // namespace weft
