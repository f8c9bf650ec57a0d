/// tiny_text_model.h: language models with random weights, made of the operators that exporters
/// write: heads in groups, a causal mask, positions, caches.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph.h"

namespace weft {

struct TinyTextModel {
  int64_t tokens = 37, width = 16, heads = 4, kv_heads = 2, layers = 2, positions = 64;
  bool has_cache = true, has_mask = true, has_positions = true;
  bool last_scores = false;  ///< of the last token alone
  double softcap = 0;
  int64_t window = 0;  ///< keys that a token sees; 0: all before it
  std::string past = "past_key_values.", present = "present.";

  Graph Make(uint64_t seed = 1) const {
    Graph g;
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    const auto weight = [&](const std::vector<int64_t>& dims, double scale) {
      auto t = std::make_shared<Tensor>(DType::kF32, dims);
      for (int64_t i = 0; i < t->num_elements(); ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        t->mutable_data_as<float>()[i] = float((double(state >> 11) * 0x1p-53 - 0.5) * 2 * scale);
      }
      return NodeEntry(g.AddParam("w" + std::to_string(g.num_nodes()), t));
    };
    const auto op = [&](const char* name, const std::vector<NodeEntry>& in, AttrDict attrs = {},
                        const std::string& as = {}) {
      return NodeEntry(g.AddNode(name, in, std::move(attrs), as));
    };
    const auto ints = [&](const std::vector<int64_t>& v) {
      auto t = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{int64_t(v.size())});
      for (size_t i = 0; i < v.size(); ++i) t->set_int(int64_t(i), v[i]);
      return g.AddConstant(t);
    };
    const auto number = [&](double v, DType t = DType::kF32) {
      return g.AddConstant(Tensor::Scalar(t, v));
    };
    const SymInt b = SymInt::Symbol("batch"), s = SymInt::Symbol("sequence"),
                 p = SymInt::Symbol("past"), t = SymInt::Symbol("total");
    const int64_t depth = width / heads, group = heads / kv_heads;
    const NodeEntry ids(g.AddInput("input_ids", DType::kI64, {b, s}));
    NodeEntry mask, at;
    if (has_mask) mask = NodeEntry(g.AddInput("attention_mask", DType::kI64, {b, t}));
    if (has_positions) at = NodeEntry(g.AddInput("position_ids", DType::kI64, {b, s}));
    std::vector<NodeEntry> pasts, presents;
    for (int64_t l = 0; has_cache && l < layers; ++l)
      for (const char* what : {".key", ".value"})
        pasts.emplace_back(
            g.AddInput(past + std::to_string(l) + what, DType::kF32, {b, kv_heads, p, depth}));
    // Rows of queries and of keys by their places.
    const auto extent = [&](const NodeEntry& x, int64_t axis) {
      return op("Gather", {op("Shape", {x}), number(double(axis), DType::kI64)});
    };
    const NodeEntry zero = number(0, DType::kI64), one = number(1, DType::kI64);
    const NodeEntry count = extent(ids, 1);
    const NodeEntry held = has_cache ? extent(pasts[0], 2) : zero;
    const NodeEntry rows = op("Add", {op("Range", {zero, count, one}), held});
    const NodeEntry keys = op("Range", {zero, op("Add", {held, count}), one});
    const NodeEntry down = op("Unsqueeze", {rows, ints({1})});
    NodeEntry seen = op("LessOrEqual", {keys, down});  // [s, p + s]
    if (window > 0)
      seen = op("And",
                {seen, op("Less", {op("Sub", {down, keys}), number(double(window), DType::kI64)})});
    seen = op("Unsqueeze", {seen, ints({0, 1})});
    if (has_mask)
      seen =
          op("And",
             {seen, op("Unsqueeze", {op("Cast", {mask}, {{"to", DType::kBool}}), ints({1, 2})})});
    const NodeEntry hide = op("Where", {seen, number(0), number(-INFINITY)});

    NodeEntry x = op("Gather", {weight({tokens, width}, 1), ids});
    x = op("Add", {x, op("Gather", {weight({positions, width}, 1), has_positions ? at : rows})});
    const auto heads_of = [&](const NodeEntry& y, int64_t n) {
      return op("Transpose", {op("Reshape", {y, ints({0, 0, n, depth})})},
                {{"perm", Ints{0, 2, 1, 3}}});
    };
    for (int64_t l = 0; l < layers; ++l) {
      const double scale = 1 / std::sqrt(double(width));
      const NodeEntry normed = op("LayerNormalization", {x, weight({width}, 1.5)});
      const NodeEntry q =
          heads_of(op("MatMul", {normed, weight({width, width}, 2 * scale)}), heads);
      NodeEntry kv[2];
      for (int i = 0; i < 2; ++i) {
        kv[i] = heads_of(op("MatMul", {normed, weight({width, kv_heads * depth}, 2 * scale)}),
                         kv_heads);
        const std::string name = present + std::to_string(l) + (i == 0 ? ".key" : ".value");
        if (has_cache) {
          kv[i] = op("Concat", {pasts[size_t(2 * l + i)], kv[i]}, {{"axis", int64_t{2}}}, name);
          presents.push_back(kv[i]);
        }
        if (group == 1) continue;
        const NodeEntry shape = op("Shape", {kv[i]});
        const auto part = [&](int64_t from, int64_t to) {
          return op("Slice", {shape, ints({from}), ints({to})});
        };
        const NodeEntry many =
            op("Concat", {part(0, 2), ints({group}), part(2, 4)}, {{"axis", int64_t{0}}});
        const NodeEntry all =
            op("Concat", {part(0, 1), ints({heads}), part(2, 4)}, {{"axis", int64_t{0}}});
        kv[i] = op("Reshape", {op("Expand", {op("Unsqueeze", {kv[i], ints({2})}), many}), all});
      }
      NodeEntry scores = op("MatMul", {q, op("Transpose", {kv[0]}, {{"perm", Ints{0, 1, 3, 2}}})});
      scores = op("Mul", {scores, number(1 / std::sqrt(double(depth)))});
      if (softcap > 0)
        scores = op("Mul", {op("Tanh", {op("Div", {scores, number(softcap)})}), number(softcap)});
      const NodeEntry y = op("MatMul", {op("Softmax", {op("Add", {scores, hide})}), kv[1]});
      const NodeEntry joined =
          op("Reshape", {op("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}}), ints({0, 0, width})});
      x = op("Add", {x, op("MatMul", {joined, weight({width, width}, 2 * scale)})});
      const NodeEntry up = op("MatMul", {x, weight({width, 2 * width}, 2 * scale)});
      x = op("Add", {x, op("MatMul", {op("Gelu", {up}), weight({2 * width, width}, scale)})});
    }
    if (last_scores) x = op("Slice", {x, ints({-1}), ints({INT64_MAX}), ints({1})});
    std::vector<NodeEntry> outputs{op("MatMul", {x, weight({width, tokens}, 1)}, {}, "logits")};
    outputs.insert(outputs.end(), presents.begin(), presents.end());
    g.outputs = outputs;
    return g;
  }
};

}  // namespace weft
