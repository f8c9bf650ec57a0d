/// layout_groups.cc: which operands of a computation had better lie alike, read off its index maps.
///
/// Loops are known by number: those of output k, and the variables of every reduction below it,
/// each time it is met. An operand has channel loops (its index along axis 1 depends on them) and
/// spatial loops (along axes 2 and up). Two operands agree when they share a loop and no channel
/// loop of one is a spatial loop of the other:
///   Add        y[a, b, c, d] = x[a, b, c, d] + ..                   agree
///   MaxPool    y[a, b, c, d] = max over k, l of x[a, b, 2c+k, 2d+l]     agree
///   SumTo      y[b] = sum over i, j, k of x[i, b, j, k] * z[i, b, j, k]   x and z agree
///   Transpose  y[a, b, c, d] = x[a, c, d, b]                        do not
#include <algorithm>
#include <map>
#include <numeric>

#include "codegen/expr/expr_pool.h"
#include "weft/codegen/layouts/layouts.h"

namespace weft {
namespace {

using Loops = std::vector<int>;  // sorted, distinct

void AddLoops(Loops* to, const Loops& more) {
  to->insert(to->end(), more.begin(), more.end());
  std::sort(to->begin(), to->end());
  to->erase(std::unique(to->begin(), to->end()), to->end());
}
bool Share(const Loops& a, const Loops& b) {
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    if (a[i] == b[k]) return true;
    ++(a[i] < b[k] ? i : k);
  }
  return false;
}

/// How one operand is walked through below one output: the loops that each of its axes depends on.
struct Walk {
  int operand;
  std::vector<Loops> axes;

  Loops Channel() const { return axes[1]; }
  Loops Spatial() const {
    Loops all;
    for (size_t d = 2; d < axes.size(); ++d) AddLoops(&all, axes[d]);
    return all;
  }
  bool Mixes() const { return Share(Channel(), Spatial()); }
  bool Agrees(const Walk& o) const {
    const Loops c = Channel(), s = Spatial(), oc = o.Channel(), os = o.Spatial();
    return !Share(c, os) && !Share(s, oc) && (Share(c, oc) || Share(s, os));
  }
  size_t NumLoops() const {
    Loops all;
    for (const Loops& a : axes) AddLoops(&all, a);
    return all.size();
  }
};

/// Everything that is read for one output.
class OutputWalks {
 public:
  OutputWalks(const ComputeSpec& spec, size_t k) : spec_(spec) {
    out_.operand = int(spec.inputs.size() + k);
    const int rank = int(spec.outputs[k].dims.size());
    for (int d = 0; d < rank; ++d) out_.axes.push_back({d});
    num_loops_ = first_reduced_ = rank;
    todo_.push_back(spec.values[k]);
    for (size_t done = 0; done < todo_.size(); ++done) Look(Expr(todo_[done]));
  }
  const Walk& out() const { return out_; }
  const std::vector<Walk>& reads() const { return reads_; }

  /// Operands read with strides when those that `is_last` says lie with their channels last.
  template <class IsLast>
  void Strided(const IsLast& is_last, std::vector<int>* strided) const {
    const int out_axis = InnermostAxis(out_.axes.size(), is_last(out_.operand),
                                       spec_.outputs[size_t(out_.operand) - spec_.inputs.size()]);
    for (const Walk& r : reads_) {
      const bool last = is_last(r.operand);
      const int axis = InnermostAxis(r.axes.size(), last, spec_.inputs[size_t(r.operand)]);
      if (axis < 0) continue;
      const Loops& inner = r.axes[size_t(axis)];
      // A reduction may be what runs innermost.
      if (!inner.empty() && inner.back() >= first_reduced_) continue;
      const bool walks = out_axis >= 0 && std::any_of(r.axes.begin(), r.axes.end(), [&](auto& a) {
                           return Share(a, {out_axis});
                         });
      if ((walks && !Share(inner, {out_axis})) || (last && r.axes.size() >= 3 && r.Mixes()))
        strided->push_back(r.operand);
    }
  }

 private:
  /// -1 where there is none of more than one element.
  static int InnermostAxis(size_t rank, bool last, const TensorSpec& t) {
    if (last && rank >= 3 && !t.dims[1].is(1)) return 1;
    for (int d = int(rank) - 1; d >= 0; --d)
      if (!t.dims[size_t(d)].is(1)) return d;
    return -1;
  }
  void Look(const Expr& e) {
    const Expr flat = ReplaceReduces(e, [&](const Expr& reduce) {
      if (!seen_.Contains(reduce.get())) {
        seen_.Set(reduce.get(), 1);
        Indices at;
        for (size_t i = 0; i < reduce->extents().size(); ++i)
          at.push_back(Expr::Index(num_loops_++));
        todo_.push_back(ReduceBody(reduce, at));
      }
      return Expr::Variable("reduced", reduce->dtype());
    });
    for (const ExprNode* n : PostOrder({flat})) {
      if (n->kind() != ExprKind::kLoad) continue;
      Walk w{n->buffer(), {}};
      for (int d = 0; d < n->num_indices(); ++d) {
        Loops loops;
        for (const ExprNode* x : PostOrder({n->operand(d)}))
          if (x->kind() == ExprKind::kIndex) AddLoops(&loops, {x->index()});
        w.axes.push_back(std::move(loops));
      }
      reads_.push_back(std::move(w));
    }
  }

  const ComputeSpec& spec_;
  Walk out_;
  std::vector<Walk> reads_;
  Exprs todo_;
  ExprMap<char> seen_;
  int num_loops_ = 0, first_reduced_ = 0;
};

class Grouper {
 public:
  Grouper(const ComputeSpec& spec, bool side_by_side)
      : spec_(spec),
        inputs_(spec.inputs.size()),
        parent_(inputs_ + spec.outputs.size()),
        mixes_(parent_.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (size_t k = 0; k < spec.outputs.size(); ++k) outputs_.emplace_back(spec, k);
    for (const OutputWalks& o : outputs_)
      for (const Walk& r : o.reads())
        if (r.axes.size() >= 3 && r.Mixes()) mixes_[size_t(r.operand)] = true;
    for (const OutputWalks& o : outputs_) JoinBelow(o);
    if (side_by_side) return;
    // Outputs of one shape are written by the same loops.
    for (size_t k = 1; k < spec.outputs.size(); ++k)
      for (size_t i = 0; i < k; ++i)
        if (spec.outputs[i].dims == spec.outputs[k].dims) {
          Join(int(inputs_ + i), int(inputs_ + k));
          break;
        }
  }

  std::vector<LayoutGroup> Run() {
    std::map<int, size_t> number;
    std::vector<LayoutGroup> groups;
    for (size_t operand = 0; operand < parent_.size(); ++operand) {
      if (Rank(operand) < 3) continue;
      const auto [it, fresh] = number.emplace(Find(int(operand)), groups.size());
      if (fresh) groups.emplace_back();
      groups[it->second].operands.push_back(int(operand));
    }
    for (const OutputWalks& o : outputs_) {
      std::vector<int> touched;
      const auto touch = [&](const Walk& w) {
        if (w.axes.size() >= 3) AddLoops(&touched, {int(number.at(Find(w.operand)))});
      };
      touch(o.out());
      for (const Walk& r : o.reads()) touch(r);
      for (int g : touched) {
        LayoutGroup& group = groups[size_t(g)];
        o.Strided([](int) { return false; }, &group.strided_plain);
        const int root = Find(group.operands[0]);
        o.Strided([&](int operand) { return Find(operand) == root; }, &group.strided_last);
      }
    }
    return groups;
  }

 private:
  size_t Rank(size_t operand) const {
    return (operand < inputs_ ? spec_.inputs[operand] : spec_.outputs[operand - inputs_])
        .dims.size();
  }
  int Find(int i) {
    while (parent_[size_t(i)] != i) i = parent_[size_t(i)] = parent_[size_t(parent_[size_t(i)])];
    return i;
  }
  void Join(int a, int b) { parent_[size_t(Find(b))] = Find(a); }
  /// Joins what agrees with the output or, where that has no channels, with the widest operand.
  void JoinBelow(const OutputWalks& o) {
    const Walk* leader = o.out().axes.size() >= 3 ? &o.out() : nullptr;
    if (!leader)
      for (const Walk& r : o.reads())
        if (r.axes.size() >= 3 && !mixes_[size_t(r.operand)] &&
            (!leader || r.NumLoops() > leader->NumLoops()))
          leader = &r;
    if (!leader) return;
    // An operand that is read in two ways agrees with both or stays apart.
    std::map<int, bool> agrees;
    for (const Walk& r : o.reads()) {
      if (r.axes.size() < 3) continue;
      const bool a = !mixes_[size_t(r.operand)] && (&r == leader || r.Agrees(*leader));
      const auto it = agrees.emplace(r.operand, a).first;
      it->second &= a;
    }
    for (const auto& [operand, a] : agrees)
      if (a) Join(leader->operand, operand);
  }

  const ComputeSpec& spec_;
  const size_t inputs_;
  std::vector<int> parent_;
  std::vector<bool> mixes_;
  std::vector<OutputWalks> outputs_;
};

}  // namespace

std::vector<LayoutGroup> LayoutGroups(const ComputeSpec& spec, bool side_by_side) {
  return Grouper(spec, side_by_side).Run();
}

}  // namespace weft
