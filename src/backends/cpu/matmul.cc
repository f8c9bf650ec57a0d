/// matmul.cc: MatMul (numpy broadcasting) and Gemm in f32, by oneDNN. A constant second operand is
/// packed once.
#ifdef WEFT_HAVE_ONEDNN

#include "backends/cpu/compute_util.h"
#include "backends/cpu/node_attrs.h"
#include "backends/cpu/onednn_adapter.h"
#include "weft/core/op.h"

namespace weft::cpu {
namespace {

/// A product as oneDNN sees it: batch extents (1 broadcasts), then the matrix.
struct Product3 {
  Dims a, b, y;
};

/// Adjacent batch axes that broadcast alike become one; a shared right side takes the batch into
/// the rows.
std::optional<Product3> Collapse(std::vector<int64_t> a, std::vector<int64_t> b) {
  if (a.empty() || b.empty()) return std::nullopt;
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  const int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
  if (b[b.size() - 2] != k) return std::nullopt;
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  const size_t rank = std::max(a.size(), b.size());
  a.insert(a.begin(), rank - a.size(), 1);
  b.insert(b.begin(), rank - b.size(), 1);
  if (CheckedProduct(b) == 1)
    return Product3{
        {CheckedMul(CheckedProduct(a), m), k}, {k, n}, {CheckedMul(CheckedProduct(a), m), n}};
  Product3 p;
  int last = -1;
  for (size_t i = 0; i < rank; ++i) {
    if (a[i] == 1 && b[i] == 1) continue;
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return std::nullopt;
    const int how = a[i] == b[i] ? 0 : a[i] == 1 ? 1 : 2;
    if (how == last) {
      p.a.back() = CheckedMul(p.a.back(), a[i]);
      p.b.back() = CheckedMul(p.b.back(), b[i]);
      p.y.back() = CheckedMul(p.y.back(), std::max(a[i], b[i]));
    } else {
      p.a.push_back(a[i]);
      p.b.push_back(b[i]);
      p.y.push_back(std::max(a[i], b[i]));
    }
    last = how;
  }
  p.a.insert(p.a.end(), {m, k});
  p.b.insert(p.b.end(), {k, n});
  p.y.insert(p.y.end(), {m, n});
  if (p.y.size() > 6) return std::nullopt;
  return p;
}

std::unique_ptr<LibraryCall> PrepareMatMul(const ComputeRequest& q) {
  if (!AllF32(q) || q.input_dims.size() != 2) return nullptr;
  const int64_t elements = CheckedProduct(q.output_dims[0]);
  if (elements == 0 || CheckedProduct(q.input_dims[0]) == 0)
    return std::make_unique<ZeroCall>(elements);
  const auto p = Collapse(q.input_dims[0], q.input_dims[1]);
  if (!p) return nullptr;
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    const TensorPtr constant = q.constants[1];
    const auto pd = Describe<dnnl::matmul>({}, Plain(p->a),
                                           constant ? AnyLayout(p->b) : Plain(p->b), Plain(p->y));
    if (!pd) return nullptr;
    Recipe r(q.threads);
    const Buffer b = r.Reordered(r.Input(1, Plain(p->b)), pd.weights_desc(), constant);
    r.Add(dnnl::matmul(pd),
          {{DNNL_ARG_SRC, r.Input(0, Plain(p->a))},
           {DNNL_ARG_WEIGHTS, b},
           {DNNL_ARG_DST, r.Output(0, Plain(p->y))}},
          pd.scratchpad_desc());
    return r.Finish(std::string("matmul ") + pd.impl_info_str());
  });
}

/// C as [1 or m, 1 or n].
std::optional<Dims> AsMatrix(std::vector<int64_t> c, int64_t m, int64_t n) {
  if (c.size() > 2) return std::nullopt;
  c.insert(c.begin(), 2 - c.size(), 1);
  if ((c[0] != 1 && c[0] != m) || (c[1] != 1 && c[1] != n)) return std::nullopt;
  return c;
}

/// y = alpha y + beta c, c broadcast as [1 or m, 1 or n]; c null: no addend.
void Combine(float* y, const float* c, const Dims& c_dims, int64_t m, int64_t n, float alpha,
             float beta) {
#pragma omp parallel for schedule(static) if (m * n > 16384)
  for (int64_t i = 0; i < m; ++i) {
    float* row = y + i * n;
    if (!c) {
      for (int64_t j = 0; j < n; ++j) row[j] = alpha * row[j];
    } else if (c_dims[1] == n) {
      const float* add = c + (c_dims[0] == 1 ? 0 : i * n);
      for (int64_t j = 0; j < n; ++j) row[j] = alpha * row[j] + beta * add[j];
    } else {
      const float add = beta * c[c_dims[0] == 1 ? 0 : i];
      for (int64_t j = 0; j < n; ++j) row[j] = alpha * row[j] + add;
    }
  }
}

/// y = alpha A B + beta C. A row C without factors is oneDNN's bias; anything else is one pass of
/// ours over the product (oneDNN 2.6 gets chains of scale, scalar addend, scale wrong, so its
/// post-ops are left alone).
std::unique_ptr<LibraryCall> PrepareGemm(const ComputeRequest& q) {
  if (!AllF32(q) || q.input_dims.size() < 2 || q.output_dims[0].size() != 2) return nullptr;
  const float alpha = float(FloatAttr(q.node, "alpha", 1)),
              beta = float(FloatAttr(q.node, "beta", 1));
  const bool trans_a = IntAttr(q.node, "transA", 0) != 0,
             trans_b = IntAttr(q.node, "transB", 0) != 0;
  const int64_t m = q.output_dims[0][0], n = q.output_dims[0][1];
  if (q.input_dims[0].size() != 2 || q.input_dims[1].size() != 2) return nullptr;
  const int64_t k = q.input_dims[0][trans_a ? 0 : 1];
  const bool has_c = HasInput(q, 2) && beta != 0;
  if (m == 0 || n == 0) return std::make_unique<ZeroCall>(0);
  if (k == 0) return has_c ? nullptr : std::make_unique<ZeroCall>(CheckedMul(m, n));
  Dims c_dims;
  if (has_c) {
    const auto matrix = AsMatrix(q.input_dims[2], m, n);
    if (!matrix) return nullptr;
    c_dims = *matrix;
  }
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    const Desc a = trans_a ? Strided({m, k}, {1, m}) : Plain({m, k}),
               b = trans_b ? Strided({k, n}, {1, k}) : Plain({k, n});
    const bool as_bias = has_c && alpha == 1 && beta == 1 && c_dims == Dims{1, n};
    const TensorPtr constant = q.constants[1];
    const Desc b_wanted = constant ? AnyLayout({k, n}) : b, y_desc = Plain({m, n});
    const auto pd = as_bias ? Describe<dnnl::matmul>({}, a, b_wanted, Plain(c_dims), y_desc)
                            : Describe<dnnl::matmul>({}, a, b_wanted, y_desc);
    if (!pd) return nullptr;
    Recipe r(q.threads);
    const Buffer c = has_c ? r.Input(2, Plain(c_dims)) : Buffer(), y = r.Output(0, y_desc);
    r.Add(dnnl::matmul(pd),
          {{DNNL_ARG_SRC, r.Input(0, a)},
           {DNNL_ARG_WEIGHTS, r.Reordered(r.Input(1, b), pd.weights_desc(), constant)},
           {DNNL_ARG_BIAS, as_bias ? c : Buffer()},
           {DNNL_ARG_DST, y}},
          pd.scratchpad_desc());
    if (!as_bias && (has_c || alpha != 1))
      r.AddHost(
          [=](void* const* at) {
            Combine(static_cast<float*>(at[0]), static_cast<const float*>(at[1]), c_dims, m, n,
                    alpha, beta);
          },
          {y, c});
    return r.Finish(std::string("gemm ") + pd.impl_info_str());
  });
}

WEFT_REGISTER_OP(MatMul).set_attr<FCompute>("FCompute.cpu", PrepareMatMul);
WEFT_REGISTER_OP(Gemm).set_attr<FCompute>("FCompute.cpu", PrepareGemm);

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
