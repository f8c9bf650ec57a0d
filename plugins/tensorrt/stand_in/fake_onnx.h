/// fake_onnx.h: the little of ONNX that the stand-in for TensorRT reads and computes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake {

enum OnnxType : int32_t {
  kFloat = 1,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kBfloat16 = 16
};

struct Tensor {
  int32_t type = 0;
  std::vector<int64_t> dims;  ///< -1: not known before a run
  std::vector<float> floats;  ///< of kFloat
  std::vector<int64_t> ints;  ///< of kInt64
  int64_t size() const;
};

struct Node {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
  Tensor value;  ///< of a Constant
};

struct Model {
  std::vector<Node> nodes;
  std::map<std::string, Tensor> constants;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Tensor> types;  ///< of inputs and outputs, without elements

  /// Throws std::runtime_error.
  static Model Parse(const std::string& bytes);
};

/// Is it an operator of Run?
bool Computes(const std::string& op);
/// Inputs of nodes that say extents.
bool IsShapeInput(const Node& node, size_t input);

/// The values of all outputs. With `tf32`, operands of products lose 13 bits of mantissa.
std::map<std::string, Tensor> Run(const Model& model, std::map<std::string, Tensor> values,
                                  bool tf32);

}  // namespace fake
