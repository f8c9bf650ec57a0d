/// cuda_row.cc: rows with reductions: soft-max, norms, losses, column sums.
///
/// Who works on a row of R elements:
///   R known, R <= 512    a group of 1 to 32 lanes of one warp; shuffles
///   R known, R > 512     a block of 128 to 512; shuffles, then one exchange through shared memory
///   R known at run time  both in one kernel; R <= 1024 takes a warp, longer rows the block
///   memory contiguous along P (`vector_loop` in P): 32 neighbouring rows a block, one a lane, so
///   that a warp reads
///                        consecutive addresses; the 16 warps share R and meet in shared memory
/// Reductions that do not read each other share one pass over the row. With R known, lanes take V
/// consecutive elements (16 bytes where the row allows it), and what several passes read stays in
/// registers after one read; otherwise later passes find the row in the caches. An element is
/// always read and written by the same thread.
#include <algorithm>

#include "codegen/cuda/cuda_text.h"
#include "codegen/row_reduce.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::cuda {
namespace {

using ctext::RowReduce;

constexpr int64_t kWarpRow = 1024;  ///< longest row that one warp takes, R known at run time
/// The same for known R: a warp then holds the row in registers, and unrolled code is what costs
/// compile time (0.4 s for a soft-max of 1000 in one warp, 0.15 s in four).
constexpr int64_t kKnownWarpRow = 512;
constexpr int kColumnBlock = 512;
/// Bytes of a row that a thread may keep: 48 registers, which with the body stays below 128 at 512
/// threads.
constexpr int64_t kMaxKeptBytes = 192;
constexpr int64_t kMaxUnrolledNodes = 2000;

enum class Mode { kGroup, kBlock, kColumn };

struct Plan {
  Mode mode = Mode::kGroup;
  int block = 128;
  int lanes = 32;      ///< threads that share a row
  int64_t row = -1;    ///< R where it is known
  int width = 1;       ///< consecutive elements of a thread
  int64_t chunks = 0;  ///< steps of a thread over a known row
  bool unrolled = false;
};

int64_t RowElements(const Kernel& k) {
  std::vector<int64_t> extents;
  for (size_t d = size_t(k.num_outer); d < k.dims.size(); ++d) {
    if (!k.dims[d].is_const()) return -1;
    extents.push_back(k.dims[d].value());
  }
  return CheckedProduct(extents);
}
bool HasRowLoops(const Kernel& k) { return k.dims.size() > size_t(k.num_outer); }

Plan MakePlan(const Kernel& k, const std::vector<KernelStore>& stores,
              const std::vector<Expr>& loads) {
  Plan p;
  p.row = RowElements(k);
  if (HasRowLoops(k) && k.vector_loop >= 0 && k.vector_loop < k.num_outer) {
    p.mode = Mode::kColumn;
    p.block = kColumnBlock;
    p.lanes = kColumnBlock / 32;
    p.row = -1;
    return p;
  }
  if (p.row < 0) {
    p.block = 256;
    return p;
  }
  if (p.row > kKnownWarpRow) {
    // About 16 elements a thread.
    p.mode = Mode::kBlock;
    p.block = p.lanes = p.row <= 2048 ? 128 : p.row <= 4096 ? 256 : 512;
  } else {
    while (p.lanes > 1 && p.lanes / 2 >= p.row) p.lanes /= 2;
  }
  const int widest = HasRowLoops(k) ? WidestElement(k, stores, loads) : 0;
  if (widest > 0) {
    p.width = 16 / widest;
    const int64_t last = k.dims.back().value();
    while (p.width > 1 && (last % p.width != 0 || p.row < int64_t{p.lanes} * p.width)) p.width /= 2;
  }
  const int64_t size = BodySize(stores);
  while (p.width > 1 && size * p.width > kMaxUnrolledNodes) p.width /= 2;
  const int64_t step = int64_t{p.lanes} * p.width;
  p.chunks = (p.row + step - 1) / step;
  p.unrolled = p.chunks <= 16 && size * p.width * p.chunks <= kMaxUnrolledNodes;
  return p;
}

std::vector<Expr> RowLoads(Emitter* e, const Kernel& k, const Exprs& roots) {
  return HasRowLoops(k) ? VectorLoads(e, k, roots) : std::vector<Expr>();
}

class Printer {
 public:
  Printer(Emitter* e, const Kernel& k, const std::vector<KernelStore>& stores) : e_(*e), k_(k) {
    for (const KernelStore& s : stores) (s.per_row ? row_stores_ : stores_).push_back(s);
    reduces_ = ctext::FindRowReduces(e, k, stores);
    // One pass a stage, and one for the stores.
    for (const RowReduce& r : reduces_) {
      passes_.resize(size_t(r.stage) + 1);
      passes_.back().push_back(r.body);
    }
    passes_.push_back(Roots(stores_));
    Exprs all;
    for (const Exprs& roots : passes_) all.insert(all.end(), roots.begin(), roots.end());
    plan_ = MakePlan(k, stores, RowLoads(e, k, all));
    if (HasRowLoops(k)) e_.AddLoop(int(k.dims.size()), int(k.dims.size()) - 1);
  }

  void Print() {
    flat_ = e_.FlatType();
    e_.Line("if (total <= 0) return;");
    e_.Line(fmt::format("const {0} n = ({0})total;", flat_));
    if (plan_.row >= 0 || plan_.mode == Mode::kColumn) {
      PrintMode(plan_);
      return;
    }
    std::string row = fmt::format("({}){}", flat_, e_.Dim(k_.dims[size_t(k_.num_outer)]));
    for (size_t d = size_t(k_.num_outer) + 1; d < k_.dims.size(); ++d)
      row += fmt::format(" * ({}){}", flat_, e_.Dim(k_.dims[d]));
    e_.Line(fmt::format("const {} row_elements = {};", flat_, row));
    Plan by_block = plan_;
    by_block.mode = Mode::kBlock;
    by_block.lanes = by_block.block;
    e_.Push();
    PrintMode(plan_);
    e_.PopInto(fmt::format("if (row_elements <= {}u)", kWarpRow));
    e_.Push();
    PrintMode(by_block);
    e_.PopInto("else");
  }

 private:
  void PrintMode(const Plan& plan) {
    plan_ = plan;
    const int per_block = plan.block / plan.lanes;
    std::string head;
    switch (plan.mode) {
      case Mode::kGroup:
        e_.Line(fmt::format("const u32 lane = threadIdx.x % {}u;", plan.lanes));
        e_.Line(plan.lanes == 32
                    ? std::string("const u32 mask = 0xffffffffu;")
                    : fmt::format("const u32 mask = {:#x}u << (threadIdx.x % 32u / {}u * {}u);",
                                  (1ull << plan.lanes) - 1, plan.lanes, plan.lanes));
        head = fmt::format(
            "for ({0} row = ({0})blockIdx.x * {1}u + threadIdx.x / {2}u; row < n; "
            "row += ({0})gridDim.x * {1}u)",
            flat_, per_block, plan.lanes);
        break;
      case Mode::kBlock:
        e_.Line("const u32 lane = threadIdx.x, mask = 0xffffffffu;");
        head = fmt::format("for ({} row = blockIdx.x; row < n; row += gridDim.x)", flat_);
        break;
      case Mode::kColumn:
        e_.Line("const u32 lane = threadIdx.x / 32u, column = threadIdx.x % 32u;");
        head = fmt::format(
            "for ({0} row0 = ({0})blockIdx.x * 32u; row0 < n; row0 += ({0})gridDim.x * 32u)",
            flat_);
        break;
    }
    e_.Push();
    if (plan.mode == Mode::kColumn) {
      // Threads past the last row work on it again, for they must meet the others at the barriers,
      // and write nothing.
      e_.Line("const bool live = row0 + column < n;");
      e_.Line(fmt::format("const {} row = live ? row0 + column : n - 1;", flat_));
    }
    e_.BindRow();
    e_.BindFlat("row", 0, k_.num_outer);
    KeepLoads();
    for (size_t first = 0; first < reduces_.size();) {
      size_t end = first;
      while (end < reduces_.size() && reduces_[end].stage == reduces_[first].stage) ++end;
      PrintStage(first, end);
      first = end;
    }
    PrintElementStores();
    PrintRowStores();
    e_.PopInto(head);
    kept_.clear();
  }

  // ---- one pass over a row ----

  int Last() const { return int(k_.dims.size()) - 1; }
  bool Chunked() const { return plan_.row >= 0; }

  /// Opens the frames of a chunk: `r` is the position of its first element. Loop positions are
  /// bound at its base.
  void OpenChunk() {
    const int first = k_.num_outer, last = int(k_.dims.size());
    std::vector<SymInt> extents(k_.dims.begin() + first, k_.dims.end());
    e_.Push(e_.Nonempty(extents));
    if (Chunked()) {
      e_.Line(fmt::format("const {0} r = (({0})c * {1}u + lane) * {2}u;", flat_, plan_.lanes,
                          plan_.width));
      e_.Push();  // if (r < R)
    }
    if (!HasRowLoops(k_)) return;
    plan_.width > 1 ? void(base_name_ = e_.BindFlatBase("r", first, last, last))
                    : e_.BindFlat("r", first, last);
    if (plan_.width == 1 && Chunked()) AliasBase();
  }
  /// With one element a chunk its base is the element itself.
  void AliasBase() { e_.BindIndex(int(k_.dims.size()), e_.Value(Expr::Index(Last()))); }

  void CloseChunk() {
    if (!Chunked()) {
      if (plan_.mode != Mode::kColumn) {
        e_.PopInto(
            fmt::format("for ({0} r = lane; r < row_elements; r += {1}u)", flat_, plan_.lanes));
        return;
      }
      std::string elements = "1u";
      for (size_t d = size_t(k_.num_outer); d < k_.dims.size(); ++d)
        elements += fmt::format(" * ({}){}", flat_, e_.Dim(k_.dims[d]));
      e_.PopInto(
          fmt::format("for ({0} r = lane; r < {1}; r += {2}u)", flat_, elements, plan_.lanes));
      return;
    }
    const bool exact = plan_.row % (int64_t{plan_.lanes} * plan_.width) == 0;
    e_.PopInto(exact ? "" : fmt::format("if (r < {}u)", plan_.row));
    e_.PopInto(fmt::format("#pragma unroll{}\nfor (int c = 0; c < {}; ++c)",
                           plan_.unrolled ? "" : " 1", plan_.chunks));
  }

  /// Opens the frame of one element in an open chunk, with the loads of `pass` bound to what was
  /// read as vectors.
  void OpenElement(size_t pass) {
    if (!Chunked()) return;
    std::vector<std::pair<Expr, std::string>> vectors;
    for (const Expr& load : RowLoads(&e_, k_, passes_[pass])) {
      const auto kept =
          std::find_if(kept_.begin(), kept_.end(), [&](const auto& k) { return k.first == load; });
      if (kept != kept_.end()) {
        vectors.emplace_back(load, kept->second + "[c]");
      } else if (plan_.width > 1) {
        const std::string text = LoadText(load), name = e_.Fresh("in");
        e_.Line(fmt::format("const Vec<{}, {}> {} = {};", ctext::StorageType(load->dtype()),
                            plan_.width, name, text));
        vectors.emplace_back(load, name);
      }
    }
    if (plan_.width > 1) {
      e_.Push();
      const std::string x = e_.Fresh("x");
      e_.Line(fmt::format("const {} {} = {} + v;", e_.IndexType(Last()), x, base_name_));
      e_.BindIndex(Last(), x);
    }
    for (const auto& [load, name] : vectors) {
      const std::string t = e_.Fresh("t"), lane = plan_.width > 1 ? "v" : "0";
      e_.Line(fmt::format("const {} {} = {};", ctext::ValueType(load->dtype()), t,
                          e_.FromMemory(load->dtype(), fmt::format("{}.v[{}]", name, lane))));
      e_.BindNode(load, t);
    }
  }
  void CloseElement() {
    if (Chunked() && plan_.width > 1)
      e_.PopInto(fmt::format("#pragma unroll\nfor (int v = 0; v < {}; ++v)", plan_.width));
  }

  std::string LoadText(const Expr& load) {
    e_.helpers().UseVectors();
    const std::string at = e_.Value(AtVectorBase(k_, load->operand(0)));
    return fmt::format("LoadVec<{}>(b{} + {})", plan_.width, load->buffer(), at);
  }

  /// Reads what at least two passes read, as far as registers go.
  void KeepLoads() {
    if (!Chunked() || !plan_.unrolled) return;
    std::vector<Expr> keep;
    int64_t left = kMaxKeptBytes;
    for (size_t p = 0; p + 1 < passes_.size(); ++p) {
      for (const Expr& load : RowLoads(&e_, k_, passes_[p])) {
        if (std::find(keep.begin(), keep.end(), load) != keep.end()) continue;
        bool again = false;
        for (size_t q = p + 1; q < passes_.size() && !again; ++q) {
          const std::vector<Expr> later = RowLoads(&e_, k_, passes_[q]);
          again = std::find(later.begin(), later.end(), load) != later.end();
        }
        const int64_t bytes = plan_.chunks * plan_.width * DTypeBytes(load->dtype(), 1);
        if (!again || bytes > left) continue;
        left -= bytes;
        keep.push_back(load);
      }
    }
    if (keep.empty()) return;
    e_.helpers().UseVectors();
    for (const Expr& load : keep) {
      kept_.emplace_back(load, e_.Fresh("in"));
      e_.Line(fmt::format("Vec<{}, {}> {}[{}];", ctext::StorageType(load->dtype()), plan_.width,
                          kept_.back().second, plan_.chunks));
    }
    OpenChunk();
    for (const auto& [load, name] : kept_) {
      const std::string text = LoadText(load);
      e_.Line(fmt::format("{}[c] = {};", name, text));
    }
    CloseChunk();
  }

  // ---- reductions ----

  struct Accumulators {
    const ExprNode* node;
    std::string value, position;  ///< position: ArgMin / ArgMax only
    std::string type;
  };

  void PrintStage(size_t first, size_t end) {
    std::vector<Accumulators> accs;
    for (size_t i = first; i < end; ++i) {
      const ExprNode& n = *reduces_[i].node;
      Accumulators a{&n, e_.Fresh("r"), "", ctext::ValueType(Emitter::Accumulator(n))};
      if (Emitter::IsArg(n)) a.position = a.value + "_at";
      e_.Line(fmt::format("{} {} = {};", a.type, a.value, e_.Neutral(n)));
      if (Emitter::IsArg(n)) e_.Line(fmt::format("i64 {} = 0x7fffffffffffffffll;", a.position));
      accs.push_back(a);
    }
    OpenChunk();
    OpenElement(size_t(reduces_[first].stage));
    for (size_t i = first; i < end; ++i) {
      const std::string value = e_.Value(reduces_[i].body, true);
      const Accumulators& a = accs[i - first];
      if (a.position.empty()) {
        e_.Line(fmt::format("{} = {};", a.value, e_.Combine(*a.node, a.value, value)));
      } else {
        e_.Line(TakeBetter(a, value, Chunked() && plan_.width > 1 ? "(i64)(r + v)" : "(i64)r"));
      }
    }
    CloseElement();
    CloseChunk();
    plan_.mode == Mode::kColumn ? MeetInColumns(accs) : MeetInWarps(accs);
    for (size_t i = first; i < end; ++i) {
      const Accumulators& a = accs[i - first];
      // No element at all: position 0, as everywhere.
      if (!a.position.empty())
        e_.Line(fmt::format("if ({0} == 0x7fffffffffffffffll) {0} = 0;", a.position));
      e_.BindNode(reduces_[i].node, a.position.empty() ? a.value : a.position);
    }
  }

  /// The more extreme pair; of equals the first.
  std::string TakeBetter(const Accumulators& a, const std::string& value,
                         const std::string& position) {
    return fmt::format("if ({} || (!({}) && {} < {})) {{ {} = {}; {} = {}; }}",
                       e_.Better(*a.node, value, a.value), e_.Better(*a.node, a.value, value),
                       position, a.position, a.value, value, a.position, position);
  }

  static std::string Shuffle(const std::string& type, const std::string& v) {
    const bool native = type == "f32" || type == "f64" || type == "i32" || type == "u32" ||
                        type == "i64" || type == "u64";
    return fmt::format("({})__shfl_xor_sync(mask, ({}){}, o)", type, native ? type : "i32", v);
  }

  void Butterfly(const std::vector<Accumulators>& accs, int lanes) {
    if (lanes == 1) return;
    e_.Push();
    for (const Accumulators& a : accs) {
      const std::string t = e_.Fresh("t"), at = t + "_at";
      e_.Line(fmt::format("const {} {} = {};", a.type, t, Shuffle(a.type, a.value)));
      if (a.position.empty()) {
        e_.Line(fmt::format("{} = {};", a.value, e_.Combine(*a.node, a.value, t)));
      } else {
        e_.Line(fmt::format("const i64 {} = {};", at, Shuffle("i64", a.position)));
        e_.Line(TakeBetter(a, t, at));
      }
    }
    e_.PopInto(fmt::format("#pragma unroll\nfor (int o = {}; o > 0; o /= 2)", lanes / 2));
  }

  void MeetInWarps(const std::vector<Accumulators>& accs) {
    Butterfly(accs, std::min(plan_.lanes, 32));
    if (plan_.mode != Mode::kBlock) return;
    const int warps = plan_.block / 32;
    std::string writes, reads;
    for (const Accumulators& a : accs) {
      const std::string s = e_.Fresh("s");
      const auto exchange = [&](const std::string& type, const std::string& v,
                                const std::string& shared, const std::string& neutral) {
        e_.Line(fmt::format("__shared__ {} {}[{}];", type, shared, warps));
        writes += fmt::format("{}[lane / 32u] = {};\n", shared, v);
        reads += fmt::format("{} = lane % 32u < {}u ? {}[lane % 32u] : {};\n", v, warps, shared,
                             neutral);
      };
      exchange(a.type, a.value, s, e_.Neutral(*a.node));
      if (!a.position.empty()) exchange("i64", a.position, s + "_at", "0x7fffffffffffffffll");
    }
    e_.Line("if (lane % 32u == 0u) {\n" + writes + "}\n__syncthreads();\n" + reads +
            "__syncthreads();");
    Butterfly(accs, 32);
  }

  void MeetInColumns(const std::vector<Accumulators>& accs) {
    const int slices = plan_.lanes;
    std::vector<std::string> shared;
    for (const Accumulators& a : accs) {
      const std::string s = e_.Fresh("s");
      shared.push_back(s);
      e_.Line(fmt::format("__shared__ {} {}[{}][32];\n{}[lane][column] = {};", a.type, s, slices, s,
                          a.value));
      if (!a.position.empty())
        e_.Line(fmt::format("__shared__ i64 {0}_at[{1}][32];\n{0}_at[lane][column] = {2};", s,
                            slices, a.position));
    }
    e_.Line("__syncthreads();");
    for (const Accumulators& a : accs)
      e_.Line(fmt::format("{} = {};", a.value, e_.Neutral(*a.node)));
    e_.Push();
    for (size_t i = 0; i < accs.size(); ++i) {
      const std::string v = shared[i] + "[o][column]";
      if (accs[i].position.empty()) {
        e_.Line(
            fmt::format("{} = {};", accs[i].value, e_.Combine(*accs[i].node, accs[i].value, v)));
      } else {
        e_.Line(TakeBetter(accs[i], v, shared[i] + "_at[o][column]"));
      }
    }
    e_.PopInto(fmt::format("for (int o = 0; o < {}; ++o)", slices));
    e_.Line("__syncthreads();");
  }

  // ---- stores ----

  void PrintElementStores() {
    if (stores_.empty()) return;
    std::vector<std::string> vectors(stores_.size());
    OpenChunk();
    if (Chunked() && plan_.width > 1) {
      e_.helpers().UseVectors();
      for (size_t i = 0; i < stores_.size(); ++i) {
        if (!IsContiguous(stores_[i].offset, Last())) continue;
        vectors[i] = e_.Fresh("out");
        e_.Line(fmt::format("Vec<{}, {}> {};", ctext::StorageType(stores_[i].value->dtype()),
                            plan_.width, vectors[i]));
      }
    }
    OpenElement(passes_.size() - 1);
    if (plan_.mode == Mode::kColumn) e_.Push();
    PrintStores(&e_, stores_, vectors, "v");
    if (plan_.mode == Mode::kColumn) e_.PopInto("if (live)");
    CloseElement();
    for (size_t i = 0; i < stores_.size(); ++i) {
      if (vectors[i].empty()) continue;
      const std::string at = e_.Value(AtVectorBase(k_, stores_[i].offset));
      e_.Line(fmt::format("StoreVec(b{} + {}, {});", stores_[i].buffer, at, vectors[i]));
    }
    CloseChunk();
  }

  void PrintRowStores() {
    if (row_stores_.empty()) return;
    std::vector<std::string> vectors(row_stores_.size());
    e_.Push();
    PrintStores(&e_, row_stores_, vectors, "");
    // An output of one value a row may lie on such an input, which all lanes read.
    const std::string text = e_.Pop();
    e_.Line(plan_.mode == Mode::kGroup ? "__syncwarp(mask);" : "__syncthreads();");
    e_.Line(std::string("if (lane == 0u") + (plan_.mode == Mode::kColumn ? " && live" : "") +
            ") {\n" + text + "}");
  }

  Emitter& e_;
  const Kernel& k_;
  std::vector<KernelStore> stores_, row_stores_;
  std::vector<RowReduce> reduces_;
  std::vector<Exprs> passes_;
  Plan plan_;
  std::string flat_, base_name_;
  std::vector<std::pair<Expr, std::string>> kept_;
};

}  // namespace

void PrintRows(Emitter* e, const Kernel& kernel, const std::vector<KernelStore>& stores) {
  Printer(e, kernel, stores).Print();
}

CudaSchedule ScheduleRows(const Kernel& kernel) {
  // Block and lanes do not depend on the loads.
  const Plan plan = MakePlan(kernel, kernel.stores, {});
  CudaSchedule s;
  s.block = plan.block;
  s.items_per_block = plan.mode == Mode::kColumn ? 32 : plan.block / plan.lanes;
  if (plan.row < 0 && plan.mode == Mode::kGroup) s.long_row = kWarpRow;
  return s;
}

}  // namespace weft::cuda
