/// text_proto_test.cc: models in protobuf's text form. The oracle is the model itself.
#include "weft/support/text_proto.h"

#include <doctest/doctest.h>

#include "tests/support/code_of.h"
#include "tests/support/temp_folder.h"
#include "weft/api/model.h"
#include "weft/core/text/text.h"
#include "weft/support/file.h"

namespace weft::e2e {

TEST_CASE("models in protobuf's text form are the models") {
  const TempFolder dir;
  const auto write = [](const Graph& graph, const std::string& path) {
    WritableFormat(path).write(graph, path, {});
  };
  const Graph g = ParseGraph(
      "weft 1\ngraph @net<n>(%\"a \\\"b\\\"\": f32[n, 2]) -> (%y) {\n"
      "  %w = Constant() {value = tensor f32[2] [0.1, -3.5e-30]} : f32[2]\n"
      "  %y = Mul(%\"a \\\"b\\\"\", %w) : f32[n, 2]\n}\n");
  write(g, dir / "m.onnx");
  for (const char* name : {"m.textproto", "M.PbTxt", "m.prototxt"}) {
    write(g, dir / name);
    CHECK(ReadFile(dir / name).find("op_type: \"Mul\"") != std::string::npos);
    write(LoadModel(dir / name), dir / "back.onnx");
    CHECK(ReadFile(dir / "back.onnx") == ReadFile(dir / "m.onnx"));
  }
  for (const char* wrong : {"ir_version: 9\ngraf { }", "graph {", "ir_version: \"a\"", "\xff"}) {
    WriteFileAtomic(dir / "wrong.textproto", wrong);
    CHECK(CodeOf([&] { LoadModel(dir / "wrong.textproto"); }) == ErrorCode::kSyntax);
  }
  std::string deep = "graph { ";
  for (int i = 0; i < 100000; ++i) deep += "node { attribute { g { ";
  WriteFileAtomic(dir / "wrong.textproto", deep);
  CHECK(CodeOf([&] { LoadModel(dir / "wrong.textproto"); }) == ErrorCode::kSyntax);
  try {
    WriteFileAtomic(dir / "wrong.textproto", "ir_version: 9\n  graf { }");
    LoadModel(dir / "wrong.textproto");
    FAIL("not refused");
  } catch (const Error& e) {
    CHECK(e.message().find("line 2, column 8") != std::string::npos);
    CHECK(e.message().find("graf") != std::string::npos);
  }
}

}  // namespace weft::e2e
