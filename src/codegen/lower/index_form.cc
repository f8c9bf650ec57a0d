/// index_form.cc: reading expressions as sums of products of loop indices.
#include "index_form.h"

#include <algorithm>

#include "weft/support/check.h"

namespace weft {

void IndexForm::Add(const Expr& atom, SymInt coefficient) {
  if (coefficient.is(0)) return;
  for (auto it = terms.begin(); it != terms.end(); ++it) {
    if (it->first != atom) continue;
    it->second = it->second + coefficient;
    if (it->second.is(0)) terms.erase(it);
    return;
  }
  terms.emplace_back(atom, coefficient);
}

void IndexForm::AddForm(const IndexForm& o, SymInt factor) {
  constant = constant + o.constant * factor;
  for (const auto& [atom, coefficient] : o.terms) Add(atom, coefficient * factor);
}

SymInt IndexForm::Coefficient(const Expr& atom) const {
  for (const auto& [a, c] : terms) {
    if (a == atom) return c;
  }
  return 0;
}

/// Loops ascending, then other atoms by hash, then the constant: one form, one expression.
Expr IndexForm::ToExpr() const {
  auto sorted = terms;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    const bool ia = a.first->kind() == ExprKind::kIndex, ib = b.first->kind() == ExprKind::kIndex;
    if (ia != ib) return ia;
    return ia ? a.first->index() < b.first->index() : a.first->hash() < b.first->hash();
  });
  Expr sum;
  for (const auto& [atom, coefficient] : sorted) {
    const Expr term = atom * Expr::Dim(coefficient);
    sum = sum ? sum + term : term;
  }
  if (!sum) return Expr::Dim(constant);
  return constant.is(0) ? sum : sum + Expr::Dim(constant);
}

namespace {

bool IsLinear(const ExprNode& n) {
  if (n.dtype() != DType::kI64) return false;
  if (n.kind() == ExprKind::kUnary) return n.un_op() == UnOp::kNeg;
  return n.kind() == ExprKind::kBinary &&
         (n.bin_op() == BinOp::kAdd || n.bin_op() == BinOp::kSub || n.bin_op() == BinOp::kMul);
}

/// Adds factor * e to f; false where the arithmetic leaves 64 bits or the sum has too many levels.
bool Accumulate(const Expr& root, IndexForm* f) {
  std::vector<std::pair<Expr, SymInt>> stack{{root, SymInt(1)}};
  int steps = 0;
  while (!stack.empty()) {
    const auto [e, factor] = std::move(stack.back());
    stack.pop_back();
    if (++steps > 4096) return false;
    if (e->kind() == ExprKind::kConst && e->dtype() == DType::kI64) {
      f->constant = f->constant + SymInt(e->const_int()) * factor;
    } else if (e->kind() == ExprKind::kDim) {
      f->constant = f->constant + e->dim() * factor;
    } else if (!IsLinear(*e)) {
      f->Add(e, factor);
    } else if (e->kind() == ExprKind::kUnary) {
      stack.emplace_back(e->operand(0), -factor);
    } else if (e->bin_op() == BinOp::kMul) {
      const Expr &a = e->operand(0), &b = e->operand(1);
      // Constants and dims are ordered last, a dim may come first beside another operand.
      const auto pure = [](const Expr& x) {
        return x->kind() == ExprKind::kConst || x->kind() == ExprKind::kDim;
      };
      const auto value = [](const Expr& x) {
        return x->kind() == ExprKind::kDim ? x->dim() : SymInt(x->const_int());
      };
      if (pure(b))
        stack.emplace_back(a, factor * value(b));
      else if (pure(a))
        stack.emplace_back(b, factor * value(a));
      else
        f->Add(e, factor);
    } else {
      stack.emplace_back(e->operand(1), e->bin_op() == BinOp::kSub ? -factor : factor);
      stack.emplace_back(e->operand(0), factor);
    }
  }
  return true;
}

}  // namespace

IndexForm FormOf(const Expr& e) {
  IndexForm f;
  try {
    if (Accumulate(e, &f)) return f;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOverflow) throw;
  }
  f = IndexForm();
  f.terms.emplace_back(e, SymInt(1));
  return f;
}

void VisitForms(const Exprs& roots, const std::function<void(const Expr&, const IndexForm&)>& see) {
  ExprMap<char> seen;
  Exprs work(roots.rbegin(), roots.rend());
  while (!work.empty()) {
    const Expr e = std::move(work.back());
    work.pop_back();
    if (!seen.Set(e.get(), 1)) continue;
    if (e->dtype() == DType::kI64) {
      const IndexForm f = FormOf(e);
      see(e, f);
      for (const auto& [atom, coefficient] : f.terms) {
        for (const Expr& o : atom->operands()) work.push_back(o);
      }
    } else {
      for (const Expr& o : e->operands()) work.push_back(o);
    }
  }
}

Expr AffineCoefficient(const Expr& e, int loop) {
  const IndexForm f = FormOf(e);
  SymInt coefficient = 0;
  for (const auto& [atom, c] : f.terms) {
    if (atom->kind() == ExprKind::kIndex) {
      if (atom->index() == loop) coefficient = c;
      continue;
    }
    if (atom->is_invariant()) continue;
    for (const ExprNode* n : PostOrder({atom})) {
      if (n->kind() == ExprKind::kIndex && n->index() == loop) return {};
    }
  }
  return Expr::Dim(coefficient);
}

}  // namespace weft
