/// apply_layouts.cc: index maps of operands that lie with their channels last.
///
///   plain   y[i0, i1, i2, i3] = x[i0, i1, i2, i3] + b[i1]      x f32[n, c, h, w], y the same
///   last    y[i0, i1, i2, i3] = x[i0, i1, i2, i3] + b[i3]      x f32[n, h, w, c], y the same
///
/// Nothing behind this needs to know of layouts: loops are those of the outputs' memory, and
/// offsets are linear in it.
#include <algorithm>
#include <numeric>
#include <optional>

#include "codegen/expr/expr_pool.h"
#include "weft/codegen/layouts/layouts.h"

namespace weft {
namespace {

/// [n, c, spatial ..] to [n, spatial .., c].
template <class T>
void PutChannelsLast(std::vector<T>* of_dims) {
  std::rotate(of_dims->begin() + 1, of_dims->begin() + 2, of_dims->end());
}

bool IsPositional(ReduceOp op) { return op == ReduceOp::kArgMin || op == ReduceOp::kArgMax; }

/// The variables of a Reduce, whose body reads them as `at`, in the order in which the load that
/// uses most of them has them, as it lies in memory: variables that it does not use come first.
template <class IsLast>
std::vector<int> MemoryOrder(const Expr& body, const Indices& at, const IsLast& is_last) {
  const int n = int(at.size());
  std::vector<int> best(at.size(), -1);
  int most = 0;
  for (const ExprNode* load : PostOrder({body})) {
    if (load->kind() != ExprKind::kLoad) continue;
    Indices in_memory(load->operands().begin(), load->operands().begin() + load->num_indices());
    if (in_memory.size() >= 3 && is_last(load->buffer())) PutChannelsLast(&in_memory);
    std::vector<int> place(at.size(), -1);
    for (size_t d = 0; d < in_memory.size(); ++d)
      for (const ExprNode* e : PostOrder({in_memory[d]}))
        for (size_t v = 0; v < at.size(); ++v)
          if (e == at[v].get()) place[v] = int(d);
    const int used = n - int(std::count(place.begin(), place.end(), -1));
    if (used <= most) continue;
    most = used;
    best = place;
  }
  std::vector<int> order(at.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return best[size_t(a)] < best[size_t(b)]; });
  return order;
}

/// Reductions go through their variables in the order of memory; loads are still plain. Reductions
/// nest as deep as one operator's code has them inside each other, in one body after another.
template <class IsLast>
Expr InMemoryOrder(const Expr& e, const IsLast& is_last) {
  return ReplaceReduces(e, [&](const Expr& reduce) -> Expr {
    const std::vector<SymInt>& extents = reduce->extents();
    std::vector<int> order(extents.size());
    std::iota(order.begin(), order.end(), 0);
    if (!IsPositional(reduce->reduce_op()))
      Expr::Reduce(reduce->reduce_op(), extents, [&](const Indices& at) {
        const Expr body = ReduceBody(reduce, at);
        order = MemoryOrder(body, at, is_last);
        return body;
      });
    std::vector<SymInt> sorted;
    for (int v : order) sorted.push_back(extents[size_t(v)]);
    return Expr::Reduce(reduce->reduce_op(), sorted, [&](const Indices& variables) {
      Indices at(variables.size());
      for (size_t i = 0; i < order.size(); ++i) at[size_t(order[i])] = variables[i];
      return InMemoryOrder(ReduceBody(reduce, at), is_last);
    });
  });
}

}  // namespace

ComputeSpec ApplyLayouts(const ComputeSpec& spec, const std::vector<Layout>& layouts) {
  const size_t inputs = spec.inputs.size();
  const auto is_last = [&](size_t operand, const TensorSpec& t) {
    return operand < layouts.size() && layouts[operand] == Layout::kChannelsLast &&
           t.dims.size() >= 3;
  };
  ComputeSpec out = spec;
  std::vector<bool> moved(inputs);
  bool any = false;
  for (size_t i = 0; i < inputs; ++i) {
    any |= moved[i] = is_last(i, spec.inputs[i]);
    if (moved[i]) PutChannelsLast(&out.inputs[i].dims);
  }
  // Rows of an output that has channels are walked through as it lies, whatever they are read from.
  std::optional<bool> space_is_last;
  for (size_t k = 0; k < spec.outputs.size(); ++k) {
    const bool last = is_last(inputs + k, spec.outputs[k]);
    any |= last;
    if (!LiesAlikeInAll(Shape(spec.outputs[k].dims)))
      space_is_last = space_is_last.value_or(false) || last;
  }
  if (!any) return spec;
  const auto walks_last = [&](int input) { return space_is_last.value_or(moved[size_t(input)]); };
  for (size_t k = 0; k < spec.outputs.size(); ++k) {
    Expr value = RewriteExpr(InMemoryOrder(spec.values[k], walks_last), [&](const Expr& e) -> Expr {
      if (e->kind() != ExprKind::kLoad || !moved[size_t(e->buffer())]) return {};
      Indices at(e->operands().begin(), e->operands().begin() + e->num_indices());
      PutChannelsLast(&at);
      return Expr::Load(e->buffer(), e->dtype(), std::move(at),
                        e->has_guard() ? e->operands().back() : Expr());
    });
    if (is_last(inputs + k, spec.outputs[k])) {
      PutChannelsLast(&out.outputs[k].dims);
      const int rank = int(out.outputs[k].dims.size());
      Indices at{Expr::Index(0), Expr::Index(rank - 1)};
      for (int d = 2; d < rank; ++d) at.push_back(Expr::Index(d - 1));
      value = SubstituteIndices(value, at);
    }
    out.values[k] = std::move(value);
  }
  return out;
}

}  // namespace weft
