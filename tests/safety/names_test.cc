/// names_test.cc: generated source holds no string of the model. The same model is compiled with
/// plain names and with names that would end a comment, a string or a line; what is generated for
/// every target must be the same, byte for byte.
#include <doctest/doctest.h>

#include <functional>
#include <map>

#include "model_maker.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/codegen/ctext/c_printer.h"
#include "weft/onnx/import.h"
#include "weft/runtime/program/program.h"

namespace weft::safety {
namespace {

using Rename = std::function<std::string(const std::string&)>;

/// Names of nodes, values, parameters and extents, and free strings: all through `r`. A broadcast,
/// a reduction and a soft-max, so that several templates are generated.
std::string Model(const Rename& r) {
  ModelMaker m;
  const auto input = [&](const std::string& name, const std::string& symbol) {
    m.In(r(name), kF32, {ModelMaker::kSymbol, 8});
    auto* shape = m.graph->mutable_input(m.graph->input_size() - 1)
                      ->mutable_type()
                      ->mutable_tensor_type()
                      ->mutable_shape();
    shape->mutable_dim(0)->set_dim_param(r(symbol));
  };
  m.graph->set_name(r("graph"));
  m.graph->set_doc_string(r("doc"));
  m.model.set_producer_name(r("producer"));
  auto* meta = m.model.add_metadata_props();
  meta->set_key(r("key"));
  meta->set_value(r("value"));
  input("x", "rows");
  input("z", "rows");
  m.Floats(r("w"), {1, 2, 3, 4, 5, 6, 7, 8});
  m.Out(r("y"));
  m.Out(r("total"));
  m.Out(r("text"), kStr);
  m.Node("Mul", {r("x"), r("w")}, {r("a")}, r("scale"))->set_doc_string(r("note"));
  m.Node("Add", {r("a"), r("z")}, {r("b")}, r("shift"));
  Attrs(m.Node("Softmax", {r("b")}, {r("y")}, r("soft"))).Int("axis", 1);
  m.Node("ReduceSum", {r("b")}, {r("total")}, r("sum"));
  Attrs(m.Node("Constant", {}, {r("text")}, r("string"))).String("value_string", r("payload"));
  return m.Bytes();
}

/// Everything that is generated for a model, by target and name of the kernel.
std::map<std::string, std::string> Generated(const std::string& model, const std::string& target) {
  std::map<std::string, std::string> files;
  std::string why;
  const auto compiler = FindKernelCompiler(target, &why);
  PassOptions options;
  options.target = target;
  const Graph g = ApplyPasses(ImportOnnxBytes(model),
                              "Simplify,FoldConstants,Simplify,Fusion,CodeGen", options);
  const KernelMap& kernels = g.GetAttr<KernelMap>("kernel");
  for (NodeId id = 0; id < kernels.id_bound(); ++id) {
    const LoweredKernel* k = kernels.find(id);
    if (!k) continue;
    files[k->kernel->Name() + ".c"] = PrintC(*k->kernel);
    files[k->kernel->Name() + ".key"] = k->kernel->CanonicalText();
    if (compiler)
      files[k->kernel->Name() + compiler->source_extension()] = compiler->Source(*k->kernel);
    if (compiler && target == "cpu") {
      std::vector<std::string> errors;
      files[k->kernel->Name() + ".o"] = compiler->Compile({k->kernel}, &errors).at(0);
    }
  }
  return files;
}

TEST_CASE("names and strings of a model do not reach generated source") {
  const std::string plain = Model([](const std::string& s) { return s; });
  const std::vector<std::pair<const char*, Rename>> hostile = {
      {"comment", [](const std::string& s) { return "*/ asm(\"hlt\"); /*" + s; }},
      {"line", [](const std::string& s) { return s + "\n#include \"/etc/passwd\"\n\\"; }},
      {"nul", [](const std::string& s) { return s + std::string("\0\x1b[31m\"", 7); }},
      {"brace", [](const std::string& s) { return s + "} void f() { system(\"id\"); %s %n {0}"; }},
      {"ir", [](const std::string& s) { return s + "\" = !{} module asm \"ud2\" ; @"; }},
      {"long", [](const std::string& s) { return s + std::string(5000, '\''); }},
      {"keyword",
       [](const std::string& s) { return s == "x"   ? "int"
                                         : s == "a" ? "d0"
                                                    : s + "b0"; }},
  };
  for (const char* target : {"cpu", "cuda:sm_90"}) {
    CAPTURE(target);
    const auto want = Generated(plain, target);
    REQUIRE(want.size() >= 2);
    for (const auto& [name, rename] : hostile) {
      const std::string hostile_name = name;  // clang 14 captures no bindings
      CAPTURE(hostile_name);
      const auto got = Generated(Model(rename), target);
      CHECK(got.size() == want.size());
      for (const auto& [file, text] : want) {
        const std::string where = file;
        CAPTURE(where);
        REQUIRE(got.count(file) == 1);
        CHECK(got.at(file) == text);
      }
    }
  }
}

}  // namespace
}  // namespace weft::safety
