// Tensor data beside the model: what may be read, and each known way out of the folder.
#include "external_data.h"

#include <sys/stat.h>
#include <unistd.h>

#include "onnx_test_util.h"
#include "tests/support/temp_folder.h"
#include "weft/support/file.h"

namespace weft::onnx_import {
namespace {

struct Folder {
  Folder() {
    MakeDirectories(root + "/model/sub");
    const std::string data(64, '\x01');
    WriteFileAtomic(root + "/secret.bin", data);
    WriteFileAtomic(root + "/model/w.bin", data);
    WriteFileAtomic(root + "/model/sub/w.bin", data);
    REQUIRE(symlink("../secret.bin", (root + "/model/soft.bin").c_str()) == 0);
    REQUIRE(symlink("w.bin", (root + "/model/inside.bin").c_str()) == 0);
    REQUIRE(symlink("..", (root + "/model/up").c_str()) == 0);
    REQUIRE(link((root + "/secret.bin").c_str(), (root + "/model/hard.bin").c_str()) == 0);
    REQUIRE(mkfifo((root + "/model/fifo").c_str(), 0600) == 0);
  }
  const e2e::TempFolder folder;
  const std::string root = folder.path();
};

pb::ModelProto ModelWith(const std::string& location, const std::string& offset = "",
                         const std::string& length = "") {
  auto model = GraphOf("g (float[4] x) => (float[4] y) { y = Add(x, w) }");
  auto* t = model.mutable_graph()->add_initializer();
  t->set_name("w");
  t->set_data_type(pb::TensorProto::FLOAT);
  t->add_dims(4);
  t->set_data_location(pb::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    auto* e = t->add_external_data();
    e->set_key(key);
    e->set_value(value);
  };
  add("location", location);
  if (!offset.empty()) add("offset", offset);
  if (!length.empty()) add("length", length);
  return model;
}

Graph ImportFrom(const Folder& f, const pb::ModelProto& model, const Limits& limits = {}) {
  WriteFileAtomic(f.root + "/model/m.onnx", BytesOf(model));
  ImportOptions options;
  options.limits = limits;
  return ImportOnnx(f.root + "/model/m.onnx", options);
}
ErrorCode CodeOf(const Folder& f, const pb::ModelProto& model) {
  try {
    ImportFrom(f, model);
  } catch (const Error& e) {
    CHECK(Says(e, "main/initializer 'w'"));
    return e.code();
  }
  FAIL("the import succeeded");
  return ErrorCode::kInternal;
}

TEST_CASE("external data inside the folder") {
  const Folder f;
  for (const auto& model : {ModelWith("w.bin"), ModelWith("sub/w.bin", "16", "16"),
                            ModelWith("./w.bin", "48"), ModelWith("inside.bin", "16")}) {
    const Graph g = ImportFrom(f, model);
    const TensorPtr w = Graph::ConstantOf(g.outputs[0].node->inputs[1]);
    REQUIRE(w);
    CHECK(w->data_as<uint32_t>()[3] == 0x01010101u);
  }
}

TEST_CASE("ways out of the folder are refused") {
  const Folder f;
  for (const char* location : {"../secret.bin", "/etc/passwd", "sub/../../secret.bin", "soft.bin",
                               "up/secret.bin", "hard.bin", "fifo", "sub", ""}) {
    CAPTURE(location);
    CHECK(CodeOf(f, ModelWith(location)) == ErrorCode::kInvalidModel);
  }
  CHECK(CodeOf(f, ModelWith(std::string("w.bin\0x", 7))) == ErrorCode::kInvalidModel);
  CHECK(CodeOf(f, ModelWith("none.bin")) == ErrorCode::kIo);
  WriteFileAtomic(f.root + "/model/m.onnx", BytesOf(ModelWith("none.bin")));
  try {
    ImportOnnx(f.root + "/model/m.onnx");
    FAIL("the import succeeded");
  } catch (const Error& e) {
    CHECK(Says(e, "run with --random-weights"));
  }
}

TEST_CASE("what a missing file would hold is made up on request, and nothing else") {
  const Folder f;
  ImportOptions options;
  options.make_missing = [](DType dtype, const std::vector<int64_t>& dims) {
    auto t = std::make_shared<Tensor>(dtype, dims);
    for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, 7);
    return t;
  };
  const auto import = [&](const std::string& location) {
    WriteFileAtomic(f.root + "/model/m.onnx", BytesOf(ModelWith(location)));
    return ImportOnnx(f.root + "/model/m.onnx", options);
  };
  const auto weight = [](const Graph& g) {
    return Graph::ConstantOf(g.outputs[0].node->inputs[1]);
  };
  CHECK(weight(import("none.bin"))->at(3) == 7);
  CHECK(weight(import("w.bin"))->data_as<uint32_t>()[3] == 0x01010101u);
  for (const char* location : {"../secret.bin", "/etc/passwd", "soft.bin"})
    CHECK_THROWS_AS(import(location), UserError);
}

TEST_CASE("bounds of external data") {
  const Folder f;
  CHECK(CodeOf(f, ModelWith("w.bin", "52")) == ErrorCode::kInvalidModel);
  CHECK(CodeOf(f, ModelWith("w.bin", "9223372036854775807")) == ErrorCode::kInvalidModel);
  CHECK(CodeOf(f, ModelWith("w.bin", "-4")) == ErrorCode::kInvalidModel);
  CHECK(CodeOf(f, ModelWith("w.bin", "x")) == ErrorCode::kInvalidModel);
  CHECK(CodeOf(f, ModelWith("w.bin", "0", "12")) == ErrorCode::kInvalidModel);
  CHECK(CodeOf(f, ModelWith("w.bin", "0", "99999999999999")) == ErrorCode::kInvalidModel);
}

TEST_CASE("an unused initializer is judged too, and a model from memory has no folder") {
  const Folder f;
  auto model = ModelWith("../secret.bin");
  model.mutable_graph()->mutable_node(0)->set_input(1, "x");
  CHECK(CodeOf(f, model) == ErrorCode::kInvalidModel);
  CHECK(ErrorOf(ModelWith("w.bin")).code() == ErrorCode::kUnsupported);
}

TEST_CASE("a model in a cache of links: its data lies beside it behind them") {
  const Folder f;
  const std::string snapshot = f.root + "/snapshots/abc/onnx", blobs = f.root + "/blobs";
  MakeDirectories(snapshot);
  MakeDirectories(blobs);
  WriteFileAtomic(blobs + "/1f2e", BytesOf(ModelWith("w.bin", "16")));
  WriteFileAtomic(blobs + "/3d4c", std::string(64, '\x01'));
  const auto links = [&](const std::string& model, const std::string& data) {
    unlink((snapshot + "/m.onnx").c_str());
    unlink((snapshot + "/w.bin").c_str());
    REQUIRE(symlink(model.c_str(), (snapshot + "/m.onnx").c_str()) == 0);
    REQUIRE(symlink(data.c_str(), (snapshot + "/w.bin").c_str()) == 0);
    return ImportOnnx(snapshot + "/m.onnx");
  };
  const Graph g = links("../../../blobs/1f2e", "../../../blobs/3d4c");
  CHECK(Graph::ConstantOf(g.outputs[0].node->inputs[1])->data_as<uint32_t>()[3] == 0x01010101u);
  links(blobs + "/1f2e", blobs + "/3d4c");
  for (const char* away : {"../../../secret.bin", "../../../model/w.bin", "/etc/passwd"}) {
    CAPTURE(std::string(away));
    CHECK_THROWS_WITH_AS(links("../../../blobs/1f2e", away),
                         doctest::Contains("outside of the model's folder"), UserError);
  }
  CHECK_THROWS_AS(links("../../../blobs/1f2e", "nothing"), Error);
}

TEST_CASE("links that leave the folder are taken where the limit allows them") {
  const Folder f;
  const Limits trusting = Limits::Parse("external_links=1");
  for (const char* location : {"soft.bin", "up/secret.bin", "hard.bin"}) {
    CAPTURE(std::string(location));
    CHECK(CodeOf(f, ModelWith(location)) == ErrorCode::kInvalidModel);
    const Graph g = ImportFrom(f, ModelWith(location), trusting);
    CHECK(Graph::ConstantOf(g.outputs[0].node->inputs[1])->data_as<uint32_t>()[0] == 0x01010101u);
  }
  for (const char* location : {"../secret.bin", "/etc/passwd", "fifo", "sub"}) {
    CAPTURE(std::string(location));
    CHECK_THROWS_AS(ImportFrom(f, ModelWith(location), trusting), UserError);
  }
}

TEST_CASE("a file has its size once, by whatever names it is read") {
  const Folder f;
  ExternalFiles files(f.root + "/model");
  const auto a = files.Read("w.bin", 0, 48);
  CHECK(files.Read("./w.bin", 0, 48) == a);
  CHECK(files.Read("inside.bin", 0, 48) == a);
  CHECK_THROWS_AS(files.Read("sub/../inside.bin", 0, 16), UserError);
  CHECK_THROWS_AS(files.Read(".//w.bin", 4, 48), UserError);
}

TEST_CASE("regions: the same one is shared, overlapping ones are refused") {
  const Folder f;
  ExternalFiles files(f.root + "/model");
  const auto a = files.Read("w.bin", 0, 48);
  CHECK(files.Read("w.bin", 0, 48) == a);
  CHECK_THROWS_AS(files.Read("w.bin", 4, 48), UserError);
}

}  // namespace
}  // namespace weft::onnx_import
