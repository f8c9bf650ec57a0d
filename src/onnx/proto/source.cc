/// source.cc: the text form of what source.h holds: a dictionary as operators have it, with lists
/// of strings in which names come before what belongs to them.
#include "source.h"

#include "weft/core/text/attr_text.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::onnx_import {
namespace {

std::string SourceText(const ModelSource& s) {
  Strings dims, outputs,
      infos(std::vector<std::string>(s.value_infos.begin(), s.value_infos.end()));
  for (const auto& [symbol, name] : s.dims) {
    dims.push_back(symbol);
    dims.push_back(name);
  }
  for (const auto& [name, extents] : s.outputs) {
    outputs.push_back(name);
    outputs.push_back(std::to_string(extents.size()));
    for (const std::string& d : extents) outputs.push_back(d);
  }
  std::string text = fmt::format("opset = {}, ir_version = {}", s.opset, s.ir_version);
  const auto add = [&](const char* name, const Strings& list) {
    if (!list.empty()) text += fmt::format(", {} = {}", name, std::string(AttrValue(list)));
  };
  add("dims", dims);
  add("outputs", outputs);
  add("value_infos", infos);
  return text;
}

ModelSource ParseSource(const std::string& text) {
  const AttrDict dict = ParseAttrDict(text);
  const auto list = [&](const char* name) {
    const AttrValue* v = dict.find(name);
    return v ? v->get<Strings>() : Strings();
  };
  const auto need = [](bool there) {
    WEFT_CHECK(there, kSyntax, "{}: a list ends too early", ModelSource::kAttr);
  };
  ModelSource s;
  s.opset = dict.at("opset").get<int64_t>();
  s.ir_version = dict.at("ir_version").get<int64_t>();
  const Strings dims = list("dims"), outputs = list("outputs"), infos = list("value_infos");
  need(dims.size() % 2 == 0);
  for (size_t i = 0; i < dims.size(); i += 2) s.dims[dims[i]] = dims[i + 1];
  for (size_t i = 0; i < outputs.size();) {
    need(i + 1 < outputs.size());
    const int64_t rank = ParseInt64(outputs[i + 1], "the rank of an output");
    need(rank >= 0 && size_t(rank) <= outputs.size() - i - 2);
    const auto first = outputs.begin() + ptrdiff_t(i) + 2;
    s.outputs[outputs[i]].assign(first, first + rank);
    i += 2 + size_t(rank);
  }
  s.value_infos.insert(infos.begin(), infos.end());
  return s;
}

std::string SameText(const std::string& text) { return text; }

}  // namespace

WEFT_REGISTER_GRAPH_ATTR(onnx_source, kGiven, ModelSource)
    .describe(
        "what export restores of the file that the graph comes from: operator set, names of "
        "dims, what is declared of outputs and values in between")
    .hidden()
    .text(SourceText, ParseSource);
WEFT_REGISTER_GRAPH_ATTR(onnx_node, kGiven, NodeNames)
    .describe("names of nodes in the ONNX file, where values have others")
    .hidden()
    .text(SameText, SameText);

}  // namespace weft::onnx_import
