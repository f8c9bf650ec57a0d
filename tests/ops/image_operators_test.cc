/// image_operators_test.cc: image and border operators in their options against what PyTorch, ONNX
/// Runtime and ONNX's reference evaluator give, recorded in tests/image_oracles by record.py there.
///
///   WEFT_IMAGE_ORACLES=FOLDER weft_tests -tc='image operators*'     rows of another folder
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "tests/support/e2e_util.h"
#include "tests/support/operator_rows.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"

namespace {

using namespace weft;

struct Row {
  std::string text, op, attrs;
  std::vector<rows::Operand> operands;
  std::vector<rows::Result> results;
};

std::vector<Row> RowsOf(const std::string& file) {
  const char* folder = std::getenv("WEFT_IMAGE_ORACLES");
  std::ifstream in((folder ? folder : "tests/image_oracles") + ("/" + file));
  REQUIRE(in.good());
  std::vector<Row> all;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> part = rows::Split(line, '|');
    REQUIRE(part.size() == 5);
    all.push_back(
        {line, part[0], part[2], rows::ParseOperands(part[1]), rows::ParseResults(part[4])});
  }
  return all;
}

/// What is asked of the rows, and which of them.
struct Asked {
  bool gradients = false, feeds = false, symbolic = false;
  size_t step = 1;
};

/// Many rows as one graph, so that their kernels compile side by side.
struct Batch {
  Graph graph;
  std::map<std::string, TensorPtr> inputs;
  std::vector<const Row*> rows;  ///< of each output
  std::vector<const rows::Result*> want;
};

Batch MakeBatch(const std::vector<Row>& all, size_t begin, size_t end, const Asked& asked) {
  Batch b;
  Graph& g = b.graph;
  const NodeEntry one(g.AddInput("one", DType::kF32, Shape::OfInts({})));
  b.inputs["one"] = Tensor::Scalar(DType::kF32, 1);
  std::vector<NodeEntry> ys, xs;
  for (size_t k = begin; k < end; k += asked.step) {
    const Row& row = all[k];
    std::vector<NodeEntry> variables;
    const rows::CallForm form{"x" + std::to_string(k) + "_", one, asked.feeds, asked.symbolic};
    const NodeEntry y(
        rows::AddCall(g, row.op, row.operands, row.attrs, form, &variables, &b.inputs));
    ys.push_back(row.operands[0].value->dtype() == DType::kF32 ? y * one : y);
    xs.insert(xs.end(), variables.begin(), variables.end());
    for (const rows::Result& r : row.results) {
      b.rows.push_back(&row);
      b.want.push_back(&r);
    }
  }
  g.outputs = ys;
  if (!asked.gradients) return b;
  const Graph inferred = ApplyPasses(g, "InferType,InferShape");
  std::vector<NodeEntry> dys;
  for (const NodeEntry& y : ys) {
    const Shape shape = inferred.GetAttr<ShapeMap>("shape")[inferred.at(y)];
    std::vector<int64_t> dims;
    for (const SymInt d : shape.dims()) dims.push_back(d.value());
    dys.push_back(g.AddConstant(rows::DrawnTensor(DType::kF32, dims, 8)));
  }
  g.outputs = Gradients(g, ys, xs, dys);
  return b;
}

void CheckRows(const std::string& file, size_t at_least, const Asked& asked = {}) {
  const std::vector<Row> all = RowsOf(file);
  CHECK(all.size() >= at_least);
  const size_t batch = 32 * asked.step;
  std::vector<std::string> backends{"ref"};
  if (e2e::HasCpu()) backends.insert(backends.begin(), {"cpu", "cpu:no-fusion"});
  std::set<std::string> failed;
  for (size_t begin = 0; begin < all.size(); begin += batch) {
    const Batch b = MakeBatch(all, begin, std::min(begin + batch, all.size()), asked);
    REQUIRE(b.graph.outputs.size() == b.want.size());
    for (const std::string& backend : backends) {
      CAPTURE(backend);
      CompileOptions options;
      options.backend = backend.substr(0, 3);
      options.fusion = backend != "cpu:no-fusion";
      options.threads = 2;
      const std::vector<TensorPtr> got = Session(Compile(b.graph, options)).Run(b.inputs);
      for (size_t k = 0; k < got.size(); ++k) {
        const double tolerance = asked.gradients ? 1e-4 : 3e-5;
        const std::string why = rows::Differs(*got[k], *b.want[k], tolerance);
        if (why.empty()) continue;
        CAPTURE(b.rows[k]->text);
        FAIL_CHECK(why);
        failed.insert(b.rows[k]->text);
      }
    }
  }
  CHECK(failed.size() == 0);
}

}  // namespace

TEST_CASE("image operators: Resize in all modes and geometries") { CheckRows("resize.txt", 300); }
TEST_CASE("image operators: GridSample at borders, beyond them, at NaN and infinities") {
  CheckRows("grid_sample.txt", 80);
}
TEST_CASE("image operators: Pad by pads of both signs") { CheckRows("pad.txt", 80); }
TEST_CASE("image operators: blocks, regions and windows") { CheckRows("blocks.txt", 60); }
TEST_CASE("image operators: gradients") {
  Asked asked;
  asked.gradients = true;
  CheckRows("gradients.txt", 100, asked);
}
TEST_CASE("image operators: sizes, scales and pads that only a run knows") {
  Asked asked;
  asked.feeds = true;
  asked.step = 13;
  CheckRows("resize.txt", 300, asked);
  CheckRows("pad.txt", 80, asked);
}
TEST_CASE("image operators: symbolic extents") {
  Asked asked;
  asked.symbolic = true;
  asked.step = 11;
  for (const char* file : {"resize.txt", "pad.txt", "grid_sample.txt"}) CheckRows(file, 80, asked);
}
