/// ops.h: functions on tensors. Element-wise ones broadcast as numpy does. A number stands on
/// either side of an operator and takes the dtype of the tensor: 1 / (1 + exp(-x)), pow(x, 2),
/// 0.5 * x > 1.
#pragma once

#include <string>
#include <vector>

#include "tinyflow/graph.h"

namespace tf {

#define TF_BINARY(name)                          \
  Tensor name(const Tensor& a, const Tensor& b); \
  Tensor name(const Tensor& a, double b);        \
  Tensor name(double a, const Tensor& b);
TF_BINARY(operator+)
TF_BINARY(operator-)
TF_BINARY(operator*)
TF_BINARY(operator/)
TF_BINARY(operator>)
TF_BINARY(operator<)
TF_BINARY(operator>=)
TF_BINARY(operator<=)
TF_BINARY(pow)
TF_BINARY(equal)
TF_BINARY(maximum)
TF_BINARY(minimum)
TF_BINARY(modulo)  // of the sign of b
#undef TF_BINARY
Tensor operator-(const Tensor& a);

Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor square(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor cast(const Tensor& x, DType to);
/// a where `condition` holds, else b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

/// A row of `depth` numbers for every class number: a one in its place, zeros elsewhere.
Tensor one_hot(const Tensor& classes, int64_t depth, DType dtype = float32);

/// A value that is part of the graph.
Tensor constant(const Array& value, const std::string& name = "constant");
Tensor constant(double value, DType dtype = float32);
Tensor zeros(const Ints& shape, DType dtype = float32);
Tensor ones(const Ints& shape, DType dtype = float32);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);

/// Drawn at random when the node runs; the same in every run, so that they are meant for first
/// values. By a counter-based generator: what is drawn depends on the graph's seed and on how many
/// such nodes were built before.
Tensor uniform(const Ints& shape, double low = 0, double high = 1);
Tensor normal(const Ints& shape, double stddev = 1, double mean = 0);
/// As uniform(0, 1), of the shape of `x`, but drawn anew in every run that trains.
Tensor uniform_like(const Tensor& x);

Tensor matmul(const Tensor& a, const Tensor& b);
Tensor transpose(const Tensor& x, const Ints& perm);
Tensor reshape(const Tensor& x, const Ints& shape);  ///< 0 keeps an extent, -1 takes what is left
Tensor concat(const std::vector<Tensor>& parts, int64_t axis);
Tensor pad(const Tensor& x, const Ints& begin_and_end, double value = 0);
/// No axes: all of them.
Tensor reduce_sum(const Tensor& x, const Ints& axes = {}, bool keep_dims = false);
Tensor reduce_mean(const Tensor& x, const Ints& axes = {}, bool keep_dims = false);
Tensor reduce_max(const Tensor& x, const Ints& axes = {}, bool keep_dims = false);
Tensor argmax(const Tensor& x, int64_t axis);  ///< i64, the first of equal ones

/// Gives `variable` another value when it is run; the result is that value. Reads that were built
/// before see the old one.
Tensor assign(const Tensor& variable, const Tensor& value);
/// Runs all of them; the result holds nothing.
Tensor group(const std::vector<Tensor>& tensors);

/// Gradients of the sum of y by each of `xs`; zeros where y does not depend on it. They are
/// ordinary tensors, so gradients of gradients are as well. Throws naming every operator on the
/// way that has none.
std::vector<Tensor> gradients(const Tensor& y, const std::vector<Tensor>& xs);

/// `training` in a run that trains, `inference` in one that does not. Has no cost: a compiled
/// program holds one of them.
Tensor when_training(const Tensor& training, const Tensor& inference);
/// Registers what has to run with every training step (running statistics).
void add_update(const Tensor& update);
/// All that was registered, and the step of what is drawn at random. Optimizers put it into their
/// step; who writes an update by hand groups it with the own one. Call it when the graph is built.
std::vector<Tensor> update_ops();

}  // namespace tf
