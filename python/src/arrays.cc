/// arrays.cc: the borders. The only file that knows numpy's C interface.
#include "arrays.h"

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_23_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "dlpack_exchange.h"
#include "errors.h"
#include "weft/core/tensor/dlpack.h"
#include "weft/core/tensor/strided.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

/// What ml_dtypes calls the dtypes that numpy lacks.
struct OtherDType {
  DType dtype;
  const char* name;
};
constexpr OtherDType kOtherDTypes[] = {
    {DType::kBF16, "bfloat16"},
    {DType::kF8E4M3FN, "float8_e4m3fn"},
    {DType::kF8E4M3FNUZ, "float8_e4m3fnuz"},
    {DType::kF8E5M2, "float8_e5m2"},
    {DType::kF8E5M2FNUZ, "float8_e5m2fnuz"},
    {DType::kF8E8M0, "float8_e8m0fnu"},
    {DType::kF4E2M1, "float4_e2m1fn"},
    {DType::kI4, "int4"},
    {DType::kU4, "uint4"},
    {DType::kI2, "int2"},
    {DType::kU2, "uint2"},
};

int NumpyType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return NPY_BOOL;
    case DType::kI8:
      return NPY_INT8;
    case DType::kI16:
      return NPY_INT16;
    case DType::kI32:
      return NPY_INT32;
    case DType::kI64:
      return NPY_INT64;
    case DType::kU8:
      return NPY_UINT8;
    case DType::kU16:
      return NPY_UINT16;
    case DType::kU32:
      return NPY_UINT32;
    case DType::kU64:
      return NPY_UINT64;
    case DType::kF16:
      return NPY_FLOAT16;
    case DType::kF32:
      return NPY_FLOAT32;
    case DType::kF64:
      return NPY_FLOAT64;
    case DType::kC64:
      return NPY_COMPLEX64;
    case DType::kC128:
      return NPY_COMPLEX128;
    case DType::kString:
      return NPY_OBJECT;
    default:
      return NPY_NOTYPE;
  }
}

/// By numpy's number of a type; kUnknown for others.
DType DTypeOfNumpy(int type) {
  switch (type) {
    case NPY_BOOL:
      return DType::kBool;
    case NPY_BYTE:
      return DType::kI8;
    case NPY_SHORT:
      return DType::kI16;
    case NPY_INT:
      return DType::kI32;
    case NPY_LONG:
      return sizeof(long) == 8 ? DType::kI64 : DType::kI32;
    case NPY_LONGLONG:
      return DType::kI64;
    case NPY_UBYTE:
      return DType::kU8;
    case NPY_USHORT:
      return DType::kU16;
    case NPY_UINT:
      return DType::kU32;
    case NPY_ULONG:
      return sizeof(long) == 8 ? DType::kU64 : DType::kU32;
    case NPY_ULONGLONG:
      return DType::kU64;
    case NPY_HALF:
      return DType::kF16;
    case NPY_FLOAT:
      return DType::kF32;
    case NPY_DOUBLE:
      return DType::kF64;
    case NPY_CFLOAT:
      return DType::kC64;
    case NPY_CDOUBLE:
      return DType::kC128;
    default:
      return DType::kUnknown;
  }
}

/// Values of these few bits are one a byte in numpy.
bool IsPacked(DType dtype) { return DTypeBits(dtype) > 0 && DTypeBits(dtype) < 8; }

[[noreturn]] void ThrowDType(const Wanted& wanted, const std::string& message, std::string hint) {
  ThrowError(ErrorCode::kTypeMismatch, message, wanted.Place(), std::move(hint));
}

/// Keeps a Python object alive for a tensor that views its memory.
struct ObjectOwner {
  explicit ObjectOwner(PyObject* o) : object(o) { Py_INCREF(o); }
  ObjectOwner(const ObjectOwner&) = delete;
  ObjectOwner& operator=(const ObjectOwner&) = delete;
  ~ObjectOwner() {
    // A tensor that the library keeps may go when the interpreter has: then so has the object.
    if (!Py_IsInitialized()) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(object);
    PyGILState_Release(state);
  }
  PyObject* object;
};

std::shared_ptr<Tensor> ViewOf(nb::handle object, DType dtype, std::vector<int64_t> dims,
                               void* data) {
  struct View {
    View(PyObject* o, DType dtype, std::vector<int64_t> dims, void* data)
        : owner(o), tensor(dtype, std::move(dims), data, nullptr) {}
    ObjectOwner owner;
    Tensor tensor;
  };
  auto view = std::make_shared<View>(object.ptr(), dtype, std::move(dims), data);
  Tensor* const tensor = &view->tensor;
  return std::shared_ptr<Tensor>(std::move(view), tensor);
}

std::vector<int64_t> DimsOf(PyArrayObject* array) {
  const npy_intp* dims = PyArray_DIMS(array);
  return {dims, dims + PyArray_NDIM(array)};
}

std::string DTypeText(PyArrayObject* array) {
  return nb::cast<std::string>(
      nb::str(nb::handle(reinterpret_cast<PyObject*>(PyArray_DESCR(array)))));
}

/// The dtype of an array whose number numpy did not fix, by its name; kUnknown for others.
DType OtherDTypeOf(PyArrayObject* array) {
  const nb::handle descr = reinterpret_cast<PyObject*>(PyArray_DESCR(array));
  const std::string name = nb::cast<std::string>(nb::str(descr.attr("name")));
  for (const OtherDType& row : kOtherDTypes)
    if (name == row.name) return row.dtype;
  return DType::kUnknown;
}

nb::object CompactCopy(PyArrayObject* array) {
  PyObject* copy = PyArray_NewCopy(array, NPY_CORDER);
  if (!copy) throw nb::python_error();
  return nb::steal(copy);
}

TensorPtr StringsOf(PyArrayObject* array, const Wanted& wanted) {
  auto tensor = std::make_shared<Tensor>(DType::kString, DimsOf(array));
  std::vector<std::string>& strings = tensor->mutable_strings();
  const nb::object flat =
      nb::handle(reinterpret_cast<PyObject*>(array)).attr("ravel")().attr("tolist")();
  size_t i = 0;
  for (const nb::handle item : flat) {
    if (PyUnicode_Check(item.ptr())) {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(item.ptr(), &size);
      if (!text) throw nb::python_error();
      strings[i++].assign(text, size_t(size));
    } else if (PyBytes_Check(item.ptr())) {
      strings[i++].assign(PyBytes_AsString(item.ptr()), size_t(PyBytes_Size(item.ptr())));
    } else {
      ThrowDType(wanted, "an array of objects holds a " + TypeNameOf(item),
                 "arrays of objects are taken for strings; give numbers as an array of a numeric "
                 "dtype");
    }
  }
  return tensor;
}

/// Numbers of few bits from one a byte, low bits first, as ONNX packs them.
TensorPtr PackedOf(PyArrayObject* array, DType dtype) {
  auto tensor = std::make_shared<Tensor>(dtype, DimsOf(array));
  const int bits = DTypeBits(dtype), each = 8 / bits;
  const auto* from = static_cast<const uint8_t*>(PyArray_DATA(array));
  auto* to = tensor->mutable_data_as<uint8_t>();
  const int mask = (1 << bits) - 1;
  for (int64_t i = 0; i < tensor->num_elements(); ++i)
    to[i / each] = uint8_t(to[i / each] | (from[i] & mask) << (int(i % each) * bits));
  return tensor;
}

/// Says what stops an array from being seen as a tensor; kUnknown never comes back.
DType CheckedDType(PyArrayObject* array, const Wanted& wanted) {
  const int type = PyArray_TYPE(array);
  DType dtype = DTypeOfNumpy(type);
  if (dtype != DType::kUnknown) {
    if (PyArray_ISBYTESWAPPED(array))
      ThrowDType(wanted,
                 "the array has the byte order of another machine (" + DTypeText(array) + ")",
                 "give x.astype(x.dtype.newbyteorder('='))");
    return dtype;
  }
  if (type == NPY_VOID && PyArray_DESCR(array)->type_num == NPY_VOID &&
      !nb::handle(reinterpret_cast<PyObject*>(PyArray_DESCR(array))).attr("names").is_none())
    ThrowDType(wanted, "the array is structured (" + DTypeText(array) + ")",
               "give its fields one by one");
  dtype = OtherDTypeOf(array);
  if (dtype == DType::kUnknown)
    ThrowDType(wanted, "numpy's dtype " + DTypeText(array) + " has no counterpart",
               "dtypes are bool, integers, floats, complex numbers, strings, and those of "
               "ml_dtypes");
  return dtype;
}

bool IsText(PyArrayObject* array) {
  const int type = PyArray_TYPE(array);
  if (type == NPY_OBJECT || type == NPY_UNICODE || type == NPY_STRING) return true;
  return type == 2056;  // NPY_VSTRING of numpy 2, which older headers lack
}

TensorPtr TensorOfArray(PyArrayObject* array, const Wanted& wanted) {
  if (IsText(array)) return StringsOf(array, wanted);
  const DType dtype = CheckedDType(array, wanted);
  if (!PyArray_IS_C_CONTIGUOUS(array) || !PyArray_ISALIGNED(array)) {
    const nb::object copy = CompactCopy(array);
    return TensorOfArray(reinterpret_cast<PyArrayObject*>(copy.ptr()), wanted);
  }
  if (IsPacked(dtype)) return PackedOf(array, dtype);
  std::shared_ptr<Tensor> view =
      ViewOf(reinterpret_cast<PyObject*>(array), dtype, DimsOf(array), PyArray_DATA(array));
  if (!PyArray_ISWRITEABLE(array)) view->set_read_only();
  return view;
}

// ---- DLPack ----

}  // namespace

// Types are kept alive.
const dlpack::Exchange* ExchangeOf(nb::handle object) {
  static std::unordered_map<PyObject*, const dlpack::Exchange*>* known =
      new std::unordered_map<PyObject*, const dlpack::Exchange*>;  // with the GIL held
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()));
  if (const auto it = known->find(type); it != known->end()) return it->second;
  const dlpack::Exchange* exchange = nullptr;
  const nb::object capsule = nb::getattr(nb::handle(type), dlpack::kExchangeAttribute, nb::none());
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kExchangeCapsule)) {
    const auto* header = static_cast<const dlpack::ExchangeHeader*>(
        PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchangeCapsule));
    while (header && header->version.major != 1) header = header->older;
    exchange = reinterpret_cast<const dlpack::Exchange*>(header);
    if (exchange && !exchange->view_from_object) exchange = nullptr;
  }
  Py_INCREF(type);
  known->emplace(type, exchange);
  return exchange;
}

namespace {

/// What the framework says against it, as an error of ours.
[[noreturn]] void ThrowRefused(nb::handle object, const Wanted& wanted, const nb::python_error& e) {
  ThrowBadInput("the " + TypeNameOf(object) +
                    " gives no view of its memory: " + nb::cast<std::string>(nb::str(e.value())),
                wanted.Place());
}

/// torch's views may be negated by a flag that its table passes over (2.15).
bool IsNegated(nb::handle object) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  const nb::object answer = nb::steal(PyObject_CallMethodObjArgs(object.ptr(), name, nullptr));
  if (!answer.is_valid()) PyErr_Clear();  // another framework's
  return answer.ptr() == Py_True;
}

dlpack::View ExchangedView(const dlpack::Exchange& exchange, nb::handle object,
                           const Wanted& wanted, bool negations = true) {
  dlpack::View view;
  if (negations && IsNegated(object))
    ThrowBadInput("the " + TypeNameOf(object) + " is a negated view", wanted.Place(),
                  "give x.resolve_neg()");
  if (exchange.view_from_object(object.ptr(), &view) == 0) return view;
  const nb::python_error refused;
  ThrowRefused(object, wanted, refused);
}

std::optional<DType> DTypeOfDLPack(dlpack::DataType t) {
  if (t.lanes != 1) return std::nullopt;
  for (const DTypeTraits& row : DTypeTable::kRows)
    if (row.dlpack == t.code && row.bits == t.bits) return row.type;
  return std::nullopt;
}

/// Whether strides are those of extents that lie densely in that order (empty: row-major).
bool LiesIn(const dlpack::View& view, const std::vector<int64_t>& order) {
  if (!view.strides) return order.empty();
  if (!order.empty() && order.size() != size_t(view.ndim)) return false;
  if (std::find(view.shape, view.shape + view.ndim, 0) != view.shape + view.ndim) return true;
  int64_t stride = 1;
  for (int k = view.ndim; k-- > 0;) {
    const int64_t d = order.empty() ? k : order[size_t(k)];
    if (view.shape[d] != 1 && view.strides[d] != stride) return false;
    stride *= view.shape[d];
  }
  return true;
}

/// In that order of dims (empty: row-major): what lies otherwise is copied, or with `may_copy`
/// false refused.
std::shared_ptr<Tensor> TensorOfView(nb::handle object, const dlpack::View& view,
                                     const Wanted& wanted, bool may_copy,
                                     const std::vector<int64_t>& order = {}) {
  const std::optional<DType> dtype = DTypeOfDLPack(view.dtype);
  if (!dtype)
    ThrowDType(wanted, "the dtype of the " + TypeNameOf(object) + " has no counterpart", "");
  if (view.device.type == dlpack::kCpu && LiesIn(view, order)) {
    std::vector<int64_t> dims(view.shape, view.shape + view.ndim);
    for (size_t k = 0; k < order.size(); ++k) dims[k] = view.shape[order[k]];
    char* data = view.data ? static_cast<char*>(view.data) + view.byte_offset : nullptr;
    return ViewOf(object, *dtype, std::move(dims), data);
  }
  StridedMemory memory;
  memory.dtype = *dtype;
  memory.dims.assign(view.shape, view.shape + view.ndim);
  if (view.strides) memory.strides.assign(view.strides, view.strides + view.ndim);
  memory.data = view.data ? static_cast<char*>(view.data) + view.byte_offset : nullptr;
  memory.owner = std::make_shared<ObjectOwner>(object.ptr());
  if (view.device.type != dlpack::kCpu && view.device.type != dlpack::kCudaHost)
    memory.place = {int16_t(view.device.type), int16_t(view.device.id)};
  if (!may_copy) {
    if (!LiesIn(view, order))
      ThrowBadInput("the " + TypeNameOf(object) + " is not compact in row-major order",
                    wanted.Place(), "give one that is: x.contiguous()");
  }
  std::vector<int64_t> perm(order.size());
  for (size_t k = 0; k < order.size(); ++k) perm.at(size_t(order[k])) = int64_t(k);
  return FromStrided(std::move(memory), perm).tensor;
}

std::shared_ptr<Tensor> TensorOfDLPack(nb::handle object, const Wanted& wanted) {
  nb::object capsule;
  try {
    try {
      capsule = object.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0));
    } catch (const nb::python_error& older) {
      if (!older.matches(PyExc_TypeError)) throw;
      capsule = object.attr("__dlpack__")();
    }
  } catch (const nb::python_error& refused) {
    ThrowRefused(object, wanted, refused);
  }
  // Row-major: what lies otherwise is copied, and its owner let go at once.
  const std::vector<int64_t> row_major;
  std::shared_ptr<Tensor> tensor;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    tensor = TakeDLPack(managed, row_major).tensor;
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    tensor = TakeDLPack(managed, row_major).tensor;
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  } else {
    ThrowBadInput("__dlpack__ of " + TypeNameOf(object) + " gave no 'dltensor'", wanted.Place());
  }
  // Its deleter may want the interpreter's lock, and gets it with an object of ours.
  struct Held {
    std::shared_ptr<Tensor> tensor;
    ~Held() {
      if (!Py_IsInitialized()) {
        new std::shared_ptr<Tensor>(std::move(tensor));  // leaked: its library has gone
        return;
      }
      const PyGILState_STATE state = PyGILState_Ensure();
      tensor.reset();
      PyGILState_Release(state);
    }
  };
  auto held = std::make_shared<Held>();
  held->tensor = std::move(tensor);
  Tensor* const raw = held->tensor.get();
  return std::shared_ptr<Tensor>(std::move(held), raw);
}

// ---- everything else ----

/// numpy's array of a Python number, of a list of them, or of whatever has a buffer.
TensorPtr TensorOfObject(nb::handle object, const Wanted& wanted) {
  PyObject* made = PyArray_FROM_O(object.ptr());
  if (!made) {
    PyErr_Clear();
    ThrowDType(wanted, "a " + TypeNameOf(object) + " is not an array",
               "give a numpy array, a tensor, a number or a list of numbers of one length");
  }
  nb::object array = nb::steal(made);
  auto* a = reinterpret_cast<PyArrayObject*>(array.ptr());
  const bool is_text = IsText(a);
  if (is_text && PyArray_TYPE(a) == NPY_OBJECT && !PyList_Check(object.ptr()) &&
      !PyTuple_Check(object.ptr()))
    ThrowDType(wanted, "a " + TypeNameOf(object) + " is not an array",
               "give a numpy array, a tensor, a number or a list of numbers");
  // Numbers of Python have no dtype of their own: they take the one that is wanted, as in numpy.
  const DType dtype = wanted.type.dtype;
  if (dtype != DType::kUnknown && dtype != DType::kString && !is_text) {
    const nb::object want = NumpyDType(dtype);
    if (want.is_valid() && !want.is_none()) {
      if (DTypeOfNumpy(PyArray_TYPE(a)) != dtype) {
        // Whole numbers keep their values; of others numpy says which kinds go together.
        const bool whole = PyTypeNum_ISINTEGER(PyArray_TYPE(a)) && !IsFloat(dtype);
        nb::object cast;
        try {
          cast = array.attr("astype")(want, nb::arg("casting") = whole ? "unsafe" : "same_kind");
        } catch (nb::python_error&) {
          ThrowDType(wanted,
                     "a " + TypeNameOf(object) + " of " + DTypeText(a) + " is not of dtype " +
                         std::string(DTypeName(dtype)),
                     "");
        }
        if (whole &&
            !nb::cast<bool>(nb::module_::import_("numpy").attr("array_equal")(cast, array)))
          ThrowDType(wanted,
                     "a " + TypeNameOf(object) + " holds numbers beyond dtype " +
                         std::string(DTypeName(dtype)),
                     "");
        array = std::move(cast);
      }
    }
  }
  return TensorOfArray(reinterpret_cast<PyArrayObject*>(array.ptr()), wanted);
}

Wanted ElementOf(const Wanted& wanted) {
  Wanted element = wanted;
  element.type = wanted.type.element();
  return element;
}

TensorPtr ListOf(nb::handle object, const Wanted& wanted) {
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr()))
    ThrowDType(wanted, "a " + TypeNameOf(object) + " for a value of type " + wanted.type.ToString(),
               "give a list of arrays");
  std::vector<TensorPtr> elements;
  for (const nb::handle item : nb::borrow<nb::sequence>(object))
    elements.push_back(ToTensor(item, ElementOf(wanted)));
  return Tensor::List(wanted.type, std::move(elements));
}

TensorPtr MapOf(nb::handle object, const Wanted& wanted) {
  if (!PyDict_Check(object.ptr()))
    ThrowDType(wanted, "a " + TypeNameOf(object) + " for a value of type " + wanted.type.ToString(),
               "give a dict");
  Wanted keys = wanted, values = wanted;
  keys.type = Type(wanted.type.key);
  values.type = Type(wanted.type.dtype);
  const nb::dict dict = nb::borrow<nb::dict>(object);
  return Tensor::Map(ToTensor(dict.keys(), keys), ToTensor(dict.values(), values));
}

// ---- results ----

void DeleteHeld(PyObject* capsule) {
  delete static_cast<TensorPtr*>(PyCapsule_GetPointer(capsule, nullptr));
}

nb::object ArrayOfStrings(const Tensor& tensor) {
  std::vector<npy_intp> dims(tensor.dims().begin(), tensor.dims().end());
  PyObject* made = PyArray_SimpleNew(int(dims.size()), dims.data(), NPY_OBJECT);
  if (!made) throw nb::python_error();
  nb::object array = nb::steal(made);
  auto** items = static_cast<PyObject**>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(made)));
  for (const std::string& s : tensor.strings()) {
    PyObject* text = PyUnicode_DecodeUTF8(s.data(), Py_ssize_t(s.size()), "surrogateescape");
    if (!text) throw nb::python_error();
    Py_XDECREF(std::exchange(*items, text));
    ++items;
  }
  return array;
}

/// One value a byte, for dtypes of few bits.
nb::object UnpackedArray(const Tensor& tensor, PyArray_Descr* descr) {
  std::vector<npy_intp> dims(tensor.dims().begin(), tensor.dims().end());
  Py_INCREF(reinterpret_cast<PyObject*>(descr));
  PyObject* made = PyArray_NewFromDescr(&PyArray_Type, descr, int(dims.size()), dims.data(),
                                        nullptr, nullptr, 0, nullptr);
  if (!made) throw nb::python_error();
  const int bits = DTypeBits(tensor.dtype()), each = 8 / bits;
  const int mask = (1 << bits) - 1;
  // ml_dtypes keeps the sign in the upper bits as well.
  const bool is_signed = tensor.dtype() == DType::kI4 || tensor.dtype() == DType::kI2;
  const auto* from = tensor.data_as<uint8_t>();
  auto* to = static_cast<uint8_t*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(made)));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    int value = from[i / each] >> (int(i % each) * bits) & mask;
    if (is_signed && value >> (bits - 1)) value |= ~mask;
    to[i] = uint8_t(value);
  }
  return nb::steal(made);
}

nb::object ArrayOfNumbers(const TensorPtr& tensor, bool writable) {
  const nb::object descr = NumpyDType(tensor->dtype());
  if (!descr.is_valid() || !tensor->on_host())
    return nb::cast(std::const_pointer_cast<Tensor>(tensor));
  auto* d = reinterpret_cast<PyArray_Descr*>(descr.ptr());
  if (IsPacked(tensor->dtype())) return UnpackedArray(*tensor, d);
  npy_intp dims[NPY_MAXDIMS];
  const int rank = tensor->rank();
  WEFT_CHECK(rank <= NPY_MAXDIMS_LEGACY_ITERS, kUnsupported, "numpy has no arrays of rank {}",
             rank);
  for (int i = 0; i < rank; ++i) dims[i] = npy_intp(tensor->dims()[size_t(i)]);
  Py_INCREF(reinterpret_cast<PyObject*>(d));
  PyObject* made = PyArray_NewFromDescr(
      &PyArray_Type, d, rank, dims, nullptr, const_cast<void*>(tensor->data()),
      writable && !tensor->read_only() ? NPY_ARRAY_CARRAY : NPY_ARRAY_CARRAY_RO, nullptr);
  if (!made) throw nb::python_error();
  nb::object array = nb::steal(made);
  PyObject* owner = PyCapsule_New(new TensorPtr(tensor), nullptr, DeleteHeld);
  if (!owner) throw nb::python_error();
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(made), owner) != 0)
    throw nb::python_error();
  return array;
}

}  // namespace

void InitArrays() {
  if (_import_array() < 0) throw nb::python_error();
}

std::string Wanted::Place() const {
  return name ? std::string(what) + " '" + *name + "'" : std::string(what);
}

nb::object NumpyDType(DType dtype) {
  static std::array<PyObject*, size_t(kNumDTypes)>* made =
      new std::array<PyObject*, size_t(kNumDTypes)>{};  // with the GIL held; kept for ever
  PyObject*& slot = (*made)[size_t(dtype)];
  if (slot) return nb::borrow(slot);
  if (const int type = NumpyType(dtype); type != NPY_NOTYPE) {
    slot = reinterpret_cast<PyObject*>(PyArray_DescrFromType(type));
    return nb::borrow(slot);
  }
  for (const OtherDType& row : kOtherDTypes) {
    if (row.dtype != dtype) continue;
    try {
      const nb::object scalar = nb::module_::import_("ml_dtypes").attr(row.name);
      slot = nb::module_::import_("numpy").attr("dtype")(scalar).release().ptr();
      return nb::borrow(slot);
    } catch (nb::python_error&) {
      return {};
    }
  }
  return {};
}

TensorPtr ToTensor(nb::handle object, const Wanted& wanted) {
  if (PyArray_Check(object.ptr())) [[likely]]
    if (wanted.type.is_tensor() || wanted.type.is_optional())
      if (!wanted.type.is_optional())
        return TensorOfArray(reinterpret_cast<PyArrayObject*>(object.ptr()), wanted);
  if (std::shared_ptr<Tensor> tensor; nb::try_cast(object, tensor) && tensor) return tensor;
  if (wanted.type.is_sequence() || wanted.type.is_map_sequence()) return ListOf(object, wanted);
  if (wanted.type.is_map()) return MapOf(object, wanted);
  if (wanted.type.is_optional()) {
    std::vector<TensorPtr> elements;
    if (!object.is_none()) elements.push_back(ToTensor(object, ElementOf(wanted)));
    return Tensor::List(wanted.type, std::move(elements));
  }
  if (object.is_none()) ThrowBadInput("None is not an array", wanted.Place());
  if (const dlpack::Exchange* exchange = ExchangeOf(object)) {
    const dlpack::View view = ExchangedView(*exchange, object, wanted);
    // A conjugate is a flag of torch that no view shows; __dlpack__ refuses it.
    if (view.dtype.code != dlpack::kComplex) return TensorOfView(object, view, wanted, true);
  }
  if (nb::hasattr(object, "__dlpack__") && !PyArray_CheckScalar(object.ptr()))
    return TensorOfDLPack(object, wanted);
  return TensorOfObject(object, wanted);
}

TensorPtr ToTensorIn(nb::handle object, const Wanted& wanted, const std::vector<int64_t>& order,
                     bool negations) {
  if (const dlpack::Exchange* exchange = ExchangeOf(object)) {
    const dlpack::View view = ExchangedView(*exchange, object, wanted, negations);
    if (view.dtype.code != dlpack::kComplex) return TensorOfView(object, view, wanted, true, order);
  }
  WEFT_CHECK(order.empty(), kUnsupported, "a {} has no order of dims", TypeNameOf(object));
  return ToTensor(object, wanted);
}

TensorPtr ToOwnTensor(nb::handle object, const Wanted& wanted) {
  const TensorPtr given = ToTensor(object, wanted);
  if (!given->on_host())
    ThrowError(ErrorCode::kUnsupported,
               "the " + TypeNameOf(object) + " is in the memory of " + given->place().ToString(),
               wanted.Place(), "copy it to the host first");
  return OwnCopy(given);
}

TensorPtr OwnCopy(const TensorPtr& given) {
  if (!given->is_tensor()) {
    std::vector<TensorPtr> elements;
    for (const TensorPtr& e : given->elements()) elements.push_back(OwnCopy(e));
    if (given->type().is_map()) return Tensor::Map(elements.at(0), elements.at(1));
    return Tensor::List(given->type(), std::move(elements));
  }
  if (given->dtype() == DType::kString) return given;
  auto copy = std::make_shared<Tensor>(given->dtype(), given->dims());
  if (given->num_bytes() > 0)
    std::memcpy(copy->mutable_data(), given->data(), size_t(given->num_bytes()));
  return copy;
}

std::shared_ptr<Tensor> ToWritable(nb::handle object, const Wanted& wanted) {
  if (PyArray_Check(object.ptr())) {
    auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
    if (IsText(array))
      ThrowDType(wanted, "strings are not written into an array", "leave it out of out=");
    const DType dtype = CheckedDType(array, wanted);
    if (!PyArray_ISWRITEABLE(array))
      ThrowBadInput("the array is read-only", wanted.Place(), "give one that may be written");
    if (!PyArray_IS_C_CONTIGUOUS(array) || !PyArray_ISALIGNED(array))
      ThrowBadInput("the array is not compact in row-major order", wanted.Place(),
                    "give one that is, as numpy.empty makes it");
    if (IsPacked(dtype))
      ThrowDType(wanted,
                 "values of dtype " + std::string(DTypeName(dtype)) +
                     " are packed, and those of an array are not",
                 "leave it out of out=");
    return ViewOf(object, dtype, DimsOf(array), PyArray_DATA(array));
  }
  if (std::shared_ptr<Tensor> tensor; nb::try_cast(object, tensor) && tensor) {
    if (tensor->read_only())
      ThrowBadInput("the tensor is read-only", wanted.Place(), "give one that may be written");
    return tensor;
  }
  if (const dlpack::Exchange* exchange = ExchangeOf(object)) {
    const dlpack::View view = ExchangedView(*exchange, object, wanted);
    if (view.dtype.code == dlpack::kComplex)
      ThrowDType(wanted, "a " + TypeNameOf(object) + " of complex numbers may be a conjugated view",
                 "give a numpy array");
    return TensorOfView(object, view, wanted, false);
  }
  ThrowDType(wanted, "a " + TypeNameOf(object) + " is not an array that results are written into",
             "give a numpy array");
}

std::shared_ptr<Tensor> ToWritableIn(nb::handle object, const Wanted& wanted,
                                     const std::vector<int64_t>& order) {
  if (const dlpack::Exchange* exchange = ExchangeOf(object))
    return TensorOfView(object, ExchangedView(*exchange, object, wanted, false), wanted, false,
                        order);
  return ToWritable(object, wanted);
}

nb::object ToArray(const TensorPtr& tensor, bool writable) {
  if (!tensor) return nb::none();
  if (tensor->is_tensor()) {
    if (tensor->dtype() == DType::kString) return ArrayOfStrings(*tensor);
    return ArrayOfNumbers(tensor, writable);
  }
  const Type type = tensor->type();
  if (type.is_map()) {
    nb::dict dict;
    const nb::object keys = ToArray(tensor->elements()[0], false).attr("tolist")();
    const nb::object values = ToArray(tensor->elements()[1], false).attr("tolist")();
    size_t i = 0;
    for (const nb::handle key : keys) dict[key] = values[i++];
    return std::move(dict);
  }
  if (type.is_optional())
    return tensor->elements().empty() ? nb::none() : ToArray(tensor->elements()[0], false);
  nb::list list;
  for (const TensorPtr& element : tensor->elements()) list.append(ToArray(element, false));
  return std::move(list);
}

DType ToDType(nb::handle object) {
  if (PyUnicode_Check(object.ptr())) {
    const std::string name = nb::cast<std::string>(object);
    if (const auto dtype = ParseDType(name); dtype && *dtype != DType::kUnknown) return *dtype;
    for (const OtherDType& row : kOtherDTypes)
      if (name == row.name) return row.dtype;
    std::vector<std::string> names;
    for (const DTypeTraits& row : DTypeTable::kRows) names.emplace_back(row.name);
    PyArray_Descr* descr = nullptr;
    if (name == "string") return DType::kString;
    if (PyArray_DescrConverter(object.ptr(), &descr) && descr) {
      const nb::object held = nb::steal(reinterpret_cast<PyObject*>(descr));
      if (const DType dtype = DTypeOfNumpy(descr->type_num); dtype != DType::kUnknown) return dtype;
    }
    PyErr_Clear();
    ThrowError(ErrorCode::kTypeMismatch, "'" + name + "' is not a dtype", "",
               DidYouMean(name, names));
  }
  if (object.ptr() == reinterpret_cast<PyObject*>(&PyUnicode_Type)) return DType::kString;
  const std::string text = nb::cast<std::string>(nb::str(object));
  if (text.rfind("torch.", 0) == 0) return ToDType(nb::str(text.c_str() + 6));
  PyArray_Descr* descr = nullptr;
  if (PyArray_DescrConverter(object.ptr(), &descr) && descr) {
    const nb::object held = nb::steal(reinterpret_cast<PyObject*>(descr));
    if (const DType dtype = DTypeOfNumpy(descr->type_num); dtype != DType::kUnknown) return dtype;
    if (descr->type_num == NPY_UNICODE || descr->type_num == NPY_OBJECT) return DType::kString;
    const std::string name = nb::cast<std::string>(nb::str(held.attr("name")));
    for (const OtherDType& row : kOtherDTypes)
      if (name == row.name) return row.dtype;
  }
  PyErr_Clear();
  ThrowError(ErrorCode::kTypeMismatch, "a " + TypeNameOf(object) + " is not a dtype: " + text, "",
             "give a name such as 'f32', or a dtype of numpy");
}

}  // namespace weft::python
