/// matmul.cc: MatMul (numpy broadcasting), weft::TransposedMatMul and Gemm in f32, by oneDNN, and
/// by loops of ours where one operand is a vector, or a constant one meets a few rows. A constant
/// second operand is packed once; what follows the product joins it (post_ops.h). Operands are read
/// where they lie, in any axis order that oneDNN has fast code for; else they are packed.
#ifdef WEFT_HAVE_ONEDNN

#include <functional>

#include "backends/cpu/onednn/onednn_adapter.h"
#include "backends/cpu/onednn/post_ops.h"
#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "backends/cpu/util/tuning.h"
#include "few_rows_product.h"
#include "rows_product.h"
#include "vector_product.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/core/op/product_shape.h"
#include "weft/core/takes_dtype.h"

namespace weft::cpu {
namespace {

/// How a product is done.
struct Form {
  int threads = 1;
  bool pack_a = false, pack_b = false;
  bool joins = true;  ///< what follows may join it
};

Form Unjoined(Form form) {
  form.joins = false;
  return form;
}

/// A few rows times a constant matrix; `product` null: it is no such product.
struct FewRows {
  std::shared_ptr<const FewRowsProduct> product;
  int64_t rows = 0;
  int64_t x_step = 0;  ///< from row to row of the first operand; 0: its rows are not dense
};

/// A product with what follows it.
struct Product {
  Desc a, b, y;
  Desc bias;        ///< a row; empty: none
  Buffer row;       ///< where it is
  TensorPtr fixed;  ///< the second operand, where it is constant
  Form form = {};
  std::optional<VectorProduct> vector = {};
  FewRows few_rows = {};
};

/// Of a matrix that is not packed, with dense rows or columns, and a dense vector; with at
/// most one batch axis.
std::optional<VectorProduct> VectorOf(const ComputeRequest& q, const ProductShape& p) {
  const size_t rank = p.y.size(), rows = rank - 2, columns = rank - 1;
  const bool right = p.y[columns] == 1;  // the vector is
  if (!VectorProduct::Possible() || rank > 3 || (p.y[rows] != 1 && !right) ||
      (!right && q.constants[1]))
    return std::nullopt;
  const Dims &matrix = right ? p.a : p.b, &steps = right ? p.a_steps : p.b_steps,
             &vector = right ? p.b : p.a, &vector_steps = right ? p.b_steps : p.a_steps;
  const size_t summed = right ? columns : rows, kept = right ? rows : columns;
  if (vector_steps[right ? rows : columns] != 1) return std::nullopt;
  VectorProduct v;
  v.of_rows = steps[summed] == 1 && (steps[kept] != 1 || right);
  if (!v.of_rows && steps[kept] != 1) return std::nullopt;
  v.rows = matrix[v.of_rows ? kept : summed];
  v.columns = matrix[v.of_rows ? summed : kept];
  v.row_step = steps[v.of_rows ? kept : summed];
  if (rank == 3) {
    v.batch = p.y[0];
    v.matrix_step = matrix[0] == 1 ? 0 : steps[0];
    v.vector_step = vector[0] == 1 ? 0 : vector_steps[0];
  }
  return v;
}

FewRows FewRowsOf(const ComputeRequest& q, const ProductShape& p) {
  const size_t rank = p.y.size(), rows = rank - 2, columns = rank - 1;
  const int64_t m = p.y[rows], k = p.a[columns], n = p.y[columns];
  if (!q.constants[1] || CheckedProduct(p.y) != CheckedMul(m, n) ||
      CheckedProduct(p.b) != CheckedMul(k, n) || !FewRowsProduct::Fits(m, k, n))
    return {};
  return {
      std::make_shared<FewRowsProduct>(q.constants[1], k, n, p.b_steps[rows], p.b_steps[columns]),
      m, p.a_steps[columns] == 1 ? p.a_steps[rows] : 0};
}

/// The product and its epilogue, as AddProduct.
std::string AddVectorProduct(Recipe* r, const Product& p, const PostOps& post,
                             const std::function<void(const Buffer&)>& before) {
  const Buffer y = r->Output(0, p.y);
  const Buffer addend = post.addend() ? r->Input(post.addend()->operand, p.y) : Buffer();
  const Buffer made = PlaceOfSums(r, p.y, p.row, y, addend);
  const VectorProduct v = *p.vector;
  const bool right = DimsOf(p.b).back() == 1;  // the vector is
  const int64_t n = DimsOf(p.y).back(), all = v.batch * v.results();
  const Buffer a = r->Input(0, p.a), b = r->Input(1, p.b);
  r->AddHost(
      [=](void* const* at) {
        const auto* row = static_cast<const float*>(at[2]);
        auto* to = static_cast<float*>(at[3]);
        v.Run(static_cast<const float*>(at[0]), static_cast<const float*>(at[1]), to);
        for (int64_t i = 0; row && i < all; ++i) to[i] += row[i % n];
      },
      {right ? a : b, right ? b : a, p.row, made});
  if (before) before(made);
  post.AddSteps(r, made, addend);
  r->WriteBack(made, y);
  return "by a vector" + post.description();
}

/// The same of a few rows.
std::string AddFewRowsProduct(Recipe* r, const Product& p, const PostOps& post,
                              const std::function<void(const Buffer&)>& before) {
  RowsProduct rows;
  std::tie(rows.packed, rows.packed_bytes) = p.few_rows.product->packed();
  const Dims dims = DimsOf(p.a);
  rows.x = r->Input(0, p.a);
  int64_t x_step = p.few_rows.x_step;
  if (x_step == 0) {
    rows.x = r->Reordered(rows.x, Plain(dims));
    x_step = dims.back();
  }
  rows.row = p.row;
  rows.y = p.y;
  rows.run = [product = p.few_rows.product, n = p.few_rows.rows, x_step](
                 const float* x, const float* row, const float* addend, float* y, float*) {
    product->Run(n, x, x_step, row, addend, y);
  };
  return "of few rows, packed" + AddRowsProduct(r, rows, post, before);
}

/// Adds the product and its epilogue to `r`; empty: oneDNN has no such product. `joined` is called
/// behind a primitive that does all of it. `before`: steps on the sums that oneDNN cannot do, so
/// what follows them comes after; null: none.
std::string AddProduct(Recipe* r, const Product& p, const PostOps& post,
                       const std::function<void()>& on_joined,
                       const std::function<void(const Buffer&)>& before = nullptr) {
  if (p.vector && !p.form.pack_a && !p.form.pack_b) return AddVectorProduct(r, p, post, before);
  if (p.few_rows.product && !p.form.pack_a) return AddFewRowsProduct(r, p, post, before);
  Desc b_wanted = p.fixed || p.form.pack_b ? AnyLayout(DimsOf(p.b)) : p.b;
  Desc a_wanted = p.form.pack_a ? AnyLayout(DimsOf(p.a)) : p.a;
  const auto describe = [&](const dnnl::primitive_attr& attr) {
    return p.row ? Describe<dnnl::matmul>(attr, a_wanted, b_wanted, p.bias, p.y)
                 : Describe<dnnl::matmul>(attr, a_wanted, b_wanted, p.y);
  };
  auto pd = describe({});
  if (!pd) return {};
  if (p.form.pack_a && pd.src_desc() == p.a) return {};  // there is nothing to pack
  if (p.form.pack_b && pd.weights_desc() == p.b) return {};
  if (IsSlow(pd) && (p.a != Plain(DimsOf(p.a)) || p.b != Plain(DimsOf(p.b)))) {
    // There is no fast code for operands that lie so.
    a_wanted = AnyLayout(DimsOf(p.a));
    b_wanted = AnyLayout(DimsOf(p.b));
    pd = describe({});
    if (!pd) return {};
  }
  bool joined = false;
  if (p.form.joins && !post.empty() && post.joinable() && !before) {
    const auto with = describe(post.attr());
    joined = IsFast(with, pd);
    if (joined) pd = with;
  }
  const Buffer y = r->Output(0, p.y);
  const Buffer addend = post.addend() ? r->Input(post.addend()->operand, p.y) : Buffer();
  const Buffer made = PlaceOfSums(r, p.y, p.row, y, joined ? Buffer() : addend);
  if (addend && joined) r->Copy(addend, made);
  r->Add(dnnl::matmul(pd),
         {{DNNL_ARG_SRC, r->Reordered(r->Input(0, p.a), pd.src_desc())},
          {DNNL_ARG_WEIGHTS, r->Reordered(r->Input(1, p.b), pd.weights_desc(), p.fixed)},
          {DNNL_ARG_BIAS, p.row},
          {DNNL_ARG_DST, made}},
         pd.scratchpad_desc());
  if (joined) on_joined();
  if (before) before(made);
  if (!joined) post.AddSteps(r, made, addend);
  r->WriteBack(made, y);
  return pd.impl_info_str() + post.description();
}

/// So few products are done before a second thread has begun. Measured on two cores of a Xeon: 32 x
/// 32 x 32 takes 1.1 us instead of 3.5, 64 x 10 x 64 2.1 instead of 2.9; 16 x 64 x 64 the same on
/// one as on two. A vector is bound by the reading of the matrix, which takes twice as long: of 128
/// x 512, the least that FewRowsProduct shares, 2.4 us instead of 1.2.
constexpr double kAloneProducts = 1 << 16;
/// Packing takes longer than it saves below this. Measured there: 0.8 to 1.3 times the time of the
/// given layout for a transposed left side, 0.6 to 7 times for a right side, which pays where its
/// rows fall on the same cache sets.
constexpr double kPackProducts = 1 << 20;

/// `make` makes the call of a Form.
template <class Make>
std::vector<Way> WaysOf(const ComputeRequest& q, const ProductShape& p, const Make& make) {
  const double products = double(CheckedProduct(p.y)) * double(p.a.back());
  const bool trans_a = Strided(p.a, p.a_steps) != Plain(p.a);
  const bool vector = CheckedProduct(p.y) == p.y.back();
  const bool alone = vector ? products < kAloneProducts : products <= kAloneProducts;
  const int threads = alone ? 1 : q.threads;
  std::vector<Way> ways;
  const auto add = [&](const char* name, Form form) {
    ways.push_back({name, [&make, form] { return Attempt([&] { return make(form); }); }});
  };
  add("given", {threads, false, false});
  if (products < kPackProducts) return ways;
  if (trans_a) add("pack a", {threads, true, false});
  if (!q.constants[1]) add("pack b", {threads, false, true});
  if (trans_a && !q.constants[1]) add("pack both", {threads, true, true});
  return ways;
}

Buffer RowOf(const Recipe& r, const PostOps& post, const Desc& desc) {
  return post.bias_row() ? r.Input(post.bias_row()->operand, desc) : Buffer();
}

std::unique_ptr<LibraryCall> MakeMatMul(const ComputeRequest& q, const ProductShape& p,
                                        const PostOps& post, const Form& form) {
  const ScopedThreads team(form.threads);
  Recipe r(form.threads);
  Dims row(p.y.size(), 1);
  row.back() = p.y.back();
  const auto keep_nan = [&] {
    post.KeepNan(&r, q, [q = Detached(q), p, post, again = Unjoined(form)] {
      return PrepareCall(q, [&] { return MakeMatMul(q, p, post, again); });
    });
  };
  const std::string how = AddProduct(
      &r,
      {Strided(p.a, p.a_steps), Strided(p.b, p.b_steps), Plain(p.y), Plain(row),
       RowOf(r, post, Plain(row)), q.constants[1], form, VectorOf(q, p), FewRowsOf(q, p)},
      post, keep_nan);
  return how.empty() ? nullptr : r.Finish("matmul " + how);
}

std::unique_ptr<LibraryCall> PrepareMatMul(const ComputeRequest& q) {
  if (!AllF32(q) || q.input_dims.size() != 2) return nullptr;
  const int64_t elements = CheckedProduct(q.output_dims[0]);
  if (elements == 0) return std::make_unique<ZeroCall>(0);
  if (CheckedProduct(q.input_dims[0]) == 0)
    return q.epilogue.empty() ? std::make_unique<ZeroCall>(elements) : nullptr;
  const auto operand = [&](size_t i, const char* perm) {
    return ProductOperand::Plain(q.input_dims[i]).Permuted(IntsAttr(q.node, perm));
  };
  const auto p = CollapseProduct(operand(0, "a_perm"), operand(1, "b_perm"));
  const auto post = PostOps::Read(q, ProductEpilogue);
  if (!p || !post) return nullptr;
  const auto make = [&](const Form& form) { return MakeMatMul(q, *p, *post, form); };
  return PrepareCall(q, [&] { return ChooseWay(q, WaysOf(q, *p, make)); });
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

/// What a Gemm adds and multiplies with.
struct GemmTerms {
  float alpha = 1, beta = 1;
  bool has_c = false;
  Dims c;  ///< extents, as a matrix
};

std::unique_ptr<LibraryCall> MakeGemm(const ComputeRequest& q, const ProductShape& p,
                                      const GemmTerms& terms, const PostOps& post,
                                      const Form& form) {
  const int64_t m = q.output_dims[0][0], n = q.output_dims[0][1];
  const ScopedThreads team(form.threads);
  Recipe r(form.threads);
  const Desc row = Plain({1, n});
  // A row that follows is added like C, with a factor of 1.
  const Buffer c = terms.has_c ? r.Input(2, Plain(terms.c)) : RowOf(r, post, row);
  const float alpha = terms.alpha, c_factor = terms.has_c ? terms.beta : 1;
  const Dims dims = terms.has_c ? terms.c : Dims{1, n};
  const bool as_bias = c && alpha == 1 && c_factor == 1 && dims == Dims{1, n};
  std::function<void(const Buffer&)> combine;
  if (!as_bias && (c || alpha != 1))
    combine = [&](const Buffer& y) {
      r.AddHost(
          [=](void* const* at) {
            Combine(static_cast<float*>(at[0]), static_cast<const float*>(at[1]), dims, m, n, alpha,
                    c_factor);
          },
          {y, c});
    };
  const auto keep_nan = [&] {
    post.KeepNan(&r, q, [q = Detached(q), p, terms, post, again = Unjoined(form)] {
      return PrepareCall(q, [&] { return MakeGemm(q, p, terms, post, again); });
    });
  };
  const std::string how =
      AddProduct(&r,
                 {Strided(p.a, p.a_steps), Strided(p.b, p.b_steps), Plain(p.y), row,
                  as_bias ? c : Buffer(), q.constants[1], form, VectorOf(q, p), FewRowsOf(q, p)},
                 post, keep_nan, combine);
  return how.empty() ? nullptr : r.Finish("gemm " + how);
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
  const auto post = PostOps::Read(q, ProductEpilogue);
  if (!post) return nullptr;
  GemmTerms terms{alpha, beta, has_c, {}};
  if (has_c) {
    const auto matrix = AsMatrix(q.input_dims[2], m, n);
    if (!matrix) return nullptr;
    terms.c = *matrix;
  }
  const auto operand = [&](size_t i, bool transposed) {
    return ProductOperand::Plain(q.input_dims[i]).Permuted(transposed ? Dims{1, 0} : Dims{});
  };
  const auto p = CollapseProduct(operand(0, trans_a), operand(1, trans_b));
  if (!p) return nullptr;
  const auto make = [&](const Form& form) { return MakeGemm(q, *p, terms, *post, form); };
  return PrepareCall(q, [&] { return ChooseWay(q, WaysOf(q, *p, make)); });
}

WEFT_REGISTER_OP(MatMul)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareMatMul))
    .set_attr<FTakesDType>("FTakesDType.cpu", TakesSingle)
    .set_attr<FEpilogue>("FEpilogue.cpu", EpilogueTakenBy(ProductEpilogue));
WEFT_REGISTER_OP_IN(weft, TransposedMatMul)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareMatMul))
    .set_attr<FTakesDType>("FTakesDType.cpu", TakesSingle)
    .set_attr<FEpilogue>("FEpilogue.cpu", EpilogueTakenBy(ProductEpilogue));
WEFT_REGISTER_OP(Gemm)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareGemm))
    .set_attr<FTakesDType>("FTakesDType.cpu", TakesSingle)
    .set_attr<FEpilogue>("FEpilogue.cpu", EpilogueTakenBy(ProductEpilogue));

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
