/// reference_program.cc: the program of backends without generated kernels: the Evaluator, node by node.
#include <cstring>

#include "program_impl.h"
#include "weft/core/evaluator.h"
#include "weft/core/op.h"
#include "weft/core/op_attr_types.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class ReferenceProgram final : public Program {
 public:
  explicit ReferenceProgram(Graph graph) {
    const Evaluator* e = GetEvaluator();
    WEFT_CHECK(e, kUnsupported, "no evaluator is registered");
    std::string bad;
    for (NodePtr p : graph.AllInputs())
      if (const AttrValue* type = p->attrs.dict.find("type"))
        bad += fmt::format("\n  {}: values of type {} are not run yet", p->Describe(),
                           type->get<std::string>());
    for (NodePtr n : graph.TopoOrder()) {
      if (n->is_variable()) continue;
      ++stats_.interpreted;
      if (Op::GetAttr<FMutateInputs>("FMutateInputs").find(n->op()))
        bad +=
            fmt::format("\n  {}: operators that write their inputs are not run by this backend yet",
                        n->Describe());
      if (const std::string why = e->WhyNot(n); !why.empty())
        bad += fmt::format("\n  {}: {}", n->Describe(), why);
    }
    WEFT_CHECK(bad.empty(), kUnsupported, "the reference backend cannot run these nodes:{}", bad);
    graph_ = std::move(graph);
  }

 protected:
  std::unique_ptr<State> NewState() const override { return std::make_unique<State>(); }
  void Run(State&, const std::vector<TensorPtr>& inputs,
           std::vector<std::shared_ptr<Tensor>>* outputs) const override {
    std::vector<TensorPtr> results = GetEvaluator()->Eval(graph_, inputs);
    for (size_t i = 0; i < results.size(); ++i) {
      // A result that is an input or a parameter is not the caller's to write: it gets a copy.
      const bool own = results[i].use_count() == 1;
      (*outputs)[i] = own ? std::const_pointer_cast<Tensor>(results[i]) : OwnCopy(*results[i]);
    }
  }
};

}  // namespace

std::shared_ptr<Tensor> OwnCopy(const Tensor& t) {
  auto copy = std::make_shared<Tensor>(t.dtype(), t.dims());
  if (t.dtype() == DType::kString)
    copy->mutable_strings() = t.strings();
  else if (t.num_bytes() > 0)
    std::memcpy(copy->mutable_data(), t.data(), size_t(t.num_bytes()));
  return copy;
}

std::shared_ptr<Program> MakeReferenceProgram(Graph graph) {
  return std::make_shared<ReferenceProgram>(std::move(graph));
}

}  // namespace weft
