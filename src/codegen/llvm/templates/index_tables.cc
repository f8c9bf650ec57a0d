/// index_tables.cc: what is long to compute and depends on one loop alone (the position and the
/// weights of an interpolation, an angle) is computed once for every index of that loop, before the
/// loops, and read out of the scratch inside of them.
///
///   before  for i: for j: y[i, j] = f(g(i), h(j), ..)
///   after   for i: G[i] = g(i)   for j: H[j] = h(j)   for i: for j: y[i, j] = f(G[i], H[j], ..)
#include <algorithm>

#include "templates.h"

namespace weft::llvmgen {
namespace {

/// Operations from which reading is cheaper: a load, of twice the width where it is a position, and
/// what it does to the caches.
constexpr double kMinTableWeight = 8;
/// Points for every element of a table: what a table costs is to be nothing beside them.
constexpr int64_t kMinPointsPerElement = 16;
/// What the tables of a kernel may take of the second-level cache, and of extents that come with
/// the run how many tables.
constexpr int64_t kMaxTableElements = int64_t{1} << 16;
constexpr size_t kMaxTables = 32;

class TableMaker {
 public:
  TableMaker(Emitter& e, const std::vector<KernelStore>& stores)
      : e_(e), dims_(e.kernel().dims), tables_(dims_.size()) {
    Exprs rest;
    for (const KernelStore& s : stores) {
      Consider(s.value, -1);
      rest.push_back(s.value);
    }
    ExprMap<char> seen;
    while (!rest.empty()) {
      const Expr x = std::move(rest.back());
      rest.pop_back();
      if (!seen.Set(x.get(), 1)) continue;
      const int loop = LoopOf(x);
      for (const Expr& o : x->operands()) {
        Consider(o, loop);
        if (!o->operands().empty()) rest.push_back(o);
      }
    }
  }

  SymInt Run() {
    SymInt bytes = 0;
    std::vector<std::pair<Expr, Emitter::Table>> made;
    for (int loop = 0; loop < int(dims_.size()); ++loop) {
      const Exprs& values = tables_[size_t(loop)];
      if (values.empty()) continue;
      const size_t first = made.size();
      for (const Expr& v : values) {
        Emitter::Table t{loop, bytes, false};
        t.narrow =
            v->dtype() == DType::kI64 && e_.Info(v).lo >= INT32_MIN && e_.Info(v).hi <= INT32_MAX;
        const int width = t.narrow ? 4 : Emitter::Bytes(AccumulatorOf(v->dtype()));
        bytes = e_.names().Name(bytes + FloorDiv(dims_[size_t(loop)] * width + 63, 64) * 64);
        made.emplace_back(v, t);
      }
      Fill(loop, values, made.data() + first);
    }
    for (const auto& [value, table] : made) e_.UseTable(value, table);
    return bytes;
  }

 private:
  /// The one loop that e depends on, where nothing else decides its value; -1: there is none.
  int LoopOf(const Expr& e) {
    const NodeInfo& info = e_.Info(e);
    if (info.has_load || info.deps == 0 || (info.deps & (info.deps - 1)) != 0) return -1;
    for (int k = 0; k < int(dims_.size()); ++k)
      if (info.deps == uint64_t{1} << Emitter::IndexBit(k)) return k;
    return -1;
  }
  /// `user`: the loop of its reader.
  void Consider(const Expr& e, int user) {
    const int loop = LoopOf(e);
    if (loop < 0 || loop == user || e->dtype() == DType::kBool ||
        e_.Info(e).weight < kMinTableWeight || count_ == kMaxTables || !Pays(e, loop))
      return;
    Exprs& known = tables_[size_t(loop)];
    if (std::find(known.begin(), known.end(), e) != known.end()) return;
    known.push_back(e);
    ++count_;
  }
  bool Pays(const Expr& e, int loop) const {
    int64_t others = 1;
    for (int k = 0; k < int(dims_.size()); ++k) {
      const SymInt d = dims_[size_t(k)];
      if (k != loop && others < kMinPointsPerElement)
        others *= d.is_const() ? d.value() : kMinPointsPerElement;
    }
    const SymInt own = dims_[size_t(loop)];
    if (others < kMinPointsPerElement || (own.is_const() && own.value() > kMaxTableElements))
      return false;
    if (loop + 1 == int(dims_.size())) return true;
    // Outside of the lanes it is computed once for a run of points: only what is really long.
    const std::vector<const ExprNode*> parts = PostOrder({e});
    return std::any_of(parts.begin(), parts.end(),
                       [](const ExprNode* n) { return IsFloat(n->dtype()); });
  }
  void Fill(int loop, const Exprs& values, const std::pair<Expr, Emitter::Table>* tables) {
    const SymInt extent = dims_[size_t(loop)];
    const int64_t known = extent.is_const() ? extent.value() : -1;
    const Widths w = ChooseWidths(e_, values, {}, loop, known);
    ForLanes(e_, loop, e_.Int(0), e_.Dim(extent), known, w, false, {},
             [&](const Values&) -> Values {
               const int lanes = e_.lanes()->count;
               for (size_t i = 0; i < values.size(); ++i) {
                 const Emitter::Table& t = tables[i].second;
                 llvm::Value* v = e_.GetLanes(values[i], lanes);
                 if (t.narrow) v = e_.ir().CreateTrunc(v, e_.RegisterType(DType::kI32, lanes));
                 e_.StoreScratch(e_.Dim(t.start), e_.lanes()->base, v);
               }
               return {};
             });
  }

  Emitter& e_;
  const std::vector<SymInt>& dims_;
  std::vector<Exprs> tables_;  // by loop
  size_t count_ = 0;
};

}  // namespace

llvm::Value* Emitter::ReadTable(const ExprNode& n, const Table& table) {
  const Lanes* l = lanes();
  llvm::Type* element = RegisterType(table.narrow ? DType::kI32 : n.dtype());
  const llvm::Align align{element->getScalarSizeInBits() / 8};
  llvm::Value* start = ir_.CreateGEP(ir_.getInt8Ty(), scratch_, Dim(table.start));
  llvm::Value* v;
  if (l && l->loop == table.loop && l->count > 1) {
    auto* type = llvm::FixedVectorType::get(element, unsigned(l->count));
    llvm::Value* p = ir_.CreateGEP(element, start, l->base);
    v = l->mask ? ir_.CreateMaskedLoad(type, p, align, l->mask, llvm::Constant::getNullValue(type))
                : static_cast<llvm::Value*>(ir_.CreateAlignedLoad(type, p, align));
  } else {
    llvm::Value* at = l && l->loop == table.loop ? l->base : Variable(IndexBit(table.loop));
    v = ir_.CreateAlignedLoad(element, ir_.CreateGEP(element, start, at), align);
  }
  return table.narrow ? ir_.CreateSExt(v, RegisterType(n.dtype(), LanesOf(v))) : v;
}

SymInt EmitTables(Emitter& e, const std::vector<KernelStore>& stores) {
  return TableMaker(e, stores).Run();
}

}  // namespace weft::llvmgen
