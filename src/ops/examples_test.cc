/// examples_test.cc: no operator is outside of the suites that run over examples without a reason.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "weft/core/op/op.h"

namespace weft::ops {
namespace {

/// Operators without an example, and where they are tested instead.
const std::map<std::string, std::string>& Exceptions() {
  static const std::map<std::string, std::string> list = {
      {"Constant", "has no inputs; its value is its attribute"},
      {"If", "an example holds no body; host_eval_test, conformance"},
      {"Loop", "an example holds no body; host_eval_test, conformance"},
      {"ConcatFromSequence", "no random sequences; sequence_test, conformance"},
      {"ImageDecoder", "no random images; image_decoder_test, conformance"},
      {"Optional", "no random optionals; sequence_test, conformance"},
      {"OptionalGetElement", "no random optionals; sequence_test, conformance"},
      {"OptionalHasElement", "no random optionals; sequence_test, conformance"},
      {"RegexFullMatch", "no random strings; regex_test, conformance"},
      {"SequenceAt", "no random sequences; sequence_test, conformance"},
      {"SequenceConstruct", "no random sequences; sequence_test, conformance"},
      {"SequenceEmpty", "no random sequences; sequence_test, conformance"},
      {"SequenceErase", "no random sequences; sequence_test, conformance"},
      {"SequenceInsert", "no random sequences; sequence_test, conformance"},
      {"SequenceLength", "no random sequences; sequence_test, conformance"},
      {"SplitToSequence", "no random sequences; sequence_test, conformance"},
      {"Scan", "an example holds no body; host_eval_test, conformance"},
      {"Multinomial", "results are random; host_eval_test, conformance"},
      {"RandomNormal", "results are random; host_eval_test, conformance"},
      {"RandomNormalLike", "results are random; host_eval_test, conformance"},
      {"RandomUniform", "results are random; host_eval_test, conformance"},
      {"RandomUniformLike", "results are random; host_eval_test, conformance"},
      {"StringConcat", "no random strings; host_eval_test, conformance"},
      {"StringNormalizer", "no random strings; host_eval_test, conformance"},
      {"StringSplit", "no random strings; host_eval_test, conformance"},
      {"TfIdfVectorizer", "items of its pool, not any; host_eval_test, conformance"},
      {"ai.onnx.ml::CastMap", "no random maps; ml_test, tests/onnxruntime/ml_ops.py"},
      {"ai.onnx.ml::DictVectorizer", "no random maps; ml_test, tests/onnxruntime/ml_ops.py"},
      {"ai.onnx.ml::ZipMap", "its result is no tensor; ml_test, tests/onnxruntime/ml_ops.py"},
      {"ai.onnx.ml::LabelEncoder", "items of its keys, not any; host_eval_test, conformance"},
      {"weft::Assign", "writes a variable; runtime tests, tests/training"},
      {"weft::Concurrent", "an example holds no body; concurrent_bodies_test, pair_loops"},
      {"weft::Derivative", "an example holds no body; derivative_test"},
      {"weft::Delegated", "an example holds no body; delegates_test, golden files of the pass"},
      {"weft::Fused", "an example holds no body; neural_test, golden files of fusion"},
      {"weft::Region", "an example holds no body; region_program_test, split_regions"},
      {"weft::Sizes", "an example holds no body; region_program_test, split_regions"},
      {"weft::Tokenizer", "no random strings; ml_test, tests/onnxruntime/sklearn_models.py"},
      {"weft::RandomState", "writes a variable; random_philox_test"},
  };
  return list;
}

TEST_CASE("every operator has an example, or stands in the list of those that cannot") {
  for (const Op* op : Op::List()) {
    CAPTURE(op->name);
    const bool excused = Exceptions().count(op->name) != 0;
    CHECK(op->examples.empty() == excused);
  }
  for (const auto& exception : Exceptions()) {
    CAPTURE(exception.first);
    CHECK(Op::Find(exception.first) != nullptr);
    CHECK(!exception.second.empty());
  }
}

}  // namespace
}  // namespace weft::ops
