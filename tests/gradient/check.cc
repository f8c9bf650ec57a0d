/// check.cc: reverse accumulation in sixty lines, and differences.
#include "check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/check.h"

namespace weft::gradient {

std::vector<NodeEntry> Backward(const std::vector<NodeEntry>& ys,
                                const std::vector<NodeEntry>& seeds,
                                const std::vector<NodeEntry>& xs) {
  using Key = std::pair<NodeId, uint32_t>;
  const auto key = [](const NodeEntry& e) { return Key(e.node->id(), e.index); };
  std::vector<NodePtr> order;
  std::vector<NodeEntry> heads;
  for (const NodeEntry& y : ys)
    if (y) heads.push_back(y);
  DFSVisit(heads, [&](const NodePtr& n) { order.push_back(n); });
  std::set<NodeId> active;  // depends on one of xs
  for (const NodeEntry& x : xs) active.insert(x.node->id());
  for (const NodePtr& n : order)
    for (const NodeEntry& e : n->inputs)
      if (e && active.count(e.node->id())) active.insert(n->id());
  std::map<Key, NodeEntry> grads;
  const auto add = [&](const NodeEntry& to, const NodeEntry& g) {
    NodeEntry& sum = grads[key(to)];
    sum = sum ? sum + g : g;
  };
  for (size_t k = 0; k < ys.size(); ++k)
    if (ys[k] && seeds[k]) add(ys[k], seeds[k]);
  const auto& rules = Op::GetAttr<FGradient>("FGradient");
  for (size_t i = order.size(); i-- > 0;) {
    const NodePtr n = order[i];
    if (n->is_variable() || !active.count(n->id())) continue;
    std::vector<NodeEntry> dy;
    bool any = false;
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      const auto it = grads.find({n->id(), k});
      dy.push_back(it == grads.end() ? NodeEntry() : it->second);
      any = any || dy.back();
    }
    if (!any) continue;
    const FGradient* rule = rules.find(n->op());
    WEFT_CHECK(rule, kUnsupported, "operator '{}' has no gradient", n->op()->name);
    const std::vector<NodeEntry> dx = (*rule)(n, dy);
    WEFT_CHECK(dx.size() == n->inputs.size(), kInvalidModel, "'{}': {} gradients of {} inputs",
               n->op()->name, dx.size(), n->inputs.size());
    for (size_t k = 0; k < dx.size(); ++k)
      if (dx[k] && n->inputs[k] && active.count(n->inputs[k].node->id())) add(n->inputs[k], dx[k]);
  }
  std::vector<NodeEntry> out;
  for (const NodeEntry& x : xs) {
    const auto it = grads.find(key(x));
    out.push_back(it == grads.end() ? NodeEntry() : it->second);
  }
  return out;
}

Vjp MakeVjp(const Case& c, const Tensors& ys, const std::vector<uint32_t>& seeded) {
  Vjp v;
  v.graph = c.MakeGraph();
  v.node = v.graph.outputs[0].node;
  const std::vector<size_t> slots = c.VariableSlots();
  for (size_t k = 0; k < slots.size(); ++k) {
    if (c.inputs[slots[k]]->dtype() != DType::kF64) continue;
    v.xs.push_back(v.node->inputs[slots[k]]);
    v.slots.push_back(slots[k]);
    v.variables.push_back(k);
  }
  std::vector<NodeEntry> dy(ys.size());
  for (uint32_t k = 0; k < ys.size(); ++k) {
    if (ys[k]->dtype() != DType::kF64) continue;
    if (!seeded.empty() && std::find(seeded.begin(), seeded.end(), k) == seeded.end()) continue;
    dy[k] = NodeEntry(v.graph.AddInput("dy" + std::to_string(k), DType::kF64, ys[k]->shape()));
    v.results.push_back(k);
    v.seeds.push_back(dy[k]);
  }
  const FGradient& rule = Op::GetAttr<FGradient>("FGradient")[v.node->op()];
  const std::vector<NodeEntry> dx = rule(v.node, dy);
  WEFT_CHECK(dx.size() == v.node->inputs.size(), kInvalidModel, "'{}': {} gradients of {} inputs",
             v.node->op()->name, dx.size(), v.node->inputs.size());
  for (const size_t i : v.slots) v.gradient.push_back(dx[i]);
  return v;
}

Tensors EvalGradient(Vjp& v, const Case& c, const Tensors& seeds) {
  std::vector<NodeEntry> asked;
  for (const NodeEntry& e : v.gradient)
    if (e) asked.push_back(e);
  Tensors values;
  if (!asked.empty()) {
    v.graph.outputs = asked;
    Tensors in = c.Variables();
    in.insert(in.end(), seeds.begin(), seeds.end());
    values = Eval(v.graph, in);
  }
  Tensors out;
  for (size_t k = 0, a = 0; k < v.gradient.size(); ++k) {
    const Tensor& x = *c.inputs[v.slots[k]];
    out.push_back(v.gradient[k] ? values[a++] : std::make_shared<Tensor>(DType::kF64, x.dims()));
  }
  return out;
}

Tensors RandomLike(const Tensors& like, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Tensors out;
  for (const TensorPtr& t : like) {
    auto r = std::make_shared<Tensor>(DType::kF64, t->dims());
    for (int64_t i = 0; i < r->num_elements(); ++i)
      r->set(i, 2 * (double(rng() >> 11) * 0x1p-53) - 1);
    out.push_back(std::move(r));
  }
  return out;
}

double Dot(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k)
    for (int64_t i = 0; i < a[k]->num_elements(); ++i) sum += a[k]->at(i) * b[k]->at(i);
  return sum;
}

TensorPtr Moved(const Tensor& a, double h, const Tensor& d) {
  auto t = std::make_shared<Tensor>(DType::kF64, a.dims());
  for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, a.at(i) + h * d.at(i));
  return t;
}

bool Finite(const Tensors& t) {
  for (const TensorPtr& x : t)
    for (int64_t i = 0; i < x->num_elements(); ++i)
      if (!std::isfinite(x->at(i))) return false;
  return true;
}

Difference CentralDifference(const std::function<Tensors(const Tensors&)>& f, const Tensors& x,
                             const Tensors& direction) {
  const auto at = [&](double h) {
    Tensors moved;
    for (size_t k = 0; k < x.size(); ++k) moved.push_back(Moved(*x[k], h, *direction[k]));
    return f(moved);
  };
  // The error of the difference is h^2 / 6 times the third derivative, and 1e-16 f / h. At a jump
  // or a kink of f the difference of half the step is another one, unless the kink is symmetric.
  constexpr double kStep = 2e-5;
  Difference d;
  const auto difference = [&](double h) {
    const Tensors above = at(h), below = at(-h);
    d.smooth = d.smooth && Finite(above) && Finite(below);
    Tensors out;
    for (size_t k = 0; k < above.size() && d.smooth; ++k) {
      d.smooth = above[k]->dims() == below[k]->dims();
      if (!d.smooth) break;
      auto t = std::make_shared<Tensor>(DType::kF64, above[k]->dims());
      for (int64_t i = 0; i < t->num_elements(); ++i)
        t->set(i, (above[k]->at(i) - below[k]->at(i)) / (2 * h));
      out.push_back(std::move(t));
    }
    return out;
  };
  d.value = difference(kStep);
  if (!d.smooth) return d;
  const Tensors half = difference(kStep / 2);
  for (size_t k = 0; k < half.size() && d.smooth; ++k)
    for (int64_t i = 0; i < half[k]->num_elements(); ++i) {
      const double a = d.value[k]->at(i), b = half[k]->at(i);
      if (std::fabs(a - b) > 1e-3 * (1 + std::fabs(a) + std::fabs(b))) d.smooth = false;
    }
  return d;
}

bool Near(double a, double b, double scale) {
  return std::fabs(a - b) <=
         2e-7 * std::max(1.0, scale) + 2e-6 * std::max(std::fabs(a), std::fabs(b));
}

}  // namespace weft::gradient
