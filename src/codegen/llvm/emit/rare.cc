/// rare.cc: what is computed only where a lane asks for it, such as the sine of a huge number.
///
/// In a branch that is laid out apart, and there one lane after the other: the code is short, and
/// lanes that did not ask cost nothing. Before the branch stand the condition, the usual choice,
/// and all that both choices share.
#include <llvm/IR/MDBuilder.h>

#include "emitter.h"
#include "weft/support/check.h"

namespace weft::llvmgen {

llvm::Value* Emitter::EmitRareLane(const Expr& e, llvm::Value* lane) {
  scopes_.back()->rare = true;
  scopes_.back()->has_lanes = true;
  scopes_.back()->lanes = Lanes{};
  // What is known already is known of all lanes.
  std::vector<const ExprNode*> stack{e.get()};
  ExprMap<char> seen;
  while (!stack.empty()) {
    const ExprNode* n = stack.back();
    stack.pop_back();
    if (!seen.Set(n, 1)) continue;
    if (llvm::Value* known = Lookup(n)) {
      if (known->getType()->isVectorTy())
        scopes_.back()->memo.Set(n, ir_.CreateExtractElement(known, lane));
      continue;
    }
    WEFT_ICHECK(n->kind() != ExprKind::kLoad && n->kind() != ExprKind::kReduce,
                "a rare choice reads what the usual one does not");
    for (const Expr& o : n->operands()) stack.push_back(o.get());
  }
  return Get(e);
}

llvm::Value* Emitter::Joined(std::pair<llvm::Value*, llvm::BasicBlock*> a,
                             std::pair<llvm::Value*, llvm::BasicBlock*> b) {
  const llvm::IRBuilder<>::InsertPointGuard guard(ir_);
  llvm::BasicBlock* exit = ir_.GetInsertBlock();
  ir_.SetInsertPoint(exit, exit->begin());
  llvm::PHINode* phi = ir_.CreatePHI(a.first->getType(), 2);
  phi->addIncoming(a.first, a.second);
  phi->addIncoming(b.first, b.second);
  return phi;
}

llvm::Value* Emitter::EmitRareChoice(const ExprNode& n, int count) {
  llvm::Value *cond = GetLanes(n.operand(0), count), *usual = GetLanes(n.operand(2), count);
  // As one number: to fold a mask by halves takes a dozen instructions.
  llvm::Value* any =
      count > 1 ? ir_.CreateIsNotNull(ir_.CreateBitCast(cond, ir_.getIntNTy(unsigned(count))))
                : cond;
  llvm::BasicBlock* before = ir_.GetInsertBlock();
  llvm::Value* rare = nullptr;
  llvm::BasicBlock *rare_end = nullptr, *usual_end = nullptr;
  const auto compute = [&] {
    if (count == 1) {
      rare = EmitRareLane(n.operand(1), nullptr);
    } else {
      LoopSpec lanes;
      lanes.lo = Int(0), lanes.hi = Int(count);
      lanes.maybe_empty = false;
      rare = Loop(lanes, {usual}, [&](llvm::Value* lane, const Values& carried) -> Values {
        llvm::Value* value = EmitRareLane(n.operand(1), lane);
        value = ir_.CreateSelect(ir_.CreateExtractElement(cond, lane), value,
                                 ir_.CreateExtractElement(usual, lane));
        return {ir_.CreateInsertElement(carried[0], value, lane)};
      })[0];
    }
    rare_end = ir_.GetInsertBlock();
  };
  If(any, compute, [&] { usual_end = ir_.GetInsertBlock(); });
  before->getTerminator()->setMetadata(llvm::LLVMContext::MD_prof,
                                       llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20));
  return Joined({rare, rare_end}, {usual, usual_end});
}

}  // namespace weft::llvmgen
