/// random_graph_vision.h: what the rules on images share.
#pragma once

#include "random_graph_builder.h"

namespace weft::fuzz {

/// f[n, c, spatial...] with one or two spatial axes and a known number of channels.
bool IsImage(const Item& i);
/// An image with nothing empty but the batch, under every binding; null when a few tries find none.
const Item* FindImage(Builder& b);
int64_t Channels(const Item& x);
std::vector<SymInt> Spatial(const Item& x);
/// Elements under the largest binding.
double Count(const Builder& b, const std::vector<SymInt>& dims);

/// Sum of `terms` products with weights up to `weight` in size, and a bias.
Values SumOfProducts(const Item& x, double terms, double weight, double bias);
/// A constant or a parameter mostly, now and then an input.
NodeEntry Weights(Builder& b, DType t, const std::vector<int64_t>& dims, double lo, double hi);
/// Appends a bias to the operands, nothing, or an absent operand.
void MaybeBias(Builder& b, DType t, int64_t channels, std::vector<NodeEntry>* in, double* size);

/// random_graph_image.cc: part of VisionRules().
std::vector<std::pair<double, Rule>> ImageRules();

}  // namespace weft::fuzz
