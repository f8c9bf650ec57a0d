/// memory.cc: loads and stores: contiguous, broadcast, strided, gathered, guarded, masked.
///
/// What an access becomes depends on its offset as a function of the vector loop: coefficient 1 is
/// a vector access, no dependence a scalar load (hoisted by its scope) that is broadcast,
/// everything else goes lane by lane or through the gather instruction.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "emitter.h"
#include "weft/codegen/lower/lower.h"

namespace weft::llvmgen {
namespace {

/// Strides up to this many elements are read by whole vectors and shuffles: as many loads as the
/// stride, against one load and one insertion a lane.
constexpr int64_t kMaxShuffledStride = 4;

}  // namespace

// ---- types ----

llvm::Type* Emitter::RegisterType(DType t, int lanes) {
  llvm::Type* s = t == DType::kBool  ? ir_.getInt1Ty()
                  : t == DType::kF64 ? ir_.getDoubleTy()
                  : IsFloat(t)       ? ir_.getFloatTy()
                                     : ir_.getIntNTy(unsigned(DTypeBits(t)));
  return lanes == 1 ? s : llvm::FixedVectorType::get(s, unsigned(lanes));
}

llvm::Type* Emitter::MemoryType(DType t, int lanes) {
  const bool by_bits = t == DType::kBool || IsNarrowFloat(t);
  llvm::Type* s = by_bits ? ir_.getIntNTy(unsigned(DTypeBits(t))) : RegisterType(t);
  return lanes == 1 ? s : llvm::FixedVectorType::get(s, unsigned(lanes));
}

int Emitter::Bytes(DType t) { return t == DType::kBool ? 1 : DTypeBits(t) / 8; }

int Emitter::LanesOf(llvm::Value* v) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return type ? int(type->getNumElements()) : 1;
}

llvm::Value* Emitter::Splat(llvm::Value* v, int lanes) {
  return lanes == 1 || v->getType()->isVectorTy() ? v : ir_.CreateVectorSplat(unsigned(lanes), v);
}

llvm::Value* Emitter::Iota(int lanes, DType t) {
  std::vector<llvm::Constant*> c;
  for (int i = 0; i < lanes; ++i) c.push_back(llvm::ConstantInt::get(RegisterType(t), uint64_t(i)));
  return llvm::ConstantVector::get(c);
}

llvm::Value* Emitter::FromMemory(DType t, llvm::Value* v) {
  const int w = LanesOf(v);
  if (t == DType::kBool) return ir_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
  switch (FormatOf(t)) {
    case FloatFormat::kF16: {
      llvm::Type* half = ir_.getHalfTy();
      if (w > 1) half = llvm::FixedVectorType::get(half, unsigned(w));
      return ir_.CreateFPExt(ir_.CreateBitCast(v, half), RegisterType(t, w));
    }
    case FloatFormat::kBF16: {
      llvm::Type* ints = RegisterType(DType::kU32, w);
      return ir_.CreateBitCast(
          ir_.CreateShl(ir_.CreateZExt(v, ints), llvm::ConstantInt::get(ints, 16)),
          RegisterType(t, w));
    }
    case FloatFormat::kF32:
    case FloatFormat::kF64:
    case FloatFormat::kNone:
      break;
  }
  return v;
}

llvm::Value* Emitter::ToMemory(DType t, llvm::Value* v) {
  const int w = LanesOf(v);
  if (t == DType::kBool) return ir_.CreateZExt(v, MemoryType(t, w));
  switch (FormatOf(t)) {
    case FloatFormat::kF16: {
      llvm::Type* half = ir_.getHalfTy();
      if (w > 1) half = llvm::FixedVectorType::get(half, unsigned(w));
      return ir_.CreateBitCast(ir_.CreateFPTrunc(v, half), MemoryType(t, w));
    }
    case FloatFormat::kBF16:
      return ir_.CreateTrunc(RoundBFloat16(v), MemoryType(t, w));
    case FloatFormat::kF32:
    case FloatFormat::kF64:
    case FloatFormat::kNone:
      break;
  }
  return v;
}

// ---- addresses ----

llvm::Value* Emitter::Buffer(int buffer) {
  llvm::Value*& v = buffer_values_[buffer];
  if (!v) {
    v = InScope(0, [&]() -> llvm::Value* {
      auto* ptr = llvm::PointerType::get(context_, 0);
      return ir_.CreateLoad(ptr, ir_.CreateGEP(ptr, buffers_, Int(buffer)));
    });
  }
  return v;
}

Expr Emitter::Coefficient(const Expr& offset, int loop) {
  const auto key = std::pair(offset.get(), loop);
  const auto it = coefficient_.find(key);
  if (it != coefficient_.end()) return it->second;
  Expr c = DependsOn(offset, loop) ? AffineCoefficient(offset, loop) : Expr::Int(0);
  // A coefficient that is 0 by cancellation would still make the offset a vector.
  if (c && c->is_const(0) && DependsOn(offset, loop)) c = Expr();
  Keep(offset);
  coefficient_[key] = c;
  return c;
}

Expr Emitter::AtZero(const Expr& offset, int loop) {
  Expr& e = at_zero_[std::pair(offset.get(), loop)];
  if (!e) {
    Indices at;
    for (int k = 0; k < int(kernel_.dims.size()); ++k)
      at.push_back(k == loop ? Expr::Int(0) : Expr::Index(k));
    e = SubstituteIndices(offset, at);
    Keep(offset);
  }
  return e;
}

bool Emitter::IsContiguous(const Expr& offset, int loop) {
  const Expr c = Coefficient(offset, loop);
  return c && c->is_const(1);
}

llvm::Value* Emitter::RowPointer(int buffer, const Expr& offset, int loop) {
  const Expr rest = AtZero(offset, loop);
  const auto key = std::pair(rest.get(), buffer);
  for (auto it = scopes_.rbegin(); it != scopes_.rend(); ++it) {
    const auto known = (*it)->pointers.find(key);
    if (known != (*it)->pointers.end()) return known->second;
  }
  const int scope = ScopeOf(Info(rest));
  llvm::Value* p = InScope(scope, [&] {
    return ir_.CreateGEP(MemoryType(kernel_.buffers[size_t(buffer)].dtype), Buffer(buffer),
                         Get(rest));
  });
  scopes_[size_t(scope)]->pointers.emplace(key, p);
  return p;
}

// ---- loads ----

llvm::Value* Emitter::ZeroAddress() {
  if (!zero_) {
    zero_ = new llvm::GlobalVariable(module_, ir_.getInt64Ty(), true,
                                     llvm::GlobalValue::PrivateLinkage, ir_.getInt64(0), "zero");
    zero_->setAlignment(llvm::Align(8));
  }
  return zero_;
}

llvm::Value* Emitter::EmitLoad(const Expr& e) {
  const ExprNode& n = *e;
  const DType t = n.dtype();
  const Expr& offset = n.operand(0);
  llvm::Type* element = MemoryType(t);
  llvm::Value* guard = n.has_guard() ? Get(n.operand(1)) : nullptr;
  const Lanes* l = lanes();
  const bool wide = l && l->count > 1 &&
                    (DependsOn(offset, l->loop) || (guard && guard->getType()->isVectorTy()));
  const llvm::Align align{uint64_t(Bytes(t))};

  if (!wide) {
    llvm::Value* p;
    if (l && l->count == 1 && IsContiguous(offset, l->loop))
      p = ir_.CreateGEP(element, RowPointer(n.buffer(), offset, l->loop), l->base);
    else
      p = ir_.CreateGEP(element, Buffer(n.buffer()), Get(offset));
    if (guard) p = ir_.CreateSelect(guard, p, ZeroAddress());
    return FromMemory(t, ir_.CreateAlignedLoad(element, p, align));
  }

  llvm::Value* mask = l->mask;
  if (guard && !guard->getType()->isVectorTy() && IsContiguous(offset, l->loop))
    return EmitLoadOr(n, guard, llvm::Constant::getNullValue(element));
  if (guard) {
    guard = Splat(guard, l->count);
    mask = mask ? ir_.CreateAnd(mask, guard) : guard;
  }
  if (!IsContiguous(offset, l->loop)) return EmitGather(n, mask);
  llvm::Type* type = MemoryType(t, l->count);
  llvm::Value* p = ir_.CreateGEP(element, RowPointer(n.buffer(), offset, l->loop), l->base);
  if (!mask) {
    if (ahead_ >= 0) EmitFetchAhead(n, p);
    return FromMemory(t, ir_.CreateAlignedLoad(type, p, align));
  }
  return FromMemory(t,
                    ir_.CreateMaskedLoad(type, p, align, mask, llvm::Constant::getNullValue(type)));
}

void Emitter::EmitFetchAhead(const ExprNode& load, llvm::Value* address) {
  constexpr int kLine = 64, kRead = 0, kAllCaches = 3, kData = 1;
  const Expr step = Coefficient(load.operand(0), ahead_);
  if (!step || step->kind() != ExprKind::kConst || step->is_const(0)) return;
  const int bytes = Bytes(load.dtype());
  for (int at = 0; at < lanes()->count * bytes; at += kLine) {
    llvm::Value* p = ir_.CreateGEP(ir_.getInt8Ty(), address, Int(step->const_int() * bytes + at));
    ir_.CreateIntrinsic(llvm::Intrinsic::prefetch, {p->getType()},
                        {p, ir_.getInt32(kRead), ir_.getInt32(kAllCaches), ir_.getInt32(kData)});
  }
}

llvm::Value* Emitter::EmitShuffledLoad(const ExprNode& n, int64_t step, bool masked) {
  const Lanes* l = lanes();
  const int w = l->count;
  const llvm::Align align{uint64_t(Bytes(n.dtype()))};
  llvm::Type* element = MemoryType(n.dtype());
  llvm::Type* type = MemoryType(n.dtype(), w);
  llvm::Value* lane0 = ir_.CreateGEP(element, RowPointer(n.buffer(), n.operand(0), l->loop),
                                     ir_.CreateMul(l->base, Int(step)));
  const auto narrow = [&](int64_t v) { return ir_.getInt32(uint32_t(v)); };
  llvm::Value* iota = Iota(w, DType::kI32);
  const auto load = [&](int64_t at) -> llvm::Value* {
    llvm::Value* p = ir_.CreateGEP(element, lane0, Int(at));
    if (!masked) return ir_.CreateAlignedLoad(type, p, align);
    // Elements from lane 0 to the last lane that exists.
    llvm::Value* left = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, l->left, narrow(w));
    llvm::Value* mask;
    if (step < 0) {
      mask = ir_.CreateICmpSGE(iota, Splat(ir_.CreateSub(narrow(w), left), w));
    } else {
      llvm::Value* last = ir_.CreateMul(ir_.CreateSub(left, narrow(1)), narrow(step));
      mask = ir_.CreateICmpSLE(iota, Splat(ir_.CreateSub(last, narrow(at)), w));
    }
    return ir_.CreateMaskedLoad(type, p, align, mask, llvm::Constant::getNullValue(type));
  };
  std::vector<int> order(static_cast<size_t>(w));
  if (step < 0) {
    for (int i = 0; i < w; ++i) order[size_t(i)] = w - 1 - i;
    return ir_.CreateShuffleVector(load(1 - w), order);
  }
  // Vectors that together cover lanes 0 .. w - 1 and not one element more: the last one overlaps
  // its neighbour.
  llvm::Value* v = nullptr;
  int64_t first_lane = 0;
  for (int64_t k = 0; k < step; ++k) {
    const int64_t start = k + 1 < step ? k * w : (w - 1) * step + 1 - w;
    const int64_t next_lane = k + 1 < step ? ((k + 1) * w + step - 1) / step : w;
    for (int64_t i = 0; i < w; ++i) {
      const bool mine = i >= first_lane && i < next_lane;
      order[size_t(i)] = mine ? int((v ? w : 0) + i * step - start) : i < first_lane ? int(i) : -1;
    }
    llvm::Value* part = load(start);
    v = v ? ir_.CreateShuffleVector(v, part, order) : ir_.CreateShuffleVector(part, order);
    first_lane = next_lane;
  }
  return v;
}

std::vector<llvm::Value*> Emitter::SharedPlaces(const ExprNode& n, const Expr& own,
                                                const Expr& shared) {
  const Lanes* l = lanes();
  const Expr guard = n.has_guard() ? n.operand(1) : Expr();
  const SymInt elements = kernel_.buffers[size_t(n.buffer())].num_elements;
  // Where no lane is read the address is that of `shared` alone.
  if (!elements.is_const() || Info(shared).lo < 0 || Info(shared).hi >= elements.value()) return {};
  const int scope = std::max(ScopeOf(Info(own)), guard ? ScopeOf(Info(guard)) : 0);
  if (scope + 1 >= int(scopes_.size()) || Info(shared).has_load) return {};
  std::vector<llvm::Value*>& places =
      scopes_[size_t(scope)]->places[std::pair(own.get(), guard.get())];
  if (!places.empty()) return places;
  InScope(scope, [&]() -> llvm::Value* {
    llvm::Value* at = GetLanes(own, l->count);
    llvm::Value* mask = l->mask;
    if (guard) {
      llvm::Value* inside = GetLanes(guard, l->count);
      mask = mask ? ir_.CreateAnd(mask, inside) : inside;
    }
    if (mask) at = ir_.CreateSelect(mask, at, llvm::Constant::getNullValue(at->getType()));
    for (int i = 0; i < l->count; ++i) places.push_back(ir_.CreateExtractElement(at, uint64_t(i)));
    return nullptr;
  });
  return places;
}

llvm::Value* Emitter::EmitGather(const ExprNode& n, llvm::Value* mask) {
  const DType t = n.dtype();
  const Lanes* l = lanes();
  const llvm::Align align{uint64_t(Bytes(t))};
  llvm::Type* element = MemoryType(t);
  llvm::Type* type = MemoryType(t, l->count);
  const Expr stride = Coefficient(n.operand(0), l->loop);
  const int64_t step = stride && stride->kind() == ExprKind::kConst ? stride->const_int() : 0;
  if (mask == l->mask && (step == -1 || (step >= 2 && step <= kMaxShuffledStride))) {
    return FromMemory(t, EmitShuffledLoad(n, step, mask != nullptr));
  }
  if (mask == l->mask && step == 0) {
    if (llvm::Value* v = EmitRepeatedLoad(n, mask != nullptr)) return FromMemory(t, v);
  }
  if (!mask && step != 0) {
    // Loads at constant displacements from one address are as fast as a gather and need no index
    // vector.
    llvm::Value* first = ir_.CreateGEP(element, RowPointer(n.buffer(), n.operand(0), l->loop),
                                       ir_.CreateMul(l->base, Get(stride)));
    llvm::Value* v = llvm::PoisonValue::get(type);
    for (int i = 0; i < l->count; ++i) {
      llvm::Value* p = ir_.CreateGEP(element, first, Int(stride->const_int() * i));
      v = ir_.CreateInsertElement(v, ir_.CreateAlignedLoad(element, p, align), uint64_t(i));
    }
    return FromMemory(t, v);
  }
  llvm::Value* base = Buffer(n.buffer());
  Expr offset = n.operand(0);
  // What all lanes share is part of the address.
  Expr own, shared;
  for (const Expr& term : TermsOf(offset)) {
    Expr& sum = DependsOn(term, l->loop) ? own : shared;
    sum = sum ? sum + term : term;
  }
  if (own && shared) {
    const std::vector<llvm::Value*> places = SharedPlaces(n, Keep(own), Keep(shared));
    if (!places.empty()) {
      base = ir_.CreateGEP(element, base, Get(shared));
      llvm::Value* v = llvm::PoisonValue::get(type);
      for (size_t i = 0; i < places.size(); ++i)
        v = ir_.CreateInsertElement(
            v, ir_.CreateAlignedLoad(element, ir_.CreateGEP(element, base, places[i]), align), i);
      if (mask) v = ir_.CreateSelect(mask, v, llvm::Constant::getNullValue(type));
      return FromMemory(t, v);
    }
    if (Info(own).lo >= 0 && Info(own).hi <= INT32_MAX) {
      base = ir_.CreateGEP(element, base, Get(shared));
      offset = own;
    }
  }
  llvm::Value* at = GetLanes(Keep(offset), l->count);
  // 32-bit offsets are sign-extended by the instruction, and half as many registers.
  if (kernel_.small_index) at = ir_.CreateTrunc(at, RegisterType(DType::kI32, l->count));
  if (target_.masks && Bytes(t) >= 4) {
    llvm::Value* p = ir_.CreateGEP(element, base, at);
    if (!mask)
      mask = llvm::Constant::getAllOnesValue(
          llvm::FixedVectorType::get(ir_.getInt1Ty(), unsigned(l->count)));
    return FromMemory(
        t, ir_.CreateMaskedGather(type, p, align, mask, llvm::Constant::getNullValue(type)));
  }
  llvm::Value* v = llvm::PoisonValue::get(type);
  for (int i = 0; i < l->count; ++i) {
    llvm::Value* p = ir_.CreateGEP(element, base, ir_.CreateExtractElement(at, uint64_t(i)));
    if (mask) p = ir_.CreateSelect(ir_.CreateExtractElement(mask, uint64_t(i)), p, ZeroAddress());
    v = ir_.CreateInsertElement(v, ir_.CreateAlignedLoad(element, p, align), uint64_t(i));
  }
  return FromMemory(t, v);
}

// ---- stores ----

llvm::Value* Emitter::StoredValue(const KernelStore& store) {
  const Lanes* l = lanes();
  const int w = l ? l->count : 1;
  const DType t = kernel_.buffers[size_t(store.buffer)].dtype;
  Expr value = store.value;
  // The store rounds; a cast before it would round twice to the same value.
  if (value->kind() == ExprKind::kCast && IsNarrowFloat(t) &&
      value->operand(0)->dtype() == DType::kF32)
    value = value->operand(0);
  return ToMemory(t, GetLanes(value, w));
}

void Emitter::EmitStore(const KernelStore& store, llvm::Value* value, bool streaming) {
  const Lanes* l = lanes();
  const DType t = kernel_.buffers[size_t(store.buffer)].dtype;
  llvm::Type* element = MemoryType(t);
  const llvm::Align align{uint64_t(Bytes(t))};
  const int w = LanesOf(value);
  if (w == 1) {
    llvm::Value* p;
    if (l && l->count == 1 && IsContiguous(store.offset, l->loop))
      p = ir_.CreateGEP(element, RowPointer(store.buffer, store.offset, l->loop), l->base);
    else
      p = ir_.CreateGEP(element, Buffer(store.buffer), Get(store.offset));
    ir_.CreateAlignedStore(value, p, align);
    return;
  }
  if (IsContiguous(store.offset, l->loop)) {
    llvm::Value* p =
        ir_.CreateGEP(element, RowPointer(store.buffer, store.offset, l->loop), l->base);
    if (l->mask) {
      ir_.CreateMaskedStore(value, p, align, l->mask);
    } else if (streaming) {
      auto* s = ir_.CreateAlignedStore(value, p, llvm::Align(uint64_t(std::min(64, w * Bytes(t)))));
      s->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(ir_.getInt32(1))));
    } else {
      ir_.CreateAlignedStore(value, p, align);
    }
    return;
  }
  llvm::Value* at = GetLanes(store.offset, w);
  if (l->mask || target_.masks) {
    llvm::Value* mask = l->mask ? l->mask
                                : llvm::Constant::getAllOnesValue(
                                      llvm::FixedVectorType::get(ir_.getInt1Ty(), unsigned(w)));
    ir_.CreateMaskedScatter(value, ir_.CreateGEP(element, Buffer(store.buffer), at), align, mask);
    return;
  }
  for (int i = 0; i < w; ++i) {
    llvm::Value* p =
        ir_.CreateGEP(element, Buffer(store.buffer), ir_.CreateExtractElement(at, uint64_t(i)));
    ir_.CreateAlignedStore(ir_.CreateExtractElement(value, uint64_t(i)), p, align);
  }
}

void Emitter::EmitFlag(const KernelStore& store) {
  const ExprNode* n = store.value.get();
  llvm::Value* raised = Get(store.value);
  // Outside of a loop that may be empty nothing was read; what needs no load stays where it is
  // asked for.
  const int inner = int(scopes_.size()) - 1;
  int scope = Info(store.value).has_load ? ScopeOf(Info(store.value)) : inner;
  // A preset value lives in an inner scope than its expression would.
  for (int i = scope; i <= inner; ++i) {
    if (llvm::Value** known = scopes_[size_t(i)]->memo.Find(n); known && *known == raised)
      scope = i;
  }
  for (int i = 0; i <= scope; ++i) {
    const auto& known = scopes_[size_t(i)]->flags;
    if (std::find(known.begin(), known.end(), n) != known.end()) return;
  }
  scopes_[size_t(scope)]->flags.push_back(n);
  InScope(scope, [&]() -> llvm::Value* {
    if (raised->getType()->isVectorTy()) {
      if (const Lanes* l = lanes(); l->mask) raised = ir_.CreateAnd(raised, l->mask);
      raised = ir_.CreateBitCast(raised, ir_.getIntNTy(unsigned(LanesOf(raised))));
    }
    // What differs has a bit in which it differs: no comparison.
    auto* compare = llvm::dyn_cast<llvm::ICmpInst>(raised);
    if (compare && compare->getPredicate() == llvm::CmpInst::ICMP_NE &&
        compare->getOperand(0)->getType()->isIntegerTy())
      raised = ir_.CreateXor(compare->getOperand(0), compare->getOperand(1));
    raised = ir_.CreateZExt(raised, ir_.getInt64Ty());
    llvm::Value* sum = FlagSum(store.buffer);
    ir_.CreateStore(ir_.CreateOr(ir_.CreateLoad(ir_.getInt64Ty(), sum), raised), sum);
    return nullptr;
  });
}

llvm::Value* Emitter::FlagSum(int buffer) {
  if (flag_sum_ && flag_function_ == function_) return flag_sum_;
  // A branch a vector would hold up the gathers behind it (measured: up to 1.3 times the time where
  // they miss the caches). So the loops collect in a word, and the end of the kernel looks at it.
  // It is one of the stack while the code is written (module.cc makes it a register).
  flag_function_ = function_;
  const llvm::IRBuilder<>::InsertPointGuard guard(ir_);
  llvm::BasicBlock& entry = function_->getEntryBlock();
  ir_.SetInsertPoint(&entry, entry.begin());
  flag_sum_ = ir_.CreateAlloca(ir_.getInt64Ty());
  ir_.CreateStore(ir_.getInt64(0), flag_sum_);
  for (llvm::BasicBlock& block : *function_) {
    auto* end = llvm::dyn_cast<llvm::ReturnInst>(block.getTerminator());
    if (!end) continue;
    llvm::BasicBlock* leave = block.splitBasicBlock(end->getIterator(), "leave");
    auto* raise = llvm::BasicBlock::Create(context_, "raise", function_);
    llvm::Instruction* old = block.getTerminator();
    ir_.SetInsertPoint(old);
    llvm::Value* any = ir_.CreateLoad(ir_.getInt64Ty(), flag_sum_);
    ir_.CreateCondBr(ir_.CreateICmpNE(any, ir_.getInt64(0)), raise, leave);
    old->eraseFromParent();
    ir_.SetInsertPoint(raise);
    auto* ptr = llvm::PointerType::get(context_, 0);
    llvm::Value* p = ir_.CreateLoad(ptr, ir_.CreateGEP(ptr, buffers_, Int(buffer)));
    ir_.CreateAlignedStore(ir_.getInt8(1), p, llvm::Align(1));
    ir_.CreateBr(leave);
    break;
  }
  return flag_sum_;
}

// ---- scratch ----

llvm::Value* Emitter::LoadScratch(DType t, llvm::Value* start, llvm::Value* index) {
  const Lanes* l = lanes();
  llvm::Value* p =
      ir_.CreateGEP(RegisterType(t), ir_.CreateGEP(ir_.getInt8Ty(), scratch_, start), index);
  llvm::Type* type = RegisterType(t, l->count);
  const llvm::Align align{type->getScalarSizeInBits() / 8};
  if (!l->mask) return ir_.CreateAlignedLoad(type, p, align);
  return ir_.CreateMaskedLoad(type, p, align, l->mask, llvm::Constant::getNullValue(type));
}

void Emitter::StoreScratch(llvm::Value* start, llvm::Value* index, llvm::Value* value) {
  const Lanes* l = lanes();
  llvm::Type* element = value->getType()->getScalarType();
  value = Splat(value, l->count);
  llvm::Value* p = ir_.CreateGEP(element, ir_.CreateGEP(ir_.getInt8Ty(), scratch_, start), index);
  const llvm::Align align{element->getScalarSizeInBits() / 8};
  if (l->mask)
    ir_.CreateMaskedStore(value, p, align, l->mask);
  else
    ir_.CreateAlignedStore(value, p, align);
}

void Emitter::EmitFence() { ir_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {}); }

}  // namespace weft::llvmgen
