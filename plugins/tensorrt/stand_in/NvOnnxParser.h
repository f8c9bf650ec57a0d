/// NvOnnxParser.h: a stand-in for the header of that name of TensorRT 10; see NvInfer.h beside it.
#ifndef WEFT_STAND_IN_NV_ONNX_PARSER_H_
#define WEFT_STAND_IN_NV_ONNX_PARSER_H_

#include "NvInfer.h"

static constexpr int32_t NV_ONNX_PARSER_VERSION = 100;

namespace nvonnxparser {

class IParserError {
 public:
  virtual char const* desc() const = 0;
  virtual char const* nodeName() const = 0;
  virtual char const* nodeOperator() const = 0;

 protected:
  virtual ~IParserError() {}
};

class IParser {
 public:
  virtual bool parse(void const* serialized_onnx_model, std::size_t serialized_onnx_model_size,
                     char const* model_path = nullptr) noexcept = 0;
  virtual int getNbErrors() const noexcept = 0;
  virtual IParserError const* getError(int index) const noexcept = 0;
  virtual ~IParser() noexcept = default;
};

}  // namespace nvonnxparser

#endif  // WEFT_STAND_IN_NV_ONNX_PARSER_H_
