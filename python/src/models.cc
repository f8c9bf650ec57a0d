/// models.cc: graphs from and to files of every format.
#include <nanobind/stl/optional.h>

#include "arrays.h"
#include "call.h"
#include "errors.h"
#include "graph.h"
#include "options.h"
#include "weft/api/model.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"
#include "weft/support/check.h"
#include "weft/support/file.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

ImportOptions ImportOf(nb::handle limits, bool strict, bool allow_unsupported,
                       std::vector<std::string> overridable, nb::handle external_data_dir) {
  ImportOptions options;
  options.limits = ToLimits(limits);
  options.strict = strict;
  options.allow_unsupported = allow_unsupported;
  options.overridable = std::move(overridable);
  if (!external_data_dir.is_none()) options.external_data_dir = ToPath(external_data_dir);
  return options;
}

/// The library polls the request of the calling thread.
template <class F>
SharedGraph Load(const F& read) {
  CancelToken token;
  return WithoutGil(token, Threads::kNone, [&] {
    static const Limits none = Limits::Parse("tensor_bytes=" + std::to_string(INT64_MAX));
    const RequestScope scope(none, &token);
    RequestScope::Poll();
    return std::make_shared<Graph>(read());
  });
}

SharedGraph LoadAny(nb::handle model, const std::string& format, nb::handle limits, bool strict,
                    bool allow_unsupported, std::vector<std::string> overridable,
                    nb::handle external_data_dir, nb::handle findings) {
  ImportOptions options =
      ImportOf(limits, strict, allow_unsupported, std::move(overridable), external_data_dir);
  std::vector<Finding> found;
  if (!findings.is_none()) options.findings = &found;
  SharedGraph graph;
  nb::object bytes;
  if (PyBytes_Check(model.ptr()))
    bytes = nb::borrow(model);
  else if (PyByteArray_Check(model.ptr()) || PyMemoryView_Check(model.ptr()))
    bytes = nb::steal(PyBytes_FromObject(model.ptr()));
  else if (nb::hasattr(model, "SerializeToString"))  // a ModelProto
    bytes = model.attr("SerializeToString")();
  if (bytes.is_valid()) {
    const std::string_view view(PyBytes_AsString(bytes.ptr()), size_t(PyBytes_Size(bytes.ptr())));
    const ModelFormat& kind = GetModelFormat(format.empty() ? "onnx" : format);
    graph = Load([&] { return LoadModelBytes(view, kind, options); });
  } else {
    const std::string path = ToPath(model);
    if (format.empty()) {
      graph = Load([&] { return LoadModel(path, options); });
    } else {
      const ModelFormat& kind = GetModelFormat(format);
      WEFT_CHECK(!kind.is_program(), kUnsupported, "a compiled program is not a graph");
      if (options.source_name.empty()) options.source_name = path;
      graph = Load([&] {
        if (kind.read_file) return kind.read_file(path, options);
        return LoadModelBytes(ReadFile(path, options.limits.file_bytes), kind, options);
      });
    }
  }
  if (!findings.is_none()) {
    nb::list list = nb::cast<nb::list>(findings);
    for (const Finding& f : found) list.append(f);
  }
  return graph;
}

ExportOptions ExportOf(const std::string& external, int64_t external_bytes,
                       const std::string& value_info, bool allow_custom_ops, nb::handle limits) {
  ExportOptions options;
  using External = ExportOptions::External;
  using Info = ExportOptions::ValueInfo;
  if (external == "auto") {
    options.external = External::kAuto;
  } else if (external == "always") {
    options.external = External::kAlways;
  } else if (external == "never") {
    options.external = External::kNever;
  } else {
    ThrowError(ErrorCode::kUsage, "external='" + external + "'", "",
               "it is 'auto', 'always' or 'never'");
  }
  options.external_bytes = external_bytes;
  if (value_info == "known") {
    options.value_info = Info::kKnown;
  } else if (value_info == "declared") {
    options.value_info = Info::kDeclared;
  } else if (value_info == "none") {
    options.value_info = Info::kNone;
  } else {
    ThrowError(ErrorCode::kUsage, "value_info='" + value_info + "'", "",
               "it is 'known', 'declared' or 'none'");
  }
  options.allow_custom_ops = allow_custom_ops;
  options.limits = ToLimits(limits);
  return options;
}

}  // namespace

void BindModels(nb::module_& m) {
  nb::class_<Finding>(m, "Finding", "What an import has to say that did not end it.")
      .def_prop_ro("code", [](const Finding& f) { return ErrorCodeName(f.code); })
      .def_ro("place", &Finding::place)
      .def_ro("message", &Finding::message)
      .def_ro("hint", &Finding::hint)
      .def_ro("op", &Finding::op)
      .def_ro("count", &Finding::count, "How many nodes, or places, it concerns.")
      .def_ro("oddity", &Finding::oddity,
              "What the standard forbids and was taken all the same; empty: something was left "
              "out.")
      .def("__repr__",
           [](const Finding& f) { return "<Finding " + f.place + ": " + f.message + ">"; });
  m.def(
      "load", LoadAny, "model"_a, "format"_a = "", nb::kw_only(), "limits"_a = nb::none(),
      "strict"_a = false, "allow_unsupported"_a = false,
      "overridable"_a = std::vector<std::string>(), "external_data_dir"_a = nb::none(),
      "findings"_a = nb::none(),
      nb::sig("def load(model: ModelLike, format: str = '', *, limits: LimitsLike | None = None, "
              "strict: bool = False, allow_unsupported: bool = False, overridable: "
              "typing.Sequence[str] = (), external_data_dir: PathLike | None = None, findings: "
              "list[Finding] | None = None) -> Graph"),
      "A graph from a file, from the bytes of one, or from an onnx.ModelProto. Formats are 'onnx', "
      "'weft', 'json' and protobuf's text forms; by default that of the path's extension, of bytes "
      "'onnx'. `overridable` names initializers of an ONNX model that become inputs; with "
      "`allow_unsupported` operators that Weft lacks become inputs too. `findings` is a list that "
      "gets what the import has to say.");
  m.def("_list_formats", [] {
    std::vector<std::string> names;
    for (const ModelFormat* f : ListModelFormats()) names.push_back(f->name);
    return names;
  });
  m.def(
      "_export_onnx",
      [](const Graph& g, nb::handle path, const std::string& external, int64_t external_bytes,
         const std::string& value_info, bool allow_custom_ops, nb::handle limits) -> nb::object {
        const ExportOptions options =
            ExportOf(external, external_bytes, value_info, allow_custom_ops, limits);
        const Graph copy(g);
        CancelToken token;
        if (path.is_none()) {
          const std::string bytes =
              WithoutGil(token, Threads::kNone, [&] { return ExportOnnxBytes(copy, options); });
          return nb::bytes(bytes.data(), bytes.size());
        }
        const std::string file = ToPath(path);
        WithoutGil(token, Threads::kNone, [&] { ExportOnnx(copy, file, options); });
        return nb::none();
      },
      "graph"_a, "path"_a = nb::none(), nb::kw_only(), "external"_a = "auto",
      "external_bytes"_a = 4096, "value_info"_a = "known", "allow_custom_ops"_a = false,
      "limits"_a = nb::none(),
      nb::sig("def _export_onnx(graph: Graph, path: PathLike | None = None, *, external: str = "
              "'auto', external_bytes: int = 4096, value_info: str = 'known', allow_custom_ops: "
              "bool = False, limits: LimitsLike | None = None) -> bytes | None"));
  m.def(
      "save",
      [](const Graph& g, nb::handle path, bool elide) {
        WriteOptions options;
        options.elide = elide;
        const std::string file = ToPath(path);
        const Graph copy(g);
        CancelToken token;
        WithoutGil(token, Threads::kNone, [&] { WriteModel(copy, file, options); });
      },
      "graph"_a, "path"_a, nb::kw_only(), "elide"_a = false,
      nb::sig("def save(graph: Graph, path: PathLike, *, elide: bool = False) -> None"),
      "Writes the graph into a file of the format that its extension names. `elide` leaves large "
      "tensors out, where the format has a way to say so.");
}

}  // namespace weft::python
