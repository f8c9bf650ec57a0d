/// parts.cc: form multi: several computations side by side that share one launch.
///
/// A part is lowered by itself; equal parts share a kernel. Element-wise parts whose operands are
/// all dense over the part's points, or one element, forget their shapes: they become one kernel
/// over d0 points. So the update of four hundred parameters of different ranks and extents is one
/// kernel and a table of four hundred rows.
///
/// A part of one element does not tell which of its operands are one element for every part (a
/// learning rate) and which are as large as the part. It takes the kernel of a larger part
/// that computes the same.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "nest.h"
#include "weft/codegen/lower/lower.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// One part, its inputs numbered by first use.
struct Part {
  ComputeSpec spec;
  std::vector<int> operands;  ///< of the launch: for each input, then for each output
};

Part TakePart(const ComputeSpec& all, size_t first_output, size_t outputs) {
  Part part;
  for (size_t k = first_output; k < first_output + outputs; ++k) {
    part.spec.outputs.push_back(all.outputs[k]);
    part.spec.values.push_back(all.values[k]);
  }
  std::map<int, int> number;
  for (const ExprNode* n : PostOrder(part.spec.values)) {
    if (n->kind() != ExprKind::kLoad) continue;
    if (!number.emplace(n->buffer(), int(number.size())).second) continue;
    part.spec.inputs.push_back(all.inputs[size_t(n->buffer())]);
    part.operands.push_back(n->buffer());
  }
  for (Expr& value : part.spec.values)
    value = RewriteExpr(value, [&](const Expr& e) -> Expr {
      if (e->kind() != ExprKind::kLoad) return {};
      Indices at(e->operands().begin(), e->operands().begin() + e->num_indices());
      return Expr::Load(number.at(e->buffer()), e->dtype(), std::move(at),
                        e->has_guard() ? e->operands().back() : Expr());
    });
  for (size_t k = first_output; k < first_output + outputs; ++k)
    part.operands.push_back(int(all.inputs.size() + k));
  return part;
}

/// An element-wise part without its shape.
struct FlatForm {
  Exprs values;             ///< over variables, one an input
  std::vector<bool> dense;  ///< the input has an element a point; else it has one element
  std::vector<DType> inputs, outputs;
  SymInt points;

  bool SameWork(const FlatForm& o) const {
    return values == o.values && inputs == o.inputs && outputs == o.outputs;
  }
};

std::string InputName(int buffer) { return "in" + std::to_string(buffer); }

enum class Walk { kDense, kOne, kOther };

Walk WalkOf(const ExprNode& load, const std::vector<SymInt>& dims,
            const std::vector<SymInt>& points) {
  if (load.has_guard()) return Walk::kOther;
  int next = 0;
  for (int d = 0; d < load.num_indices(); ++d) {
    if (dims[size_t(d)].is(1)) continue;
    const Expr& at = load.operand(d);
    if (at->kind() != ExprKind::kIndex || at->index() != next || size_t(next) >= points.size() ||
        dims[size_t(d)] != points[size_t(next)])
      return Walk::kOther;
    ++next;
  }
  if (next == 0) return Walk::kOne;
  return size_t(next) == points.size() ? Walk::kDense : Walk::kOther;
}

std::optional<FlatForm> Flatten(const ComputeSpec& original, const Facts& facts) {
  const ComputeSpec spec = NormalizeSpec(original, facts);
  const std::vector<SymInt>& points = spec.outputs[0].dims;
  FlatForm form;
  for (const TensorSpec& t : spec.outputs) {
    if (t.dims != points) return {};
    form.outputs.push_back(t.dtype);
  }
  for (const TensorSpec& t : spec.inputs) form.inputs.push_back(t.dtype);
  form.dense.assign(spec.inputs.size(), false);
  form.points = Product(points);
  bool flat = true;
  for (const Expr& value : spec.values)
    form.values.push_back(RewriteExpr(value, [&](const Expr& e) -> Expr {
      if (e->kind() != ExprKind::kLoad) return {};
      const Walk walk = WalkOf(*e, spec.inputs[size_t(e->buffer())].dims, points);
      flat = flat && walk != Walk::kOther;
      form.dense[size_t(e->buffer())] = walk == Walk::kDense;
      return Expr::Variable(InputName(e->buffer()), e->dtype());
    }));
  // What is left may not know where it is.
  for (const ExprNode* n : PostOrder(form.values))
    flat = flat && n->kind() != ExprKind::kIndex && n->kind() != ExprKind::kReduce &&
           n->kind() != ExprKind::kDim;
  return flat ? std::optional(std::move(form)) : std::nullopt;
}

/// Numbers the inputs by what is done with them: expressions order the operands of a sum by hash,
/// so the order of first use depends on the numbers that the inputs had.
void OrderInputs(FlatForm* form, std::vector<int>* operands) {
  const size_t n = form->inputs.size();
  const auto with_names = [&](const std::function<std::string(size_t)>& name) {
    std::map<std::string, std::string> to;
    for (size_t i = 0; i < n; ++i) to[InputName(int(i))] = name(i);
    Exprs values;
    for (const Expr& value : form->values)
      values.push_back(RewriteExpr(value, [&](const Expr& e) {
        return e->kind() == ExprKind::kVariable ? Expr::Variable(to.at(e->name()), e->dtype())
                                                : Expr();
      }));
    return values;
  };
  std::vector<std::pair<std::vector<Hash128>, size_t>> order;
  for (size_t marked = 0; marked < n; ++marked) {
    order.push_back({{}, marked});
    for (const Expr& value : with_names([&](size_t i) { return i == marked ? "this" : "other"; }))
      order.back().first.push_back(value->hash());
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> place(n);
  for (size_t i = 0; i < n; ++i) place[order[i].second] = i;
  form->values = with_names([&](size_t i) { return InputName(int(place[i])); });
  FlatForm before = *form;
  const std::vector<int> old = *operands;
  for (size_t i = 0; i < n; ++i) {
    form->inputs[place[i]] = before.inputs[i];
    form->dense[place[i]] = before.dense[i];
    (*operands)[place[i]] = old[i];
  }
}

KernelPtr LowerFlat(const FlatForm& form) {
  const SymInt points = SymInt::Symbol("points");
  ComputeSpec spec;
  for (size_t i = 0; i < form.inputs.size(); ++i)
    spec.inputs.push_back(
        {form.inputs[i], form.dense[i] ? std::vector<SymInt>{points} : std::vector<SymInt>{}});
  for (DType t : form.outputs) spec.outputs.push_back({t, {points}});
  std::map<std::string, Expr> load;
  for (size_t i = 0; i < form.inputs.size(); ++i)
    load[InputName(int(i))] =
        Expr::Load(int(i), form.inputs[i], form.dense[i] ? Indices{Expr::Index(0)} : Indices{});
  for (const Expr& value : form.values)
    spec.values.push_back(RewriteExpr(value, [&](const Expr& e) {
      return e->kind() == ExprKind::kVariable ? load.at(e->name()) : Expr();
    }));
  return LowerKernel(spec, Facts()).kernel;
}

class PartLowerer {
 public:
  PartLowerer(const Facts& facts, LoweredKernel* out) : facts_(facts), out_(out) {}

  void Run(const std::vector<Part>& parts) {
    std::vector<std::optional<FlatForm>> forms;
    for (const Part& p : parts) forms.push_back(Flatten(p.spec, facts_));
    out_->parts.resize(parts.size());
    std::vector<std::vector<SymInt>> symbols(parts.size());
    // Larger parts first: they tell what the operands of the others are.
    for (const bool single : {false, true})
      for (size_t i = 0; i < parts.size(); ++i) {
        if ((forms[i] && forms[i]->points.is(1)) != single) continue;
        KernelPart& part = out_->parts[i];
        part.operands = parts[i].operands;
        if (forms[i]) {
          OrderInputs(&*forms[i], &part.operands);
          part.kernel = FlatKernel(*forms[i]);
          if (part.kernel->num_symbols > 0) symbols[i] = {forms[i]->points};
        } else {
          LoweredKernel lowered = LowerKernel(parts[i].spec, facts_);
          part.kernel = Known(lowered.kernel);
          symbols[i] = std::move(lowered.symbols);
        }
      }
    for (size_t i = 0; i < parts.size(); ++i) {
      out_->parts[i].first_symbol = int(out_->symbols.size());
      out_->symbols.insert(out_->symbols.end(), symbols[i].begin(), symbols[i].end());
    }
    out_->kernel = out_->parts[0].kernel;
  }

 private:
  KernelPtr FlatKernel(const FlatForm& form) {
    for (const auto& [known, kernel] : flat_)
      if (known.SameWork(form) && (known.dense == form.dense || form.points.is(1))) return kernel;
    flat_.emplace_back(form, Known(LowerFlat(form)));
    return flat_.back().second;
  }
  KernelPtr Known(const KernelPtr& kernel) {
    return known_.emplace(kernel->CanonicalText(), kernel).first->second;
  }

  const Facts& facts_;
  LoweredKernel* out_;
  std::vector<std::pair<FlatForm, KernelPtr>> flat_;
  std::map<std::string, KernelPtr> known_;
};

/// Some part reads what another one writes, or two write the same: their order would matter.
bool PartsInterfere(const std::vector<Part>& parts, size_t inputs,
                    const std::vector<std::pair<int, int>>& written) {
  std::map<int, size_t> part_of;  // of outputs, as operands
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t k = parts[i].spec.inputs.size(); k < parts[i].operands.size(); ++k)
      part_of[parts[i].operands[k]] = i;
  std::map<int, size_t> writer;  // of inputs
  for (auto [input, output] : written)
    if (output >= 0 && !writer.emplace(input, part_of.at(int(inputs) + output)).second) return true;
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t k = 0; k < parts[i].spec.inputs.size(); ++k)
      if (auto it = writer.find(parts[i].operands[k]); it != writer.end() && it->second != i)
        return true;
  return false;
}

/// `parts` with a new one wherever the outputs of one go on in another space.
std::vector<int64_t> PartBySpace(const ComputeSpec& normal, const std::vector<int64_t>& parts) {
  std::vector<int64_t> apart;
  size_t k = 0;
  for (const int64_t n : parts)
    for (int64_t i = 0; i < n && k < normal.outputs.size(); ++i, ++k)
      if (i > 0 && normal.outputs[k].dims == normal.outputs[k - 1].dims)
        ++apart.back();
      else
        apart.push_back(1);
  return apart;
}

}  // namespace

std::vector<KernelPtr> LoweredKernel::Kernels() const {
  if (parts.empty()) return {kernel};
  std::vector<KernelPtr> distinct;
  for (const KernelPart& p : parts)
    if (std::find(distinct.begin(), distinct.end(), p.kernel) == distinct.end())
      distinct.push_back(p.kernel);
  return distinct;
}

LoweredKernel LowerSpaces(const ComputeSpec& spec, const std::vector<int64_t>& parts,
                          const std::vector<std::pair<int, int>>& written, const Facts& facts) {
  // Tried rather than told beforehand. Outputs of unequal extents have a common space where one is
  // a row of the other, and whether a reduction over that row is left is known only when all is
  // simplified, which is what lowering begins with. It refuses before it makes anything else, and
  // seldom: for what simplifying took a reduction out of.
  try {
    return LowerParts(spec, parts, written, facts);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    const std::vector<int64_t> apart = PartBySpace(NormalizeSpec(spec, facts), parts);
    if (apart == parts) throw;
    return LowerParts(spec, apart, written, facts);
  }
}

LoweredKernel LowerParts(const ComputeSpec& spec, const std::vector<int64_t>& parts,
                         const std::vector<std::pair<int, int>>& written, const Facts& facts) {
  WEFT_ICHECK(spec.values.size() == spec.outputs.size(), "{} values for {} outputs",
              spec.values.size(), spec.outputs.size());
  size_t next = 0;
  std::vector<Part> taken;
  for (int64_t n : parts) {
    if (n < 1 || uint64_t(n) > spec.outputs.size() - next) return LowerKernel(spec, facts);
    taken.push_back(TakePart(spec, next, size_t(n)));
    next += size_t(n);
  }
  if (taken.size() < 2 || next != spec.outputs.size() ||
      PartsInterfere(taken, spec.inputs.size(), written))
    return LowerKernel(spec, facts);
  LoweredKernel out;
  PartLowerer(facts, &out).Run(taken);
  // One range flag for all parts that have one: the operand behind all others.
  const int flag = int(spec.inputs.size() + spec.outputs.size());
  for (KernelPart& p : out.parts)
    if (p.kernel->has_flag()) p.operands.push_back(flag);
  return out;
}

}  // namespace weft
