/// matmul.cc: MatMul (numpy broadcasting) and Gemm in f32, by oneDNN. A constant second operand is packed once.
#ifdef WEFT_HAVE_ONEDNN

#include <cmath>

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

/// Adjacent batch axes that broadcast alike become one; a shared right side takes the batch into the rows.
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
  if (CheckedProduct(b) == 1) return Product3{{CheckedMul(CheckedProduct(a), m), k}, {k, n}, {CheckedMul(CheckedProduct(a), m), n}};
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
  if (elements == 0 || CheckedProduct(q.input_dims[0]) == 0) return std::make_unique<ZeroCall>(elements);
  const auto p = Collapse(q.input_dims[0], q.input_dims[1]);
  if (!p) return nullptr;
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    const TensorPtr constant = q.constants[1];
    const auto pd = Describe<dnnl::matmul>({}, Plain(p->a), constant ? AnyLayout(p->b) : Plain(p->b), Plain(p->y));
    if (!pd) return nullptr;
    Recipe r(q.threads);
    const Buffer b = r.Reordered(r.Input(1, Plain(p->b)), pd.weights_desc(), constant);
    r.Add(dnnl::matmul(pd), {{DNNL_ARG_SRC, r.Input(0, Plain(p->a))}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, r.Output(0, Plain(p->y))}},
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

TensorPtr Scaled(const TensorPtr& c, double factor) {
  auto t = std::make_shared<Tensor>(DType::kF32, c->dims());
  for (int64_t i = 0; i < c->num_elements(); ++i) t->mutable_data_as<float>()[i] = float(factor * double(c->data_as<float>()[i]));
  return t;
}

/// y = alpha A B + beta C. A row C under alpha = 1 is oneDNN's bias; any other C is added behind the product, as
/// beta (alpha / beta A B + C) where it is no constant that could be scaled now.
std::unique_ptr<LibraryCall> PrepareGemm(const ComputeRequest& q) {
  if (!AllF32(q) || q.input_dims.size() < 2 || q.output_dims[0].size() != 2) return nullptr;
  const double alpha = FloatAttr(q.node, "alpha", 1);
  double beta = FloatAttr(q.node, "beta", 1);
  const bool trans_a = IntAttr(q.node, "transA", 0) != 0, trans_b = IntAttr(q.node, "transB", 0) != 0;
  const int64_t m = q.output_dims[0][0], n = q.output_dims[0][1];
  if (q.input_dims[0].size() != 2 || q.input_dims[1].size() != 2) return nullptr;
  const int64_t k = q.input_dims[0][trans_a ? 0 : 1];
  const bool has_c = HasInput(q, 2) && beta != 0;
  if (m == 0 || n == 0) return std::make_unique<ZeroCall>(0);
  if (k == 0) return has_c ? nullptr : std::make_unique<ZeroCall>(CheckedMul(m, n));
  TensorPtr scaled;
  std::optional<Dims> c_dims;
  if (has_c) {
    c_dims = AsMatrix(q.input_dims[2], m, n);
    if (!c_dims) return nullptr;
    if (beta != 1 && q.constants[2]) {
      scaled = Scaled(q.constants[2], beta);
      beta = 1;
    }
    // The ratio must not leave the range of a float.
    if (beta != 1 && !(std::abs(alpha / beta) < 1e6 && std::abs(beta) > 1e-6 && std::abs(beta) < 1e6)) return nullptr;
  }
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    const Desc a = trans_a ? Strided({m, k}, {1, m}) : Plain({m, k}), b = trans_b ? Strided({k, n}, {1, k}) : Plain({k, n});
    const Desc y = Plain({m, n});
    const bool as_bias = has_c && alpha == 1 && beta == 1 && *c_dims == Dims{1, n};
    dnnl::post_ops after;
    int add_at = 0;
    const auto scale = [&](double by) {
      if (by == 1) return;
      AppendEltwise(&after, dnnl::algorithm::eltwise_linear, float(by), 0);
      ++add_at;
    };
    scale(has_c ? alpha / beta : alpha);
    if (has_c && !as_bias) after.append_binary(dnnl::algorithm::binary_add, Plain(*c_dims));
    const int c_number = add_at;
    if (has_c) scale(beta);
    dnnl::primitive_attr attr;
    attr.set_post_ops(after);
    const TensorPtr constant = q.constants[1];
    const Desc b_wanted = constant ? AnyLayout({k, n}) : b;
    const auto pd = as_bias ? Describe<dnnl::matmul>(attr, a, b_wanted, Plain(*c_dims), y) : Describe<dnnl::matmul>(attr, a, b_wanted, y);
    if (!pd) return nullptr;
    Recipe r(q.threads);
    Buffer c;
    if (has_c) c = scaled ? r.Constant(scaled, Plain(*c_dims)) : r.Input(2, Plain(*c_dims));
    r.Add(dnnl::matmul(pd),
          {{DNNL_ARG_SRC, r.Input(0, a)},
           {DNNL_ARG_WEIGHTS, r.Reordered(r.Input(1, b), pd.weights_desc(), constant)},
           {as_bias ? DNNL_ARG_BIAS : DNNL_ARG_ATTR_MULTIPLE_POST_OP(c_number) | DNNL_ARG_SRC_1, c},
           {DNNL_ARG_DST, r.Output(0, y)}},
          pd.scratchpad_desc());
    return r.Finish(std::string("gemm ") + pd.impl_info_str());
  });
}

WEFT_REGISTER_OP(MatMul).set_attr<FCompute>("FCompute.cpu", PrepareMatMul);
WEFT_REGISTER_OP(Gemm).set_attr<FCompute>("FCompute.cpu", PrepareGemm);

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
