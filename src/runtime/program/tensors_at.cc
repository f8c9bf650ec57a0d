#include "tensors_at.h"

#include <algorithm>

#include "weft/runtime/program/memory.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft {

std::vector<TensorPtr> TensorsAt(const Program::Impl& program, const SymBindings& bindings) {
  std::vector<TensorPtr> out;
  static char none = 0;  // nothing is read
  const std::shared_ptr<void> owner(&none, [](void*) {});
  for (const std::vector<IoSpec>* list : {&program.inputs_, &program.variables_})
    for (const IoSpec& spec : *list) {
      if (spec.number.known()) {  // as Session gives it to the program
        out.push_back(std::make_shared<Tensor>(
            DType::kBool, std::vector<int64_t>{0, Evaluate(spec.number, bindings)}));
        continue;
      }
      WEFT_CHECK(spec.kind == TypeKind::kTensor && spec.shape.has_rank(), kUnsupported,
                 "the memory of '{}', a {} of unknown rank, is not known before it is there",
                 spec.name, spec.type().ToString());
      std::vector<int64_t> dims;
      for (SymInt d : spec.shape.dims()) dims.push_back(Evaluate(d, bindings));
      if (spec.dtype == DType::kString)
        out.push_back(std::make_shared<Tensor>(spec.dtype, std::move(dims)));
      else
        out.push_back(std::make_shared<Tensor>(spec.dtype, std::move(dims), &none, owner));
    }
  return out;
}

SymBindings SymbolsOf(const Program::Impl& program, const std::vector<TensorPtr>& tensors) {
  SymBindings out;
  const size_t fed = program.inputs_.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const IoSpec& spec = i < fed ? program.inputs_[i] : program.variables_[i - fed];
    const Shape& s = spec.shape;
    for (int d = 0; s.has_rank() && d < std::min(s.rank(), tensors[i]->rank()); ++d)
      if (s[d].known() && s[d].is_symbol()) out[s[d].symbol_name()] = tensors[i]->dims()[size_t(d)];
    if (spec.number.known() && tensors[i]->rank() == 2)
      out[spec.number.symbol_name()] = tensors[i]->dims()[1];
  }
  return out;
}

MemoryReport ReportMemory(const Program& program, const SymBindings& bindings) {
  const Program::Impl& p = program.impl();
  RequestScope scope(p.limits_);
  return p.Report(TensorsAt(p, bindings));
}

}  // namespace weft
