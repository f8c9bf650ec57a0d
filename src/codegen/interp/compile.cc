/// compile.cc: expressions to straight-line code over blocks of lanes.

#include "codegen/lower/index_form.h"
#include "interp.h"
#include "weft/support/check.h"

namespace weft::interp {
namespace {

bool IsTable(const ExprNode& n) { return n.slot() >= 0; }
size_t TableOf(const ExprNode& n) { return size_t(n.slot()); }

class Compiler {
 public:
  Compiler(Plan* plan, int lane_loop, const CompileInput& input)
      : plan_(plan), lane_(lane_loop), input_(input) {}

  void Compile(const Expr& root) {
    // What a node needs is decided when it is first met: an affine load index needs no registers of
    // its own.
    std::vector<std::pair<Expr, bool>> stack{{root, false}};
    while (!stack.empty()) {
      auto [e, ready] = stack.back();
      if (registers_.Contains(e.get())) {
        stack.pop_back();
        continue;
      }
      if (!ready) {
        stack.back().second = true;
        const Exprs needs = Needs(e);
        for (auto it = needs.rbegin(); it != needs.rend(); ++it) stack.emplace_back(*it, false);
        continue;
      }
      stack.pop_back();
      Emit(e);
    }
    plan_->result = *registers_.Find(root.get());
    plan_->result_uniform = Uniform(root);
    plan_->dtype = root->dtype();
    plan_->lane_loop = lane_;
  }

 private:
  const LoopSet& Deps(const Expr& e) {
    if (LoopSet* known = deps_.Find(e.get())) return *known;
    for (const ExprNode* n : PostOrder({e})) {
      if (deps_.Contains(n)) continue;
      LoopSet set;
      if (n->kind() == ExprKind::kIndex) set.set(size_t(n->index()));
      if (IsTable(*n)) {
        for (int loop : (*input_.tables)[TableOf(*n)]) set.set(size_t(loop));
      }
      for (const Expr& o : n->operands()) set |= *deps_.Find(o.get());
      deps_.Set(n, set);
    }
    alive_.push_back(e);
    return *deps_.Find(e.get());
  }
  bool Uniform(const Expr& e) { return lane_ < 0 || !Deps(e).test(size_t(lane_)); }

  /// The form of an index whose atoms are loops and uniform values; false where it has to be
  /// computed per lane.
  bool AffineAt(const Expr& index, Affine* out, Exprs* atoms) {
    const IndexForm f = FormOf(index);
    if (!f.constant.is_const()) return false;
    for (const auto& [atom, c] : f.terms) {
      if (!c.is_const() || (atom->kind() != ExprKind::kIndex && !Uniform(atom))) return false;
    }
    out->constant = f.constant.value();
    for (const auto& [atom, c] : f.terms) {
      if (atom->kind() == ExprKind::kIndex) {
        out->loops.emplace_back(atom->index(), c.value());
        if (atom->index() == lane_) out->lane_step = c.value();
        continue;
      }
      atoms->push_back(atom);
      const int* reg = registers_.Find(atom.get());
      out->registers.emplace_back(reg ? *reg : -1, c.value());
    }
    return true;
  }

  Exprs Needs(const Expr& e) {
    if (e->kind() != ExprKind::kLoad) return e->operands();
    Exprs needs;
    for (int d = 0; d < e->num_indices(); ++d) {
      Affine a;
      if (!AffineAt(e->operand(d), &a, &needs)) needs.push_back(e->operand(d));
    }
    if (e->has_guard()) needs.push_back(e->operands().back());
    return needs;
  }

  int Register(const Expr& e) { return *registers_.Find(e.get()); }

  void Emit(const Expr& e) {
    Instr in;
    in.kind = e->kind();
    in.dtype = e->dtype();
    in.uniform = Uniform(e);
    in.dst = plan_->num_registers++;
    switch (e->kind()) {
      case ExprKind::kConst:
        WEFT_ICHECK(!e->is_literal(), "literal without a type");
        in.value = IsFloat(e->dtype()) ? e->const_value() : 0;
        in.bits = IsFloat(e->dtype()) ? 0 : e->const_int();
        break;
      case ExprKind::kIndex:
        in.source = e->index();
        break;
      case ExprKind::kLoad:
        EmitLoad(e, &in);
        break;
      case ExprKind::kVariable: {
        WEFT_ICHECK(IsTable(*e), "free variable {}", e->name());
        in.kind = ExprKind::kLoad;
        in.source = input_.first_table + int(TableOf(*e));
        for (int loop : (*input_.tables)[TableOf(*e)]) {
          Affine a;
          a.loops.emplace_back(loop, 1);
          a.lane_step = loop == lane_;
          in.at.push_back(a);
          in.index.push_back(-1);
          in.index_uniform.push_back(0);
        }
        break;
      }
      case ExprKind::kUnary:
        in.op = uint8_t(e->un_op());
        break;
      case ExprKind::kBinary:
        in.op = uint8_t(e->bin_op());
        break;
      case ExprKind::kCall:
        in.op = uint8_t(e->call());
        break;
      case ExprKind::kSelect:
      case ExprKind::kCast:
      case ExprKind::kBitcast:
      case ExprKind::kFma:
      case ExprKind::kPhilox:
        break;
      default:
        WEFT_ICHECK(false, "the interpreter met an expression of kind {}", int(e->kind()));
    }
    if (e->kind() != ExprKind::kLoad) {
      for (size_t i = 0; i < e->operands().size(); ++i) {
        in.in[i] = Register(e->operands()[i]);
        in.in_uniform[i] = Uniform(e->operands()[i]);
      }
      if (!e->operands().empty()) in.from = e->operands().back()->dtype();
    }
    registers_.Set(e.get(), in.dst);
    alive_.push_back(e);
    const bool inside = (Deps(e) & input_.inner_loops).any();
    (inside ? plan_->inner : plan_->outer).push_back(std::move(in));
  }

  void EmitLoad(const Expr& e, Instr* in) {
    in->source = e->buffer();
    const std::vector<int64_t>& dims = (*input_.sources)[size_t(e->buffer())].dims;
    WEFT_ICHECK(int(dims.size()) == e->num_indices(), "{} indices for input {} of rank {}",
                e->num_indices(), e->buffer(), dims.size());
    // Of neighbouring lanes; modulo 2^64, for it is an estimate of cost.
    uint64_t stride = 1, step = 0;
    bool gathers = false;
    for (int d = e->num_indices() - 1; d >= 0; --d) {
      Affine a;
      Exprs atoms;
      const bool affine = AffineAt(e->operand(d), &a, &atoms);
      step += uint64_t(a.lane_step) * stride;
      stride *= uint64_t(dims[size_t(d)]);
      gathers |= !affine;
      in->at.insert(in->at.begin(), std::move(a));
      in->index.insert(in->index.begin(), affine ? -1 : Register(e->operand(d)));
      in->index_uniform.insert(in->index_uniform.begin(), char(Uniform(e->operand(d))));
    }
    plan_->strided_loads += gathers || step > 1;
    if (e->has_guard()) {
      in->guard = Register(e->operands().back());
      in->guard_uniform = Uniform(e->operands().back());
    }
  }

  Plan* plan_;
  const int lane_;
  const CompileInput& input_;
  ExprMap<int> registers_;
  ExprMap<LoopSet> deps_;
  Exprs alive_;
};

}  // namespace

Plan CompilePlan(const Expr& e, int lane_loop, const CompileInput& input) {
  WEFT_CHECK(input.num_loops <= kMaxLoops, kLimit, "{} loops, more than {}", input.num_loops,
             kMaxLoops);
  Plan plan;
  Compiler(&plan, lane_loop, input).Compile(e);
  return plan;
}

LoopSet LoopsOf(const Expr& e, const std::vector<std::vector<int>>& tables) {
  LoopSet set;
  for (const ExprNode* n : PostOrder({e})) {
    if (n->kind() == ExprKind::kIndex) set.set(size_t(n->index()));
    if (!IsTable(*n)) continue;
    for (int loop : tables[TableOf(*n)]) set.set(size_t(loop));
  }
  return set;
}

}  // namespace weft::interp
