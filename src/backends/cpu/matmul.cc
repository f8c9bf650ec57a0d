/// matmul.cc: MatMul (numpy broadcasting) and Gemm in f32, by oneDNN. A constant second operand is
/// packed once; what follows the product joins it (post_ops.h).
#ifdef WEFT_HAVE_ONEDNN

#include <functional>

#include "backends/cpu/compute_util.h"
#include "backends/cpu/node_attrs.h"
#include "backends/cpu/onednn_adapter.h"
#include "backends/cpu/post_ops.h"
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

/// A product with what follows it.
struct Product {
  Desc a, b, y;
  Desc bias;        ///< a row; empty: none
  Buffer row;       ///< where it is
  TensorPtr fixed;  ///< the second operand, where it is constant
};

/// Adds the product and its epilogue to `r`. `before`: steps on the sums that oneDNN cannot do, so
/// what follows them comes after; null: none.
std::string AddProduct(Recipe* r, const Product& p, const PostOps& post,
                       const std::function<void(const Buffer&)>& before = nullptr) {
  const Desc b_wanted = p.fixed ? AnyLayout(DimsOf(p.b)) : p.b;
  const auto describe = [&](const dnnl::primitive_attr& attr) {
    return p.row ? Describe<dnnl::matmul>(attr, p.a, b_wanted, p.bias, p.y)
                 : Describe<dnnl::matmul>(attr, p.a, b_wanted, p.y);
  };
  auto pd = describe({});
  if (!pd) return {};
  bool joined = false;
  if (!post.empty() && post.joinable() && !before) {
    const auto with = describe(post.attr());
    joined = IsFast(with, pd);
    if (joined) pd = with;
  }
  const Buffer y = r->Output(0, p.y);
  const Buffer addend = post.residual() ? r->Input(post.residual()->operand, p.y) : Buffer();
  // Steps behind the product still need the addend, which may be in the place of the result.
  const Buffer made = addend && !joined ? r->Temporary(p.y) : y;
  if (addend && joined) r->Copy(addend, made);
  r->Add(dnnl::matmul(pd),
         {{DNNL_ARG_SRC, r->Input(0, p.a)},
          {DNNL_ARG_WEIGHTS, r->Reordered(r->Input(1, p.b), pd.weights_desc(), p.fixed)},
          {DNNL_ARG_BIAS, p.row},
          {DNNL_ARG_DST, made}},
         pd.scratchpad_desc());
  if (before) before(made);
  if (!joined) post.AddSteps(r, made, addend);
  r->WriteBack(made, y);
  return pd.impl_info_str() + post.description();
}

Buffer RowOf(const Recipe& r, const PostOps& post, const Desc& desc) {
  return post.row() ? r.Input(post.row()->operand, desc) : Buffer();
}

std::unique_ptr<LibraryCall> PrepareMatMul(const ComputeRequest& q) {
  if (!AllF32(q) || q.input_dims.size() != 2) return nullptr;
  const int64_t elements = CheckedProduct(q.output_dims[0]);
  if (elements == 0) return std::make_unique<ZeroCall>(0);
  if (CheckedProduct(q.input_dims[0]) == 0)
    return q.epilogue.empty() ? std::make_unique<ZeroCall>(elements) : nullptr;
  const auto p = Collapse(q.input_dims[0], q.input_dims[1]);
  const auto post = PostOps::Read(q, {/*row=*/q.input_dims[1].size() >= 2, /*factor=*/true});
  if (!p || !post) return nullptr;
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    Recipe r(q.threads);
    Dims row(p->y.size(), 1);
    row.back() = p->y.back();
    const std::string how = AddProduct(&r,
                                       {Plain(p->a), Plain(p->b), Plain(p->y), Plain(row),
                                        RowOf(r, *post, Plain(row)), q.constants[1]},
                                       *post);
    return how.empty() ? nullptr : r.Finish("matmul " + how);
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
/// ours over the product (oneDNN 2.6 gets chains of scale, scalar addend, scale wrong).
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
  if (k == 0) {
    if (has_c || !q.epilogue.empty()) return nullptr;
    return std::make_unique<ZeroCall>(CheckedMul(m, n));
  }
  const auto post = PostOps::Read(q, {/*row=*/q.input_dims.size() < 3, /*factor=*/true});
  if (!post) return nullptr;
  Dims c_dims;
  if (has_c) {
    const auto matrix = AsMatrix(q.input_dims[2], m, n);
    if (!matrix) return nullptr;
    c_dims = *matrix;
  }
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    const Desc a = trans_a ? Strided({m, k}, {1, m}) : Plain({m, k}),
               b = trans_b ? Strided({k, n}, {1, k}) : Plain({k, n});
    Recipe r(q.threads);
    const Desc row = Plain({1, n});
    // A row that follows is added like C, with a factor of 1.
    const Buffer c = has_c ? r.Input(2, Plain(c_dims)) : RowOf(r, *post, row);
    const float c_factor = has_c ? beta : 1;
    const Dims dims = has_c ? c_dims : Dims{1, n};
    const bool as_bias = c && alpha == 1 && c_factor == 1 && dims == Dims{1, n};
    std::function<void(const Buffer&)> combine;
    if (!as_bias && (c || alpha != 1))
      combine = [&](const Buffer& y) {
        r.AddHost(
            [=](void* const* at) {
              Combine(static_cast<float*>(at[0]), static_cast<const float*>(at[1]), dims, m, n,
                      alpha, c_factor);
            },
            {y, c});
      };
    const std::string how = AddProduct(
        &r, {a, b, Plain({m, n}), row, as_bias ? c : Buffer(), q.constants[1]}, *post, combine);
    return how.empty() ? nullptr : r.Finish("gemm " + how);
  });
}

WEFT_REGISTER_OP(MatMul)
    .set_attr<FCompute>("FCompute.cpu", PrepareMatMul)
    .set_attr<FEpilogue>("FEpilogue.cpu", ProductTakes);
WEFT_REGISTER_OP(Gemm)
    .set_attr<FCompute>("FCompute.cpu", PrepareGemm)
    .set_attr<FEpilogue>("FEpilogue.cpu", ProductTakes);

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
