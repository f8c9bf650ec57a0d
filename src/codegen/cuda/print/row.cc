/// row.cc: rows with reductions: soft-max, norms, losses, column sums (see row.h).
#include "row.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "codegen/expr/expr_pool.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::cuda {
namespace {

/// The same for known R: a warp then holds the row in registers, and unrolled code is what costs
/// compile time (0.4 s for a soft-max of 1000 in one warp, 0.15 s in four).
constexpr int64_t kKnownWarpRow = 512;
constexpr int kColumnLanes = 16;
/// Bytes of a row that a thread may keep: 48 registers, which with the body stays below 128 at 512
/// threads.
constexpr int64_t kMaxKeptBytes = 192;
constexpr int64_t kMaxUnrolledNodes = 2000;
/// The same where single elements of a row are unrolled, whose positions are computed each; and the
/// bytes of them that a thread then has under way: 2048 threads have 64 KiB a multiprocessor.
constexpr int64_t kMaxTogetherNodes = 256, kTogetherBytes = 32;

/// Bytes of operands that a thread reads before it computes: 64 registers as vectors, 128 where a
/// row is unrolled, whose reads the compiler moves to the top. More are read as fewer elements.
constexpr int64_t kVectorBytes = 256, kUnrolledBytes = 512;

int64_t KnownRow(const Kernel& k) {
  std::vector<int64_t> extents;
  for (SymInt e : k.row_dims()) {
    if (!e.is_const()) return -1;
    extents.push_back(e.value());
  }
  return CheckedProduct(extents);
}

/// Is the offset a multiple of `n` at every point at which Index(loop) is?
bool IsMultiple(const Expr& offset, int64_t n, int loop) {
  std::unordered_map<const ExprNode*, bool> multiple;
  const auto of = [&](const ExprNode& e) {
    const auto operand = [&](int i) { return multiple.at(e.operand(i).get()); };
    if (e.kind() == ExprKind::kConst) return e.const_int() % n == 0;
    if (e.kind() == ExprKind::kIndex) return e.index() == loop;
    if (e.kind() != ExprKind::kBinary) return false;
    if (e.bin_op() == BinOp::kMul) return operand(0) || operand(1);
    return (e.bin_op() == BinOp::kAdd || e.bin_op() == BinOp::kSub) && operand(0) && operand(1);
  };
  for (const ExprNode* e : PostOrder({offset})) multiple[e] = IsInt(e->dtype()) && of(*e);
  return multiple.at(offset.get());
}

}  // namespace

RowPlan MakeRowPlan(const Kernel& k, const std::vector<KernelStore>& stores,
                    const std::vector<Expr>& loads, int words) {
  RowPlan p;
  p.row = KnownRow(k);
  if (k.rows_in_lanes()) {
    p.mode = RowMode::kColumn;
    p.lanes = kColumnLanes;
    while (p.lanes > 1 && int64_t{p.lanes} * 32 * 8 * words > kMaxSharedBytes) p.lanes /= 2;
    p.block = p.lanes * 32;
    p.row = -1;
    return p;
  }
  const int widest = WidestElement(k, stores, loads);
  if (widest > 0 && k.dims.back().is_const()) {
    p.width = 16 / widest;
    while (p.width > 1 && k.dims.back().value() % p.width != 0) p.width /= 2;
  }
  const int64_t size = BodySize(stores);
  int64_t loaded = 0;  // bytes of an element's operands
  for (const Expr& l : loads) loaded += std::max(DTypeBits(l->dtype()) / 8, 1);
  while (p.width > 1 && (size * p.width > kMaxUnrolledNodes || loaded * p.width > kVectorBytes))
    p.width /= 2;
  if (p.row < 0) {
    p.block = 256;
    return p;
  }
  if (p.row > kKnownWarpRow) {
    // About 16 elements a thread.
    p.mode = RowMode::kBlock;
    p.block = p.lanes = p.row <= 2048 ? 128 : p.row <= 4096 ? 256 : 512;
  }
  // Two vectors a thread: one alone would not keep enough bytes under way.
  if (p.mode == RowMode::kGroup)
    while (p.lanes > 1 && p.row <= int64_t{p.lanes} * p.width) p.lanes /= 2;
  while (p.width > 1 && p.row < int64_t{p.lanes} * p.width) p.width /= 2;
  const int64_t step = int64_t{p.lanes} * p.width;
  p.chunks = (p.row + step - 1) / step;
  const int64_t taken = p.width * p.chunks;  // by a thread
  p.unrolled = p.chunks <= 16 && size * taken <= kMaxUnrolledNodes &&
               (p.chunks == 1 || loaded * taken <= kUnrolledBytes);
  return p;
}

RowPrinter::RowPrinter(Emitter* e, const Kernel& k, const std::vector<KernelStore>& stores)
    : e_(*e), k_(k) {
  for (const KernelStore& s : stores) (s.per_row ? row_stores_ : stores_).push_back(s);
  reduces_ = ctext::FindRowReduces(e, k, stores);
  // One pass a stage, and one for the stores.
  std::vector<int> words;
  for (const ctext::RowReduce& r : reduces_) {
    passes_.resize(size_t(r.stage) + 1);
    words.resize(size_t(r.stage) + 1);
    passes_.back().push_back(r.body);
    words.back() += Emitter::IsArg(*r.node) ? 2 : 1;
  }
  passes_.push_back(Roots(stores_));
  Exprs all;
  for (const Exprs& roots : passes_) all.insert(all.end(), roots.begin(), roots.end());
  plan_ = MakeRowPlan(k, stores, VectorLoads(e, k, all),
                      words.empty() ? 1 : *std::max_element(words.begin(), words.end()));
  e_.AddLoop(int(k.dims.size()), int(k.dims.size()) - 1);
  flat_ = e_.FlatType();
}

/// Number of elements of a row: an expression of the flat type.
std::string RowPrinter::RowElements() {
  std::string text;
  for (size_t d = size_t(k_.num_outer); d < k_.dims.size(); ++d)
    text += fmt::format("{}({}){}", text.empty() ? "" : " * ", flat_, e_.Dim(k_.dims[d]));
  return text.empty() ? "1u" : text;
}

void RowPrinter::Print(bool lean) {
  e_.Line("if (total <= 0) return;");
  e_.Line(fmt::format("const {0} n = ({0})total;", flat_));
  if (!Chunked()) e_.Line(fmt::format("const {} row_elements = {};", flat_, RowElements()));
  if (plan_.mode == RowMode::kColumn) return PrintMode(plan_, -1);
  if (Chunked()) return PrintVectors(plan_, -1);
  const RowPlan plan = plan_;
  RowPlan warp = plan, block = plan;
  warp.width = 1;
  block.mode = RowMode::kBlock;
  block.lanes = block.block;
  if (lean) {
    block.width = 1;
    PrintMode(block, -1);
  } else {
    e_.Push();
    PrintMode(warp, -1);
    e_.PopInto(fmt::format("if (row_elements <= {}u)", kWarpRow));
    e_.Push();
    PrintVectors(block, -1);
    e_.PopInto("else");
  }
  plan_ = plan;
}

/// With vectors where pointers are aligned for them, else the same elements in the same
/// order one by one.
void RowPrinter::PrintVectors(const RowPlan& plan, int step) {
  const RowPlan before = plan_;
  plan_ = plan;
  const std::string bases = plan.width > 1 ? AlignedBases() : "";
  if (bases.empty()) {
    plan_.width = Chunked() ? plan_.width : 1;
    PrintMode(RowPlan(plan_), step);
  } else {
    RowPlan aligned = plan, other = plan;
    aligned.aligned = true;
    other.unrolled = false;
    other.scalar = true;
    e_.Push();
    PrintMode(aligned, step);
    e_.PopInto("if (" + bases + ")");
    e_.Push();
    PrintMode(other, step);
    e_.PopInto("else");
  }
  plan_ = before;
}

/// The condition under which no vector needs a test of its own; empty where pointers
/// alone do not tell.
std::string RowPrinter::AlignedBases() {
  std::vector<std::pair<int, Expr>> accesses;
  for (const Exprs& roots : passes_)
    for (const Expr& load : VectorLoads(&e_, k_, roots))
      accesses.emplace_back(load->buffer(), load->operand(0));
  for (const KernelStore& s : stores_)
    if (IsContiguous(s.offset, Last())) accesses.emplace_back(s.buffer, s.offset);
  std::map<int, int64_t> bytes;  // that a vector takes, by buffer
  for (const auto& [buffer, offset] : accesses) {
    if (!IsMultiple(offset, plan_.width, Last())) return {};
    bytes[buffer] = plan_.width * DTypeBytes(k_.buffers[size_t(buffer)].dtype, 1);
  }
  std::string condition;
  for (const auto& [buffer, size] : bytes)
    condition += fmt::format("{}IsAligned<{}>(b{})", condition.empty() ? "" : " && ", size, buffer);
  return condition;
}

void RowPrinter::PrintStep(int step) {
  const RowPlan whole = plan_;
  RowPlan sliced = plan_;
  sliced.sliced = true;
  sliced.unrolled = false;
  if (sliced.mode == RowMode::kGroup) {
    sliced.mode = RowMode::kBlock;
    sliced.lanes = sliced.block;
  }
  e_.Line("if (total <= 0) return;");
  e_.Line(fmt::format("const {0} n = ({0})total;", flat_));
  if (!Chunked()) e_.Line(fmt::format("const {} row_elements = {};", flat_, RowElements()));
  plan_ = sliced;
  PrintSlice();
  PrintVectors(sliced, step);
  plan_ = whole;
}

/// What part of a row this block takes: chunks [first, last), or elements.
void RowPrinter::PrintSlice() {
  // All of it is below 2^32: rows are of at most 2^31 elements there, and slices few.
  e_.Line("const u32 slice = blockIdx.y, slices = (u32)num_slices;");
  if (Chunked()) {
    e_.Line(fmt::format("const u32 share = ({}u + slices - 1u) / slices * {}u;", plan_.chunks,
                        plan_.lanes * plan_.width));
    e_.Line("const u32 first = slice * share;");
    e_.Line(
        fmt::format("const u32 last = first + share < {0}u ? first + share : {0}u;", plan_.row));
    return;
  }
  e_.Line(
      fmt::format("const u32 share = ((row_elements + slices - 1u) / slices + {0}u) / {1}u * "
                  "{1}u;",
                  plan_.lanes * plan_.width - 1, plan_.lanes * plan_.width));
  e_.Line("const u32 begin = slice * share, end = begin + share;");
  e_.Line(
      fmt::format("const {0} first = ({0})(begin < row_elements ? begin : row_elements);", flat_));
  e_.Line(fmt::format("const {0} last = ({0})(end < row_elements ? end : row_elements);", flat_));
}

void RowPrinter::PrintMode(const RowPlan& plan, int step) {
  plan_ = plan;
  const int per_block = plan.block / plan.lanes;
  std::string head;
  switch (plan.mode) {
    case RowMode::kGroup:
      e_.Line(fmt::format("const u32 lane = threadIdx.x % {}u;", plan.lanes));
      e_.Line(plan.lanes == 32
                  ? std::string("const u32 mask = 0xffffffffu;")
                  : fmt::format("const u32 mask = {:#x}u << (threadIdx.x % 32u / {}u * {}u);",
                                (1ull << plan.lanes) - 1, plan.lanes, plan.lanes));
      head = fmt::format(
          "for ({0} row = ({0})block * {1}u + threadIdx.x / {2}u; row < n; "
          "row += ({0})blocks * {1}u)",
          flat_, per_block, plan.lanes);
      break;
    case RowMode::kBlock:
      e_.Line("const u32 lane = threadIdx.x, mask = 0xffffffffu;");
      head = fmt::format("for ({} row = block; row < n; row += blocks)", flat_);
      break;
    case RowMode::kColumn:
      e_.Line("const u32 lane = threadIdx.x / 32u, column = threadIdx.x % 32u;");
      head = fmt::format("for ({0} row0 = ({0})block * 32u; row0 < n; row0 += ({0})blocks * 32u)",
                         flat_);
      break;
  }
  e_.Push();
  if (plan.mode == RowMode::kColumn) {
    // Threads past the last row work on it again, for they must meet the others at the barriers,
    // and write nothing.
    e_.Line("const bool live = row0 + column < n;");
    e_.Line(fmt::format("const {} row = live ? row0 + column : n - 1;", flat_));
  }
  e_.BindRow();
  e_.BindFlat("row", 0, k_.num_outer);
  KeepLoads();
  PrintStages(step);
  const bool elements = !stores_.empty();
  if (step < 0 || step == stages()) PrintElementStores();
  // After all slices of all rows: an output of one value a row may lie on an input that they read.
  if (step < 0 || step == stages() + int(elements)) PrintRowStores();
  e_.PopInto(head);
  kept_.clear();
}

/// `step` < 0: all of them over the whole row.
void RowPrinter::PrintStages(int step) {
  for (size_t first = 0; first < reduces_.size();) {
    size_t end = first;
    while (end < reduces_.size() && reduces_[end].stage == reduces_[first].stage) ++end;
    const int stage = reduces_[first].stage;
    if (step < 0 || stage <= step)
      PrintStage(first, end,
                 step < 0        ? Stage::kWhole
                 : stage == step ? Stage::kPartial
                                 : Stage::kCombine);
    first = end;
  }
}

void RowPrinter::PrintStage(size_t first, size_t end, Stage what) {
  const Accumulators accs = Declare(first, end);
  what == Stage::kCombine ? ReadPartials(accs) : Accumulate(accs, first, end);
  Meet(accs);
  if (what == Stage::kPartial) return WritePartials(accs);
  for (size_t i = first; i < end; ++i) {
    const Accumulator& a = accs[i - first];
    // No element at all: position 0, as everywhere.
    if (!a.position.empty())
      e_.Line(fmt::format("if ({0} == 0x7fffffffffffffffll) {0} = 0;", a.position));
    e_.BindNode(reduces_[i].node, a.position.empty() ? a.value : a.position);
  }
}

// ---- one pass over a row ----

/// Single elements of a pass that a thread reads before it computes. Longer rows than 2^31 are
/// rare, and slow to divide.
int RowPrinter::Together(size_t pass) {
  if (plan_.width > 1 || plan_.unrolled || flat_ != "u32") return 1;
  const std::vector<const ExprNode*> nodes = PostOrder(passes_[pass]);
  std::set<const ExprNode*> loads;
  const auto consider = [&](const Expr& e) {
    for (size_t d = size_t(k_.num_outer); d < k_.dims.size(); ++d)
      if (e->kind() == ExprKind::kLoad && e_.Info(e).loops.test(d)) loads.insert(e.get());
  };
  for (const Expr& root : passes_[pass]) consider(root);
  for (const ExprNode* n : nodes)
    std::for_each(n->operands().begin(), n->operands().end(), consider);
  const int64_t count = CountUsual(passes_[pass]);
  int64_t bytes = 0;
  for (const ExprNode* load : loads) bytes += DTypeBytes(load->dtype(), 1);
  // Positions of several loops are divided each.
  const int most = k_.dims.size() == size_t(k_.num_outer) + 1 ? 16 : 8;
  int together = 1;
  while (together < most && together * bytes < kTogetherBytes && bytes > 0 &&
         count * together * 2 <= kMaxTogetherNodes)
    together *= 2;
  return together;
}

/// Opens the frames of a chunk: `r` is the position of its first element. Loop positions are
/// bound at its base.
void RowPrinter::OpenChunk(size_t pass) {
  const int first = k_.num_outer, last = int(k_.dims.size());
  std::vector<SymInt> extents(k_.dims.begin() + first, k_.dims.end());
  const std::string begin = fmt::format("{}lane{}", plan_.sliced ? "first + " : "",
                                        plan_.width > 1 ? fmt::format(" * {}u", plan_.width) : ""),
                    end = plan_.sliced ? "last"
                          : Chunked()  ? fmt::format("{}u", plan_.row)
                                       : "row_elements";
  const int64_t step = int64_t{plan_.lanes} * plan_.width;
  loop_ = fmt::format("for ({} r = {}; r < {}; r += {}u)", flat_, begin, end, step);
  together_ = Together(pass);
  const bool counted = (plan_.aligned || together_ > 1) && !plan_.unrolled;
  const std::string rounds = counted ? e_.Fresh("rounds") : "";
  if (counted) {
    // A number of rounds that is known before: only so the compiler reads for two of
    // them before it computes.
    e_.Line(fmt::format("const {0} {1} = {2} > {3} ? ({2} - ({3}) + {4}u) / {5}u : 0u;", flat_,
                        rounds, end, begin, step - 1, step));
    loop_ = fmt::format("for ({0} c = 0; c < {1}; ++c)", flat_, rounds);
  }
  // A slice may be empty.
  e_.Push(plan_.sliced ? "first < last" : e_.Nonempty(extents));
  if (counted) e_.Line(fmt::format("const {} r = {} + c * {}u;", flat_, begin, step));
  if (plan_.unrolled) {
    e_.Line(fmt::format("const {0} r = (({0})c * {1}u + lane) * {2}u;", flat_, plan_.lanes,
                        plan_.width));
    e_.Push();  // if (r < R)
  }
  plan_.width > 1 ? void(base_name_ = e_.BindFlatBase("r", first, last, last))
                  : e_.BindFlat("r", first, last);
  // With one element a chunk its base is the element itself.
  if (plan_.width == 1 && Chunked())
    e_.BindIndex(int(k_.dims.size()), e_.Value(Expr::Index(Last())));
}
void RowPrinter::CloseChunk() {
  if (plan_.unrolled) {
    const bool exact = plan_.row % (int64_t{plan_.lanes} * plan_.width) == 0;
    e_.PopInto(exact ? "" : fmt::format("if (r < {}u)", plan_.row));
    e_.PopInto(fmt::format("#pragma unroll\nfor (int c = 0; c < {}; ++c)", plan_.chunks));
    return;
  }
  // Two vectors are under way at a time, or several single elements.
  const bool single = k_.dims.size() == size_t(k_.num_outer) + 1;
  const std::string unroll = plan_.aligned   ? "#pragma unroll 2\n"
                             : together_ > 1 ? fmt::format("#pragma unroll {}\n", together_)
                             : plan_.width > 1 || !single ? "#pragma unroll 1\n"
                                                          : "";
  e_.PopInto(unroll + loop_);
}

/// Opens the frame of one element in an open chunk, with the loads of `pass` bound to what
/// was read as vectors.
void RowPrinter::OpenElement(size_t pass) {
  if (!Chunked() && plan_.width == 1) return;
  std::vector<std::pair<Expr, std::string>> vectors;
  for (const Expr& load : VectorLoads(&e_, k_, passes_[pass])) {
    const auto kept =
        std::find_if(kept_.begin(), kept_.end(), [&](const auto& k) { return k.first == load; });
    if (kept != kept_.end()) {
      vectors.emplace_back(load, kept->second + "[c]");
    } else if (plan_.width > 1 && !plan_.scalar) {
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
void RowPrinter::CloseElement() {
  if (plan_.width > 1)
    e_.PopInto(fmt::format("#pragma unroll{}\nfor (int v = 0; v < {}; ++v)",
                           plan_.scalar ? " 1" : "", plan_.width));
}

std::string RowPrinter::LoadText(const Expr& load) {
  e_.helpers().UseVectors();
  const std::string at = e_.Value(AtVectorBase(k_, load->operand(0)));
  return fmt::format("{}<{}>(b{} + {})", plan_.aligned ? "LoadAligned" : "LoadVec", plan_.width,
                     load->buffer(), at);
}

/// Reads what at least two passes read, as far as registers go.
void RowPrinter::KeepLoads() {
  if (!Chunked() || !plan_.unrolled) return;
  std::vector<Expr> keep;
  int64_t left = kMaxKeptBytes;
  for (size_t p = 0; p + 1 < passes_.size(); ++p) {
    for (const Expr& load : VectorLoads(&e_, k_, passes_[p])) {
      if (std::find(keep.begin(), keep.end(), load) != keep.end()) continue;
      bool again = false;
      for (size_t q = p + 1; q < passes_.size() && !again; ++q) {
        const std::vector<Expr> later = VectorLoads(&e_, k_, passes_[q]);
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
  OpenChunk(0);
  for (const auto& [load, name] : kept_) {
    const std::string text = LoadText(load);
    e_.Line(fmt::format("{}[c] = {};", name, text));
  }
  CloseChunk();
}

// ---- stores ----

void RowPrinter::PrintElementStores() {
  if (stores_.empty()) return;
  std::vector<std::string> vectors(stores_.size());
  OpenChunk(passes_.size() - 1);
  if (plan_.width > 1 && !plan_.scalar) {
    e_.helpers().UseVectors();
    for (size_t i = 0; i < stores_.size(); ++i) {
      if (!IsContiguous(stores_[i].offset, Last())) continue;
      vectors[i] = e_.Fresh("out");
      e_.Line(fmt::format("Vec<{}, {}> {};", ctext::StorageType(stores_[i].value->dtype()),
                          plan_.width, vectors[i]));
    }
  }
  OpenElement(passes_.size() - 1);
  if (plan_.mode == RowMode::kColumn) e_.Push();
  PrintStores(&e_, stores_, vectors, "v");
  if (plan_.mode == RowMode::kColumn) e_.PopInto("if (live)");
  CloseElement();
  for (size_t i = 0; i < stores_.size(); ++i) {
    if (vectors[i].empty()) continue;
    const std::string at = e_.Value(AtVectorBase(k_, stores_[i].offset));
    e_.Line(fmt::format("{}(b{} + {}, {});", plan_.aligned ? "StoreAligned" : "StoreVec",
                        stores_[i].buffer, at, vectors[i]));
  }
  CloseChunk();
}

void RowPrinter::PrintRowStores() {
  if (row_stores_.empty()) return;
  std::vector<std::string> vectors(row_stores_.size());
  e_.Push();
  PrintStores(&e_, row_stores_, vectors, "");
  // An output of one value a row may lie on such an input, which all lanes read.
  const std::string text = e_.Pop();
  e_.Line(plan_.mode == RowMode::kGroup ? "__syncwarp(mask);" : "__syncthreads();");
  e_.Line(std::string("if (lane == 0u") + (plan_.mode == RowMode::kColumn ? " && live" : "") +
          ") {\n" + text + "}");
}

}  // namespace weft::cuda
