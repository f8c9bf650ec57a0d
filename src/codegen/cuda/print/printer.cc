/// printer.cc: entries of CUDA kernels, and what the templates share.
#include "printer.h"

#include <algorithm>

#include "codegen/expr/expr_pool.h"
#include "row.h"
#include "text.h"
#include "weft/codegen/lower/lower.h"
#include "weft/support/check.h"

namespace weft {
namespace cuda {

bool IsContiguous(const Expr& offset, int loop) {
  const Expr c = AffineCoefficient(offset, loop);
  return c && c->kind() == ExprKind::kConst && c->const_int() == 1;
}

std::vector<Expr> VectorLoads(Emitter* e, const Kernel& kernel, const Exprs& roots) {
  std::vector<Expr> loads;
  const int last = int(kernel.dims.size()) - 1;
  const auto consider = [&](const Expr& n) {
    if (n->kind() != ExprKind::kLoad || n->has_guard()) return;
    const ctext::NodeInfo& info = e->Info(n);
    if (info.variables.any() || !info.loops.test(size_t(last)) ||
        !IsContiguous(n->operand(0), last))
      return;
    if (std::find(loads.begin(), loads.end(), n) == loads.end()) loads.push_back(n);
  };
  if (last < 0) return loads;
  for (const ExprNode* n : PostOrder(roots)) {
    for (const Expr& o : n->operands()) consider(o);
  }
  for (const Expr& root : roots) consider(root);
  return loads;
}

Expr AtVectorBase(const Kernel& kernel, const Expr& offset) {
  Indices at;
  for (size_t k = 0; k + 1 < kernel.dims.size(); ++k) at.push_back(Expr::Index(int(k)));
  at.push_back(Expr::Index(int(kernel.dims.size())));
  return SubstituteIndices(offset, at);
}

int WidestElement(const Kernel& kernel, const std::vector<KernelStore>& stores,
                  const std::vector<Expr>& loads) {
  const auto bytes = [](DType t) { return t == DType::kBool ? 1 : DTypeBits(t) / 8; };
  const int last = int(kernel.dims.size()) - 1;
  int widest = 0;
  for (const KernelStore& s : stores) {
    if (last >= 0 && !s.per_row && IsContiguous(s.offset, last))
      widest = std::max(widest, bytes(kernel.buffers[size_t(s.buffer)].dtype));
  }
  for (const Expr& l : loads) widest = std::max(widest, bytes(l->dtype()));
  return widest;
}

Exprs Roots(const std::vector<KernelStore>& stores) {
  Exprs roots;
  for (const KernelStore& s : stores) {
    roots.push_back(s.value);
    roots.push_back(s.offset);
  }
  return roots;
}

int64_t BodySize(const std::vector<KernelStore>& stores) { return CountUsual(Roots(stores)); }

bool HasReduce(const std::vector<KernelStore>& stores) {
  for (const ExprNode* n : PostOrder(Roots(stores))) {
    if (n->kind() == ExprKind::kReduce) return true;
  }
  return false;
}

void PrintStores(Emitter* e, const std::vector<KernelStore>& stores,
                 const std::vector<std::string>& vectors, const std::string& lane) {
  // All values first: where an output lies on an input, nothing may be read after the write.
  std::vector<std::string> lines;
  for (size_t i = 0; i < stores.size(); ++i) {
    const std::string value = e->Stored(stores[i].value);
    if (stores[i].flag) {
      lines.push_back(fmt::format("if ({}) b{}[0] = 1;", value, stores[i].buffer));
      continue;
    }
    lines.push_back(vectors[i].empty() ? fmt::format("b{}[{}] = {};", stores[i].buffer,
                                                     e->Value(stores[i].offset), value)
                                       : fmt::format("{}.v[{}] = {};", vectors[i], lane, value));
  }
  for (const std::string& line : lines) e->Line(line);
}

namespace {

/// Can an output lie on this input (see printer.h)?
bool MayAlias(const Kernel& k, const KernelBuffer& input) {
  const auto outputs_end = k.buffers.end() - int(k.has_flag());
  return std::any_of(k.buffers.begin(), outputs_end, [&](const KernelBuffer& b) {
    return b.is_output && b.dtype == input.dtype && b.num_elements == input.num_elements;
  });
}

const char* Restrict(const Kernel& kernel, const KernelBuffer& b) {
  return b.is_output || MayAlias(kernel, b) ? "" : " __restrict__";
}

/// One of the entries of a kernel.
struct EntryKind {
  std::string suffix;
  bool narrow = false;  ///< 32-bit indices whatever the kernel says, and multipliers as parameters
  int step = -1;        ///< of a launch in steps
  int64_t table = 0;    ///< bytes of parameters of a MULTI entry
};

std::string PointerType(const KernelBuffer& b) {
  return fmt::format("{}{}*", b.is_output ? "" : "const ", ctext::StorageType(b.dtype));
}

std::string Parameters(const Kernel& kernel, const OperandTable& table, const EntryKind& kind,
                       size_t divisors) {
  std::string text;
  if (table.used) {
    text = "const u64* __restrict__ table, ";
  } else {
    for (size_t i = 0; i < kernel.buffers.size(); ++i) {
      const KernelBuffer& b = kernel.buffers[i];
      text += fmt::format("{}{} b{}, ", PointerType(b), Restrict(kernel, b), i);
    }
    for (int d = 0; d < kernel.num_symbols; ++d) text += fmt::format("i64 d{}, ", d);
  }
  text += "i64 total";
  for (size_t m = 0; m < divisors; ++m) text += fmt::format(", u64 m{}", m);
  if (kind.step >= 0) text += ", u64 num_slices, u64* workspace";
  return text;
}

/// Operands out of a row of words.
std::string FromWords(const Kernel& kernel, const std::string& words,
                      const std::vector<bool>& wanted) {
  std::string text;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const KernelBuffer& b = kernel.buffers[i];
    if (wanted.empty() || wanted[i])
      text += fmt::format("{0}{1} b{2} = ({0}){3}[{2}];\n", PointerType(b), Restrict(kernel, b), i,
                          words);
  }
  for (int d = 0; d < kernel.num_symbols; ++d)
    text +=
        fmt::format("const i64 d{} = (i64){}[{}];\n", d, words, kernel.buffers.size() + size_t(d));
  return text;
}

/// Head of a MULTI entry: which part this block works on, and its operands.
std::string PrintMultiHead(const Kernel& kernel, const std::string& name, int64_t bytes) {
  const auto buffers = int(kernel.buffers.size());
  const MultiLayout t = LayoutMulti(bytes, buffers, kernel.num_symbols);
  std::string text = fmt::format(
      "struct {0}_table {{ u32 parts, first[{1}]; u64 part[{2}][{3}]; }};\n"
      "extern \"C\" __global__ void __launch_bounds__({4}) {0}(const __grid_constant__ {0}_table "
      "t) "
      "{{\nu32 at = 0;\n"
      "for (u32 end = t.parts; end - at > 1u;) {{\nconst u32 middle = (at + end) / 2u;\n"
      "if (t.first[middle] <= blockIdx.x) at = middle; else end = middle;\n}}\n"
      "const u32 block = blockIdx.x - t.first[at];\n"
      "const u32 blocks = (at + 1u < t.parts ? t.first[at + 1u] : gridDim.x) - t.first[at];\n",
      name, (t.first_record - 4) / 4, t.capacity, t.words, kElementwiseBlock);
  text += FromWords(kernel, "t.part[at]", {});
  return text + fmt::format("const i64 total = (i64)t.part[at][{}];\n", t.words - 1);
}

std::string PrintEntry(ctext::Helpers* helpers, const Kernel& original,
                       const std::vector<KernelStore>& stores, const EntryKind& kind,
                       const CudaTuning& tuning) {
  // Where a twin does the work of all but the largest extents, short code that compiles fast.
  const bool lean = kind.suffix.empty() && HasNarrowTwin(original);
  Kernel kernel = original;
  kernel.small_index = kernel.small_index || kind.narrow;
  Emitter e(helpers, kernel);
  std::vector<SymInt> divisors;
  if (kind.narrow) divisors = Divisors(kernel);
  e.SetMultipliers(divisors);
  int block = kElementwiseBlock;
  const OperandTable table = kind.table > 0 ? OperandTable() : FindOperandTable(original, stores);
  std::string shared;
  switch (kernel.tmpl) {
    case KernelTemplate::kElementwise:
      PrintElementwise(&e, kernel, stores, table, lean);
      break;
    case KernelTemplate::kRow: {
      RowPrinter rows(&e, kernel, stores);
      block = rows.plan().block;
      kind.step < 0 ? rows.Print(lean) : rows.PrintStep(kind.step);
      shared = rows.SharedMemory();
      break;
    }
  }
  const std::string body = shared + e.Pop(), name = original.Name() + kind.suffix;
  if (kind.table > 0) return ctext::Indent(PrintMultiHead(kernel, name, kind.table) + body + "}\n");
  const std::string least =
      tuning.min_threads > 0 ? fmt::format(", {}", std::max(tuning.min_threads / block, 1)) : "";
  return ctext::Indent(
      fmt::format("extern \"C\" __global__ void __launch_bounds__({}{}) {}({}) {{\n"
                  "const u32 block = blockIdx.x, blocks = gridDim.x;\n{}{}}}\n",
                  block, least, name, Parameters(kernel, table, kind, divisors.size()),
                  table.used ? FromWords(kernel, "table", table.direct) : std::string(), body));
}

/// Number of launches in steps; 0 where there are none.
int Steps(const Kernel& kernel, const std::vector<KernelStore>& stores, const CudaTuning& tuning) {
  if (!kernel.has_rows()) return 0;
  ctext::Helpers helpers(ctext::Dialect::kCuda);
  Emitter e(&helpers, kernel);
  const RowPrinter rows(&e, kernel, stores);
  if (!HasSteps(kernel, rows.stages(), tuning)) return 0;
  return rows.stages() + int(rows.has_element_stores()) + int(rows.has_row_stores());
}

std::vector<EntryKind> KindsOf(const Kernel& kernel, const std::vector<KernelStore>& stores,
                               const CudaTuning& tuning) {
  std::vector<EntryKind> kinds(1);
  if (HasNarrowTwin(kernel)) kinds.push_back({"_n", true});
  const int steps = Steps(kernel, stores, tuning);
  if (steps > 0 && kernel.num_symbols == 0 &&
      ScheduleCuda(kernel, tuning).Plan({}, 1).launches.size() > 1)
    kinds.clear();
  for (int k = 0; k < steps; ++k) kinds.push_back({fmt::format("_s{}", k), true, k});
  if (HasMulti(kernel)) {
    for (const MultiTable& t : kMultiTables)
      if (t.bytes <= tuning.parameter_bytes) kinds.push_back({t.suffix, false, -1, t.bytes});
  }
  return kinds;
}

std::string PrintEntries(ctext::Helpers* helpers, const Kernel& kernel, const CudaTuning& tuning) {
  const std::vector<KernelStore> stores = ctext::ExpandStores(kernel);
  std::string text;
  for (const EntryKind& kind : KindsOf(kernel, stores, tuning))
    text += (text.empty() ? "" : "\n") + PrintEntry(helpers, kernel, stores, kind, tuning);
  return text;
}

}  // namespace
}  // namespace cuda

CudaSchedule ScheduleCuda(const Kernel& kernel, const CudaTuning& tuning) {
  const std::vector<KernelStore> stores = ctext::ExpandStores(kernel);
  CudaSchedule s;
  s.tuning_ = tuning;
  s.name_ = kernel.Name();
  s.outer_ = kernel.outer_dims();
  s.row_ = kernel.row_dims();
  for (const ExprNode* n : PostOrder(cuda::Roots(stores))) {
    if (n->kind() == ExprKind::kReduce) s.reduced_.push_back(n->extents());
  }
  s.small_index_ = kernel.small_index;
  s.narrow_twin_ = cuda::HasNarrowTwin(kernel);
  s.divisors_ = cuda::Divisors(kernel);
  s.num_symbols_ = kernel.num_symbols;
  s.num_buffers_ = int(kernel.buffers.size());
  s.multi_ = cuda::HasMulti(kernel);
  const cuda::OperandTable table = cuda::FindOperandTable(kernel, stores);
  s.has_table_ = table.used;
  s.chained_ = table.chained;
  switch (kernel.tmpl) {
    case KernelTemplate::kElementwise:
      s.items_per_block =
          table.used ? cuda::kElementwiseBlock : cuda::ElementwiseItems(kernel, stores);
      return s;
    case KernelTemplate::kRow:
      break;
  }
  ctext::Helpers helpers(ctext::Dialect::kCuda);
  cuda::Emitter e(&helpers, kernel);
  const cuda::RowPrinter rows(&e, kernel, stores);
  const cuda::RowPlan& plan = rows.plan();
  s.columns_ = kernel.rows_in_lanes();
  s.block = plan.block;
  s.items_per_block = s.columns_ ? 32 : plan.block / plan.lanes;
  if (plan.row < 0 && plan.mode == cuda::RowMode::kGroup) s.long_row = cuda::kWarpRow;
  if (!cuda::HasSteps(kernel, rows.stages(), tuning)) return s;
  s.stages_ = rows.stages();
  s.element_stores_ = rows.has_element_stores();
  s.row_stores_ = rows.has_row_stores();
  s.words_ = rows.words();
  return s;
}

std::vector<std::string> CudaEntries(const Kernel& kernel, const CudaTuning& tuning) {
  std::vector<std::string> names;
  for (const cuda::EntryKind& kind : cuda::KindsOf(kernel, ctext::ExpandStores(kernel), tuning))
    names.push_back(kernel.Name() + kind.suffix);
  return names;
}

std::string PrintCuda(const Kernel& kernel, const CudaTuning& tuning) {
  ctext::Helpers helpers(ctext::Dialect::kCuda);
  const std::string entries = cuda::PrintEntries(&helpers, kernel, tuning);
  return helpers.Text() + "\n" + entries;
}

std::string PrintCuda(const std::vector<KernelPtr>& kernels, const CudaTuning& tuning) {
  ctext::Helpers helpers(ctext::Dialect::kCuda);
  std::string entries;
  // What a compiler complains about names the kernel.
  for (const KernelPtr& k : kernels)
    entries +=
        fmt::format("\n#line 1 \"{}\"\n{}", k->Name(), cuda::PrintEntries(&helpers, *k, tuning));
  return helpers.Text() + entries;
}

}  // namespace weft
