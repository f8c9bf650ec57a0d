/// conv.cc: Conv in f32 over one to three spatial axes, by oneDNN; conv_grad.cc has its gradients.
///
/// Layout. oneDNN chooses the layouts inside (`format_tag::any`), constant weights are packed once.
/// Outside, tensors are plain (n, c, spatial) or, where the pass Layout could arrange it, lie as
/// direct convolutions want them: channels last, on every machine with AVX-512. Others are copied
/// on the way in and out, a few images at a time so that the copies stay in cache. Measured on a
/// 2-core Zen 5 with oneDNN 2.6.3, [32, 256, 512, 1] with 512 filters of 5 x 1 (21.3 GFLOP): plain
/// layouts 58 to 80 ms (im2col and GEMM); chosen ones (channels last) 43.3 ms for the convolution
/// itself, 51 ms with oneDNN's reorders of the whole batch. This file, copies included: 47.7 ms
/// (447 GFLOP/s; 235 on one thread, 90 % of its peak), with 3 MB of scratch instead of 50.
///
/// The algorithm is direct or Winograd's (conv_cost.h), sums on planes (plane_conv.h), or what
/// timing prefers (tuning.h); what follows the convolution joins it (post_ops.h).
#ifdef WEFT_HAVE_ONEDNN

#include "backends/cpu/onednn/onednn_adapter.h"
#include "backends/cpu/onednn/post_ops.h"
#include "backends/cpu/util/channel_blocks.h"
#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "backends/cpu/util/tuning.h"
#include "conv_primitives.h"
#include "conv_product.h"
#include "conv_staging.h"
#include "double_conv.h"
#include "plane_conv.h"
#include "weft/core/op/op.h"

namespace weft::cpu {
namespace {

/// One way to convolve.
struct Form {
  dnnl::algorithm algorithm = kDirect;
  bool in_blocks = false;  ///< inside channels lie in blocks of 16; else as oneDNN chooses
  int64_t images = 0;      ///< of one repetition; 0: as ChunkOf says
  bool joins = true;       ///< what follows may join it
};

std::unique_ptr<LibraryCall> MakeConv(const ComputeRequest& q, const ConvShape& c,
                                      const PostOps& post, const Form& form) {
  const bool bias = HasInput(q, 2), packed = q.constants[1] != nullptr;
  const Layout x_layout = LayoutOf(q.input_layouts, 0), y_layout = LayoutOf(q.output_layouts, 0);
  const auto x_desc = [&](int64_t n) { return Lying(c.source(n), x_layout); };
  const auto y_desc = [&](int64_t n) { return Lying(c.result(n), y_layout); };
  const bool plain = !form.in_blocks && x_layout == Layout::kPlain && y_layout == Layout::kPlain &&
                     IsPlainProduct(c),
             last = !plain && !form.in_blocks && form.algorithm == kDirect && NeedsChannelsLast(c);
  const auto inside = [&](const Dims& dims) {
    return form.in_blocks ? InBlocks(dims)
           : plain        ? Plain(dims)
           : last         ? ChannelsLast(dims)
                          : AnyLayout(dims);
  };
  const auto describe = [&](int64_t n, const dnnl::primitive_attr& attr = {}) {
    return DescribeForward(c, inside(c.source(n)), inside(c.result(n)), form.algorithm, bias,
                           packed, attr);
  };
  auto pd = describe(c.images);
  if (!pd) return nullptr;
  if (form.in_blocks) {
    const auto chosen = DescribeForward(c, c.images, form.algorithm, bias, packed);
    if (chosen.src_desc() == pd.src_desc() && chosen.dst_desc() == pd.dst_desc()) return nullptr;
    if (!IsFast(pd, chosen)) return nullptr;
  }
  int64_t chunk = c.images;
  const int64_t staged = StagedBytes(pd.src_desc(), x_desc(c.images), c.images) +
                         StagedBytes(pd.dst_desc(), y_desc(c.images), c.images);
  // A call that transforms its weights does so in every repetition.
  if (packed || form.algorithm == kDirect) chunk = ChunkOf(c, staged, q.threads);
  if (form.images > 0) {
    // Much smaller ones never won.
    if (staged == 0 || form.images == chunk || 2 * form.images < chunk) return nullptr;
    chunk = form.images;
  }
  if (chunk != c.images) pd = describe(chunk);
  if (!pd) return nullptr;
  bool joined = false;
  if (form.joins && !post.empty() && post.joinable()) {
    const auto with = describe(chunk, post.attr());
    joined = IsFast(with, pd);
    if (joined) pd = with;
  }

  Recipe r(q.threads);
  r.Repeat(c.images / chunk);
  const Buffer x = r.Reordered(r.Input(0, x_desc(chunk), true), pd.src_desc());
  const Buffer w = r.Reordered(r.Input(1, Plain(c.weights())), pd.weights_desc(), q.constants[1],
                               /*once=*/true);
  const Buffer y = r.Output(0, y_desc(chunk), true);
  Buffer addend;
  if (const CallStep* s = post.addend())
    addend = r.Input(s->operand, Lying(c.result(chunk), s->operand_layout), true);
  // Steps behind the convolution still need the addend, which may be in the place of the result.
  const Buffer made = addend && !joined ? r.Temporary(pd.dst_desc()) : r.Staged(y, pd.dst_desc());
  if (addend && joined) r.Copy(addend, made);
  r.Add(dnnl::convolution_forward(pd),
        {{DNNL_ARG_SRC, x},
         {DNNL_ARG_WEIGHTS, w},
         {DNNL_ARG_BIAS, bias ? r.Input(2, Plain({c.filters})) : Buffer()},
         {DNNL_ARG_DST, made}},
        pd.scratchpad_desc());
  if (joined)
    post.KeepNan(&r, q,
                 [q = Detached(q), c, post,
                  again = Form{form.algorithm, form.in_blocks, form.images, false}] {
                   return PrepareCall(q, [&] { return MakeConv(q, c, post, again); });
                 });
  else
    post.AddSteps(&r, made, addend);
  r.WriteBack(made, y);
  return r.Finish(std::string("conv ") + pd.impl_info_str() + post.description());
}

/// The ways to do it. Measured on two cores of a Xeon with AVX-512 (family 6, model 207), whole
/// calls: other chunks for Winograd 0.86 to 1.25 times the static ones' time; blocks inside 0.65 to
/// 0.95 for 1 x 1 in plain layout, 0.85 for 7 x 7 pixels of many channels whose weights are no
/// constant; a product 0.91 to 1.25 for 1 x 1. Never faster: the layout that the tensors have
/// outside, one thread, other chunks for direct sums.
std::vector<Way> WaysOf(const ComputeRequest& q, const ConvShape& c, const PostOps& post) {
  const bool packed = q.constants[1] != nullptr;
  const dnnl::algorithm modelled = ChooseAlgorithm(
      ConvPass::kForward, c, packed, Lying(c.source(c.images), LayoutOf(q.input_layouts, 0)),
      Lying(c.result(c.images), LayoutOf(q.output_layouts, 0)));
  std::vector<Way> ways;
  const auto add = [&](std::string name, Form form) {
    ways.push_back({std::move(name), [&q, &c, &post, form] {
                      return Attempt([&] { return MakeConv(q, c, post, form); });
                    }});
  };
  const auto planes = [&] {
    ways.push_back({"planes", [&] { return MakePlaneConv(q, c, post); }});
  };
  const bool on_planes =
      ForcedChoice() == ConvChoice::kModel &&
      PlaneConv::Pays(c, LayoutOf(q.input_layouts, 0), LayoutOf(q.output_layouts, 0));
  if (on_planes) planes();
  add(NameOf(modelled), {modelled});
  if (ForcedChoice() != ConvChoice::kModel) return ways;
  if (!on_planes) planes();
  if (c.groups == 1 && c.channels % kChannelBlock == 0 && c.filters % kChannelBlock == 0)
    add("blocks", {kDirect, /*in_blocks=*/true});
  if (FitsWinograd(c)) {
    const dnnl::algorithm other = modelled == kDirect ? kWinograd : kDirect;
    add(NameOf(other), {other});
    for (int64_t n = 1; packed && n <= c.images; n *= 2)
      if (c.images % n == 0) add("winograd/" + std::to_string(n), {kWinograd, false, n});
  }
  ways.push_back({"product", [&] { return Attempt([&] { return MakeConvProduct(q, c, post); }); }});
  return ways;
}

std::unique_ptr<LibraryCall> PrepareConv(const ComputeRequest& q) {
  if (q.input_dims.size() < 2) return nullptr;
  if (AreDoubles(q)) return MakeDoubleConv(q);
  if (!AllF32(q)) return nullptr;
  if (CheckedProduct(q.output_dims[0]) == 0) return std::make_unique<ZeroCall>(0);
  if (CheckedProduct(q.input_dims[0]) == 0 || CheckedProduct(q.input_dims[1]) == 0) {
    if (HasInput(q, 2) || !q.epilogue.empty()) return nullptr;
    return std::make_unique<ZeroCall>(CheckedProduct(q.output_dims[0]));
  }
  const auto c = ReadConv(q.node, q.input_dims[0], q.input_dims[1], q.output_dims[0]);
  const auto post = PostOps::Read(q, ConvEpilogue);
  if (!c || !post) return nullptr;
  return PrepareCall(q, [&] { return ChooseWay(q, WaysOf(q, *c, *post)); });
}

LayoutWish ConvLayout(const NodePtr&, DType t) {
  if (!TakesSingle(t) || !PrefersChannelsLast()) return {};
  return {{Layout::kChannelsLast}, {Layout::kChannelsLast}};
}

WEFT_REGISTER_OP(Conv)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareConv))
    .set_attr<FEpilogue>("FEpilogue.cpu", EpilogueTakenBy(ConvEpilogue))
    .set_attr<FLayout>("FLayout.cpu", ConvLayout);

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
