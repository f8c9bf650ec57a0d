/// elementwise.cc: one value per point, memory moved 16 bytes at a time.
///
/// A block takes tiles of block * V * U points: thread t of chunk c (of U) handles V consecutive
/// points, so that a warp touches consecutive memory and every thread has U vectors of each input
/// in flight before it computes. V makes the widest vectorised element fill 16 bytes; U is 2 where
/// one 16-byte load per thread would not keep enough bytes in flight (an H200 wants about 48 KiB a
/// multiprocessor; 2048 threads with one load each are 32). Points that do not fill a tile go one
/// by one.
///
/// Alignment is tested at run time. In a single loop, pointers that lie equally many elements
/// before the start of a vector (slices of buffers, batches) share a head of so many points;
/// tiles begin behind it, and one loop takes head and tail. Reads and writes at a distance,
/// such as x[i + 3], have no say: they test each address. Where pointers disagree all points go
/// one by one, because a test at every vector would cost those that agree, and a second body
/// text and compile time.
///
/// In a nest of several loops a vector lies inside the last loop; positions are divided once per
/// vector. There all pointers must be aligned.
#include <algorithm>

#include "text.h"
#include "weft/support/check.h"

namespace weft::cuda {
namespace {

constexpr int kBlock = kElementwiseBlock;
/// Unrolled bodies beyond this many statements take longer to compile (about 0.2 ms each) than
/// vectors gain.
constexpr int64_t kMaxUnrolledNodes = 800;

struct Plan {
  int width = 1, unroll = 1;
};

Plan MakePlan(const Kernel& k, const std::vector<KernelStore>& stores,
              const std::vector<Expr>& loads) {
  Plan plan;
  if (k.dims.empty() || HasReduce(stores)) return plan;
  const int widest = WidestElement(k, stores, loads);
  if (widest == 0) return plan;
  plan.width = 16 / widest;
  const SymInt last = k.dims.back();
  if (k.dims.size() > 1 && last.is_const()) {
    while (plan.width > 1 && last.value() % plan.width != 0) plan.width /= 2;
  }
  const int64_t size = BodySize(stores);
  while (plan.width > 1 && size * plan.width > kMaxUnrolledNodes) plan.width /= 2;
  if (loads.size() == 1 && size * plan.width * 2 <= kMaxUnrolledNodes && plan.width > 1)
    plan.unroll = 2;
  return plan;
}

class Printer {
 public:
  Printer(Emitter* e, const Kernel& k, const std::vector<KernelStore>& stores)
      : e_(*e), k_(k), stores_(stores), loads_(VectorLoads(e, k, Roots(stores))) {
    plan_ = MakePlan(k, stores, loads_);
  }

  void Print(const OperandTable& table, bool lean) {
    if (lean) plan_ = Plan();
    const std::string flat = e_.FlatType();
    e_.Line("if (total <= 0) return;");
    e_.Line(fmt::format("const {0} n = ({0})total, step = ({0})blocks * {1}u;", flat, kBlock));
    if (plan_.width > 1) PrintTiles(flat);
    const std::string p = plan_.width > 1 ? "q" : "p";
    e_.Push();
    if (plan_.width > 1)
      e_.Line(
          fmt::format("const {} p = {}q + skip;", flat, Heads().empty() ? "" : "q < head ? q : "));
    e_.BindFlat("p", 0, int(k_.dims.size()));
    PrintChains(&e_, table);
    PrintStores(&e_, stores_, std::vector<std::string>(stores_.size()), "");
    e_.PopInto(
        fmt::format("for ({0} {1} = ({0})block * {2}u + threadIdx.x; {1} < n{3}; {1} += step)",
                    flat, p, kBlock, plan_.width > 1 ? " - skip" : ""));
  }

 private:
  bool IsFlat() const { return k_.dims.size() == 1; }
  /// At the flat position itself.
  bool IsPlain(const Expr& offset) const { return IsFlat() && offset->kind() == ExprKind::kIndex; }

  /// Buffers that are read or written as vectors; with `plain`, at the flat position itself.
  std::vector<int> VectorBuffers(bool plain) const {
    std::vector<int> buffers;
    const auto add = [&](int buffer, const Expr& offset) {
      if (!plain || IsPlain(offset)) buffers.push_back(buffer);
    };
    for (const Expr& l : loads_) add(l->buffer(), l->operand(0));
    for (const KernelStore& s : stores_) {
      if (IsContiguous(s.offset, Last())) add(s.buffer, s.offset);
    }
    std::sort(buffers.begin(), buffers.end());
    buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
    return buffers;
  }
  /// Buffers that say how long the head is.
  std::vector<int> Heads() const { return VectorBuffers(true); }

  /// Where vectors are used: in a single loop, one head for all; else pointers on 16 bytes, and no
  /// vector across the end of the last loop.
  std::string Condition() {
    std::string condition;
    const auto require = [&](const std::string& text) {
      condition += (condition.empty() ? "" : " && ") + text;
    };
    if (IsFlat()) {
      const std::vector<int> heads = Heads();
      for (size_t i = 1; i < heads.size(); ++i)
        require(fmt::format("ToAligned<{}>(b{}) == head", plan_.width, heads[i]));
      return condition;
    }
    for (int b : VectorBuffers(false)) require(fmt::format("IsAligned<16>(b{})", b));
    if (!k_.dims.back().is_const())
      require(fmt::format("{} % {} == 0", e_.Dim(k_.dims.back()), plan_.width));
    return condition;
  }

  int Last() const { return int(k_.dims.size()) - 1; }

  /// An access at the flat position itself is aligned behind the head; others test each address.
  const char* Access(const Expr& offset, const char* aligned, const char* tested) const {
    return IsPlain(offset) ? aligned : tested;
  }

  /// Binds the loops at the first point of chunk `c`; the frame is open.
  void BindBase(const std::string& flat) {
    std::string p = fmt::format("((tile * {}u + c) * {}u + threadIdx.x) * {}u", plan_.unroll,
                                kBlock, plan_.width);
    // Where NVRTC sees a 64-bit sum in an address, it stores single elements: the mask hides it.
    if (!Heads().empty())
      p = fmt::format(flat == "u32" ? "head + {}" : "(head + {}) & 0x3fffffffffffffffull", p);
    e_.Line(fmt::format("const {} p = {};", flat, p));
    base_name_ = e_.BindFlatBase("p", 0, int(k_.dims.size()), int(k_.dims.size()));
  }

  void PrintTiles(const std::string& flat) {
    e_.helpers().UseVectors();
    const int base = int(k_.dims.size());
    e_.AddLoop(base, Last());
    const int64_t tile = int64_t{kBlock} * plan_.width * plan_.unroll;
    const std::string chunks =
        fmt::format("#pragma unroll\nfor (int c = 0; c < {}; ++c)", plan_.unroll);
    const std::vector<int> heads = Heads();
    // Points of tiles, which the loop over elements leaves out.
    e_.Line(fmt::format("{} skip = 0;", flat));
    if (!heads.empty())
      e_.Line(fmt::format("const u32 head = ToAligned<{}>(b{});", plan_.width, heads[0]));
    const std::string condition = Condition();

    e_.Push();  // if aligned
    e_.Line(heads.empty()
                ? fmt::format("const {} tiles = n / {}u;", flat, tile)
                : fmt::format("const {} tiles = n > head ? (n - head) / {}u : 0u;", flat, tile));
    e_.Push();  // tiles
    std::vector<std::string> inputs(loads_.size());
    if (plan_.unroll > 1) {
      for (size_t i = 0; i < loads_.size(); ++i) {
        const std::string name = e_.Fresh("in");
        e_.Line(fmt::format("Vec<{}, {}> {}[{}];", ctext::StorageType(loads_[i]->dtype()),
                            plan_.width, name, plan_.unroll));
        inputs[i] = name + "[c]";
      }
      e_.Push();
      BindBase(flat);
      for (size_t i = 0; i < loads_.size(); ++i) e_.Line(inputs[i] + " = " + LoadText(i) + ";");
      e_.PopInto(chunks);
    }
    e_.Push();  // chunk
    if (plan_.unroll == 1) e_.Line("const int c = 0;");
    BindBase(flat);
    if (plan_.unroll == 1) {
      for (size_t i = 0; i < loads_.size(); ++i) {
        inputs[i] = e_.Fresh("in");
        const std::string text = LoadText(i);
        e_.Line(fmt::format("const Vec<{}, {}> {} = {};", ctext::StorageType(loads_[i]->dtype()),
                            plan_.width, inputs[i], text));
      }
    }
    PrintLanes(inputs);
    e_.PopInto(plan_.unroll == 1 ? "" : chunks);
    e_.PopInto(fmt::format("for ({0} tile = block; tile < tiles; tile += blocks)", flat));
    e_.Line(fmt::format("skip = tiles * {}u;", tile));
    e_.PopInto(condition.empty() ? "" : "if (" + condition + ")");
  }

  std::string LoadText(size_t i) {
    const Expr& offset = loads_[i]->operand(0);
    const std::string at = e_.Value(AtVectorBase(k_, offset));
    return fmt::format("{}<{}>(b{} + {})", Access(offset, "LoadAligned", "LoadVec"), plan_.width,
                       loads_[i]->buffer(), at);
  }

  void PrintLanes(const std::vector<std::string>& inputs) {
    std::vector<std::string> outputs(stores_.size());
    for (size_t i = 0; i < stores_.size(); ++i) {
      if (!IsContiguous(stores_[i].offset, Last())) continue;
      outputs[i] = e_.Fresh("out");
      e_.Line(fmt::format("Vec<{}, {}> {};", ctext::StorageType(stores_[i].value->dtype()),
                          plan_.width, outputs[i]));
    }
    // Scalar stores between lanes would write before later lanes read; where there are any, no lane
    // shares memory with another, because outputs on inputs are written where they are read.
    e_.Push();
    const std::string x = e_.Fresh("x");
    e_.Line(fmt::format("const {} {} = {} + v;", e_.IndexType(Last()), x, base_name_));
    e_.BindIndex(Last(), x);
    for (size_t i = 0; i < loads_.size(); ++i) {
      const std::string t = e_.Fresh("t");
      e_.Line(fmt::format("const {} {} = {};", ctext::ValueType(loads_[i]->dtype()), t,
                          e_.FromMemory(loads_[i]->dtype(), inputs[i] + ".v[v]")));
      e_.BindNode(loads_[i], t);
    }
    PrintStores(&e_, stores_, outputs, "v");
    e_.PopInto(fmt::format("#pragma unroll\nfor (int v = 0; v < {}; ++v)", plan_.width));
    for (size_t i = 0; i < stores_.size(); ++i) {
      if (outputs[i].empty()) continue;
      const std::string at = e_.Value(AtVectorBase(k_, stores_[i].offset));
      e_.Line(fmt::format("{}(b{} + {}, {});",
                          Access(stores_[i].offset, "StoreAligned", "StoreVec"), stores_[i].buffer,
                          at, outputs[i]));
    }
  }

  Emitter& e_;
  const Kernel& k_;
  const std::vector<KernelStore>& stores_;
  std::vector<Expr> loads_;
  Plan plan_;
  std::string base_name_;
};

}  // namespace

void PrintElementwise(Emitter* e, const Kernel& kernel, const std::vector<KernelStore>& stores,
                      const OperandTable& table, bool lean) {
  lean = lean || table.used;
  const TransposePlan transpose = FindTranspose(e, kernel, stores);
  if (!transpose.loads.empty() && !lean) return PrintTransposed(e, kernel, stores, transpose);
  Printer(e, kernel, stores).Print(table, lean);
}

int64_t ElementwiseItems(const Kernel& kernel, const std::vector<KernelStore>& stores) {
  ctext::Helpers helpers(ctext::Dialect::kCuda);
  Emitter e(&helpers, kernel);
  if (!FindTranspose(&e, kernel, stores).loads.empty()) return TransposeItems();
  const Plan plan = MakePlan(kernel, stores, VectorLoads(&e, kernel, Roots(stores)));
  return int64_t{kBlock} * plan.width * plan.unroll;
}

}  // namespace weft::cuda
