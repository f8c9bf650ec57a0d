// ai.onnx.ml in the form after lifting: every comparison of trees on values around its split, and
// what names nothing. tests/onnxruntime/ml_ops.py holds the numbers against ONNX Runtime.
#include <cmath>
#include <limits>

#include "onnx/proto/onnx_test_util.h"

namespace weft::onnx_import {
namespace {

Graph ImportMl(const std::string& node, const std::string& inputs = "float[n, 2] x",
               const std::string& outputs = "float[n, m] y") {
  return ImportOnnxBytes(
      BytesOf(ModelOf("<ir_version: 8, opset_import: [\"\" : 18, \"ai.onnx.ml\" : 3]> g (" +
                      inputs + ") => (" + outputs + ") { " + node + " }")));
}
Error ErrorOfMl(const std::string& node) {
  return ErrorOf(
      ModelOf("<ir_version: 8, opset_import: [\"\" : 18, \"ai.onnx.ml\" : 3]> g "
              "(float[n, 2] x) => (float[n, m] y) { " +
              node + " }"));
}

/// x0 `mode` 1 ? 10 : 20; `lists` replaces attributes.
std::string Stump(const std::string& mode, const std::string& missing = "0",
                  const std::string& yes = "1", const std::string& ids = "0, 0") {
  return "y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0], "
         "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], nodes_modes = [\"" +
         mode + "\", \"LEAF\", \"LEAF\"], nodes_values = [1.0, 0.0, 0.0], nodes_truenodeids = [" +
         yes + ", 0, 0], nodes_falsenodeids = [2, 0, 0], nodes_missing_value_tracks_true = [" +
         missing + ", 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [" +
         ids + "], target_weights = [10.0, 20.0]> (x)";
}

}  // namespace

TEST_CASE("every comparison of a tree is true where it says, and for NaN where it is told to") {
  const float next = std::nextafter(1.f, 2.f), before = std::nextafter(1.f, 0.f);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<double> at{-inf, before, 1, next, inf, nan};
  const auto truth = [](const std::string& mode, double v) {
    if (mode == "BRANCH_LEQ") return v <= 1;
    if (mode == "BRANCH_LT") return v < 1;
    if (mode == "BRANCH_GTE") return v >= 1;
    if (mode == "BRANCH_GT") return v > 1;
    return mode == "BRANCH_EQ" ? v == 1 : v != 1;
  };
  for (const char* mode :
       {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"}) {
    for (const bool missing : {false, true}) {
      std::vector<double> x;
      for (const double v : at) x.insert(x.end(), {v, 0});
      const TensorPtr y =
          GetEvaluator()->Eval(ImportMl(Stump(mode, missing ? "1" : "0")),
                               {Tensor::FromDoubles(DType::kF32, {int64_t(at.size()), 2}, x)})[0];
      for (size_t i = 0; i < at.size(); ++i) {
        CAPTURE(mode);
        CAPTURE(at[i]);
        const bool yes = truth(mode, at[i]) || (missing && std::isnan(at[i]));
        CHECK(y->at(int64_t(i)) == (yes ? 10 : 20));
      }
    }
  }
}

TEST_CASE("trees are one operator, and the rest standard ones") {
  CHECK(OpsOf(ImportMl(Stump("BRANCH_GT"))) == std::vector<std::string>{"weft::TreeEnsemble"});
  const Graph scaler = ImportMl("y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x)");
  for (const std::string& op : OpsOf(scaler)) CHECK(op.find("::") == std::string::npos);
}

TEST_CASE("trees that are none are refused, with the attribute and a hint") {
  CHECK(Says(ErrorOfMl(Stump("BRANCH_UP")), "nodes_modes"));
  CHECK(Says(ErrorOfMl(Stump("BRANCH_LT", "0", "7")), "names node 7 of tree 0"));
  const Error cycle = ErrorOfMl(Stump("BRANCH_LT", "0", "0"));
  CHECK(cycle.code() == ErrorCode::kBadAttribute);
  CHECK(Says(cycle, "cycle"));
  CHECK(Says(ErrorOfMl(Stump("BRANCH_LT", "0", "1", "0, 1")), "holds 1, there are 1"));
  CHECK(Says(ErrorOfMl(Stump("BRANCH_LT", "0", "1", "0")), "hint"));
}

TEST_CASE("a name that is nearly that of a lifted operator is told, and no other") {
  CHECK(Says(ErrorOfMl("y = ai.onnx.ml.Scalr (x)"), "did you mean 'Scaler'"));
  CHECK(!Says(ErrorOfMl("y = ai.onnx.ml.Frobnicate (x)"), "did you mean"));
}

TEST_CASE("attributes that do not fit each other or x are refused") {
  CHECK(Says(ErrorOfMl("y = ai.onnx.ml.Scaler <offset = [1.0, 2.0, 3.0], scale = [2.0]> (x)"),
             "3 elements for 2 features"));
  CHECK(Says(ErrorOfMl("y = ai.onnx.ml.Normalizer <norm = \"L9\"> (x)"), "expected MAX, L1 or L2"));
  CHECK(Says(ErrorOfMl("y = ai.onnx.ml.LinearRegressor <coefficients = [1.0, 2.0, 3.0]> (x)"),
             "X has 2 features"));
  CHECK(Says(ErrorOfMl("y = ai.onnx.ml.SVMRegressor <coefficients = [1.0], support_vectors = [1.0, "
                       "2.0], n_supports = 2, rho = [0.0]> (x)"),
             "1 elements for 2 vectors"));
  CHECK(Says(ErrorOfMl("y = ai.onnx.ml.Imputer <imputed_value_int64s = [1]> (x)"),
             "imputed_value_floats"));
}

}  // namespace weft::onnx_import
