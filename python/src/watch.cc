/// watch.cc: whether dictionaries hold the objects, and tensors lie in the memory, that they did.
/// What a train step works in is looked at before each one; in Python that took a tenth of a step
/// of LeNet.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arrays.h"
#include "dlpack_exchange.h"
#include "options.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

class Watch {
 public:
  void Hold(nb::dict holder) {
    Held held{std::move(holder), {}};
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(held.holder.ptr(), &at, nullptr, &value);)
      held.values.push_back(nb::borrow(value));
    holders_.push_back(std::move(held));
  }

  void Remember(nb::object tensor) {
    const dlpack::Exchange* exchange = ExchangeOf(tensor);
    if (!exchange) throw nb::type_error("not a tensor that shows C where it lies");
    dlpack::View view;
    if (exchange->view_from_object(tensor.ptr(), &view) != 0) throw nb::python_error();
    Place place{std::move(tensor), exchange, view.data, view.byte_offset, {}, {}};
    place.shape.assign(view.shape, view.shape + view.ndim);
    if (view.strides) place.strides.assign(view.strides, view.strides + view.ndim);
    tensors_.push_back(std::move(place));
  }

  bool Unchanged() const {
    for (const Held& held : holders_) {
      if (size_t(PyDict_Size(held.holder.ptr())) != held.values.size()) return false;
      PyObject* value = nullptr;
      size_t i = 0;
      for (Py_ssize_t at = 0; PyDict_Next(held.holder.ptr(), &at, nullptr, &value); ++i)
        if (value != held.values[i].ptr()) return false;
    }
    for (const Place& p : tensors_) {
      dlpack::View view;
      if (p.exchange->view_from_object(p.tensor.ptr(), &view) != 0) {
        PyErr_Clear();  // its memory is gone
        return false;
      }
      if (view.data != p.data || view.byte_offset != p.offset ||
          size_t(view.ndim) != p.shape.size() ||
          !std::equal(p.shape.begin(), p.shape.end(), view.shape) ||
          (view.strides && !std::equal(p.strides.begin(), p.strides.end(), view.strides)))
        return false;
    }
    return true;
  }

  int Traverse(visitproc visit, void* arg) const {
    for (const Held& held : holders_) {
      Py_VISIT(held.holder.ptr());
      for (const nb::object& o : held.values) Py_VISIT(o.ptr());
    }
    for (const Place& p : tensors_) Py_VISIT(p.tensor.ptr());
    return 0;
  }
  void Clear() {
    // What goes may ask for this object again.
    const std::vector<Held> holders = std::move(holders_);
    const std::vector<Place> tensors = std::move(tensors_);
    holders_.clear();
    tensors_.clear();
  }

 private:
  struct Held {
    nb::dict holder;
    std::vector<nb::object> values;
  };
  struct Place {
    nb::object tensor;
    const dlpack::Exchange* exchange;
    const void* data;
    uint64_t offset;
    std::vector<int64_t> shape, strides;
  };
  std::vector<Held> holders_;
  std::vector<Place> tensors_;
};

int TraverseWatch(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<Watch>(self)->Traverse(visit, arg) : 0;
}
int ClearWatch(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Watch>(self)->Clear();
  return 0;
}
PyType_Slot kCollected[] = {{Py_tp_traverse, reinterpret_cast<void*>(TraverseWatch)},
                            {Py_tp_clear, reinterpret_cast<void*>(ClearWatch)},
                            {0, nullptr}};

}  // namespace

void BindWatch(nb::module_& m) {
  nb::class_<Watch>(m, "_Watch", nb::type_slots(kCollected),
                    "Dictionaries with what was in them, and tensors with where their memory was.")
      .def(nb::init<>())
      .def("hold", &Watch::Hold, "holder"_a,
           nb::sig("def hold(self, holder: dict[typing.Any, typing.Any]) -> None"))
      .def("remember", &Watch::Remember, "tensor"_a,
           nb::sig("def remember(self, tensor: typing.Any) -> None"))
      .def("unchanged", &Watch::Unchanged);
}

}  // namespace weft::python
