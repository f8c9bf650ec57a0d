/// binding.cc: one small host program computes every size and extent; then offsets are
/// planned and primitives made.
#include "binding.h"

#include <algorithm>
#include <set>

#include "kernel_call.h"
#include "step_cost.h"
#include "weft/runtime/backend/packing_call.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/log.h"
#include "weft/support/mapped_file.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Sums and products of the symbols of the program: they mean the same modulo 2^64.
bool IsPolynomial(SymInt e) {
  struct Visitor : SymVisitor {
    bool polynomial = true;
    void Const(int64_t) override {}
    void Sym(SymInt) override {}
    void Op(char op) override { polynomial = polynomial && (op == '+' || op == '-' || op == '*'); }
  } visitor;
  VisitPostfix(e, visitor);
  return visitor.polynomial;
}

/// Does the step's call, if it has one, look at its input `i`?
bool Reads(const PreparedCall* call, size_t i) {
  const auto* packs = dynamic_cast<const PackingCall*>(call);
  return !packs || packs->reads(i);
}

}  // namespace

Binder::Binder(const ExecutionPlan& plan, Facts facts) : plan_(plan), facts_(std::move(facts)) {
  for (int v : plan.input_values)
    for (SymInt d : plan.values[size_t(v)].shape.dims())
      if (d.known() && d.is_symbol() &&
          std::find(symbols_.begin(), symbols_.end(), d) == symbols_.end())
        symbols_.push_back(d);
  has_caches_ = std::count(plan.grows.begin(), plan.grows.end(), true) > 0;
  program_ = std::make_unique<SymProgram>(symbols_);
  std::set<std::string> free;
  auto add = [&](SymInt e, const std::string& who) {
    for (SymInt s : e.Symbols())
      if (std::find(symbols_.begin(), symbols_.end(), s) == symbols_.end())
        free.insert(fmt::format("{} (in {})", s.ToString(), who));
    if (!free.empty()) return -1;
    const int slot = program_->Add(e);
    results_.push_back(e);
    may_wrap_.push_back(0);
    return slot;
  };
  for (const Value& v : plan.values) {
    std::vector<int> slots;
    for (SymInt d : v.shape.dims()) slots.push_back(d.known() ? add(d, "a shape") : -1);
    value_slots_.push_back(slots);
  }
  for (const Storage& s : plan.storages)
    storage_slots_.push_back(
        s.bytes.known() && s.kind == StorageKind::kArena ? add(s.bytes, "a size") : -1);
  const auto known = [&](SymInt e) {
    const std::vector<SymInt> needed = e.Symbols();
    return std::all_of(needed.begin(), needed.end(), [&](SymInt s) {
      return std::find(symbols_.begin(), symbols_.end(), s) != symbols_.end();
    });
  };
  // They wrap only where the tensors are empty, and are not asked for there.
  const auto of_part = [&](SymInt e) {
    const int slot = known(e) ? add(e, "a part") : -1;
    if (slot >= 0) may_wrap_.back() = 1;
    return slot;
  };
  for (const ExecutionPlan::Part& p : plan.parts) {
    const int before = of_part(p.bytes_before);
    part_slots_.emplace_back(before, of_part(p.rows));
  }
  for (const Step& s : plan.steps) {
    kernel_slots_.emplace_back();
    for (SymInt e : s.symbols) kernel_slots_.back().push_back(add(e, s.name));
    if (s.kind == StepKind::kShapeValue)
      shape_steps_[s.outputs[0]] = size_t(&s - plan.steps.data());
    shape_slots_.emplace_back();
    for (SymInt e : s.elements) {
      shape_slots_.back().push_back(add(e, s.name));
      if (free.empty()) may_wrap_.back() = char(IsPolynomial(e));
    }
  }
  WEFT_CHECK(free.empty(), kUnsupported, "sizes depend on symbols that no input determines: {}",
             Join({free.begin(), free.end()}, ", "));
}

template <class Text>
void Binder::Require(bool ok, size_t input, Text text) const {
  if (ok) return;
  ThrowError(input < plan_.num_fed() ? ErrorCode::kBadInput : ErrorCode::kBadBinding, text());
}

std::vector<int64_t> Binder::Solve(const std::vector<TensorPtr>& inputs) const {
  std::vector<int64_t> values(symbols_.size(), -1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& want = plan_.values[size_t(plan_.input_values[i])].shape;
    if (!want.has_rank()) continue;
    for (int d = 0; d < want.rank(); ++d) {
      auto it = std::find(symbols_.begin(), symbols_.end(), want[d]);
      if (it == symbols_.end()) continue;
      int64_t& v = values[size_t(it - symbols_.begin())];
      const int64_t got = inputs[i]->dims()[size_t(d)];
      Require(v < 0 || v == got, i, [&] {
        return fmt::format("the dimension '{}' is {} in {} and {} in {}", want[d].ToString(), v,
                           NameOf(FirstWith(want[d])), got, NameOf(i));
      });
      v = got;
    }
  }
  return values;
}

void Binder::AddBounds(const FrameBounds& bounds, std::vector<int64_t>* key) const {
  bool any = false;
  for (SymInt s : symbols_)
    if (const auto it = bounds.most.find(s); it != bounds.most.end()) {
      key->push_back(it->second);
      any = true;
    }
  if (any) key->push_back(bounds.bytes);
}

void Binder::Lay(const FrameBounds* bounds, Backend& backend, const CallOptions& options,
                 const Binding* before, Binding* b) const {
  if (has_caches_ && before && !bounds) {
    const auto fits = [](const std::vector<int64_t>& now, const std::vector<int64_t>& room) {
      return std::equal(now.begin(), now.end(), room.begin(), room.end(),
                        [](int64_t n, int64_t r) { return n <= r; });
    };
    if (before->sizes.parts.empty() && fits(b->sizes.blocks, before->sizes.blocks) &&
        fits(b->sizes.scratch, before->sizes.scratch)) {
      b->sizes = before->sizes;
      b->arena = before->arena;
      return;
    }
    const auto grow = [](std::vector<int64_t>* now, const std::vector<int64_t>& past) {
      for (size_t k = 0; k < now->size(); ++k)
        if ((*now)[k] != past[k]) (*now)[k] = CheckedAdd((*now)[k], (*now)[k] / 2 + kArenaAlign);
    };
    grow(&b->sizes.blocks, before->sizes.blocks);
    grow(&b->sizes.scratch, before->sizes.scratch);
    // Places in other blocks are those of one size: nothing lies in another one.
    b->sizes.parts.clear();
    b->arena = LayArena(plan_, b->sizes);
    return;
  }
  SymBindings known = b->symbols;
  if (bounds)
    for (SymInt s : symbols_)
      if (bounds->most.count(s)) known.erase(s.symbol_name());
  if (known.size() != b->symbols.size()) {
    try {
      SizeBounds sizes(facts_, known);
      for (SymInt s : symbols_)
        if (const auto it = bounds->most.find(s); it != bounds->most.end())
          sizes.SetMost(s, it->second);
      std::vector<int64_t> most = b->sizes.blocks;
      bool fits = true, at_most = false;
      for (size_t k = 0; k < most.size() && fits; ++k) {
        if (storage_slots_[k] < 0) continue;
        const int64_t now = most[k];
        most[k] = sizes.Most(plan_.storages[k].bytes, &at_most);
        fits = most[k] >= now && most[k] <= bounds->bytes;
      }
      if (fits) {
        std::vector<int64_t> scratch =
            ScratchAt([&](SymInt e) { return sizes.Most(e, &at_most); }, backend, options);
        for (size_t k = 0; k < scratch.size(); ++k)
          scratch[k] = std::max(scratch[k], b->sizes.scratch[k]);
        // Places in other blocks are those of the sizes now: nothing lies in another one.
        ArenaSizes at_most_sizes{std::move(most), std::move(scratch), {}};
        ArenaLayout frame = LayArena(plan_, at_most_sizes);
        if (frame.arena_bytes <= bounds->bytes) {
          b->arena = std::move(frame);
          b->sizes = std::move(at_most_sizes);
          return;
        }
      }
    } catch (const UserError&) {
      // What is more than 64 bits at the most is laid out as it comes.
    }
  }
  b->arena = LayOut(b->sizes);
}

ArenaLayout Binder::LayOut(const ArenaSizes& sizes) const {
  {
    const std::lock_guard lock(mutex_);
    if (last_layout_ && last_sizes_ == sizes) return *last_layout_;
  }
  ArenaLayout layout = LayArena(plan_, sizes);
  const std::lock_guard lock(mutex_);
  last_sizes_ = sizes;
  last_layout_ = layout;
  return layout;
}

std::vector<int64_t> Binder::ScratchAt(const Most& most, Backend& backend,
                                       const CallOptions& options) const {
  std::vector<int64_t> scratch(plan_.steps.size(), 0);
  Binding at;
  std::vector<char> used(plan_.values.size(), 0);  // by a library
  for (const Step& s : plan_.steps)
    for (const auto* values : {&s.inputs, &s.outputs})
      for (int v : *values)
        if (s.kind == StepKind::kLibrary && v >= 0) used[size_t(v)] = 1;
  for (size_t v = 0; v < plan_.values.size(); ++v) {
    at.dims.emplace_back();
    for (SymInt d : plan_.values[v].shape.dims()) {
      const int64_t size = used[v] && d.known() ? most(d) : -1;
      WEFT_CHECK(size < SizeBounds::kNone, kUnsupported,
                 "data decide the size {} of what a library call takes, and nothing bounds it",
                 d.ToString());
      at.dims.back().push_back(size);
    }
  }
  for (const Step& s : plan_.steps) {
    at.shape_values.emplace_back();
    if (s.kind != StepKind::kShapeValue || !used[size_t(s.outputs[0])]) continue;
    for (SymInt e : s.elements) at.shape_values.back().push_back(most(e));
  }
  for (size_t k = 0; k < plan_.steps.size(); ++k) {
    const Step& step = plan_.steps[k];
    if (step.kind != StepKind::kLibrary) continue;
    RequestScope::Poll();
    const auto call =
        MakeCall(step, RequestOf(step, at, backend.threads(), {}), backend, options, nullptr);
    if (call) scratch[k] = call->scratch_bytes();
  }
  return scratch;
}

void Binder::CheckInputs(const Binding& b, const std::vector<TensorPtr>& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t v = size_t(plan_.input_values[i]);
    if (!plan_.values[v].shape.has_rank()) continue;
    const auto &want = b.dims[v], &got = inputs[i]->dims();
    Require(want.size() == got.size(), i, [&] {
      return fmt::format("{} has rank {}, expected shape {}", NameOf(i), got.size(),
                         plan_.values[v].shape.ToString());
    });
    for (size_t d = 0; d < want.size(); ++d)
      Require(want[d] < 0 || want[d] == got[d], i, [&] {
        return fmt::format("{} has size {} on axis {}, expected {} = {}", NameOf(i), got[d], d,
                           plan_.values[v].shape[int(d)].ToString(), want[d]);
      });
  }
}

std::string Binder::NameOf(size_t input) const {
  const size_t fed = plan_.num_fed();
  return input < fed ? fmt::format("input '{}'", plan_.fed[input])
                     : fmt::format("variable '{}'", plan_.variables[input - fed]);
}

size_t Binder::FirstWith(SymInt dim) const {
  for (size_t i = 0; i < plan_.input_values.size(); ++i)
    for (SymInt d : plan_.values[size_t(plan_.input_values[i])].shape.dims())
      if (d == dim) return i;
  return 0;
}

const Step* Binder::FirstBelow(const Binding& b, int64_t least) const {
  for (const Step& step : plan_.steps)
    for (int v : step.outputs)
      for (size_t d = 0; v >= 0 && d < b.dims[size_t(v)].size(); ++d)
        if (value_slots_[size_t(v)][d] >= 0 && b.dims[size_t(v)][d] < least) return &step;
  return nullptr;
}

TensorPtr Binder::ConstantOf(int v, const Binding& b) const {
  if (v < 0) return nullptr;
  const auto it = shape_steps_.find(v);
  if (it == shape_steps_.end()) return plan_.values[size_t(v)].constant;
  auto t = std::make_shared<Tensor>(plan_.values[size_t(v)].dtype, b.dims[size_t(v)]);
  for (int64_t i = 0; i < t->num_elements(); ++i)
    t->set_int(i, b.shape_values[it->second][size_t(i)]);
  return t;
}

ComputeRequest Binder::RequestOf(const Step& step, const Binding& b, int threads,
                                 const std::map<int, TensorPtr>& known) const {
  ComputeRequest q;
  q.node = step.anchored ? step.anchored->anchor : step.node;
  q.threads = threads;
  const auto dims = [&](int v) { return v < 0 ? std::vector<int64_t>() : b.dims[size_t(v)]; };
  static const Value absent;
  const auto value = [&](int v) -> const Value& {
    return v < 0 ? absent : plan_.values[size_t(v)];
  };
  const auto known_of = [&](int v) {
    const auto it = known.find(v);
    return it == known.end() ? nullptr : it->second;
  };
  for (size_t i = 0; i < (step.anchored ? q.node->num_inputs() : step.inputs.size()); ++i) {
    const int v = step.inputs[i];
    q.input_dims.push_back(dims(v));
    q.input_types.push_back(value(v).dtype);
    TensorPtr in_it = known_of(v);
    q.constants.push_back(in_it ? std::move(in_it) : ConstantOf(v, b));
    q.input_layouts.push_back(value(v).layout);
  }
  for (int v : step.outputs) {
    q.output_dims.push_back(dims(v));
    q.output_types.push_back(value(v).dtype);
    q.output_layouts.push_back(value(v).layout);
  }
  if (!step.anchored) return q;
  for (const EpilogueStep& s : step.anchored->steps) {
    const int v = s.operand < 0 ? -1 : step.inputs[size_t(s.operand)];
    TensorPtr in_it = known_of(v);
    q.epilogue.push_back({s.node, s.slot, s.operand, dims(v), value(v).dtype, value(v).layout,
                          in_it ? std::move(in_it) : value(v).constant});
  }
  return q;
}

std::unique_ptr<PreparedCall> Binder::Prepare(const Step& step, const Binding& b, Backend& backend,
                                              const CallOptions& options,
                                              const std::map<int, TensorPtr>& known) const {
  ComputeRequest request = RequestOf(step, b, backend.threads(), known);
  request.options = options;
  request.backend = &backend;
  return backend.Prepare(step.compute, request);
}

std::unique_ptr<PreparedCall> Binder::MakeCall(const Step& step, ComputeRequest request,
                                               Backend& backend, const CallOptions& options,
                                               int* failed) const {
  request.options = options;
  request.backend = &backend;
  std::unique_ptr<PreparedCall> made = backend.Prepare(step.compute, request);
  return made ? std::move(made) : MakeKernelCall(request, backend, failed);
}

std::vector<int64_t> Binder::Sizes(const std::vector<int64_t>& symbols) const {
  std::vector<int64_t> r(size_t(program_->num_results()));
  std::vector<char> left;
  if (program_->RunModulo(symbols.data(), r.data(), &left)) return r;
  for (size_t k = 0; k < r.size(); ++k)
    WEFT_CHECK(!left[k] || may_wrap_[k], kOverflow,
               "a size overflows 64 bits at these dimensions: {}", results_[k].ToString());
  return r;
}

std::shared_ptr<const Binding> Binder::Bind(const std::vector<int64_t>& symbols,
                                            const std::vector<TensorPtr>& inputs,
                                            const FrameBounds* bounds, Backend& backend,
                                            const CallOptions& options,
                                            const Binding* before) const {
  // Those of a device are its own, and what was refused is reported.
  if (before && (backend.device() || before->kernels_failed > 0)) before = nullptr;
  auto b = std::make_shared<Binding>();
  for (size_t i = 0; i < symbols_.size(); ++i) b->symbols[symbols_[i].symbol_name()] = symbols[i];
  const std::vector<int64_t> r = Sizes(symbols);
  for (const auto& slots : value_slots_) {
    b->dims.emplace_back();
    for (int s : slots) {
      const int64_t d = s < 0 ? -1 : r[size_t(s)];
      b->dims.back().push_back(d);
    }
  }
  CheckInputs(*b, inputs);
  try {
    facts_.CheckHolds(b->symbols);
  } catch (Error& e) {
    // What does not fit leaves nothing, or less: the first such result tells whose demand it was.
    if (const Step* step = FirstBelow(*b, 1)) e.AddPlace(step->node->Describe());
    throw;
  }
  const Step* negative = FirstBelow(*b, 0);
  for (size_t v = 0; v < b->dims.size(); ++v)
    for (size_t d = 0; d < b->dims[v].size(); ++d)
      if (value_slots_[v][d] >= 0 && b->dims[v][d] < 0)
        ThrowError(ErrorCode::kShapeMismatch,
                   fmt::format("a tensor of the shape {} would have the negative dimension {}",
                               plan_.values[v].shape.ToString(), b->dims[v][d]),
                   negative ? negative->node->Describe() : "");
  for (const Step& step : plan_.steps) {
    for (int v : step.outputs) {
      try {
        RequestScope::CheckTensor(
            DTypeBytes(plan_.values[size_t(v)].dtype, NumElements(b->dims[size_t(v)])));
      } catch (Error& e) {
        e.AddPlace(step.node->Describe());
        throw;
      }
    }
  }
  for (int slot : storage_slots_) b->sizes.blocks.push_back(slot < 0 ? 0 : r[size_t(slot)]);
  for (auto [before, rows] : part_slots_)
    b->sizes.parts.push_back(
        before < 0 || rows < 0 ? PartPlace() : PartPlace{r[size_t(before)], r[size_t(rows)] == 1});
  for (size_t k = 0; k < plan_.steps.size(); ++k) {
    const Step& step = plan_.steps[k];
    b->kernel_dims.emplace_back();
    for (int s : kernel_slots_[k]) b->kernel_dims.back().push_back(r[size_t(s)]);
    b->shape_values.emplace_back();
    for (int s : shape_slots_[k]) b->shape_values.back().push_back(r[size_t(s)]);
    RequestScope::Poll();
    std::shared_ptr<PreparedCall> call;
    if (step.kind == StepKind::kLibrary && before && before->calls[k] && SameCall(k, *before, *b)) {
      call = before->calls[k];
    } else if (step.kind == StepKind::kLibrary) {
      std::unique_ptr<PreparedCall> made = MakeCall(
          step, RequestOf(step, *b, backend.threads(), {}), backend, options, &b->kernels_failed);
      if (backend.device())
        call = AsDeviceCall(std::move(made));
      else
        call = AsLibraryCall(std::move(made));
      if (!call)
        WEFT_LOG(kWarning,
                 "{} is not supported by the library for these dimensions and types, and no kernel "
                 "is generated for it; it runs in the interpreter",
                 step.node->Describe());
    }
    Release(step, call.get());
    b->calls.push_back(call);
    b->sizes.scratch.push_back(call ? call->scratch_bytes() : 0);
  }
  FindReleased(b.get());
  Lay(bounds, backend, options, before, b.get());
  for (size_t k = 0; k < plan_.steps.size(); ++k)  // what bodies move is theirs
    if (plan_.steps[k].kind != StepKind::kBodies && !b->arena.left_out[k])
      b->bytes_moved += BytesOf(plan_.steps[k], plan_, *b);
  return b;
}

bool Binder::SameCall(size_t k, const Binding& a, const Binding& b) const {
  const Step& step = plan_.steps[k];
  const auto same = [&](int v) {
    if (v < 0) return true;
    if (a.dims[size_t(v)] != b.dims[size_t(v)]) return false;
    const auto told = shape_steps_.find(v);
    return told == shape_steps_.end() ||
           a.shape_values[told->second] == b.shape_values[told->second];
  };
  return std::all_of(step.inputs.begin(), step.inputs.end(), same) &&
         std::all_of(step.outputs.begin(), step.outputs.end(), same);
}

void Binder::Release(const Step& step, const PreparedCall* call) const {
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const int v = step.inputs[i];
    const TensorPtr constant = v < 0 ? nullptr : plan_.values[size_t(v)].constant;
    if (constant && constant->on_host() && !Reads(call, i))
      ReleaseMapped(constant->data(), constant->num_bytes());
  }
}

void Binder::FindReleased(Binding* b) const {
  std::vector<bool> taken(plan_.storages.size()), looked_at(plan_.storages.size());
  const auto storage = [&](int v) { return size_t(plan_.values[size_t(v)].storage); };
  for (size_t k = 0; k < plan_.steps.size(); ++k) {
    const Step& step = plan_.steps[k];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] < 0) continue;
      taken[storage(step.inputs[i])] = true;
      if (Reads(b->calls[k].get(), i)) looked_at[storage(step.inputs[i])] = true;
    }
    for (const auto& commit : step.commits) looked_at[storage(commit.first)] = true;
  }
  for (const int v : plan_.output_values) looked_at[storage(v)] = true;
  for (const Value& v : plan_.values)
    b->released.push_back(v.constant && v.constant->on_host() && taken[size_t(v.storage)] &&
                          !looked_at[size_t(v.storage)] &&
                          ReleaseMapped(v.constant->data(), v.constant->num_bytes()));
}

}  // namespace weft
