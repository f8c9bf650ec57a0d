/// fake_onnx.cc: see fake_onnx.h. The wire format is protobuf's, field numbers are those of
/// onnx.proto.
#include "fake_onnx.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

namespace fake {
namespace {

/// One message: its fields in order.
class Fields {
 public:
  explicit Fields(const std::string& bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  bool Next() {
    if (at_ == end_) return false;
    const uint64_t key = Varint();
    field = int(key >> 3);
    wire_ = int(key & 7);
    switch (wire_) {
      case 0:
        number = int64_t(Varint());
        break;
      case 1:
        text = Take(8);
        break;
      case 2:
        text = Take(Varint());
        break;
      case 5:
        text = Take(4);
        break;
      default:
        throw std::runtime_error("damaged");
    }
    return true;
  }
  int field = 0;
  int64_t number = 0;
  std::string text;
  /// A repeated number, packed or not.
  void AppendTo(std::vector<int64_t>* all) {
    if (wire_ == 0) {
      all->push_back(number);
      return;
    }
    Fields packed(text);
    while (packed.at_ != packed.end_) all->push_back(int64_t(packed.Varint()));
  }

 private:
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) throw std::runtime_error("damaged");
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw std::runtime_error("damaged");
  }
  std::string Take(uint64_t n) {
    if (n > uint64_t(end_ - at_)) throw std::runtime_error("damaged");
    at_ += n;
    return {at_ - n, size_t(n)};
  }
  int wire_ = 0;
  const char *at_, *end_;
};

template <class T>
std::vector<T> Elements(const std::string& raw) {
  std::vector<T> all(raw.size() / sizeof(T));
  if (!all.empty()) std::memcpy(all.data(), raw.data(), all.size() * sizeof(T));
  return all;
}

std::pair<std::string, Tensor> ReadTensor(const std::string& bytes) {
  std::pair<std::string, Tensor> out;
  Tensor& t = out.second;
  std::string raw;
  for (Fields f(bytes); f.Next();) {
    if (f.field == 1) f.AppendTo(&t.dims);
    if (f.field == 2) t.type = int32_t(f.number);
    if (f.field == 4) t.floats = Elements<float>(f.text);
    if (f.field == 7) f.AppendTo(&t.ints);
    if (f.field == 8) out.first = f.text;
    if (f.field == 9) raw = f.text;
  }
  if (!raw.empty() && t.type == kFloat) t.floats = Elements<float>(raw);
  if (!raw.empty() && t.type == kInt64) t.ints = Elements<int64_t>(raw);
  return out;
}

Node ReadNode(const std::string& bytes) {
  Node n;
  for (Fields f(bytes); f.Next();) {
    if (f.field == 1) n.inputs.push_back(f.text);
    if (f.field == 2) n.outputs.push_back(f.text);
    if (f.field == 3) n.name = f.text;
    if (f.field == 4) n.op = f.text;
    if (f.field != 5) continue;
    for (Fields a(f.text); a.Next();)
      if (a.field == 5) n.value = ReadTensor(a.text).second;
  }
  return n;
}

std::pair<std::string, Tensor> ReadValueInfo(const std::string& bytes) {
  std::pair<std::string, Tensor> out;
  for (Fields f(bytes); f.Next();) {
    if (f.field == 1) out.first = f.text;
    if (f.field != 2) continue;
    for (Fields type(f.text); type.Next();) {
      if (type.field != 1) continue;
      for (Fields tensor(type.text); tensor.Next();) {
        if (tensor.field == 1) out.second.type = int32_t(tensor.number);
        if (tensor.field != 2) continue;
        for (Fields shape(tensor.text); shape.Next();) {
          int64_t extent = -1;
          for (Fields d(shape.text); d.Next();)
            if (d.field == 1) extent = d.number;
          out.second.dims.push_back(extent);
        }
      }
    }
  }
  return out;
}

// ---- operators ----

float Rounded(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  constexpr uint32_t kLost = 13;
  bits = (bits + (1u << (kLost - 1))) >> kLost << kLost;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

using Unary = float (*)(float);
const std::map<std::string, Unary>& UnaryOps() {
  static const std::map<std::string, Unary> ops = {
      {"Relu", [](float x) { return x > 0 ? x : 0; }},
      {"Neg", [](float x) { return -x; }},
      {"Abs", [](float x) { return std::fabs(x); }},
      {"Exp", [](float x) { return std::exp(x); }},
      {"Tanh", [](float x) { return std::tanh(x); }},
      {"Sqrt", [](float x) { return std::sqrt(x); }},
      {"Identity", [](float x) { return x; }},
  };
  return ops;
}
using Binary = float (*)(float, float);
const std::map<std::string, Binary>& BinaryOps() {
  static const std::map<std::string, Binary> ops = {
      {"Add", [](float a, float b) { return a + b; }},
      {"Sub", [](float a, float b) { return a - b; }},
      {"Mul", [](float a, float b) { return a * b; }},
      {"Div", [](float a, float b) { return a / b; }},
  };
  return ops;
}

std::vector<int64_t> Broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> out(std::max(a.size(), b.size()));
  for (size_t k = 0; k < out.size(); ++k) {  // from the back
    const int64_t x = k < a.size() ? a[a.size() - 1 - k] : 1;
    const int64_t y = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (x != y && x != 1 && y != 1) throw std::runtime_error("extents do not broadcast");
    out[out.size() - 1 - k] = x == 1 ? y : x;
  }
  return out;
}

/// The element of an operand that element `i` of a result of extents `dims` reads.
size_t At(const Tensor& t, const std::vector<int64_t>& dims, int64_t i) {
  int64_t at = 0, stride = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t extent = dims[dims.size() - 1 - k], x = i % extent;
    i /= extent;
    if (k >= t.dims.size()) continue;
    const int64_t own = t.dims[t.dims.size() - 1 - k];
    at += (own == 1 ? 0 : x) * stride;
    stride *= own;
  }
  return size_t(at);
}

Tensor MatMul(const Tensor& a, const Tensor& b, bool tf32) {
  if (a.dims.size() != 2 || b.dims.size() != 2 || a.dims[1] != b.dims[0])
    throw std::runtime_error("MatMul takes matrices");
  Tensor y;
  y.type = kFloat;
  y.dims = {a.dims[0], b.dims[1]};
  y.floats.resize(size_t(y.size()));
  const auto of = [&](float x) { return double(tf32 ? Rounded(x) : x); };
  const auto m = size_t(a.dims[0]), n = size_t(b.dims[1]), depth = size_t(a.dims[1]);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t k = 0; k < depth; ++k)
        sum += of(a.floats[i * depth + k]) * of(b.floats[k * n + j]);
      y.floats[i * n + j] = float(sum);
    }
  return y;
}

Tensor Reshape(Tensor x, const Tensor& shape) {
  int64_t known = 1;
  std::vector<int64_t> dims = shape.ints;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) dims[d] = x.dims.at(d);
    if (dims[d] > 0) known *= dims[d];
  }
  for (int64_t& d : dims)
    if (d < 0) d = x.size() / std::max<int64_t>(known, 1);
  x.dims = dims;
  return x;
}

Tensor Compute(const Node& n, const std::vector<const Tensor*>& in, bool tf32) {
  Tensor y;
  if (n.op == "Constant") return n.value;
  if (n.op == "MatMul") return MatMul(*in[0], *in[1], tf32);
  if (n.op == "Reshape") return Reshape(*in[0], *in[1]);
  if (n.op == "Shape") {
    y.type = kInt64;
    y.ints = in[0]->dims;
    y.dims = {int64_t(y.ints.size())};
    return y;
  }
  if (in[0]->type != kFloat) throw std::runtime_error(n.op + " takes f32 here");
  y.type = kFloat;
  if (const auto u = UnaryOps().find(n.op); u != UnaryOps().end()) {
    y = *in[0];
    for (float& x : y.floats) x = u->second(x);
    return y;
  }
  const Binary f = BinaryOps().at(n.op);
  y.dims = Broadcast(in[0]->dims, in[1]->dims);
  y.floats.resize(size_t(y.size()));
  for (int64_t i = 0; i < y.size(); ++i)
    y.floats[size_t(i)] =
        f(in[0]->floats[At(*in[0], y.dims, i)], in[1]->floats[At(*in[1], y.dims, i)]);
  return y;
}

}  // namespace

int64_t Tensor::size() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

Model Model::Parse(const std::string& bytes) {
  Model m;
  for (Fields f(bytes); f.Next();) {
    if (f.field != 7) continue;
    for (Fields g(f.text); g.Next();) {
      if (g.field == 1) m.nodes.push_back(ReadNode(g.text));
      if (g.field == 5) m.constants.insert(ReadTensor(g.text));
      if (g.field != 11 && g.field != 12) continue;
      auto named = ReadValueInfo(g.text);
      (g.field == 11 ? m.inputs : m.outputs).push_back(named.first);
      m.types.insert(std::move(named));
    }
  }
  return m;
}

bool Computes(const std::string& op) {
  return op == "Constant" || op == "MatMul" || op == "Reshape" || op == "Shape" ||
         UnaryOps().count(op) || BinaryOps().count(op);
}
bool IsShapeInput(const Node& node, size_t input) { return node.op == "Reshape" && input == 1; }

std::map<std::string, Tensor> Run(const Model& model, std::map<std::string, Tensor> values,
                                  bool tf32) {
  values.insert(model.constants.begin(), model.constants.end());
  for (const Node& n : model.nodes) {
    std::vector<const Tensor*> in;
    for (const std::string& name : n.inputs) in.push_back(&values.at(name));
    values[n.outputs.at(0)] = Compute(n, in, tf32);
  }
  return values;
}

}  // namespace fake
