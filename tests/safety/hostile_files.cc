/// hostile_files.cc: hostile models that reach for files, and model-local functions that explode.
#include <sys/stat.h>
#include <unistd.h>

#include "hostile_parts.h"
#include "model_maker.h"
#include "weft/support/check.h"
#include "weft/support/file.h"

namespace weft::safety {
namespace {

/// y = x + bad, where the four floats of `bad` lie at `location`.
std::string External(const std::string& location, const std::string& offset = "",
                     const std::string& length = "") {
  ModelMaker m;
  m.In("x", kF32, {4});
  m.Out("y");
  m.Node("Add", {"x", "bad"}, {"y"});
  auto* t = m.Tensor("bad", kF32, {4});
  t->set_data_location(pb::TensorProto::EXTERNAL);
  const auto entry = [&](const char* key, const std::string& value) {
    if (value.empty()) return;
    auto* e = t->add_external_data();
    e->set_key(key);
    e->set_value(value);
  };
  entry("location", location);
  entry("offset", offset);
  entry("length", length);
  return m.Bytes();
}

/// A file that an honest model could name.
std::string Data(const std::string& folder, const std::string& name = "data.bin") {
  WriteFileAtomic(folder + "/" + name, std::string(16, '\x3f'));
  return name;
}

void Require(int result) { WEFT_CHECK(result == 0, kIo, "the file system refuses a link"); }

pb::FunctionProto* AddFunction(ModelMaker* m, const std::string& name) {
  auto* f = m->model.add_functions();
  f->set_domain("d");
  f->set_name(name);
  f->add_input("a");
  f->add_output("b");
  f->add_opset_import()->set_version(18);
  auto* own = f->add_opset_import();
  own->set_domain("d");
  own->set_version(1);
  return f;
}

/// x -> bad -> y where `bad` calls function `callee`.
void Call(ModelMaker* m, const std::string& callee) {
  auto* own = m->model.add_opset_import();
  own->set_domain("d");
  own->set_version(1);
  m->In("x", kF32, {2});
  m->Out("y");
  m->Node(callee, {"x"}, {"y"}, "bad")->set_domain("d");
}

void Calls(pb::FunctionProto* f, const std::string& callee, const std::string& in,
           const std::string& out) {
  ModelMaker::NodeOf(f, callee, {in}, {out})->set_domain("d");
}

}  // namespace

void AddFiles(std::vector<HostileModel>* t) {
  const std::vector<ErrorCode> refused = {ErrorCode::kInvalidModel};
  t->push_back({"external_parent",
                [](const std::string& f) {
                  Data(f);
                  return External("../data.bin");
                },
                refused, "bad"});
  t->push_back({"external_nested_parent",
                [](const std::string& f) {
                  Require(mkdir((f + "/sub").c_str(), 0700));
                  Data(f);
                  return External("sub/../../data.bin");
                },
                refused, "bad"});
  t->push_back({"external_absolute", [](const std::string&) { return External("/etc/passwd"); },
                refused, "bad"});
  t->push_back({"external_symlink",
                [](const std::string& f) {
                  Require(symlink("/etc/passwd", (f + "/link.bin").c_str()));
                  return External("link.bin");
                },
                refused, "bad"});
  t->push_back({"external_symlinked_folder",
                [](const std::string& f) {
                  Require(symlink("/etc", (f + "/folder").c_str()));
                  return External("folder/passwd");
                },
                refused, "bad"});
  t->push_back({"external_hard_link",
                [](const std::string& f) {
                  Data(f);
                  Require(link((f + "/data.bin").c_str(), (f + "/second.bin").c_str()));
                  return External("second.bin");
                },
                refused, "bad"});
  t->push_back({"external_past_the_end",
                [](const std::string& f) { return External(Data(f), "8", "16"); }, refused, "bad"});
  t->push_back({"external_offset_overflow",
                [](const std::string& f) {
                  return External(Data(f), "9223372036854775800", "9223372036854775800");
                },
                refused, "bad"});
  t->push_back({"external_fifo",
                [](const std::string& f) {
                  Require(mkfifo((f + "/pipe").c_str(), 0600));
                  return External("pipe");
                },
                refused, "bad"});
  t->push_back({"external_device", [](const std::string&) { return External("../../dev/zero"); },
                refused, "bad"});
  t->push_back({"external_missing",
                [](const std::string&) { return External("missing.bin"); },
                {ErrorCode::kIo},
                "bad"});
}

void AddFunctions(std::vector<HostileModel>* t) {
  t->push_back({"function_bomb",
                [](const std::string&) {
                  ModelMaker m;
                  Call(&m, "F29");
                  ModelMaker::NodeOf(AddFunction(&m, "F0"), "Relu", {"a"}, {"b"});
                  for (int i = 1; i < 30; ++i) {
                    auto* f = AddFunction(&m, "F" + std::to_string(i));
                    Calls(f, "F" + std::to_string(i - 1), "a", "t");
                    Calls(f, "F" + std::to_string(i - 1), "t", "b");
                  }
                  return m.Bytes();
                },
                {ErrorCode::kLimit},
                "expanded_nodes"});
  t->push_back({"function_recursion",
                [](const std::string&) {
                  ModelMaker m;
                  Call(&m, "F");
                  Calls(AddFunction(&m, "F"), "F", "a", "b");
                  return m.Bytes();
                },
                {ErrorCode::kCycle},
                "d::F"});
  t->push_back({"function_ring",
                [](const std::string&) {
                  ModelMaker m;
                  Call(&m, "F");
                  Calls(AddFunction(&m, "F"), "G", "a", "b");
                  Calls(AddFunction(&m, "G"), "F", "a", "b");
                  return m.Bytes();
                },
                {ErrorCode::kCycle},
                "d::F"});
}

}  // namespace weft::safety
