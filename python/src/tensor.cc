/// tensor.cc: the class Tensor: what has no numpy dtype, and what is shared without a copy.

#include "arrays.h"
#include "errors.h"
#include "graph.h"
#include "options.h"
#include "weft/core/tensor/dlpack.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

/// A capsule that a consumer has taken has another name; one that stays is given back by taking it.
template <class Managed>
void ReleaseUnused(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  (void)FromDLPack(static_cast<Managed*>(PyCapsule_GetPointer(capsule, name)));
}

nb::object CapsuleOf(void* managed, const char* name, PyCapsule_Destructor release) {
  PyObject* capsule = PyCapsule_New(managed, name, release);
  if (!capsule) throw nb::python_error();
  return nb::steal(capsule);
}

/// As the array interface standard has it: the versioned form for who knows it.
nb::object DLPackOf(const std::shared_ptr<Tensor>& tensor, const nb::kwargs& options) {
  const nb::object version =
      options.contains("max_version") ? nb::object(options["max_version"]) : nb::none();
  const bool copied = options.contains("copy") && nb::handle(options["copy"]).is(Py_True);
  const TensorPtr given = copied ? OwnCopy(tensor) : tensor;
  if (!version.is_none() && nb::cast<int>(version[0]) >= 1)
    return CapsuleOf(
        ToDLPackVersioned(given, {false, copied}), "dltensor_versioned",
        [](PyObject* c) { ReleaseUnused<DLManagedTensorVersioned>(c, "dltensor_versioned"); });
  return CapsuleOf(ToDLPack(given), "dltensor",
                   [](PyObject* c) { ReleaseUnused<DLManagedTensor>(c, "dltensor"); });
}

nb::object DimsObject(const Tensor& t) {
  nb::list dims;
  for (const int64_t d : t.dims()) dims.append(d);
  return nb::tuple(dims);
}

nb::object ArrayOf(const std::shared_ptr<Tensor>& t) {
  if (!t->on_host())
    ThrowError(ErrorCode::kUnsupported, "the tensor is in the memory of " + t->place().ToString(),
               "", "copy it to the host first");
  nb::object array = ToArray(t, true);
  if (nb::isinstance<Tensor>(array))
    ThrowError(ErrorCode::kUnsupported, "numpy has no dtype " + std::string(DTypeName(t->dtype())),
               "", "install ml_dtypes");
  return array;
}

}  // namespace

void BindTensor(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor", nb::is_weak_referenceable(),
                     "A dense tensor in the host's memory, as Weft holds it. Arrays are taken "
                     "everywhere; this is for dtypes that numpy lacks, and to share memory.")
      .def(nb::new_([](nb::handle value, nb::handle dtype, bool copy) {
             const Wanted wanted{ToType(dtype), "value"};
             return std::const_pointer_cast<Tensor>(copy ? ToOwnTensor(value, wanted)
                                                         : ToTensor(value, wanted));
           }),
           "value"_a, "dtype"_a = nb::none(), nb::kw_only(), "copy"_a = true,
           "Of an array, a number or a list of them; without `copy` a view of the array's memory.")
      .def_static(
          "empty",
          [](nb::handle dims, nb::handle dtype) {
            std::vector<int64_t> sizes;
            if (PyLong_Check(dims.ptr()))
              sizes.push_back(nb::cast<int64_t>(dims));
            else
              for (const nb::handle d : nb::iter(dims)) sizes.push_back(nb::cast<int64_t>(d));
            return std::make_shared<Tensor>(ToDType(dtype), std::move(sizes));
          },
          "shape"_a, "dtype"_a = "f32",
          nb::sig("def empty(shape: int | typing.Iterable[int], dtype: DTypeLike = 'f32') -> "
                  "Tensor"),
          "Zero-filled, for `out=`.")
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return t.type().ToString(); }, "'f32' ...")
      .def_prop_ro("shape", DimsObject, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("ndim", [](const Tensor& t) { return t.rank(); })
      .def_prop_ro(
          "size", [](const Tensor& t) { return t.num_elements(); }, "How many elements.")
      .def_prop_ro("read_only", [](const Tensor& t) { return t.read_only(); })
      .def_prop_ro(
          "place", [](const Tensor& t) { return t.place().ToString(); },
          "'the host', or which device's memory it is in.")
      .def_prop_rw(
          "version", [](const Tensor& t) { return t.version(); },
          [](Tensor& t, uint32_t version) { t.set_version(version); },
          "Which content it has: another number with every change, for a program that keeps inputs "
          "packed (`steady` of `weft.compile`).")
      .def_prop_ro("nbytes", [](const Tensor& t) { return t.num_bytes(); })
      .def("numpy", ArrayOf, nb::sig("def numpy(self) -> typing.Any"),
           "An array over the same memory (for dtypes below 8 bits, of a copy).")
      .def(
          "__array__",
          [](const std::shared_ptr<Tensor>& t, nb::handle dtype, nb::handle copy) {
            nb::object array = ArrayOf(t);
            if (!dtype.is_none()) array = array.attr("astype")(dtype, nb::arg("copy") = false);
            if (!copy.is_none() && nb::cast<bool>(copy)) array = array.attr("copy")();
            return array;
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none(),
          nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
                  "typing.Any"))
      .def(
          "__dlpack__",
          [](const std::shared_ptr<Tensor>& t, const nb::kwargs& options) {
            return DLPackOf(t, options);
          },
          "options"_a, nb::sig("def __dlpack__(self, **options: typing.Any) -> typing.Any"))
      .def(
          "__dlpack_device__",
          [](const Tensor& t) {
            return nb::make_tuple(int(t.place().kind), int(t.place().device));
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def(
          "tolist", [](const std::shared_ptr<Tensor>& t) { return ArrayOf(t).attr("tolist")(); },
          nb::sig("def tolist(self) -> typing.Any"))
      .def(
          "item", [](const std::shared_ptr<Tensor>& t) { return ArrayOf(t).attr("item")(); },
          nb::sig("def item(self) -> typing.Any"))
      .def("__len__",
           [](const Tensor& t) {
             if (t.rank() == 0)
               ThrowError(ErrorCode::kTypeMismatch, "a tensor of rank 0 has no length");
             return t.dims()[0];
           })
      .def(
          "__eq__",
          [](const Tensor& a, nb::handle b) {
            std::shared_ptr<Tensor> other;
            return nb::try_cast(b, other) && other && a.Equals(*other);
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"), "Same dtype, shape and bytes.")
      .def("__hash__", [](const Tensor& t) { return reinterpret_cast<uintptr_t>(&t) >> 4; })
      .def("__repr__",
           [](const Tensor& t) {
             return "<Tensor " + t.type().ToString() + Shape::OfInts(t.dims()).ToString() + ">";
           })
      .def(
          "__reduce__",
          [](const std::shared_ptr<Tensor>& t) {
            const std::string proto = FormatValueProto(*t, "");
            return nb::make_tuple(nb::module_::import_("weft._pickle").attr("tensor"),
                                  nb::make_tuple(nb::bytes(proto.data(), proto.size())));
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"));
  m.def("_tensor_from_proto", [](const nb::bytes& bytes) {
    return std::const_pointer_cast<Tensor>(ReadTensorProtoBytes({bytes.c_str(), bytes.size()}));
  });
}

}  // namespace weft::python
