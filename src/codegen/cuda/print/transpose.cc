/// transpose.cc: one value per point where memory is read along another loop than it is
/// written along (the form transposing).
///
/// A block takes tiles of 32 x 32 points of the last loop L and the loop M along which some inputs
/// are contiguous. It reads those with a warp along M, 32 consecutive elements, into shared memory;
/// then a warp stands along L, takes them from there and reads and writes everything else. Rows of
/// the tile are 33 elements apart, so that a warp finds a column of it in 32 different banks.
#include <algorithm>

#include "text.h"
#include "weft/codegen/lower/lower.h"
#include "weft/support/check.h"

namespace weft::cuda {
namespace {

constexpr int kTile = 32, kRowsAtATime = kElementwiseBlock / kTile;
/// With fewer points along one of the two loops most threads of a tile have nothing to do.
constexpr int64_t kLeastExtent = 12;
constexpr int64_t kMaxTileBytes = 20 << 10;

bool LongEnough(SymInt extent) { return !extent.is_const() || extent.value() >= kLeastExtent; }

/// Does the load step through memory by one along `loop`, and by more along the last one?
bool IsAcross(Emitter* e, const Kernel& k, const Expr& load, int loop) {
  const int last = int(k.dims.size()) - 1;
  if (load->kind() != ExprKind::kLoad || !IsContiguous(load->operand(0), loop)) return false;
  for (const Expr& o : load->operands()) {
    if (e->Info(o).reads || e->Info(o).variables.any()) return false;
  }
  return e->Info(load->operand(0)).loops.test(size_t(last)) &&
         !IsContiguous(load->operand(0), last);
}

}  // namespace

TransposePlan FindTranspose(Emitter* e, const Kernel& k, const std::vector<KernelStore>& stores) {
  TransposePlan best;
  const int last = int(k.dims.size()) - 1;
  if (last < 1 || HasReduce(stores) || !LongEnough(k.dims.back())) return best;
  const auto written_along = [&](int loop) {
    return std::any_of(stores.begin(), stores.end(), [&](const KernelStore& s) {
      return !s.flag && IsContiguous(s.offset, loop);
    });
  };
  if (!written_along(last)) return best;
  const std::vector<const ExprNode*> nodes = PostOrder(Roots(stores));
  for (int loop = 0; loop < last; ++loop) {
    if (!LongEnough(k.dims[size_t(loop)]) || written_along(loop)) continue;
    TransposePlan plan{loop, {}};
    int64_t bytes = 0;
    const auto consider = [&](const Expr& n) {
      if (!IsAcross(e, k, n, loop) ||
          std::find(plan.loads.begin(), plan.loads.end(), n) != plan.loads.end())
        return;
      const int64_t tile = int64_t{kTile} * (kTile + 1) * DTypeBytes(n->dtype(), 1);
      if (bytes + tile > kMaxTileBytes) return;
      bytes += tile;
      plan.loads.push_back(n);
    };
    for (const ExprNode* n : nodes) {
      for (const Expr& o : n->operands()) consider(o);
    }
    for (const KernelStore& s : stores) consider(s.value);
    if (plan.loads.size() > best.loads.size()) best = plan;
  }
  return best;
}

int64_t TransposeItems() { return int64_t{kTile} * kTile; }

void PrintTransposed(Emitter* emitter, const Kernel& k, const std::vector<KernelStore>& stores,
                     const TransposePlan& plan) {
  Emitter& e = *emitter;
  const std::string flat = e.FlatType();
  const int last = int(k.dims.size()) - 1, across = plan.loop;
  const std::string extent_l = e.Dim(k.dims[size_t(last)]),
                    extent_m = e.Dim(k.dims[size_t(across)]), type_l = e.IndexType(last),
                    type_m = e.IndexType(across);
  e.Line("if (total <= 0) return;");
  std::vector<std::string> tiles;
  for (const Expr& l : plan.loads) {
    tiles.push_back(e.Fresh("tile"));
    e.Line(fmt::format("__shared__ {} {}[{}][{}];", ctext::StorageType(l->dtype()), tiles.back(),
                       kTile, kTile + 1));
  }
  e.Line(fmt::format("const u32 tx = threadIdx.x % {0}u, ty = threadIdx.x / {0}u;", kTile));
  e.Line(
      fmt::format("const {0} tiles_l = (({0}){1} + {2}u) / {3}u, tiles_m = (({0}){4} + {2}u) / "
                  "{3}u;",
                  flat, extent_l, kTile - 1, kTile, extent_m));
  std::string count = "tiles_l * tiles_m";
  std::vector<int> others;
  for (int d = 0; d < last; ++d) {
    if (d == across) continue;
    others.push_back(d);
    count += fmt::format(" * ({}){}", flat, e.Dim(k.dims[size_t(d)]));
  }
  e.Line(fmt::format("const {} tiles = {};", flat, count));

  e.Push();  // tiles
  e.Line(fmt::format("const {} at_m = tile / tiles_l;", flat));
  e.Line(fmt::format("const {0} l0 = ({0})((tile - at_m * tiles_l) * {1}u);", type_l, kTile));
  std::string rest = "at_m / tiles_m";
  e.Line(fmt::format("const {0} m0 = ({0})(at_m % tiles_m * {1}u);", type_m, kTile));
  for (size_t i = others.size(); i-- > 0;) {
    const std::string q = e.Fresh("q"), x = e.Fresh("x");
    e.Line(fmt::format("const {} {} = {};", flat, q, rest));
    const std::string extent = fmt::format("({}){}", flat, e.Dim(k.dims[size_t(others[i])]));
    e.Line(fmt::format("const {0} {1} = ({0})({2});", e.IndexType(others[i]), x,
                       i == 0 ? q : fmt::format("{} % {}", q, extent)));
    e.BindIndex(others[i], x);
    rest = fmt::format("{} / {}", q, extent);
  }
  e.Line("__syncthreads();");
  const auto sweep =
      fmt::format("#pragma unroll\nfor (u32 k = 0; k < {}u; ++k)", kTile / kRowsAtATime);
  const std::string row = fmt::format("const u32 y = ty + k * {}u;", kRowsAtATime);

  // A warp along M.
  const std::string m = e.Fresh("x"), l = e.Fresh("x");
  e.Line(fmt::format("const {0} {1} = m0 + ({0})tx;", type_m, m));
  e.Push(fmt::format("{} < {}", m, extent_m));
  e.BindIndex(across, m);
  e.Push();
  e.Line(row);
  e.Line(fmt::format("const {0} {1} = l0 + ({0})y;", type_l, l));
  e.Push(fmt::format("{} < {}", l, extent_l));
  e.BindIndex(last, l);
  for (size_t i = 0; i < plan.loads.size(); ++i) {
    const Expr& load = plan.loads[i];
    std::string text = fmt::format("b{}[{}]", load->buffer(), e.Value(load->operand(0)));
    if (load->has_guard())
      text = fmt::format("{} ? {} : ({})0", e.Value(load->operands().back()), text,
                         ctext::StorageType(load->dtype()));
    e.Line(fmt::format("{}[y][tx] = {};", tiles[i], text));
  }
  e.PopInto(fmt::format("if ({} < {})", l, extent_l));
  e.PopInto(sweep);
  e.PopInto(fmt::format("if ({} < {})", m, extent_m));
  e.Line("__syncthreads();");

  // A warp along L.
  const std::string l2 = e.Fresh("x"), m2 = e.Fresh("x");
  e.Line(fmt::format("const {0} {1} = l0 + ({0})tx;", type_l, l2));
  e.Push(fmt::format("{} < {}", l2, extent_l));
  e.BindIndex(last, l2);
  e.Push();
  e.Line(row);
  e.Line(fmt::format("const {0} {1} = m0 + ({0})y;", type_m, m2));
  e.Push(fmt::format("{} < {}", m2, extent_m));
  e.BindIndex(across, m2);
  for (size_t i = 0; i < plan.loads.size(); ++i) {
    const DType t = plan.loads[i]->dtype();
    const std::string v = e.Fresh("t");
    e.Line(fmt::format("const {} {} = {};", ctext::ValueType(t), v,
                       e.FromMemory(t, tiles[i] + "[tx][y]")));
    e.BindNode(plan.loads[i], v);
  }
  PrintStores(&e, stores, std::vector<std::string>(stores.size()), "");
  e.PopInto(fmt::format("if ({} < {})", m2, extent_m));
  e.PopInto(sweep);
  e.PopInto(fmt::format("if ({} < {})", l2, extent_l));
  e.PopInto(fmt::format("for ({0} tile = block; tile < tiles; tile += blocks)", flat));
}

}  // namespace weft::cuda
