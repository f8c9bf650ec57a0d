/// target.cc: targets ask their module once.
#include "weft/core/target.h"

#include <mutex>
#include <optional>
#include <tuple>

#include "weft/core/module/backend_module.h"
#include "weft/core/op/op.h"

namespace weft {

struct Target::State {
  std::string name, family, arch;
  std::string library;  // before `once`: empty, or what WithLibrary asked for
  std::once_flag once;
  TargetTraits traits;
  const OpMap<FCompute>* compute = nullptr;
  const OpMap<FEpilogue>* epilogue = nullptr;
  const OpMap<FLayout>* layout = nullptr;
};

std::pair<std::string, std::string> SplitTarget(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == name.npos) return {std::string(name), {}};
  return {std::string(name.substr(0, colon)), std::string(name.substr(colon + 1))};
}

Target::Target() : Target(std::string_view()) {}
Target::Target(std::string_view name) : state_(std::make_shared<State>()) {
  state_->name = name;
  std::tie(state_->family, state_->arch) = SplitTarget(name);
}
Target::Target(const char* name) : Target(std::string_view(name)) {}
Target::Target(const std::string& name) : Target(std::string_view(name)) {}

Target Target::WithLibrary(std::string library) const {
  Target t{std::string_view(name())};
  t.state_->library = std::move(library);
  return t;
}

const std::string& Target::name() const { return state_->name; }
const std::string& Target::family() const { return state_->family; }
const std::string& Target::arch() const { return state_->arch; }

const Target::State& Target::resolved() const {
  State& s = *state_;
  std::call_once(s.once, [&s] {
    if (!s.family.empty()) {
      // Which operators a library has is known once the module is there.
      const std::shared_ptr<const BackendModule> module = FindBackendModule(s.family);
      if (module) s.traits = module->traits;
      if (s.library.empty()) s.library = module ? module->library : s.family;
    }
    s.compute = &Op::GetAttr<FCompute>("FCompute." + s.library);
    s.epilogue = &Op::GetAttr<FEpilogue>("FEpilogue." + s.library);
    s.layout = &Op::GetAttr<FLayout>("FLayout." + s.library);
  });
  return s;
}

const TargetTraits& Target::traits() const { return resolved().traits; }
const std::string& Target::library() const { return resolved().library; }
const FCompute* Target::compute(const Op* op) const { return resolved().compute->find(op); }
bool Target::has_call(std::string_view op) const {
  const Op* found = Op::Find(op);
  return found && compute(found);
}
const FEpilogue* Target::epilogue(const Op* op) const { return resolved().epilogue->find(op); }
const FLayout* Target::layout(const Op* op) const { return resolved().layout->find(op); }

LayoutWish LayoutWishOf(const NodePtr& node, const Target& target, const ShapeMap& shapes,
                        const TypeMap& types) {
  const std::optional<AnchoredCall> call = AnchoredCallOf(node);
  const NodePtr& anchor = call ? call->anchor : node;
  const FLayout* f = anchor->is_variable() ? nullptr : target.layout(anchor->op());
  LayoutWish wish = f ? (*f)(anchor, types[NodeEntry(node)].dtype) : LayoutWish();
  if (!call || wish.outputs.empty()) return wish;
  for (const EpilogueStep& step : call->steps) {
    if (step.operand < 0) continue;
    const size_t i = size_t(step.operand);
    if (!shapes[node->inputs[i]].same(shapes[NodeEntry(node)])) continue;
    wish.inputs.resize(std::max(wish.inputs.size(), i + 1));
    wish.inputs[i] = wish.outputs[0];
  }
  return wish;
}

}  // namespace weft
