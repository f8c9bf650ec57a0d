/// kernel_case_builder.h: how the cases of kernel_cases.h are put together.
#pragma once

#include <limits>

#include "tests/support/kernels/kernel_cases.h"

namespace weft::kernel_cases {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline const double kNan = std::numeric_limits<double>::quiet_NaN();

inline Expr I(int k) { return Expr::Index(k); }
inline Expr N(int64_t v) { return Expr::Int(v); }

/// Deterministic values in [-2, 2), multiples of 1/64: exact in every float type.
inline Values Ramp(int64_t n, int64_t seed = 1) {
  Values v;
  for (int64_t i = 0; i < n; ++i) v.push_back(double((i * 37 + seed * 101) % 257 % 256 - 128) / 64);
  return v;
}

struct Builder {
  Case c;
  Builder(std::string name, std::vector<SymInt> dims, bool row = false, int outer = -1) {
    c.name = std::move(name);
    c.kernel = std::make_shared<Kernel>();
    Kernel& k = *c.kernel;
    k.tmpl = row ? KernelTemplate::kRow : KernelTemplate::kElementwise;
    k.dims = std::move(dims);
    k.num_outer = outer < 0 ? int(k.dims.size()) : outer;
    k.vector_loop = k.dims.empty() ? -1 : int(k.dims.size()) - 1;
    k.small_index = true;
  }
  /// A reader of a new input.
  std::function<Expr(Expr)> Input(DType t, Values v, SymInt size = {}) {
    const int b = int(c.kernel->buffers.size());
    c.kernel->buffers.push_back({t, false, size.known() ? size : SymInt(int64_t(v.size()))});
    c.kernel->num_inputs = b + 1;
    c.inputs.push_back(std::move(v));
    return [b, t](const Expr& at) { return Expr::Load(b, t, {at}); };
  }
  void Output(DType t, const Expr& offset, const Expr& value, Values expected, bool per_row = false,
              SymInt size = {}) {
    const int b = int(c.kernel->buffers.size());
    c.kernel->buffers.push_back({t, true, size.known() ? size : SymInt(int64_t(expected.size()))});
    c.kernel->stores.push_back({b, offset, value, per_row});
    c.expected.push_back(std::move(expected));
  }
  /// The last buffer: is `value` true anywhere?
  void Flag(const Expr& value, bool expected, bool per_row = false) {
    const int b = int(c.kernel->buffers.size());
    c.kernel->buffers.push_back({DType::kBool, true, 1});
    c.kernel->stores.push_back({b, N(0), value, per_row, true});
    c.expected.push_back({double(expected)});
  }
  Case Finish(std::vector<int64_t> dims = {}, double tolerance = 0) {
    Kernel& k = *c.kernel;
    k.num_symbols = int(dims.size());
    SymBindings bindings;
    for (size_t i = 0; i < dims.size(); ++i) bindings[KernelSymbol(int(i)).symbol_name()] = dims[i];
    c.total = c.row = 1;
    for (size_t d = 0; d < k.dims.size(); ++d)
      (int(d) < k.num_outer ? c.total : c.row) *= Evaluate(k.dims[d], bindings);
    c.dims = std::move(dims);
    c.tolerance = tolerance;
    k.Finish();
    return std::move(c);
  }
};

template <class F>
Values Map(int64_t n, const F& f) {
  Values v;
  for (int64_t i = 0; i < n; ++i) v.push_back(f(i));
  return v;
}

/// Reductions inside of points, and kernels of rows (kernel_cases_reduce.cc).
void ReductionCases(std::vector<Case>* all);

}  // namespace weft::kernel_cases
