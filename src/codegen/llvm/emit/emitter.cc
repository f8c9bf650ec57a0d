/// emitter.cc: the frame of a kernel, its loops and scopes, and where every expression is emitted.
#include "emitter.h"

#include <algorithm>

#include "weft/support/check.h"

namespace weft::llvmgen {

Emitter::Emitter(const Kernel& kernel, const CpuTarget& target, llvm::Module& module,
                 ExtentNames& names)
    : kernel_(kernel),
      target_(target),
      module_(module),
      names_(names),
      context_(module.getContext()),
      ir_(context_) {
  WEFT_CHECK(int(kernel.dims.size()) < kRowBit, kLimit,
             "a kernel of {} loops; fewer than {} are generated", kernel.dims.size(), int{kRowBit});
}

void Emitter::Begin(const std::string& suffix) {
  auto* ptr = llvm::PointerType::get(context_, 0);
  auto* type = llvm::FunctionType::get(ir_.getVoidTy(),
                                       {ptr, ptr, ir_.getInt64Ty(), ir_.getInt64Ty(), ptr}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel_.Name() + suffix,
                                     module_);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  function_->addFnAttr("target-cpu", target_.cpu);
  if (!target_.features.empty()) function_->addFnAttr("target-features", target_.features);
  // Without this the type legaliser of some AVX-512 server CPUs splits 512-bit vectors.
  function_->addFnAttr("prefer-vector-width", std::to_string(target_.vector_bits));
  function_->addFnAttr("min-legal-vector-width", std::to_string(target_.vector_bits));
  buffers_ = function_->getArg(0);
  dims_ = function_->getArg(1);
  begin_ = function_->getArg(2);
  end_ = function_->getArg(3);
  scratch_ = function_->getArg(4);

  auto* entry = llvm::BasicBlock::Create(context_, "entry", function_);
  auto* work = llvm::BasicBlock::Create(context_, "work", function_);
  auto* done = llvm::BasicBlock::Create(context_, "done", function_);
  ir_.SetInsertPoint(entry);
  ir_.CreateCondBr(ir_.CreateICmpSLT(begin_, end_), work, done);
  ir_.SetInsertPoint(done);
  ir_.CreateRetVoid();
  ir_.SetInsertPoint(work);
  ir_.SetInsertPoint(ir_.CreateBr(done));
  scopes_.push_back(std::make_unique<Scope>());
}

const Expr& Emitter::Keep(Expr e) {
  kept_.push_back(std::move(e));
  return kept_.back();
}

void Emitter::MoveScopes(const llvm::Instruction* rest, llvm::Instruction* branch) {
  for (const auto& s : scopes_)
    if (s->ip == rest) s->ip = branch;
  scopes_.back()->ip = branch;
}

Values Emitter::Loop(const LoopSpec& spec, const Values& init, const Body& body) {
  llvm::Instruction* rest = &*ir_.GetInsertPoint();
  llvm::BasicBlock* before = rest->getParent();
  llvm::BasicBlock* exit = before->splitBasicBlock(rest->getIterator(), "exit");
  llvm::Instruction* old = before->getTerminator();
  const bool barrier = spec.barrier && spec.maybe_empty;
  auto* loop = llvm::BasicBlock::Create(context_, "loop", function_, exit);

  ir_.SetInsertPoint(old);
  llvm::Instruction* guard;
  if (spec.maybe_empty) {
    auto* head = llvm::BasicBlock::Create(context_, "head", function_, loop);
    guard = ir_.CreateCondBr(ir_.CreateICmpSLT(spec.lo, spec.hi), head, exit);
    ir_.SetInsertPoint(head);
    auto* enter = ir_.CreateBr(loop);
    MoveScopes(rest, guard);
    if (barrier) {
      scopes_.push_back(std::make_unique<Scope>());
      scopes_.back()->barrier = true;
      scopes_.back()->ip = enter;
    }
    before = head;
  } else {
    guard = ir_.CreateBr(loop);
    MoveScopes(rest, guard);
  }
  old->eraseFromParent();

  ir_.SetInsertPoint(loop);
  llvm::PHINode* iv = ir_.CreatePHI(ir_.getInt64Ty(), 2);
  iv->addIncoming(spec.lo, before);
  Values carried;
  for (llvm::Value* v : init) {
    llvm::PHINode* phi = ir_.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, before);
    carried.push_back(phi);
  }
  auto* next = ir_.CreateAdd(iv, Int(spec.step));
  auto* again = ir_.CreateCondBr(ir_.CreateICmpSLT(next, spec.hi), loop, exit);
  iv->addIncoming(next, loop);

  scopes_.push_back(std::make_unique<Scope>());
  if (spec.bit >= 0) Define(spec.bit, iv);
  ir_.SetInsertPoint(llvm::cast<llvm::Instruction>(next));
  Values out = body(iv, carried);
  WEFT_ICHECK(out.size() == carried.size(), "a loop carries {} values in and {} out",
              carried.size(), out.size());
  for (size_t i = 0; i < out.size(); ++i)
    llvm::cast<llvm::PHINode>(carried[i])->addIncoming(out[i], again->getParent());
  scopes_.pop_back();
  if (barrier) scopes_.pop_back();

  if (spec.maybe_empty) {
    ir_.SetInsertPoint(exit, exit->begin());
    for (size_t i = 0; i < out.size(); ++i) {
      llvm::PHINode* phi = ir_.CreatePHI(init[i]->getType(), 2);
      phi->addIncoming(init[i], guard->getParent());
      phi->addIncoming(out[i], again->getParent());
      out[i] = phi;
    }
  }
  ir_.SetInsertPoint(rest);
  return out;
}

Values Emitter::Unrolled(int bit, llvm::Value* value, const std::function<Values()>& body) {
  // The code around goes on at the same place, so that both are in order.
  scopes_.back()->ip = &*ir_.GetInsertPoint();
  scopes_.push_back(std::make_unique<Scope>());
  Define(bit, value);
  Values out = body();
  scopes_.pop_back();
  return out;
}

void Emitter::If(llvm::Value* cond, const std::function<void()>& then,
                 const std::function<void()>& otherwise, bool barrier) {
  llvm::Instruction* rest = &*ir_.GetInsertPoint();
  llvm::BasicBlock* before = rest->getParent();
  llvm::BasicBlock* exit = before->splitBasicBlock(rest->getIterator(), "exit");
  llvm::Instruction* old = before->getTerminator();
  llvm::BasicBlock* blocks[2];
  for (auto& block : blocks) {
    block = llvm::BasicBlock::Create(context_, "branch", function_, exit);
    llvm::BranchInst::Create(exit, block);
  }
  ir_.SetInsertPoint(old);
  MoveScopes(rest, ir_.CreateCondBr(cond, blocks[0], blocks[1]));
  old->eraseFromParent();
  for (int i = 0; i < 2; ++i) {
    ir_.SetInsertPoint(blocks[i]->getTerminator());
    scopes_.push_back(std::make_unique<Scope>());
    scopes_.back()->barrier = barrier;
    (i == 0 ? then : otherwise)();
    scopes_.pop_back();
  }
  ir_.SetInsertPoint(rest);
}

void Emitter::SetLanes(const Lanes& lanes) {
  Scope& scope = *scopes_.back();
  scope.has_lanes = true;
  scope.lanes = lanes;
  scope.defines |= uint64_t{1} << IndexBit(lanes.loop);
}

const Lanes* Emitter::lanes() const {
  for (auto it = scopes_.rbegin(); it != scopes_.rend(); ++it) {
    if ((*it)->has_lanes) return &(*it)->lanes;
  }
  return nullptr;
}

void Emitter::Define(int bit, llvm::Value* value) {
  scopes_.back()->variables.emplace_back(bit, value);
  scopes_.back()->defines |= uint64_t{1} << bit;
}

void Emitter::Preset(const Expr& e, llvm::Value* value) {
  scopes_.back()->memo.Set(e.get(), value);
}

llvm::Value* Emitter::Variable(int bit) const {
  for (auto it = scopes_.rbegin(); it != scopes_.rend(); ++it) {
    for (const auto& [b, value] : (*it)->variables) {
      if (b == bit) return value;
    }
  }
  WEFT_ICHECK(false, "loop variable {} outside of its loop", bit);
}

int Emitter::ScopeOf(const NodeInfo& info) const {
  uint64_t defined = 0;
  int found = -1;
  for (int i = 0; i < int(scopes_.size()); ++i) {
    defined |= scopes_[size_t(i)]->defines;
    if (found < 0 && (info.deps & ~defined) == 0)
      found = i;
    else if (found >= 0 &&
             ((info.has_load && scopes_[size_t(i)]->barrier) || scopes_[size_t(i)]->rare))
      found = i;
  }
  WEFT_ICHECK(found >= 0, "an expression uses a loop variable outside of its loop");
  return found;
}

llvm::Value* Emitter::Lookup(const ExprNode* n) {
  for (int i = int(scopes_.size()) - 1; i >= 0; --i) {
    if (llvm::Value** v = scopes_[size_t(i)]->memo.Find(n)) return *v;
  }
  return nullptr;
}

llvm::Value* Emitter::InScope(int scope, const std::function<llvm::Value*()>& f) {
  if (scope + 1 == int(scopes_.size())) return f();
  std::vector<std::unique_ptr<Scope>> inner;
  for (size_t i = size_t(scope) + 1; i < scopes_.size(); ++i)
    inner.push_back(std::move(scopes_[i]));
  scopes_.resize(size_t(scope) + 1);
  llvm::Instruction* here = &*ir_.GetInsertPoint();
  llvm::Instruction* ip = scopes_.back()->ip;
  ir_.SetInsertPoint(ip);
  llvm::Value* v = f();
  scopes_.back()->ip = ip;
  ir_.SetInsertPoint(here);
  for (auto& s : inner) scopes_.push_back(std::move(s));
  return v;
}

llvm::Value* Emitter::Get(const Expr& root) {
  Info(root);
  std::vector<const Expr*> stack{&root};
  while (!stack.empty()) {
    const Expr& e = *stack.back();
    const ExprNode* n = e.get();
    if (Lookup(n)) {
      stack.pop_back();
      continue;
    }
    // The offset of a load is emitted with the load (lane 0 only, where possible), a body inside
    // its loop.
    const size_t before = stack.size();
    const bool leaf = n->kind() == ExprKind::kReduce || tables_.Contains(n);
    const size_t parts = leaf ? 0 : IsLoadOrConstant(*n) ? 1 : n->operands().size();
    for (size_t i = parts; i-- > 0;) {
      if ((n->kind() == ExprKind::kLoad && i == 0) || (i == 1 && IsRareChoice(*n))) continue;
      if (!Lookup(n->operands()[i].get())) stack.push_back(&n->operands()[i]);
    }
    if (stack.size() != before) continue;
    const int scope = ScopeOf(**info_.Find(n));
    llvm::Value* v = InScope(scope, [&] { return EmitNode(e); });
    scopes_[size_t(scope)]->memo.Set(n, v);
    stack.pop_back();
  }
  return Lookup(root.get());
}

llvm::Value* Emitter::GetLanes(const Expr& e, int count) {
  llvm::Value* v = Get(e);
  if (count == 1 || v->getType()->isVectorTy()) return v;
  if (auto* c = llvm::dyn_cast<llvm::Constant>(v)) return Splat(c, count);
  const int scope = ScopeOf(Info(e));
  auto key = std::pair(e.get(), count);
  for (int i = int(scopes_.size()) - 1; i >= scope; --i) {
    const auto it = scopes_[size_t(i)]->splats.find(key);
    if (it != scopes_[size_t(i)]->splats.end()) return it->second;
  }
  // A preset value lives in an inner scope than its expression would.
  int home = scope;
  for (int i = scope; i < int(scopes_.size()); ++i) {
    if (llvm::Value** known = scopes_[size_t(i)]->memo.Find(e.get()); known && *known == v)
      home = i;
  }
  llvm::Value* wide = InScope(home, [&] { return Splat(v, count); });
  scopes_[size_t(home)]->splats.emplace(key, wide);
  return wide;
}

llvm::Value* Emitter::FmaOperand(const Expr& e, int count) {
  llvm::Value* v = GetLanes(e, count);
  auto* c = llvm::dyn_cast<llvm::Constant>(v);
  if (!c || !c->getType()->isFPOrFPVectorTy() || c->isNullValue()) return v;
  const int native = target_.vector_bits / int(c->getType()->getScalarSizeInBits());
  if (count % native != 0) return v;
  // For every constant of an FMA the instruction selector builds its negative, lane by lane, to see
  // whether that is cheaper: half of its time on a polynomial. A value from another block is opaque
  // to it. The register allocator reads it again where registers run out.
  llvm::Value*& known = constant_values_[c];
  if (known) return known;
  known = InScope(0, [&]() -> llvm::Value* {
    llvm::Constant* splat =
        count == native ? c
                        : llvm::ConstantVector::getSplat(
                              llvm::ElementCount::getFixed(unsigned(native)), c->getSplatValue());
    llvm::Value*& one = constant_values_[splat];
    if (!one) {
      auto* memory = new llvm::GlobalVariable(module_, splat->getType(), true,
                                              llvm::GlobalValue::PrivateLinkage, splat, "constant");
      const llvm::Align align{uint64_t(target_.vector_bits / 8)};
      memory->setAlignment(align);
      memory->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
      auto* load = ir_.CreateAlignedLoad(splat->getType(), memory, align);
      load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
      one = load;
    }
    if (count == native) return one;
    std::vector<int> lanes(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) lanes[size_t(i)] = i % native;
    return ir_.CreateShuffleVector(one, lanes);
  });
  return known;
}

llvm::Value* Emitter::EmitNode(const Expr& e) {
  const ExprNode& n = *e;
  if (const Table* table = tables_.Find(&n)) return ReadTable(n, *table);
  const int count = lanes() ? lanes()->count : 1;
  const auto lanes_of = [&](std::initializer_list<int> operands) {
    for (int i : operands) {
      if (Get(n.operand(i))->getType()->isVectorTy()) return count;
    }
    return 1;
  };
  switch (n.kind()) {
    case ExprKind::kConst:
      return EmitConst(n);
    case ExprKind::kDim:
      return Dim(n.dim());
    case ExprKind::kIndex:
      if (const Lanes* l = lanes(); l && l->loop == n.index()) {
        if (l->count == 1) return l->base;
        return ir_.CreateAdd(Splat(l->base, l->count), Iota(l->count));
      }
      return Variable(IndexBit(n.index()));
    case ExprKind::kReduceVar:
      return Variable(ReduceBit(n.level(), n.index()));
    case ExprKind::kLoad:
      return EmitLoad(e);
    case ExprKind::kReduce:
      return EmitReduce(e);
    case ExprKind::kUnary:
      return EmitUnary(n.un_op(), n.operand(0)->dtype(), Get(n.operand(0)));
    case ExprKind::kCast:
      return EmitCast(n.operand(0)->dtype(), n.dtype(), Get(n.operand(0)));
    case ExprKind::kBitcast:
      return ir_.CreateBitCast(Get(n.operand(0)),
                               RegisterType(n.dtype(), LanesOf(Get(n.operand(0)))));
    case ExprKind::kBinary: {
      const int w = lanes_of({0, 1});
      switch (n.bin_op()) {
        case BinOp::kDiv:
        case BinOp::kMod:
        case BinOp::kFloorDiv:
        case BinOp::kFloorMod:
          if (!IsFloat(n.dtype())) return EmitIntDivision(n, w);
          break;
        default:
          break;
      }
      return EmitBinary(n.bin_op(), n.operand(0)->dtype(), GetLanes(n.operand(0), w),
                        GetLanes(n.operand(1), w));
    }
    case ExprKind::kSelect: {
      if (IsLoadOrConstant(n))
        return EmitLoadOr(*n.operand(1), Get(n.operand(0)),
                          llvm::cast<llvm::Constant>(EmitConst(*n.operand(2))));
      if (IsRareChoice(n)) return EmitRareChoice(n, lanes_of({0, 2}));
      const int w = lanes_of({0, 1, 2});
      return ir_.CreateSelect(GetLanes(n.operand(0), w), GetLanes(n.operand(1), w),
                              GetLanes(n.operand(2), w));
    }
    case ExprKind::kFma: {
      const int w = lanes_of({0, 1, 2});
      llvm::Value* args[] = {FmaOperand(n.operand(0), w), FmaOperand(n.operand(1), w),
                             FmaOperand(n.operand(2), w)};
      return ir_.CreateIntrinsic(llvm::Intrinsic::fma, {args[0]->getType()}, args);
    }
    case ExprKind::kPhilox: {
      const int w = lanes_of({0, 1});
      return EmitPhilox(GetLanes(n.operand(0), w), GetLanes(n.operand(1), w));
    }
    case ExprKind::kCall:
    case ExprKind::kVariable:
      break;
  }
  WEFT_ICHECK(false, "expression kind {} in a kernel", int(n.kind()));
}

llvm::Value* Emitter::EmitIntDivision(const ExprNode& n, int w) {
  const NodeInfo &a = Info(n.operand(0)), &b = Info(n.operand(1));
  llvm::Value *x = GetLanes(n.operand(0), w), *y = GetLanes(n.operand(1), w);
  if (a.lo < 0 || b.lo < 1) return EmitBinary(n.bin_op(), n.dtype(), x, y);
  // Index arithmetic mostly: unsigned, and in 32 bits where that is enough (64-bit vectors have no
  // high product).
  const bool remainder = n.bin_op() == BinOp::kMod || n.bin_op() == BinOp::kFloorMod;
  const bool narrow = n.dtype() == DType::kI64 && a.hi <= INT32_MAX && b.hi <= INT32_MAX;
  llvm::Type* type = x->getType();
  if (narrow) {
    x = ir_.CreateTrunc(x, type->getWithNewBitWidth(32));
    y = ir_.CreateTrunc(y, type->getWithNewBitWidth(32));
  }
  llvm::Value* q = remainder ? ir_.CreateURem(x, y) : ir_.CreateUDiv(x, y);
  return narrow ? ir_.CreateZExt(q, type) : q;
}

}  // namespace weft::llvmgen
