/// fiber.h: switching between stacks inside of a thread; for tests only.
///
/// On x86-64 a few instructions; elsewhere, and under AddressSanitizer, which has to know of each
/// stack, ucontext (a system call each time).
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define WEFT_FIBER_ASM 1
#else
#include <ucontext.h>
#endif

namespace weft::cuda {

#ifdef WEFT_FIBER_ASM

// Callee-saved registers on the old stack, then those of the new one. Rounding modes
// are never changed here.
asm(R"(
.text
.p2align 4
.type weft_switch_fiber, @function
weft_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weft_switch_fiber, .-weft_switch_fiber
)");
extern "C" void weft_switch_fiber(void** save, void* resume) __attribute__((visibility("hidden")));

struct Fiber {
  void* stack_pointer = nullptr;
};
/// `top` is the end of the stack, on 16 bytes.
inline void MakeFiber(Fiber* f, unsigned char* top, size_t, void (*body)()) {
  auto** p = reinterpret_cast<void**>(top) - 2;  // on entry the stack is 8 beyond a multiple of 16
  *p = reinterpret_cast<void*>(body);
  for (int i = 0; i < 6; ++i) *--p = nullptr;
  f->stack_pointer = p;
}
inline void SwitchFiber(Fiber* from, Fiber* to) {
  weft_switch_fiber(&from->stack_pointer, to->stack_pointer);
}

#else

struct Fiber {
  ucontext_t context;
};
inline void MakeFiber(Fiber* f, unsigned char* top, size_t bytes, void (*body)()) {
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = top - bytes;
  f->context.uc_stack.ss_size = bytes;
  f->context.uc_link = nullptr;
  makecontext(&f->context, body, 0);
}
inline void SwitchFiber(Fiber* from, Fiber* to) { swapcontext(&from->context, &to->context); }

#endif

}  // namespace weft::cuda
