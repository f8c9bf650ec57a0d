#include "codegen/llvm/compiler/test_kernels.h"
#include "codegen/llvm/emit/arrange_loops.h"

namespace weft::llvmgen {
namespace {

Expr I(int k) { return Expr::Index(k); }
Expr Load(int b, Indices at, DType t = DType::kF32) { return Expr::Load(b, t, std::move(at)); }
Expr Exp(const Expr& x) { return Expr::Call(CallOp::kExp, {x}); }
Expr Over(ReduceOp op, SymInt n, const std::function<Expr(const Expr&)>& body) {
  return Expr::Reduce(op, {n}, [&](const Indices& r) { return body(r[0]); });
}

/// The same kernel with rows in vector lanes.
KernelPtr RowsInLanes(const KernelPtr& k) {
  auto copy = std::make_shared<Kernel>(*k);
  copy->vector_loop = copy->num_outer - 1;
  copy->Finish();
  return copy;
}
KernelPtr RowInLanes(const KernelPtr& k) {
  auto copy = std::make_shared<Kernel>(*k);
  copy->vector_loop = int(copy->dims.size()) - 1;
  copy->Finish();
  return copy;
}

struct Problem {
  SymInt rows, columns;
};

/// Soft-max over the last axis of input 0.
Expr Softmax(SymInt n, DType t = DType::kF32) {
  const auto x = [&](const Expr& r) { return Expr::Cast(DType::kF32, Load(0, {I(0), r}, t)); };
  const Expr m = Over(ReduceOp::kMax, n, x);
  const Expr sum = Over(ReduceOp::kSum, n, [&](const Expr& r) { return Exp(x(r) - m); });
  return Expr::Cast(t, Exp(x(I(1)) - m) / sum);
}

Expr LayerNorm(SymInt n) {
  const auto x = [&](const Expr& r) { return Load(0, {I(0), r}); };
  const Expr count = Expr::Cast(DType::kF32, Expr::Dim(n));
  const Expr mean = Over(ReduceOp::kSum, n, x) / count;
  const Expr variance =
      Over(ReduceOp::kSum, n, [&](const Expr& r) { return (x(r) - mean) * (x(r) - mean); }) / count;
  const Expr scale = Expr::Call(CallOp::kRsqrt, {variance + 1e-5});
  return (x(I(1)) - mean) * scale * Load(1, {I(1)}) + Load(2, {I(1)});
}

void CheckBoth(const KernelPtr& k, unsigned seed, double ulps) {
  REQUIRE(k->tmpl == KernelTemplate::kRow);
  CheckKernel(RowInLanes(k), RandomInputs(*k, {}, seed), {}, ulps);
  if (k->num_outer > 0) CheckKernel(RowsInLanes(k), RandomInputs(*k, {}, seed), {}, ulps);
}

TEST_CASE("soft-max, rows of all lengths, both vector loops") {
  for (const auto& [rows, n] : std::vector<std::pair<int64_t, int64_t>>{
           {5, 2}, {3, 7}, {70, 16}, {4, 33}, {3, 64}, {2, 300}, {33, 1000}}) {
    const KernelPtr k = Lower({{DType::kF32, {rows, n}}}, {{DType::kF32, {rows, n}}}, {Softmax(n)});
    CheckBoth(k, 1, 16);
  }
  for (DType t : {DType::kF16, DType::kBF16}) {
    const KernelPtr k = Lower({{t, {9, 77}}}, {{t, {9, 77}}}, {Softmax(77, t)});
    CheckBoth(k, 2, 1);
  }
}

TEST_CASE("rows whose bodies read nothing: constants are no sums that nothing was added to") {
  for (int64_t n : {8, 9, 16, 64, 100}) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
      for (DType t : {DType::kI64, DType::kI32, DType::kF32}) {
        const auto body = [&](const Expr& r) {
          const Expr x = Expr::Cast(t, r * Expr::Int(2) - Expr::Int(5));
          return Expr::Select(Lt(r, Expr::Int(3)), x * x, x);
        };
        CheckBoth(Lower({}, {{t, {}}}, {Over(op, n, body)}), 3, 4);
      }
    }
  }
}

TEST_CASE("soft-max, rows that leave the registers and the first-level cache") {
  // Whole rows fetch the next one, which the last row has not; on some targets they are cut into
  // chunks instead. Times the length, because errors are counted in units of 1.
  for (const auto& [rows, n] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 8193}, {2, 20000}, {9, 16384}}) {
    const KernelPtr k =
        Lower({{DType::kF32, {rows, n}}}, {{DType::kF32, {rows, n}}}, {Softmax(n) * double(n)});
    REQUIRE(k->tmpl == KernelTemplate::kRow);
    CheckKernel(RowInLanes(k), RandomInputs(*k, {}, 5), {}, 16);
  }
}

TEST_CASE("soft-max, rows with NaN and infinities, short and long, of every type of floats") {
  for (DType t : {DType::kF32, DType::kF64, DType::kF16}) {
    for (const int64_t n : {40, 300, 16384}) {
      const int64_t rows = 7;
      // Elements of f64 are compared as f32, in which they are computed; times the length as above.
      const Expr y = Expr::Cast(DType::kF32, Softmax(n, t)) * double(n);
      const KernelPtr k = Lower({{t, {rows, n}}}, {{DType::kF32, {rows, n}}}, {y});
      REQUIRE(k->tmpl == KernelTemplate::kRow);
      std::mt19937 rng(6);
      Bytes in = RandomInput(t, rows * n, rng, -3, 3);
      const auto set = [&](int64_t row, int64_t column, double value) {
        Scalar s;
        s.f = value;
        WriteElement(t, s, &in[size_t(row * n + column) * size_t(ElementBytes(t))]);
      };
      set(1, n / 2, NAN);
      set(2, n - 1, INFINITY);
      set(3, 0, -INFINITY);  // one element that is hidden
      for (int64_t j = 0; j < n; ++j) set(4, j, -INFINITY);
      for (int64_t j = 0; j < n; ++j) set(5, j, INFINITY);
      const double ulps = t == DType::kF16 ? 1024 : 64;
      CheckKernel(RowInLanes(k), {in}, {}, ulps);
      if (n <= 300) CheckKernel(RowsInLanes(k), {in}, {}, ulps);
    }
  }
}

TEST_CASE("layer normalisation") {
  for (const auto& [rows, n] :
       std::vector<std::pair<int64_t, int64_t>>{{5, 3}, {6, 31}, {40, 256}, {3, 1024}}) {
    const KernelPtr k = Lower({{DType::kF32, {rows, n}}, {DType::kF32, {n}}, {DType::kF32, {n}}},
                              {{DType::kF32, {rows, n}}}, {LayerNorm(n)});
    CheckBoth(k, 3, 64);
  }
}

TEST_CASE("all reductions in one kernel, with ties and NaN") {
  for (DType t :
       {DType::kF32, DType::kF64, DType::kI8, DType::kI32, DType::kU16, DType::kI64, DType::kF16}) {
    for (int64_t n : {5, 10, 16, 17, 70, 259}) {
      const auto x = [&](const Expr& r) { return Load(0, {I(0), r}, t); };
      std::vector<TensorSpec> outputs;
      Exprs values;
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kArgMax,
                          ReduceOp::kArgMin, ReduceOp::kProd}) {
        if (op == ReduceOp::kProd && (t == DType::kF16 || n > 100)) continue;
        values.push_back(Over(op, n, x));
        outputs.push_back({values.back()->dtype(), {21}});
      }
      const Expr zero = Expr::Const(t, 0);
      values.push_back(Over(ReduceOp::kAny, n, [&](const Expr& r) { return Eq(x(r), zero); }));
      values.push_back(
          Over(ReduceOp::kAll, n, [&](const Expr& r) { return Le(x(r), Expr::Const(t, 3)); }));
      outputs.push_back({DType::kBool, {21}});
      outputs.push_back({DType::kBool, {21}});
      const KernelPtr k = Lower({{t, {21, n}}}, outputs, values);
      std::mt19937 rng(4);
      Bytes in = RandomInput(t, 21 * n, rng, 0, 4);
      if (t == DType::kF32 || t == DType::kF64) {
        // Few distinct values, so that positions tie; NaN in some rows; a row of -inf.
        for (int64_t i = 0; i < 21 * n; ++i) {
          Scalar s;
          s.f = double(rng() % 4);
          if (i / n % 3 == 1 && rng() % 20 == 0) s.f = NAN;
          if (i / n == 2) s.f = -INFINITY;
          if (i / n == 5) s.f = INFINITY;
          WriteElement(t, s, &in[size_t(i) * size_t(ElementBytes(t))]);
        }
      }
      CheckKernel(RowInLanes(k), {in}, {}, 100);
      CheckKernel(RowsInLanes(k), {in}, {}, 100);
    }
  }
}

TEST_CASE("sums over several axes, full reductions, columns") {
  const auto sum = [](const std::vector<SymInt>& extents,
                      const std::function<Expr(const Indices&)>& body) {
    return Expr::Reduce(ReduceOp::kSum, extents, body);
  };
  // Per channel over batch and space; then over everything; then down columns.
  const KernelPtr channels =
      Lower({{DType::kF32, {4, 6, 35}}}, {{DType::kF32, {6}}}, {sum({4, 35}, [&](const Indices& r) {
              return Load(0, {r[0], I(0), r[1]});
            })});
  CheckBoth(channels, 5, 100);
  const KernelPtr all =
      Lower({{DType::kF32, {40, 35}}}, {{DType::kF32, {}}}, {sum({40, 35}, [&](const Indices& r) {
              return Load(0, {r[0], r[1]});
            })});
  CheckBoth(all, 6, 200);
  const KernelPtr columns =
      Lower({{DType::kF32, {60, 133}}}, {{DType::kF32, {133}}}, {sum({60}, [&](const Indices& r) {
              return Load(0, {r[0], I(0)});
            })});
  CheckBoth(columns, 7, 100);
  const KernelPtr middle = Lower({{DType::kF32, {3, 20, 70}}}, {{DType::kF32, {3, 70}}},
                                 {Over(ReduceOp::kMax, 20, [&](const Expr& r) {
                                   return Load(0, {I(0), r, I(1)});
                                 })});
  CheckBoth(middle, 8, 0);
  // Soft-max down columns, normalised values of all axes.
  const auto x = [&](const Expr& r) { return Load(0, {r, I(1)}); };
  const Expr m = Over(ReduceOp::kMax, 50, x);
  const Expr s = Over(ReduceOp::kSum, 50, [&](const Expr& r) { return Exp(x(r) - m); });
  const KernelPtr down =
      Lower({{DType::kF32, {50, 133}}}, {{DType::kF32, {50, 133}}}, {Exp(x(I(0)) - m) / s});
  CheckBoth(down, 9, 16);
}

TEST_CASE("symbolic rows, empty rows, and reductions that a row does not depend on") {
  const SymInt h = SymInt::Symbol("h"), w = SymInt::Symbol("w");
  ComputeSpec spec;
  spec.inputs = {{DType::kF32, {h, w}}, {DType::kF32, {w}}};
  spec.outputs = {{DType::kF32, {h, w}}, {DType::kF32, {h}}};
  const Expr total = Over(ReduceOp::kSum, w, [&](const Expr& r) { return Load(1, {r}); });
  spec.values = {Softmax(w) * total, Over(ReduceOp::kMax, w, [&](const Expr& r) {
                   return Load(0, {I(0), r}) + Load(1, {r});
                 })};
  const LoweredKernel lowered = LowerKernel(spec, Facts());
  REQUIRE(lowered.kernel->tmpl == KernelTemplate::kRow);
  for (const KernelPtr& k : {RowInLanes(lowered.kernel), RowsInLanes(lowered.kernel)}) {
    for (const auto& [rows, n] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 70}, {90, 3}, {2, 0}, {0, 4}}) {
      std::vector<int64_t> symbols;
      for (SymInt s : lowered.symbols) symbols.push_back(Evaluate(s, {{"h", rows}, {"w", n}}));
      CheckKernel(k, RandomInputs(*k, symbols, 10), symbols, 64);
    }
  }
}

TEST_CASE("rows of gathered elements raise the flag of what they read") {
  // Soft-max over rows that an index tensor chooses, and one whose elements are chosen.
  for (const bool elements : {false, true}) {
    for (const int64_t n : {3, 40, 300}) {
      const SymInt chosen = elements ? n : 9;
      const auto x = [&](const Expr& r) {
        const Expr at = Expr::Cast(DType::kI64, Load(1, {elements ? r : I(0)}, DType::kI32));
        return elements ? Load(0, {I(0), at}) : Load(0, {at, r});
      };
      const Expr m = Over(ReduceOp::kMax, n, x);
      const KernelPtr k =
          Lower({{DType::kF32, elements ? std::vector<SymInt>{9, 20} : std::vector<SymInt>{20, n}},
                 {DType::kI32, {chosen}}},
                {{DType::kF32, {9, n}}, {DType::kF32, {9}}}, {x(I(1)) - m, m});
      REQUIRE(k->tmpl == KernelTemplate::kRow);
      std::mt19937 rng(3);
      const Bytes data = RandomInput(DType::kF32, elements ? 180 : 20 * n, rng);
      std::vector<int32_t> index(size_t(chosen.value()));
      for (size_t i = 0; i < index.size(); ++i) index[i] = int32_t(i * 7 % 20);
      for (const int32_t last : {19, 20, -1}) {
        index.back() = last;
        Bytes bytes(index.size() * 4);
        std::memcpy(bytes.data(), index.data(), bytes.size());
        CheckKernel(RowInLanes(k), {data, bytes});
        CheckKernel(RowsInLanes(k), {data, bytes});
        CHECK(RunFlag(RowInLanes(k), {data, bytes}) == (last != 19));
        CHECK(RunFlag(RowsInLanes(k), {data, bytes}) == (last != 19));
      }
    }
  }
}

/// The largest of `window` x `window` elements of [planes, rows, columns] cells, as
/// rows of a kernel.
KernelPtr Windows(SymInt planes, SymInt rows, int64_t columns, int64_t window) {
  const SymInt w = window;
  const Expr largest = Expr::Reduce(ReduceOp::kMax, {w, w}, [&](const Indices& r) {
    return Load(0, {I(0), I(1) * Expr::Int(2) + r[0], I(2) * Expr::Int(2) + r[1]});
  });
  // What is left of each element beside it makes a kernel of rows of the windows' elements.
  const Expr rest =
      Load(0, {I(0), I(1) * Expr::Int(2) + I(3), I(2) * Expr::Int(2) + I(4)}) - largest;
  const std::vector<SymInt> in = {planes, rows * 2 + w, columns * 2 + window};
  ComputeSpec spec;
  spec.inputs = {{DType::kF32, in}};
  spec.outputs = {{DType::kF32, {planes, rows, columns, w, w}},
                  {DType::kF32, {planes, rows, columns}}};
  spec.values = {rest, largest};
  return RowInLanes(LowerKernel(spec, Facts()).kernel);
}

TEST_CASE("few windows side by side change places with the loop around them") {
  // Three outer loops: planes, rows, columns.
  const auto outer = [](const Kernel& k) {
    return std::vector<SymInt>(k.dims.begin(), k.dims.begin() + k.num_outer);
  };
  struct Row {
    int64_t planes, rows, columns, window;
    bool swapped;
  };
  for (const Row& r : {Row{2, 70, 4, 2, true}, Row{1, 64, 8, 3, true}, Row{2, 63, 4, 2, false},
                       Row{2, 70, 9, 2, false}, Row{2, 70, 4, 5, false}}) {
    CAPTURE(r.rows);
    CAPTURE(r.columns);
    CAPTURE(r.window);
    const KernelPtr k = Windows(r.planes, r.rows, r.columns, r.window);
    REQUIRE(k->tmpl == KernelTemplate::kRow);
    const Kernel arranged = ArrangeLoops(*k);
    std::vector<SymInt> expected = outer(*k);
    REQUIRE(expected.size() >= 2);
    if (r.swapped) std::swap(expected.back(), expected[expected.size() - 2]);
    CHECK(outer(arranged) == expected);
    CHECK(arranged.Name() == k->Name());
    if (r.swapped) CHECK(arranged.vector_loop == k->num_outer - 1);
    // Every point is written once, where it was: the arranged kernel gives the same as the other,
    // and so does its code.
    const std::vector<Bytes> in = RandomInputs(*k, {}, 41);
    CHECK(KernelOracle(arranged, in, {}).Run() == KernelOracle(*k, in, {}).Run());
    CheckKernel(k, in);
  }
}

TEST_CASE("rows of few elements of which only results are stored go along the lanes") {
  const auto arranged = [](int64_t n, bool stores_elements) {
    const Expr most = Over(ReduceOp::kMax, n, [](const Expr& r) { return Load(0, {I(0), r}); });
    std::vector<TensorSpec> outputs{{DType::kF32, {100}}};
    Exprs values{most};
    if (stores_elements) {
      outputs.push_back({DType::kF32, {100, n}});
      values.push_back(Load(0, {I(0), I(1)}) - most);
    }
    const KernelPtr k = RowInLanes(Lower({{DType::kF32, {100, n}}}, outputs, values));
    CheckKernel(k, RandomInputs(*k, {}, 43));
    return ArrangeLoops(*k).rows_in_lanes();
  };
  CHECK(arranged(8, false));
  CHECK(arranged(16, false));
  CHECK_FALSE(arranged(17, false));
  CHECK(arranged(8, true));
  CHECK_FALSE(arranged(9, true));
}

TEST_CASE("windows of symbolic planes and rows change places too, an unknown width does not") {
  const SymInt p = KernelSymbol(0), n = KernelSymbol(1);
  const KernelPtr k = Windows(p, n, 3, 2);
  const Kernel arranged = ArrangeLoops(*k);
  CHECK(arranged.dims[size_t(k->num_outer) - 1] == k->dims[size_t(k->num_outer) - 2]);
  for (int64_t rows : {0, 1, 5, 80}) CheckKernel(k, RandomInputs(*k, {2, rows}, 42), {2, rows});
  auto wide = std::make_shared<Kernel>(*k);
  std::swap(wide->dims[size_t(k->num_outer) - 1], wide->dims[size_t(k->num_outer) - 2]);
  CHECK(ArrangeLoops(*wide).dims == wide->dims);
}

TEST_CASE("outputs may lie on inputs") {
  // The long rows fetch the next one, which is still to be read.
  const KernelPtr k = Lower({{DType::kF32, {6, 100}}}, {{DType::kF32, {6, 100}}}, {Softmax(100)}),
                  wide = Lower({{DType::kF32, {6, 4096}}}, {{DType::kF32, {6, 4096}}},
                               {Softmax(4096)});
  for (const KernelPtr& form : {RowInLanes(k), RowsInLanes(k), RowInLanes(wide)}) {
    const size_t elements = form->dims.back().value() == 100 ? 600 : 6 * 4096;
    const CpuKernel code = LoadCpuKernel(*form, CompileOne(Compiler(0), form));
    const std::vector<Bytes> inputs = RandomInputs(*form, {}, 11);
    const std::vector<Bytes> expected = KernelOracle(*form, inputs, {}).Run();
    Aligned memory(inputs[0].size()), scratch(size_t(Evaluate(code.scratch_bytes, {})));
    std::memcpy(memory.p, inputs[0].data(), inputs[0].size());
    void* buffers[] = {memory.p, memory.p};
    code.fn(buffers, nullptr, 0, 6, scratch.p);
    for (size_t i = 0; i < elements; ++i) {
      const double got = static_cast<float*>(memory.p)[i];
      CHECK(std::fabs(got - ReadElement(DType::kF32, &expected[1][i * 4]).f) < 1e-6);
    }
  }
}

}  // namespace
}  // namespace weft::llvmgen
