/// conv_product.cc: 1 x 1 convolutions by oneDNN's matmul.
#ifdef WEFT_HAVE_ONEDNN

#include "conv_product.h"

#include "backends/cpu/util/compute_util.h"

namespace weft::cpu {
namespace {

bool IsProduct(const ComputeRequest& q, const ConvShape& c) {
  if (c.groups != 1 || LayoutOf(q.input_layouts, 0) != Layout::kChannelsLast ||
      LayoutOf(q.output_layouts, 0) != Layout::kChannelsLast)
    return false;
  const WindowShape& w = c.window;
  for (size_t k = 0; k < w.rank(); ++k)
    if (w.kernel[k] != 1 || w.strides[k] != 1 || w.begin[k] != 0 || w.end[k] != 0) return false;
  return true;
}

}  // namespace

std::unique_ptr<LibraryCall> MakeConvProduct(const ComputeRequest& q, const ConvShape& c,
                                             const PostOps& post, bool joins) {
  if (!IsProduct(q, c) || !(post.empty() || post.joinable())) return nullptr;
  const CallStep* added = post.addend();
  if (added && added->operand_layout != Layout::kChannelsLast) return nullptr;
  const int64_t rows = CheckedMul(c.images, CheckedProduct(c.window.in));
  const Desc x = Plain({rows, c.channels}), y = Plain({rows, c.filters}),
             row = Plain({1, c.filters}), w = Strided({c.channels, c.filters}, {1, c.channels}),
             wanted = q.constants[1] ? AnyLayout(DimsOf(w)) : w;
  const bool bias = HasInput(q, 2);
  const auto describe = [&](const dnnl::primitive_attr& attr) {
    return bias ? Describe<dnnl::matmul>(attr, x, wanted, row, y)
                : Describe<dnnl::matmul>(attr, x, wanted, y);
  };
  auto pd = describe({});
  const bool joined = joins && !post.empty();
  if (pd && joined) {
    const auto with = describe(post.attr());
    if (!IsFast(with, pd)) return nullptr;
    pd = with;
  }
  if (!pd) return nullptr;
  Recipe r(q.threads);
  const Buffer addend = added ? r.Input(added->operand, y) : Buffer();
  const Buffer made = addend && !joined ? r.Temporary(y) : r.Output(0, y);
  if (addend && joined) r.Copy(addend, made);
  r.Add(dnnl::matmul(pd),
        {{DNNL_ARG_SRC, r.Input(0, x)},
         {DNNL_ARG_WEIGHTS, r.Reordered(r.Input(1, w), pd.weights_desc(), q.constants[1])},
         {DNNL_ARG_BIAS, bias ? r.Input(2, row) : Buffer()},
         {DNNL_ARG_DST, made}},
        pd.scratchpad_desc());
  if (joined) {
    post.KeepNan(&r, q, [q = Detached(q), c, post] {
      return PrepareCall(q, [&] { return MakeConvProduct(q, c, post, /*joins=*/false); });
    });
  } else {
    post.AddSteps(&r, made, addend);
    r.WriteBack(made, r.Output(0, y));
  }
  return r.Finish(std::string("conv as matmul ") + pd.impl_info_str() + post.description());
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
