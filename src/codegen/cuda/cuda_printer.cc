/// cuda_printer.cc: entries of CUDA kernels, and what both templates share.
#include "codegen/cuda/cuda_printer.h"

#include <algorithm>

#include "codegen/cuda/cuda_text.h"
#include "weft/codegen/lower.h"
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

int64_t BodySize(const std::vector<KernelStore>& stores) {
  return int64_t(PostOrder(Roots(stores)).size());
}

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

/// Can an output lie on this input (see cuda_printer.h)?
bool MayAlias(const Kernel& k, const KernelBuffer& input) {
  const auto outputs_end = k.buffers.end() - int(k.has_flag());
  return std::any_of(k.buffers.begin(), outputs_end, [&](const KernelBuffer& b) {
    return b.is_output && b.dtype == input.dtype && b.num_elements == input.num_elements;
  });
}

std::string PrintEntry(ctext::Helpers* helpers, const Kernel& kernel) {
  Emitter e(helpers, kernel);
  const std::vector<KernelStore> stores = ctext::ExpandStores(kernel);
  std::string parameters;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const KernelBuffer& b = kernel.buffers[i];
    parameters +=
        fmt::format("{}{}*{} b{}, ", b.is_output ? "" : "const ", ctext::StorageType(b.dtype),
                    b.is_output || MayAlias(kernel, b) ? "" : " __restrict__", i);
  }
  for (int d = 0; d < kernel.num_symbols; ++d) parameters += fmt::format("i64 d{}, ", d);
  kernel.tmpl == KernelTemplate::kRow ? PrintRows(&e, kernel, stores)
                                      : PrintElementwise(&e, kernel, stores);
  const std::string body = e.Pop();
  return ctext::Indent(
      fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}({}i64 total) {{\n{}}}\n",
                  ScheduleCuda(kernel).block, kernel.Name(), parameters, body));
}

}  // namespace
}  // namespace cuda

int64_t CudaSchedule::Blocks(int64_t total, int64_t row, int num_multiprocessors) const {
  const int64_t items = long_row >= 0 && row > long_row ? 1 : items_per_block;
  const int64_t needed = total / items + (total % items != 0);
  // 2048 threads fill a multiprocessor; more blocks than that only cost their start. Twice as many
  // even the tail out.
  const int64_t most = int64_t{num_multiprocessors} * std::max(2048 / block, 1) * 2;
  return std::clamp<int64_t>(needed, 1, std::max<int64_t>(most, 1));
}

CudaSchedule ScheduleCuda(const Kernel& kernel) {
  return kernel.tmpl == KernelTemplate::kRow ? cuda::ScheduleRows(kernel)
                                             : cuda::ScheduleElementwise(kernel);
}

std::string PrintCuda(const Kernel& kernel) {
  ctext::Helpers helpers(ctext::Dialect::kCuda);
  const std::string entry = cuda::PrintEntry(&helpers, kernel);
  return helpers.Text() + "\n" + entry;
}

std::string PrintCuda(const std::vector<KernelPtr>& kernels) {
  ctext::Helpers helpers(ctext::Dialect::kCuda);
  std::string entries;
  for (const KernelPtr& k : kernels) entries += "\n" + cuda::PrintEntry(&helpers, *k);
  return helpers.Text() + entries;
}

}  // namespace weft
