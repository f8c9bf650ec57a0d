/* window.h: sliding windows of convolutions and pooling as ONNX pads them, and as torch does. Along
 * one axis, with reach = (kernel - 1) dilation + 1:
 *
 *   padding given     out = floor or ceil((in + begin + end - reach) / stride) + 1
 *   auto_pad SAME_*   out = ceil(in / stride), total = max(0, (out - 1) stride + reach - in)
 *
 * torch pads both sides equally. Where that gives the same windows it is told so; else the operand
 * is padded first. */
#ifndef WEFT_PLUGINS_LIBTORCH_WINDOW_H_
#define WEFT_PLUGINS_LIBTORCH_WINDOW_H_

#include "ops.h"

enum { kMaxSpatial = 3 };
typedef struct Window {
  int rank; /* spatial axes */
  bool same, upper, ceil;
  int64_t in[kMaxSpatial], kernel[kMaxSpatial], out[kMaxSpatial];
  int64_t strides[kMaxSpatial], dilations[kMaxSpatial], begin[kMaxSpatial], end[kMaxSpatial];
  int64_t output_padding[kMaxSpatial], output_shape[kMaxSpatial];
  bool has_output_shape;
} Window;

typedef enum WindowKind { kConvolution, kTransposed, kPooling } WindowKind;
/* The attributes of a node of this kind for so many spatial axes. */
WeftStatus ReadWindow(Build* b, WindowKind kind, int rank, Window* w);
/* Its begins, and the ends that the last windows need, from `in`, `kernel` and `out`. */
void ResolveWindow(Window* w);
/* Those of a ConvTranspose to `in` from `out`. */
void ResolveTransposed(Window* w);
static inline int64_t Reach(const Window* w, int k) {
  return (w->kernel[k] - 1) * w->dilations[k] + 1;
}
static inline int64_t Covered(const Window* w, int k) {
  return (w->out[k] - 1) * w->strides[k] + Reach(w, k);
}
/* [n, c, spatial] `x` with the padding of the windows. */
int PaddedFor(Build* b, const Window* w, int x, double number);
/* The reverse: what of a padded tensor is x, zeros where windows did not reach. */
int UnpaddedFor(Build* b, const Window* w, int padded);

#endif /* WEFT_PLUGINS_LIBTORCH_WINDOW_H_ */
