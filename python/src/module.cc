/// module.cc: weft._weft, the extension module.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "arrays.h"
#include "call.h"
#include "caller.h"
#include "define/define.h"
#include "errors.h"
#include "graph.h"
#include "options.h"
#include "weft/core/module/plugin.h"
#include "weft/support/limits.h"
#include "weft/weft.h"

namespace nb = nanobind;

NB_MODULE(_weft, m) {
  using namespace weft::python;
  m.doc() = "Weft's library. Its public names are those of the package weft.";
  // Objects that a cycle of the user's keeps until the interpreter ends are not our fault.
  nb::set_leak_warnings(false);
  InitArrays();
  RegisterErrors();
  BindCalls(m);
  BindTensor(m);
  BindGraph(m);
  BindEntries(m);
  BindOps(m);
  BindPasses(m);
  BindGradients(m);
  BindModels(m);
  BindStore(m);
  BindProgram(m);
  BindSession(m);
  BindCaller(m);
  BindPlugins(m);
  BindWatch(m);
  BindExpr(m);
  BindDefinedOps(m);
  BindDefinedPasses(m);
  m.attr("version") = weft_version();
  m.attr("abi_id") = weft::AbiId();
  m.def(
      "default_limits", [] { return weft::Limits().ToString(); },
      "Bounds on what one request may cost, as text.");
  m.def(
      "dtype_of", [](nb::handle dtype) { return std::string(weft::DTypeName(ToDType(dtype))); },
      nb::arg("dtype"), nb::sig("def dtype_of(dtype: DTypeLike) -> str"),
      "Weft's name of a dtype: 'f32' of 'float32', numpy.float32, torch.float32 ...");
  m.def(
      "numpy_dtype",
      [](nb::handle dtype) {
        const nb::object made = NumpyDType(ToDType(dtype));
        return made.is_valid() ? made : nb::object(nb::none());
      },
      nb::arg("dtype"), nb::sig("def numpy_dtype(dtype: DTypeLike) -> typing.Any"),
      "numpy's dtype, or ml_dtypes', of a dtype; None where neither has one.");
}
