/// conv_primitives.h: oneDNN's descriptions of a convolution and its gradients, by the algorithm
/// that suits the extents.
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include "conv_cost.h"
#include "conv_staging.h"

namespace weft::cpu {

using ForwardDesc = dnnl::convolution_forward::primitive_desc;
using GradDataDesc = dnnl::convolution_backward_data::primitive_desc;
using GradWeightDesc = dnnl::convolution_backward_weights::primitive_desc;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;
constexpr auto kWinograd = dnnl::algorithm::convolution_winograd;
/// What choices among ways call them.
inline const char* NameOf(dnnl::algorithm a) { return a == kDirect ? "direct" : "winograd"; }

/// All for `n` images; empty where oneDNN has none. `packed`: the weights are constant, so a layout
/// that takes long to make is welcome.
ForwardDesc DescribeForward(const ConvShape& c, const Desc& x, const Desc& y,
                            dnnl::algorithm algorithm, bool bias, bool packed,
                            const dnnl::primitive_attr& attr = {});
/// Source and result in the layouts that oneDNN chooses.
inline ForwardDesc DescribeForward(const ConvShape& c, int64_t n, dnnl::algorithm algorithm,
                                   bool bias, bool packed, const dnnl::primitive_attr& attr = {}) {
  return DescribeForward(c, AnyLayout(c.source(n)), AnyLayout(c.result(n)), algorithm, bias, packed,
                         attr);
}
/// `last`: source and result lie with their channels last outside. Direct sums take them so then,
/// though left alone oneDNN asks for blocks of 16 channels. Measured, [64, 32, 16, 16] with 32
/// filters: dx 657 us against 606 and copies of 41, dW 589 against 624 and 41; [64, 64, 8, 8] with
/// 64: dx 572 against 584 and 18, dW 528 against 624 and 18.
GradDataDesc DescribeGradData(const ConvShape& c, int64_t n, dnnl::algorithm algorithm, bool last);
GradWeightDesc DescribeGradWeight(const ConvShape& c, int64_t n, dnnl::algorithm algorithm,
                                  bool last);

/// Does oneDNN convolve with the channels innermost on this machine? Where it blocks them instead,
/// neither layout saves a reorder. Asked with a convolution as they are in the middle of networks.
bool PrefersChannelsLast();
/// Is there a Winograd for such windows? Padding that is not the same on both sides of an axis
/// gives a wrong dx in oneDNN 2.6.3.
bool FitsWinograd(const ConvShape& c);
/// Left alone, oneDNN takes an implementation that multiplies matrices for groups whose channels
/// do not fill its blocks, though it has a direct one for channels last: 30 channels in 3 groups,
/// 0.18 ms against 0.06.
bool NeedsChannelsLast(const ConvShape& c);
/// A 1 x 1 on planes that is best done as they lie, each image a product of matrices: nothing is
/// transposed. Measured on a Xeon with AVX-512, one thread: [8, 64, 56, 56] to 256 13.4 ms and 6.1.
/// Few positions make narrow products: [1, 512, 7, 7] to 2048 0.87 ms, between transpositions 0.70.
bool IsPlainProduct(const ConvShape& c);
/// Do both lie with their channels last?
bool AreLast(const ConvShape& c, const Desc& x, const Desc& y);
/// The algorithm for all images at once. `x` and `y`: how source and result (or
/// their gradients) lie outside.
dnnl::algorithm ChooseAlgorithm(ConvPass pass, const ConvShape& c, bool packed, const Desc& x,
                                const Desc& y);

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
