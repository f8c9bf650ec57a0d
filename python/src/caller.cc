/// caller.cc: a program as a function of one list of the framework's tensors and numbers, which it
/// empties, to a list: what AOTAutograd calls. Everything that does not change from call to call
/// is prepared: which argument goes where, in which order its elements lie, where results are born.
///
/// Threads may call at once: each takes a session of its own. What follows from steady inputs is
/// derived by one of them, for which the others wait.
///
/// A steady input is packed again when it lies elsewhere, its `_version` has changed, `Touch` has
/// been called (optimizers that are one kernel change parameters and leave the version as it is),
/// or one of a few of its words has (so does whoever writes through `.data`).
#include "caller.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "arrays.h"
#include "call.h"
#include "program.h"
#include "weft/core/tensor/strided.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

enum class From : uint8_t {
  kTensor,   ///< an argument
  kAny,      ///< an argument that may be a negated view, a flag of torch's
  kSteady,   ///< an argument that rarely changes
  kNumber,   ///< an argument that is a number: a symbol's value
  kDerived,  ///< computed of steady arguments when they change
  kExtra,    ///< what `extra` gives in each call
};

struct Input {
  From from = From::kTensor;
  size_t index = 0;
  /// Dim k in memory is dim order[k] of the tensor; empty: row-major.
  std::vector<int64_t> order;
};

enum class To : uint8_t { kNew, kArgument };

struct Output {
  To to = To::kNew;
  size_t argument = 0;         ///< whose content it becomes
  nb::object dtype;            ///< the framework's
  std::vector<int64_t> order;  ///< as Input::order
  nb::object sizes, strides;   ///< of the tensor; none: they follow from the extents of the run
};

enum class Result : uint8_t { kOutput, kArgument, kObject, kComputed };

/// What a steady argument was when it was looked at last.
struct Seen {
  const void* data = nullptr;
  int64_t version = 0;
  uint64_t touched = 0;
  uint64_t words[4] = {};
  uint32_t number = 0;  ///< Tensor::version()
};

uint64_t g_touched = 0;  // with the GIL held

void Sample(const Tensor& t, uint64_t (&words)[4]) {
  const auto bytes = size_t(t.num_bytes());
  const auto* data = static_cast<const char*>(t.data());
  for (size_t i = 0; i < 4; ++i) {
    words[i] = 0;
    if (bytes < sizeof(uint64_t)) {
      if (i == 0) std::memcpy(words, data, bytes);
      continue;
    }
    std::memcpy(&words[i], data + (bytes - sizeof(uint64_t)) / 3 * i, sizeof(uint64_t));
  }
}

class Caller {
 public:
  Caller(SharedProgram program, const std::vector<std::tuple<std::string, size_t, nb::object>>& ins,
         const std::vector<nb::tuple>& outs,
         const std::vector<std::tuple<std::string, nb::object>>& results, nb::object make,
         nb::object derive, std::vector<size_t> derived_from, nb::object extra, nb::object compute,
         nb::object written);

  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  nb::object Call(nb::handle list);
  nb::object CallDirectly(const nb::args& given);
  int64_t packs() const;
  int64_t derivations() const { return derivations_; }
  const SharedProgram& program() const { return program_; }

 private:
  struct Runner {
    explicit Runner(const SharedProgram& program) : session(program) { session.set_cancel(token); }
    Session session;
    CancelToken token;
  };
  class Borrowed;
  nb::object Run(const std::vector<nb::object>& arguments, const nb::object& computed);
  TensorPtr ViewOf(const Input& in, nb::handle object, size_t i) const;
  TensorPtr Steady(size_t i, nb::handle object);
  using Derived = std::shared_ptr<const std::vector<TensorPtr>>;
  Derived Derive(const std::vector<nb::object>& arguments);
  nb::object NewResult(const Output& out, const std::vector<int64_t>& dims) const;

  SharedProgram program_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<std::pair<Result, nb::object>> results_;
  std::vector<size_t> result_index_;
  nb::object make_, derive_, extra_, compute_, written_;
  std::vector<size_t> written_arguments_;
  std::vector<size_t> derived_from_;
  std::vector<Seen> seen_;  // by input
  // Held over calls of Python; recursive, for a finalizer that calls may run inside of them.
  std::recursive_mutex deriving_;
  Derived derived_;
  std::vector<Seen> derived_seen_;  // by derived_from_
  std::vector<std::unique_ptr<Runner>> free_;
  std::vector<const Runner*> all_;
  uint32_t changes_ = 0;
  int64_t derivations_ = 0;
  bool allocates_ = false;  // some results have the extents of the run
};

From ToFrom(const std::string& name) {
  if (name == "tensor") return From::kTensor;
  if (name == "any") return From::kAny;
  if (name == "steady") return From::kSteady;
  if (name == "number") return From::kNumber;
  if (name == "derived") return From::kDerived;
  if (name == "extra") return From::kExtra;
  ThrowError(ErrorCode::kUsage, "an input from '" + name + "'");
}

std::vector<int64_t> ToOrder(nb::handle order) {
  if (order.is_none()) return {};
  return nb::cast<std::vector<int64_t>>(order);
}

Caller::Caller(SharedProgram program,
               const std::vector<std::tuple<std::string, size_t, nb::object>>& ins,
               const std::vector<nb::tuple>& outs,
               const std::vector<std::tuple<std::string, nb::object>>& results, nb::object make,
               nb::object derive, std::vector<size_t> derived_from, nb::object extra,
               nb::object compute, nb::object written)
    : program_(std::move(program)),
      make_(std::move(make)),
      derive_(std::move(derive)),
      extra_(std::move(extra)),
      compute_(std::move(compute)),
      written_(std::move(written)),
      derived_from_(std::move(derived_from)) {
  WEFT_CHECK(ins.size() == program_->inputs().size(), kApiMisuse, "{} inputs, the program has {}",
             ins.size(), program_->inputs().size());
  WEFT_CHECK(outs.size() == program_->outputs().size(), kApiMisuse,
             "{} outputs, the program has {}", outs.size(), program_->outputs().size());
  for (const auto& [from, index, order] : ins)
    inputs_.push_back({ToFrom(from), index, ToOrder(order)});
  // (None, dtype, order, sizes, strides) or (argument, order).
  for (const nb::tuple& t : outs) {
    Output out;
    if (!nb::handle(t[0]).is_none()) {
      out.to = To::kArgument;
      out.argument = nb::cast<size_t>(t[0]);
      out.order = ToOrder(t[1]);
      written_arguments_.push_back(out.argument);
    } else {
      out.dtype = t[1];
      out.order = ToOrder(t[2]);
      out.sizes = t[3];
      out.strides = t[4];
      allocates_ = allocates_ || out.sizes.is_none();
    }
    outputs_.push_back(std::move(out));
  }
  for (const auto& [kind, value] : results) {
    const Result k = kind == "output"     ? Result::kOutput
                     : kind == "argument" ? Result::kArgument
                     : kind == "computed" ? Result::kComputed
                                          : Result::kObject;
    results_.emplace_back(k, value);
    result_index_.push_back(k == Result::kObject ? 0 : nb::cast<size_t>(value));
  }
  seen_.resize(inputs_.size());
  derived_seen_.resize(derived_from_.size());
}

/// A session of this caller's for one call, with the GIL held at both ends.
class Caller::Borrowed {
 public:
  explicit Borrowed(Caller& caller) : caller_(caller) {
    if (caller.free_.empty()) {
      runner_ = std::make_unique<Runner>(caller.program_);
      caller.all_.push_back(runner_.get());
    } else {
      runner_ = std::move(caller.free_.back());
      caller.free_.pop_back();
    }
    if (runner_->token.cancelled()) {
      runner_->token = CancelToken();
      runner_->session.set_cancel(runner_->token);
    }
  }
  ~Borrowed() {
    if (caller_.allocates_) runner_->session.set_result_allocator(nullptr);
    caller_.free_.push_back(std::move(runner_));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Runner& operator*() const { return *runner_; }

 private:
  Caller& caller_;
  std::unique_ptr<Runner> runner_;
};

TensorPtr Caller::ViewOf(const Input& in, nb::handle object, size_t i) const {
  const IoSpec& spec = program_->inputs()[i];
  return ToTensorIn(object, {spec.type(), "input", &spec.name}, in.order, in.from == From::kAny);
}

/// Fills in what the object is now; whether that is what it was.
bool IsAsSeen(nb::handle object, const Tensor& t, Seen* seen) {
  static PyObject* const name = PyUnicode_InternFromString("_version");
  Seen now;
  now.data = t.data();
  now.touched = g_touched;
  bool known = false;
  const nb::object version = nb::steal(PyObject_GetAttr(object.ptr(), name));
  if (version.is_valid()) {
    now.version = PyLong_AsLongLong(version.ptr());
    known = true;
  } else {
    PyErr_Clear();  // a tensor of inference mode has none, and may be any
  }
  Sample(t, now.words);
  const bool same = known && now.data == seen->data && now.version == seen->version &&
                    now.touched == seen->touched &&
                    std::memcmp(now.words, seen->words, sizeof now.words) == 0;
  now.number = seen->number;
  *seen = now;
  return same;
}

TensorPtr Caller::Steady(size_t i, nb::handle object) {
  const TensorPtr view = ViewOf(inputs_[i], object, i);
  if (!IsAsSeen(object, *view, &seen_[i])) seen_[i].number = ++changes_;
  std::const_pointer_cast<Tensor>(view)->set_version(seen_[i].number);
  return view;
}

Caller::Derived Caller::Derive(const std::vector<nb::object>& arguments) {
  std::unique_lock lock(deriving_, std::try_to_lock);
  if (!lock.owns_lock()) {
    // Who has it wants the interpreter's lock.
    const nb::gil_scoped_release released;
    lock.lock();
  }
  bool same = derived_ != nullptr;
  std::vector<Seen> seen = derived_seen_;
  for (size_t k = 0; k < derived_from_.size(); ++k) {
    const nb::object& object = arguments.at(derived_from_[k]);
    const TensorPtr view = ToTensor(object, {{}, "argument"});
    same = IsAsSeen(object, *view, &seen[k]) && same;
  }
  if (same) return derived_;
  nb::list given;
  for (const size_t a : derived_from_) given.append(arguments[a]);
  const nb::object made = derive_(given);
  ++derivations_;
  const uint32_t number = ++changes_;
  std::vector<TensorPtr> fresh;
  for (const nb::handle item : nb::borrow<nb::sequence>(made)) {
    const auto t = nb::cast<std::shared_ptr<Tensor>>(item);
    t->set_version(number);
    fresh.push_back(t);
  }
  derived_ = std::make_shared<const std::vector<TensorPtr>>(std::move(fresh));
  derived_seen_ = std::move(seen);
  return derived_;
}

nb::object Caller::NewResult(const Output& out, const std::vector<int64_t>& dims) const {
  if (!out.sizes.is_none()) return make_(out.sizes, out.strides, out.dtype);
  // Dense in that order.
  const size_t rank = dims.size();
  std::vector<int64_t> sizes(rank), strides(rank);
  int64_t stride = 1;
  for (size_t k = rank; k-- > 0;) {
    const size_t d = out.order.empty() ? k : size_t(out.order[k]);
    sizes[d] = dims[k];
    strides[d] = stride;
    stride *= std::max<int64_t>(dims[k], 1);
  }
  const auto tuple = [&](const std::vector<int64_t>& values) {
    nb::object t = nb::steal(PyTuple_New(Py_ssize_t(rank)));
    for (size_t i = 0; i < rank; ++i)
      PyTuple_SetItem(t.ptr(), Py_ssize_t(i), PyLong_FromLongLong(values[i]));
    return t;
  };
  return make_(tuple(sizes), tuple(strides), out.dtype);
}

nb::object Caller::Call(nb::handle list) {
  WEFT_CHECK(PyList_Check(list.ptr()), kApiMisuse, "the arguments are given as a list");
  const auto count = size_t(PyList_Size(list.ptr()));
  std::vector<nb::object> arguments(count);
  for (size_t i = 0; i < count; ++i)
    arguments[i] = nb::borrow(PyList_GetItem(list.ptr(), Py_ssize_t(i)));
  nb::object computed;
  if (!compute_.is_none()) computed = compute_(list);
  PyList_SetSlice(list.ptr(), 0, Py_ssize_t(count), nullptr);
  return Run(arguments, computed);
}

nb::object Caller::CallDirectly(const nb::args& given) {
  std::vector<nb::object> arguments(given.size());
  for (size_t i = 0; i < arguments.size(); ++i) arguments[i] = given[i];
  nb::object computed;
  if (!compute_.is_none()) computed = compute_(given);
  return Run(arguments, computed);
}

nb::object Caller::Run(const std::vector<nb::object>& arguments, const nb::object& computed) {
  const size_t count = arguments.size();
  const auto argument = [&](size_t i) -> const nb::object& {
    WEFT_CHECK(i < count, kApiMisuse, "{} arguments, number {} is required", count, i);
    return arguments[i];
  };
  // Another thread may derive anew meanwhile.
  const Derived derived = derive_.is_none() ? nullptr : Derive(arguments);
  nb::object extra;
  if (!extra_.is_none()) extra = extra_();
  std::vector<TensorPtr> tensors(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& in = inputs_[i];
    switch (in.from) {
      case From::kTensor:
      case From::kAny:
        tensors[i] = ViewOf(in, argument(in.index), i);
        break;
      case From::kSteady:
        tensors[i] = Steady(i, argument(in.index));
        break;
      case From::kNumber: {
        const int64_t n = PyLong_AsLongLong(argument(in.index).ptr());
        if (n == -1 && PyErr_Occurred()) throw nb::python_error();
        auto scalar = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{});
        *scalar->mutable_data_as<int64_t>() = n;
        tensors[i] = std::move(scalar);
        break;
      }
      case From::kDerived:
        WEFT_CHECK(derived && in.index < derived->size(), kApiMisuse,
                   "derived input number {} is not among those that were derived", in.index);
        tensors[i] = (*derived)[in.index];
        break;
      case From::kExtra:
        tensors[i] = ViewOf(in, extra, i);
        break;
    }
  }
  std::vector<nb::object> born(outputs_.size());
  std::vector<std::shared_ptr<Tensor>> bound(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& out = outputs_[i];
    const Wanted wanted{program_->outputs()[i].type(), "output", &program_->outputs()[i].name};
    if (out.to == To::kArgument) {
      bound[i] = ToWritableIn(argument(out.argument), wanted, out.order);
    } else if (!out.sizes.is_none()) {
      born[i] = make_(out.sizes, out.strides, out.dtype);
      bound[i] = ToWritableIn(born[i], wanted, out.order);
    }
  }
  {
    const Borrowed runner(*this);
    Session& session = (*runner).session;
    if (allocates_)
      session.set_result_allocator([&](size_t i, DType dtype, const std::vector<int64_t>& dims)
                                       -> std::shared_ptr<Tensor> {
        const Output& out = outputs_[i];
        // What replaces an argument that is read is copied there at the end.
        if (out.to == To::kArgument) return std::make_shared<Tensor>(dtype, dims);
        const nb::gil_scoped_acquire held;
        const Wanted wanted{program_->outputs()[i].type(), "output", &program_->outputs()[i].name};
        born[i] = NewResult(out, dims);
        return ToWritableIn(born[i], wanted, out.order);
      });
    WithoutGil((*runner).token, Threads::kTeam, [&] { session.RunBound(tensors, bound); });
  }
  if (!written_arguments_.empty()) {
    nb::list changed;
    for (const size_t a : written_arguments_) changed.append(arguments[a]);
    written_(changed);
  }
  nb::object made = nb::steal(PyList_New(Py_ssize_t(results_.size())));
  for (size_t i = 0; i < results_.size(); ++i) {
    const size_t index = result_index_[i];
    nb::object item;
    switch (results_[i].first) {
      case Result::kOutput:
        item = born[index];
        break;
      case Result::kArgument:
        item = argument(index);
        break;
      case Result::kComputed:
        item = computed[index];
        break;
      case Result::kObject:
        item = results_[i].second;
        break;
    }
    PyList_SetItem(made.ptr(), Py_ssize_t(i), item.release().ptr());
  }
  return made;
}

int64_t Caller::packs() const {
  int64_t sum = 0;
  for (const Runner* r : all_) sum += r->session.packs();
  return sum;
}

}  // namespace

void BindCaller(nb::module_& m) {
  nb::class_<Caller>(m, "_Caller", nb::is_weak_referenceable(),
                     "A program as a function of a list of tensors and numbers, which it empties.")
      .def(nb::init<SharedProgram, const std::vector<std::tuple<std::string, size_t, nb::object>>&,
                    const std::vector<nb::tuple>&,
                    const std::vector<std::tuple<std::string, nb::object>>&, nb::object, nb::object,
                    std::vector<size_t>, nb::object, nb::object, nb::object>(),
           "program"_a, "inputs"_a, "outputs"_a, "results"_a, nb::kw_only(), "make"_a,
           "derive"_a = nb::none(), "derived_from"_a = std::vector<size_t>(),
           "extra"_a = nb::none(), "compute"_a = nb::none(), "written"_a = nb::none(),
           nb::sig("def __init__(self, program: Program, inputs: typing.Sequence[tuple[str, int, "
                   "typing.Any]], outputs: typing.Sequence[tuple[typing.Any, ...]], results: "
                   "typing.Sequence[tuple[str, typing.Any]], *, make: typing.Any, derive: "
                   "typing.Any = None, derived_from: typing.Sequence[int] = ..., extra: "
                   "typing.Any = None, compute: typing.Any = None, written: typing.Any = None) -> "
                   "None"))
      .def("__call__", &Caller::Call, "arguments"_a,
           nb::sig("def __call__(self, arguments: list[typing.Any]) -> list[typing.Any]"))
      .def("direct", &Caller::CallDirectly, "arguments"_a,
           nb::sig("def direct(self, *arguments: typing.Any) -> list[typing.Any]"),
           "The same of arguments one by one.")
      .def_prop_ro("program", &Caller::program)
      .def_prop_ro("packs", &Caller::packs, "Library calls that were made ready for steady inputs.")
      .def_prop_ro("derivations", &Caller::derivations,
                   "Times that what follows from steady inputs alone was computed.");
  m.def(
      "_touch", [] { ++g_touched; }, "Steady inputs of all callers may have changed.");
}

}  // namespace weft::python
