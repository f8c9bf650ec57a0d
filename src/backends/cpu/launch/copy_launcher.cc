/// copy_launcher.cc: boxes that begin and step alike along their first axis go together, some rows
/// of all of them at a time: forty columns that are put side by side write a row while it is in the
/// first cache.
#include "copy_launcher.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "element_moves.h"
#include "kernel_launcher.h"
#include "weft/support/bounded_cache.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

/// Bytes of the result that a piece of work writes: half a first-level cache.
constexpr int64_t kPieceBytes = int64_t{16} << 10;
/// Indices of a piece along an axis that the source runs along: a cache line of bytes.
constexpr int64_t kPieceRows = 64;
/// What one index of the first axis moves from which each is a box by itself, where there are few:
/// images and heads of a batch, which threads share.
constexpr int64_t kLargeRow = int64_t{64} << 10;
constexpr size_t kMaxParts = 1024;
/// Runs from which generated code copies whole vectors, and results beyond which it writes past the
/// caches (measured: rows of 64 bytes take a quarter of the time).
constexpr int64_t kLongRun = 64, kManyBytes = int64_t{4} << 20;
/// Elements of a row that a line cuts from which a copy and a fill take less time than comparing at
/// every element does (of 2 bytes and less; measured: 22 ns a row, 0.05 ns an element, of any width
/// while it is in a cache).
constexpr int64_t kLongSlantedRow = 448;
/// Steps of a source that generated code reads by whole vectors and shuffles.
constexpr int64_t kShuffledStep = 4;
/// Extents of which a kernel keeps the boxes.
constexpr size_t kPlans = 16;
/// Between two looks at the request.
constexpr int64_t kPollBytes = int64_t{32} << 20;

int64_t BytesOf(DType t) { return DTypeBytes(t, 1); }

/// Moves that are cut alike along one axis. Those of several have the same first axis.
struct Group {
  size_t first, last;  ///< moves
  size_t axis;
  int64_t rows, piece_rows, first_piece;
};

struct Plan {
  std::vector<ElementMove> moves;
  std::vector<Group> groups;
  int64_t pieces = 0, bytes = 0;
  std::set<std::pair<int, int>> apart;  ///< buffers that have to be apart for this
};

/// Bytes that are written one behind the other and read so, or repeat one element.
int64_t RunOf(const ElementMove& m, int64_t width) {
  if (m.dims.empty()) return width;
  const CopyDim& last = m.dims.back();
  const bool runs = last.to_step == 1 && (m.from < 0 || (last.from_step & ~1) == 0);
  return runs ? last.extent * width : width;
}
/// The source runs along another axis than the result.
bool IsTransposed(const ElementMove& m) {
  if (m.from < 0 || m.dims.size() < 2 || m.dims.back().from_step <= kShuffledStep) return false;
  return std::any_of(m.dims.begin(), m.dims.end(),
                     [](const CopyDim& d) { return d.from_step == 1; });
}
int64_t ElementsOf(const ElementMove& m) {
  int64_t n = 1;
  for (const CopyDim& d : m.dims) n *= d.extent;
  return m.slant ? (n + 1) / 2 : n;
}

/// Whether copies take less time than the code of the kernel.
bool IsWorth(const std::vector<ElementMove>& moves, const Kernel& kernel) {
  int64_t bytes = 0, short_bytes = 0;
  bool transposed = false, slanted = false;
  for (const ElementMove& m : moves) {
    const int64_t width = BytesOf(kernel.buffers[size_t(m.to)].dtype);
    const int64_t own = ElementsOf(m) * width;
    bytes += own;
    if (IsTransposed(m)) {
      transposed = true;
      continue;
    }
    // Element by element: vectors and shuffles are better, where a row is a vector.
    if (!m.dims.empty() && m.from >= 0 && m.dims.back().to_step == 1 &&
        (m.dims.back().from_step & ~1) != 0 && m.dims.back().extent * width >= kLongRun)
      return false;
    if (RunOf(m, width) < kLongRun) short_bytes += own;
    slanted |= m.slant && m.dims.back().extent >= kLongSlantedRow * std::max<int64_t>(width / 2, 1);
  }
  // Code compares at every point what a line tells once a row.
  if (slanted && 2 * short_bytes <= bytes && bytes < kManyBytes) return true;
  return transposed || (2 * short_bytes > bytes && bytes < kManyBytes);
}

/// Large indices of the first axis as boxes of their own.
std::vector<ElementMove> TakenApart(std::vector<ElementMove> moves, const Kernel& kernel) {
  std::vector<ElementMove> parts;
  while (!moves.empty()) {
    ElementMove m = std::move(moves.back());
    moves.pop_back();
    const int64_t bytes = ElementsOf(m) * BytesOf(kernel.buffers[size_t(m.to)].dtype);
    const int64_t count = m.dims.empty() ? 1 : m.dims[0].extent;
    if (m.dims.size() < 3 || m.slant || bytes / count < kLargeRow ||
        parts.size() + moves.size() + size_t(count) > kMaxParts || m.dims[0].from_step == 1) {
      parts.push_back(std::move(m));
      continue;
    }
    const CopyDim first = m.dims[0];
    m.dims.erase(m.dims.begin());
    for (int64_t i = count - 1; i >= 0; --i) {
      moves.push_back(m);
      moves.back().to_offset += i * first.to_step;
      if (m.from >= 0) moves.back().from_offset += i * first.from_step;
    }
  }
  return parts;
}

/// The axis along which a move is cut into pieces.
size_t CutAxis(const ElementMove& m) {
  if (m.slant || m.dims.size() < 2 || m.dims[0].extent >= 2 * kPieceRows || !IsTransposed(m))
    return 0;
  const auto longest =
      std::max_element(m.dims.begin(), m.dims.end(),
                       [](const CopyDim& a, const CopyDim& b) { return a.extent < b.extent; });
  return size_t(longest - m.dims.begin());
}

std::shared_ptr<const Plan> MakePlan(const MoveFinder& finder, const Kernel& kernel,
                                     const int64_t* dims) {
  auto plan = std::make_shared<Plan>();
  if (!finder.Find(dims, &plan->moves) || !IsWorth(plan->moves, kernel)) return nullptr;
  for (const ElementMove& writes : plan->moves)
    for (const ElementMove& reads : plan->moves)
      if (reads.from >= 0 && reads.to != writes.to) plan->apart.insert({writes.to, reads.from});
  plan->moves = TakenApart(std::move(plan->moves), kernel);
  const auto order = [](const ElementMove& m) {
    const CopyDim d = m.dims.empty() ? CopyDim{1, 0, 1} : m.dims[0];
    return std::make_tuple(m.to, m.to_offset / d.to_step, d.extent, d.to_step, CutAxis(m));
  };
  std::stable_sort(plan->moves.begin(), plan->moves.end(),
                   [&](const ElementMove& a, const ElementMove& b) { return order(a) < order(b); });
  for (size_t i = 0; i < plan->moves.size();) {
    const ElementMove& m = plan->moves[i];
    Group g{i, i, CutAxis(m), 1, 1, plan->pieces};
    if (!m.dims.empty()) g.rows = m.dims[g.axis].extent;
    int64_t bytes = 0;
    bool by_lines = false;
    do {
      const ElementMove& other = plan->moves[g.last++];
      bytes += ElementsOf(other) * BytesOf(kernel.buffers[size_t(other.to)].dtype);
      by_lines |= IsTransposed(other) &&
                  (other.dims[g.axis].from_step == 1 || other.dims[g.axis].to_step == 1);
    } while (g.axis == 0 && g.last < plan->moves.size() && order(plan->moves[g.last]) == order(m));
    g.piece_rows = std::max<int64_t>(kPieceBytes / std::max<int64_t>(bytes / g.rows, 1), 1);
    if (by_lines) g.piece_rows = std::max(g.piece_rows / kPieceRows * kPieceRows, kPieceRows);
    plan->pieces += (g.rows + g.piece_rows - 1) / g.piece_rows;
    plan->bytes += 2 * bytes;
    i = g.last;
    plan->groups.push_back(g);
  }
  return plan;
}

class CopyLauncher final : public KernelLauncher {
 public:
  CopyLauncher(const Kernel& kernel, std::unique_ptr<MoveFinder> finder,
               std::shared_ptr<KernelLauncher> code, std::shared_ptr<const Team> team)
      : kernel_(kernel),
        finder_(std::move(finder)),
        code_(std::move(code)),
        team_(std::move(team)) {
    if (kernel.num_symbols == 0) fixed_ = MakePlan(*finder_, kernel_, nullptr);
  }
  /// Copies are of use at some extents.
  bool may_copy() const { return kernel_.num_symbols > 0 || fixed_; }

  void Launch(void* const* buffers, const int64_t* dims) const override {
    const std::shared_ptr<const Plan> plan = kernel_.num_symbols == 0 ? fixed_ : PlanFor(dims);
    if (plan && IsApart(*plan, buffers)) return Run(*plan, buffers);
    code_->Launch(buffers, dims);
  }

 private:
  /// What was decided for some extents.
  struct Known {
    bool made = false;
    std::shared_ptr<const Plan> plan;
  };

  /// Null: the code. Extents that come once are not worth the search.
  std::shared_ptr<const Plan> PlanFor(const int64_t* dims) const {
    const std::vector<int64_t> key(dims, dims + kernel_.num_symbols);
    const std::lock_guard<std::mutex> lock(mutex_);
    Known* known = plans_.Find(key);
    if (!known) {
      plans_.Put(key, {});
      return nullptr;
    }
    if (!known->made) *known = {true, MakePlan(*finder_, kernel_, dims)};
    return known->plan;
  }

  /// A result may lie over an operand that another result is copied from as well: code computes all
  /// results of a point before it stores one, copies make one result after the other.
  static bool IsApart(const Plan& plan, void* const* buffers) {
    return std::none_of(plan.apart.begin(), plan.apart.end(), [&](const auto& pair) {
      return buffers[pair.first] == buffers[pair.second];
    });
  }
  void Run(const Plan& plan, void* const* buffers) const {
    if (plan.pieces == 0) return;
    const int tasks = TaskCount(plan.pieces, plan.bytes, 0, team_->threads());
    const int64_t together =
        std::max<int64_t>(kPollBytes / std::max<int64_t>(plan.bytes / plan.pieces, 1), tasks);
    for (int64_t begin = 0; begin < plan.pieces; begin += together) {
      RequestScope::Poll();
      const int64_t end = std::min(plan.pieces, begin + together);
      if (tasks <= 1) {
        RunPieces(plan, buffers, begin, end);
        continue;
      }
#pragma omp parallel for schedule(static) num_threads(tasks)
      for (int t = 0; t < tasks; ++t)
        RunPieces(plan, buffers, begin + (end - begin) * t / tasks,
                  begin + (end - begin) * (t + 1) / tasks);
    }
  }
  void RunPieces(const Plan& plan, void* const* buffers, int64_t begin, int64_t end) const {
    for (size_t k = 0; k < plan.groups.size(); ++k) {
      const Group& g = plan.groups[k];
      const int64_t next =
          k + 1 < plan.groups.size() ? plan.groups[k + 1].first_piece : plan.pieces;
      for (int64_t p = std::max(begin, g.first_piece); p < std::min(end, next); ++p) {
        const int64_t row = (p - g.first_piece) * g.piece_rows;
        RunRows(plan, g, buffers, row, std::min(g.piece_rows, g.rows - row));
      }
    }
  }
  void RunRows(const Plan& plan, const Group& g, void* const* buffers, int64_t row,
               int64_t rows) const {
    for (size_t i = g.first; i < g.last; ++i) {
      const ElementMove& m = plan.moves[i];
      CopyDim dims[kMaxCopyDims];
      std::copy(m.dims.begin(), m.dims.end(), dims);
      int64_t from_row = 0, to_row = 0;
      if (!m.dims.empty()) {
        dims[g.axis].extent = rows;
        from_row = row * dims[g.axis].from_step;
        to_row = row * dims[g.axis].to_step;
      }
      if (m.slant) {
        RunSlanted(m, buffers, row, rows);
        continue;
      }
      const int64_t width = BytesOf(kernel_.buffers[size_t(m.to)].dtype);
      char* const to = static_cast<char*>(buffers[m.to]) + (m.to_offset + to_row) * width;
      const int rank = int(m.dims.size());
      if (m.from < 0) {
        FillStrided(int(width), m.bits, to, dims, rank);
        continue;
      }
      const char* const from =
          static_cast<const char*>(buffers[m.from]) + (m.from_offset + from_row) * width;
      // What is written over its own operand is there.
      if (from != to) CopyStrided(int(width), from, to, dims, rank);
    }
  }

  void RunSlanted(const ElementMove& m, void* const* buffers, int64_t row, int64_t rows) const {
    const int64_t width = BytesOf(kernel_.buffers[size_t(m.to)].dtype);
    CopyDim dims[kMaxCopyDims];
    std::copy(m.dims.begin() + 1, m.dims.end(), dims);
    const int rank = int(m.dims.size()) - 1;
    CopyDim& column = dims[rank - 1];
    for (int64_t i = row; i < row + rows; ++i) {
      const auto [begin, end] = m.slant->RangeOf(i, m.dims.back().extent);
      if (begin == end) continue;
      column.extent = end - begin;
      char* const to = static_cast<char*>(buffers[m.to]) +
                       (m.to_offset + i * m.dims[0].to_step + begin * column.to_step) * width;
      if (m.from < 0) {
        FillStrided(int(width), m.bits, to, dims, rank);
        continue;
      }
      const char* const from =
          static_cast<const char*>(buffers[m.from]) +
          (m.from_offset + i * m.dims[0].from_step + begin * column.from_step) * width;
      if (from != to) CopyStrided(int(width), from, to, dims, rank);
    }
  }

  const Kernel kernel_;
  std::unique_ptr<MoveFinder> finder_;
  std::shared_ptr<KernelLauncher> code_;
  std::shared_ptr<const Team> team_;
  std::shared_ptr<const Plan> fixed_;
  mutable std::mutex mutex_;
  mutable BoundedCache<std::vector<int64_t>, Known> plans_{kPlans, Evict::kLeastRecent};
};

}  // namespace

std::shared_ptr<KernelLauncher> WithCopies(const Kernel& kernel,
                                           std::shared_ptr<KernelLauncher> code,
                                           std::shared_ptr<const Team> team) {
  std::unique_ptr<MoveFinder> finder = MoveFinder::Make(kernel);
  if (!finder) return code;
  auto copies = std::make_shared<CopyLauncher>(kernel, std::move(finder), code, std::move(team));
  if (!copies->may_copy()) return code;
  return copies;
}

}  // namespace weft::cpu
