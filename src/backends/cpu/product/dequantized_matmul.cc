/// dequantized_matmul.cc: weft::DequantizedMatMul, by loops of ours that read the weight packed, in
/// the bits that it is stored in.
#ifdef WEFT_HAVE_ONEDNN

#include "backends/cpu/onednn/onednn_adapter.h"
#include "backends/cpu/onednn/post_ops.h"
#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "compressed_product.h"
#include "rows_product.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/core/takes_dtype.h"
#include "weft/support/check.h"

namespace weft::cpu {
namespace {

/// Inputs a, codes, scale, zero.
std::unique_ptr<LibraryCall> PrepareDequantizedMatMul(const ComputeRequest& q) {
  if (q.input_dims.size() < 3 || q.input_types[0] != DType::kF32 ||
      q.output_types[0] != DType::kF32 || q.input_dims[1].size() != 2)
    return nullptr;
  CompressedWeight w;
  w.codes = q.constants[1];
  w.scale = q.constants[2];
  const bool has_zero = HasInput(q, 3);
  w.zero = has_zero ? q.constants[3] : nullptr;
  w.transposed = IntAttr(q.node, "transB", 0) != 0;
  w.block = IntAttr(q.node, "block_size", 0);
  w.depth = q.input_dims[1][w.transposed ? 1 : 0];
  w.columns = q.input_dims[1][w.transposed ? 0 : 1];
  const int64_t elements = CheckedProduct(q.output_dims[0]);
  if (elements == 0) return std::make_unique<ZeroCall>(0);
  if (w.depth == 0) return q.epilogue.empty() ? std::make_unique<ZeroCall>(elements) : nullptr;
  const auto post = PostOps::Read(q, ProductEpilogue);
  if (!post || (has_zero && !w.zero) || !CompressedProduct::Takes(w)) return nullptr;
  return PrepareCall(q, [&] {
    const int64_t rows = elements / w.columns;
    const auto product = std::make_shared<const CompressedProduct>(w);
    Recipe r(q.threads);
    RowsProduct p;
    p.run = [product, rows, depth = w.depth](const float* x, const float* row, const float* addend,
                                             float* y, float* scratch) {
      product->Run(rows, x, depth, row, addend, y, scratch);
    };
    p.x = r.Input(0, Plain({rows, w.depth}));
    if (post->bias_row()) p.row = r.Input(post->bias_row()->operand, Plain({1, w.columns}));
    p.y = Plain({rows, w.columns});
    p.scratch_floats = product->scratch_floats(rows);
    std::tie(p.packed, p.packed_bytes) = product->packed();
    const std::string how = AddRowsProduct(&r, p, *post);
    return r.Finish(fmt::format("matmul of {}, packed{}", DTypeName(w.codes->dtype()), how));
  });
}

WEFT_REGISTER_OP_IN(weft, DequantizedMatMul)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareDequantizedMatMul))
    .set_attr<FTakesDType>("FTakesDType.cpu", TakesSingle)
    .set_attr<FEpilogue>("FEpilogue.cpu", EpilogueTakenBy(ProductEpilogue));

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
