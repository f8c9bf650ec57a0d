/// row_reduce.cc: finds the reductions over a row and the order among them.
#include "row_reduce.h"

#include <algorithm>

namespace weft::ctext {
namespace {

/// Reduce nodes that a printer meets when it prints `root`, each as a handle.
Exprs ReducesIn(const Expr& root) {
  Exprs found;
  for (const ExprNode* n : PostOrder({root})) {
    for (const Expr& o : n->operands()) {
      if (o->kind() == ExprKind::kReduce) found.push_back(o);
    }
  }
  if (root->kind() == ExprKind::kReduce) found.push_back(root);
  return found;
}

}  // namespace

std::vector<RowReduce> FindRowReduces(Emitter* e, const Kernel& k,
                                      const std::vector<KernelStore>& stores) {
  Indices row;
  for (size_t d = size_t(k.num_outer); d < k.dims.size(); ++d) row.push_back(Expr::Index(int(d)));
  // PostOrder enters bodies, so every reduction comes after those inside it: one sweep sees them in
  // order.
  std::vector<RowReduce> all;
  const auto position = [&](const Expr& n) {
    return std::find_if(all.begin(), all.end(), [&](const RowReduce& r) { return r.node == n; });
  };
  for (const KernelStore& s : stores) {
    for (const Expr& root : {s.value, s.offset}) {
      for (const Expr& n : ReducesIn(root)) {
        if (position(n) != all.end() || !e->Info(n).row_reduce) continue;
        RowReduce r{n, ReduceBody(n, row), 0};
        for (const Expr& inner : ReducesIn(r.body)) {
          const auto it = position(inner);
          if (it != all.end()) r.stage = std::max(r.stage, it->stage + 1);
        }
        all.push_back(std::move(r));
      }
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const RowReduce& a, const RowReduce& b) { return a.stage < b.stage; });
  return all;
}

}  // namespace weft::ctext
