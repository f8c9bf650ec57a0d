#include <numeric>

#include "codegen/llvm/compiler/test_kernels.h"

namespace weft::llvmgen {
namespace {

Expr I(int k) { return Expr::Index(k); }
Expr Load(int b, Indices at, DType t = DType::kF32) { return Expr::Load(b, t, std::move(at)); }

KernelPtr WithVectorLoop(const KernelPtr& k, int loop) {
  auto copy = std::make_shared<Kernel>(*k);
  copy->vector_loop = loop;
  copy->Finish();
  return copy;
}

/// Row in lanes, and rows in lanes where there are rows.
void CheckBoth(const KernelPtr& k, const std::vector<Bytes>& inputs,
               const std::vector<int64_t>& symbols, double ulps) {
  REQUIRE(k->tmpl == KernelTemplate::kRow);
  CheckKernel(WithVectorLoop(k, int(k->dims.size()) - 1), inputs, symbols, ulps);
  if (k->num_outer > 0) CheckKernel(WithVectorLoop(k, k->num_outer - 1), inputs, symbols, ulps);
}

/// A tensor and some of its axes.
struct Axes {
  std::vector<SymInt> dims;
  uint32_t reduced;

  bool is_reduced(size_t d) const { return reduced >> d & 1; }
  std::vector<SymInt> Part(bool of_reduced) const {
    std::vector<SymInt> part;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (is_reduced(d) == of_reduced) part.push_back(dims[d]);
    }
    return part;
  }
  /// The index of an element: kept positions in order from `row`, reduced ones from `r`.
  Indices At(const Indices& row, const Indices& r) const {
    Indices at;
    size_t a = 0, b = 0;
    for (size_t d = 0; d < dims.size(); ++d) at.push_back(is_reduced(d) ? r[b++] : row[a++]);
    return at;
  }
  /// The row of the element at Index(0), Index(1) ...
  Indices RowOfPoint() const {
    Indices row;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!is_reduced(d)) row.push_back(I(int(d)));
    }
    return row;
  }
  Indices RowOfResult() const {
    Indices row;
    for (size_t i = 0; i < Part(false).size(); ++i) row.push_back(I(int(i)));
    return row;
  }
  Expr Reduce(ReduceOp op, const Indices& row,
              const std::function<Expr(const Expr& x, const Indices& at)>& body,
              DType t = DType::kF32) const {
    return Expr::Reduce(op, Part(true),
                        [&](const Indices& r) { return body(Load(0, At(row, r), t), At(row, r)); });
  }
  Indices Point() const {
    Indices at;
    for (size_t d = 0; d < dims.size(); ++d) at.push_back(I(int(d)));
    return at;
  }
};

LoweredKernel LowerAll(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                       Exprs values) {
  ComputeSpec spec;
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  spec.values = std::move(values);
  return LowerKernel(spec, Facts());
}

std::vector<int64_t> SymbolValues(const LoweredKernel& k, const SymBindings& bindings) {
  std::vector<int64_t> values;
  for (SymInt s : k.symbols) values.push_back(Evaluate(s, bindings));
  return values;
}

/// Mean, variance, the normalised tensor scaled and shifted, as training of BatchNormalization has
/// them.
LoweredKernel Normalisation(const Axes& a) {
  Expr count = Expr::Const(DType::kF32, 1);
  for (SymInt d : a.Part(true)) count = count * Expr::Cast(DType::kF32, Expr::Dim(d));
  const auto mean = [&](const Indices& row) {
    return a.Reduce(ReduceOp::kSum, row, [](const Expr& x, const Indices&) { return x; }) / count;
  };
  const auto variance = [&](const Indices& row) {
    const Expr m = mean(row);
    return a.Reduce(ReduceOp::kSum, row, [&](const Expr& x, const Indices&) {
      return (x - m) * (x - m);
    }) / count;
  };
  const Indices row = a.RowOfPoint(), result = a.RowOfResult();
  const Expr scale = Expr::Call(CallOp::kRsqrt, {variance(row) + 1e-5});
  const Expr y = Max((Load(0, a.Point()) - mean(row)) * scale * Load(1, row) + Load(2, row),
                     Expr::Const(DType::kF32, 0));
  const std::vector<SymInt> kept = a.Part(false);
  return LowerAll({{DType::kF32, a.dims}, {DType::kF32, kept}, {DType::kF32, kept}},
                  {{DType::kF32, a.dims}, {DType::kF32, kept}, {DType::kF32, kept}},
                  {y, mean(result) * 0.9 + Load(1, result), variance(result)});
}

/// A derivative and its sums: both stored, the operands read once.
LoweredKernel MaskedSums(const Axes& a) {
  const auto dz = [](const Expr& dy, const Indices& at) {
    return Expr::Select(Lt(Expr::Const(DType::kF32, 0), Load(1, at)), dy,
                        Expr::Const(DType::kF32, 0));
  };
  const auto sum = [&](bool weighted) {
    return a.Reduce(ReduceOp::kSum, a.RowOfResult(), [&](const Expr& x, const Indices& at) {
      return weighted ? dz(x, at) * Load(1, at) : dz(x, at);
    });
  };
  const std::vector<SymInt> kept = a.Part(false);
  return LowerAll({{DType::kF32, a.dims}, {DType::kF32, a.dims}},
                  {{DType::kF32, a.dims}, {DType::kF32, kept}, {DType::kF32, kept}},
                  {dz(Load(0, a.Point()), a.Point()), sum(false), sum(true)});
}

TEST_CASE("every arrangement of rows and reduced axes, whole and in phases") {
  for (uint32_t reduced = 1; reduced < 16; ++reduced) {
    const Axes a{{3, 5, 7, 18}, reduced};
    CAPTURE(reduced);
    const LoweredKernel norm = Normalisation(a), sums = MaskedSums(a);
    CheckBoth(norm.kernel, RandomInputs(*norm.kernel, {}, reduced), {}, 256);
    CheckBoth(sums.kernel, RandomInputs(*sums.kernel, {}, reduced), {}, 256);
  }
}

TEST_CASE("symbolic extents of every arrangement, empty ones too") {
  std::vector<SymInt> dims;
  for (const char* name : {"a", "b", "c"}) dims.push_back(SymInt::Symbol(name));
  for (uint32_t reduced = 1; reduced < 8; ++reduced) {
    const Axes axes{dims, reduced};
    const LoweredKernel norm = Normalisation(axes), sums = MaskedSums(axes);
    for (const std::vector<int64_t>& e : {std::vector<int64_t>{2, 40, 70},
                                          {37, 2, 19},
                                          {1, 1, 1},
                                          {0, 3, 4},
                                          {3, 0, 4},
                                          {3, 4, 0}}) {
      CAPTURE(reduced);
      CAPTURE(e[0]);
      for (const LoweredKernel* k : {&norm, &sums}) {
        const auto symbols = SymbolValues(*k, {{"a", e[0]}, {"b", e[1]}, {"c", e[2]}});
        CheckBoth(k->kernel, RandomInputs(*k->kernel, symbols, 5), symbols, 256);
      }
    }
  }
}

TEST_CASE("all reductions in phases, with ties, NaN and infinities") {
  for (DType t :
       {DType::kF32, DType::kF64, DType::kI8, DType::kI32, DType::kU16, DType::kI64, DType::kF16}) {
    for (const Axes& a :
         {Axes{{5, 300}, 2}, Axes{{150, 21}, 1}, Axes{{2000}, 1}, Axes{{9, 4, 33}, 5}}) {
      const Indices row = a.RowOfResult();
      std::vector<TensorSpec> outputs;
      Exprs values;
      const auto add = [&](ReduceOp op, const std::function<Expr(const Expr&)>& body) {
        values.push_back(a.Reduce(
            op, row, [&](const Expr& x, const Indices&) { return body(x); }, t));
        outputs.push_back({values.back()->dtype(), a.Part(false)});
      };
      const auto same = [](const Expr& x) { return x; };
      for (ReduceOp op :
           {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kArgMax, ReduceOp::kArgMin})
        add(op, same);
      add(ReduceOp::kAny, [&](const Expr& x) { return Eq(x, Expr::Const(t, 3)); });
      add(ReduceOp::kAll, [&](const Expr& x) { return Le(x, Expr::Const(t, 3)); });
      const LoweredKernel k = LowerAll({{t, a.dims}}, outputs, values);
      const int64_t n = std::accumulate(a.dims.begin(), a.dims.end(), int64_t{1},
                                        [](int64_t p, SymInt d) { return p * d.value(); });
      for (int special : {0, 1, 2}) {
        std::mt19937 rng(4);
        Bytes in = RandomInput(t, n, rng, 0, 4);
        for (int64_t i = 0; i < n && (t == DType::kF32 || t == DType::kF64); ++i) {
          Scalar s;
          s.f = special == 2 ? -INFINITY : double(rng() % 4);
          if (special == 1 && rng() % 60 == 0) s.f = rng() % 2 ? NAN : INFINITY;
          WriteElement(t, s, &in[size_t(i) * size_t(ElementBytes(t))]);
        }
        CheckBoth(k.kernel, {in}, {}, 100);
      }
    }
  }
}

/// Bits of the outputs where `pieces` threads share every phase.
std::vector<Bytes> PhasedOutputs(const KernelPtr& k, const CpuKernel& code,
                                 const std::vector<Bytes>& inputs, int pieces) {
  std::vector<Bytes> memory = inputs;
  std::vector<void*> buffers;
  for (size_t b = inputs.size(); b < k->buffers.size(); ++b)
    memory.emplace_back(size_t(Evaluate(k->buffers[b].num_elements, {})) *
                        size_t(ElementBytes(k->buffers[b].dtype)));
  for (Bytes& b : memory) buffers.push_back(b.data());
  std::mt19937 rng(3);
  RunKernel(code, true, 0, pieces, buffers.data(), {}, rng);
  return memory;
}

TEST_CASE("phases give the same bits however they are shared") {
  for (const Axes& a : {Axes{{64, 16, 300}, 5}, Axes{{4096, 40}, 1}, Axes{{300000}, 1}}) {
    for (const LoweredKernel& k : {Normalisation(a), MaskedSums(a)}) {
      const CpuKernel code = LoadCpuKernel(*k.kernel, CompileOne(Compiler(2), k.kernel));
      REQUIRE(!code.phases.empty());
      const auto inputs = RandomInputs(*k.kernel, {}, 9);
      const auto one = PhasedOutputs(k.kernel, code, inputs, 1);
      for (int pieces : {2, 3, 7}) CHECK(PhasedOutputs(k.kernel, code, inputs, pieces) == one);
    }
  }
}

TEST_CASE("rows whose extents are long expressions: every size is a number, none a name") {
  // What attention with a cache makes of its lengths.
  const SymInt n = SymInt::Symbol("n"), s = SymInt::Symbol("s"), p = SymInt::Symbol("p");
  SymInt row = p + s, rows = n * 12;
  for (int i = 0; i < 6; ++i) {
    row = Max(row, FloorDiv((p + s) * (i + 1) + i, i + 1));
    rows = rows + FloorDiv(n * 12 + i, i + 13);
  }
  for (const auto& [outer, inner] : {std::pair{n * 12, p + s}, std::pair{rows, p + s},
                                     std::pair{n * s, row}, std::pair{rows, row}}) {
    const LoweredKernel k = MaskedSums({{outer, s + p, inner}, 2});
    const SymBindings bindings = {{"n", 2}, {"s", 3}, {"p", 38}};
    const auto symbols = SymbolValues(k, bindings);
    CheckBoth(k.kernel, RandomInputs(*k.kernel, symbols, 17), symbols, 64);
  }
}

TEST_CASE("phases are made where rows are few and long or columns are many, and nowhere else") {
  const auto gain = [](const LoweredKernel& k, const SymBindings& bindings = {}) {
    const CpuKernel code = LoadCpuKernel(*k.kernel, CompileOne(Compiler(0), k.kernel));
    if (code.phases.empty()) return false;
    return Evaluate(code.phase_gain, Extents(SymbolValues(k, bindings), code)) >= 0;
  };
  const SymInt b = SymInt::Symbol("b");
  CHECK(gain(MaskedSums({{25 << 20}, 1})));
  CHECK(gain(MaskedSums({{65536, 16}, 1})));
  CHECK(gain(MaskedSums({{4096, 768}, 1})));
  CHECK(gain(MaskedSums({{64, 16, 32 * 32}, 5})));
  CHECK(gain(Normalisation({{64, 2, 64 * 64}, 5})));
  // Enough rows for every thread, which stay in the caches from pass to pass.
  CHECK(!gain(Normalisation({{64, 16, 32 * 32}, 5})));
  CHECK(!gain(Normalisation({{4096, 768}, 2})));
  // Little work.
  CHECK(!gain(MaskedSums({{64, 10}, 1})));
  CHECK(!gain(MaskedSums({{4096}, 1})));
  const LoweredKernel bias = MaskedSums({{b, 500}, 1});
  CHECK(gain(bias, {{"b", 4096}}));
  CHECK(!gain(bias, {{"b", 8}}));
}

}  // namespace
}  // namespace weft::llvmgen
