/// op.h: the operator registry.
///
///   WEFT_REGISTER_OP(Relu).describe("y = max(x, 0)").input("x", "T").output("y", "T")
///       .set_attr<FCodeGen>("FCodeGen", ...);  // as many inputs and outputs as are listed
///   WEFT_REGISTER_OP_IN(weft, SumTo)...            // key "weft::SumTo"
///   WEFT_REGISTER_OP_GROUP(Elementwise).set_attr<FInferType>("FInferType", SameType);
///
/// One op may be opened in many files and modules; each (op, attribute) has one value, the
/// one of highest priority (`plevel`); two values of equal priority are refused, naming both
/// owners. References into an `OpMap` stay valid for ever. Registration and look-up are
/// thread-safe. An error during static initialisation is kept and thrown by the first
/// look-up that follows (`CheckRegistrations`).
///
/// A running program registers in the same way and is told of errors at once:
///
///   OpBuilder("demo::Scale", Owner::At("my_script", "script.py", 12))
///       .define().input("x", "T").output("y", "T").set_attr<FCodeGen>("FCodeGen", ...).Commit();
///
/// or several statements of any registry at once, all or nothing: RegisterNow (staging.h).
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <vector>

#include "weft/core/graph/attr.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/support/api.h"

namespace weft {

class Op;
struct ParamSchema;

/// Who registered something.
struct Owner {
  std::string module;
  const char* file = "";
  int line = 0;
  WEFT_API std::string ToString() const;  ///< "weft (relu.cc:12)"
  /// Of a place that is known only while the program runs; the name of the file is kept for ever.
  WEFT_API static Owner At(std::string module, std::string_view file, int line);
};

namespace detail {
class OpAttrColumn;
WEFT_API OpAttrColumn* FindColumn(const std::string& name);
WEFT_API OpAttrColumn* ColumnFor(const std::string& name, std::type_index type,
                                 const std::string& type_name);
WEFT_API const std::any* ColumnGet(const OpAttrColumn* column, uint32_t op_index);
}  // namespace detail

/// Attribute `name` of every op, typed. Obtained from Op::GetAttr and valid for ever.
template <class T>
class OpMap {
 public:
  size_t count(const Op* op) const { return find(op) ? 1 : 0; }
  /// Throws kMissingOpAttr when the op lacks it.
  const T& operator[](const Op* op) const;
  const T* find(const Op* op) const;
  T get(const Op* op, const T& otherwise) const {
    const T* p = find(op);
    return p ? *p : otherwise;
  }

 private:
  friend class Op;
  detail::OpAttrColumn* column_ = nullptr;
};

/// Documentation of one input, output.
struct ArgDoc {
  std::string name, type, doc;
  bool optional = false, variadic = false;
};
/// One row of `.example(..)`: input types and attributes in text form, for the conformance suite.
struct OpExample {
  std::vector<std::string>
      inputs;         ///< "f32[2, n, 3]", "i64[2] = [1, 0]" (a constant), "_" (absent)
  std::string attrs;  ///< "axis = -1, keepdims = 0"
};

class WEFT_API Op {
 public:
  std::string name;  ///< key: "Relu", "weft::SumTo"
  std::string description;
  std::vector<ArgDoc> inputs, outputs;
  std::vector<OpExample> examples;
  int support_level = 10;

  uint32_t index() const { return index_; }
  /// Fixed number, or -1 where it varies (then between min and max).
  int num_inputs = 1, num_outputs = 1;
  int min_inputs = 1, max_inputs = 1;
  std::function<uint32_t(const NodeAttrs&)> get_num_inputs, get_num_outputs;
  std::function<void(NodeAttrs*)> attr_parser;  ///< 2016: free parser of the dictionary
  /// fields of its WEFT_OP_PARAM; null: takes any attribute
  const ParamSchema* param_schema = nullptr;
  uint32_t OutputCount(const NodeAttrs& attrs) const {
    return get_num_outputs ? get_num_outputs(attrs) : uint32_t(num_outputs);
  }
  std::vector<std::string> aliases;
  std::vector<Owner> owners;  ///< every registration that opened it

  /// The op of that key or alias; throws kUnknownOp with near names.
  static const Op* Get(std::string_view name);
  static const Op* Find(std::string_view name);  ///< null when there is none
  static std::vector<const Op*> List();          ///< by name
  template <class T>
  static const OpMap<T>& GetAttr(const std::string& name) {
    static_assert(!std::is_reference_v<T>);
    return *static_cast<const OpMap<T>*>(MapFor(name, typeid(T), [](detail::OpAttrColumn* c) {
      auto map = std::make_shared<OpMap<T>>();
      map->column_ = c;
      return std::shared_ptr<void>(map);
    }));
  }
  static bool HasAttr(const std::string& name) { return detail::FindColumn(name) != nullptr; }
  /// Does this op have attribute `name`, of whatever type?
  bool has(const std::string& attr_name) const;
  /// Module and place of the value in force; empty when there is none.
  Owner attr_owner(const std::string& attr_name) const;

  Op() = default;
  Op(const Op&) = delete;

 private:
  friend class OpBuilder;
  friend struct OpRegistryAccess;
  static const void* MapFor(const std::string& name, std::type_index type,
                            std::shared_ptr<void> (*make)(detail::OpAttrColumn*));
  uint32_t index_ = 0;
};

template <class T>
const T* OpMap<T>::find(const Op* op) const {
  if (!op) return nullptr;
  const std::any* a = detail::ColumnGet(column_, op->index());
  return a ? std::any_cast<T>(a) : nullptr;
}
[[noreturn]] WEFT_API void ThrowMissingOpAttr(const detail::OpAttrColumn* column, const Op* op);
template <class T>
const T& OpMap<T>::operator[](const Op* op) const {
  const T* p = find(op);
  if (!p) ThrowMissingOpAttr(column_, op);
  return *p;
}

/// Collects what a registration statement says; `Registered` commits it, whole or not at all.
class WEFT_API OpBuilder {
 public:
  OpBuilder(std::string name, Owner owner, bool group = false);
  ~OpBuilder();
  OpBuilder(OpBuilder&&) noexcept;
  OpBuilder& describe(std::string doc);
  OpBuilder& add_argument(std::string name, std::string type, std::string doc);
  template <class P>
  OpBuilder& add_arguments(const P&) {
    return *this;
  }
  OpBuilder& input(std::string name, std::string type, std::string doc = {});
  OpBuilder& optional_input(std::string name, std::string type, std::string doc = {});
  OpBuilder& variadic_input(std::string name, std::string type, std::string doc = {});
  OpBuilder& output(std::string name, std::string type, std::string doc = {});
  OpBuilder& optional_output(std::string name, std::string type, std::string doc = {});
  OpBuilder& example(std::vector<std::string> inputs, std::string attrs = {});
  OpBuilder& set_num_inputs(int n);  ///< kVarg (-1): any; without it as many as are listed, else 1
  OpBuilder& set_num_inputs(int min, int max);
  OpBuilder& set_num_inputs(std::function<uint32_t(const NodeAttrs&)> f);
  OpBuilder& set_num_outputs(int n);
  OpBuilder& set_num_outputs(std::function<uint32_t(const NodeAttrs&)> f);
  OpBuilder& set_attr_parser(std::function<void(NodeAttrs*)> f);
  OpBuilder& set_support_level(int level);
  OpBuilder& add_alias(std::string alias);
  OpBuilder& include(std::string group);
  /// The statement is the whole definition: a name that is taken is refused (kDuplicate, naming
  /// both owners), where it would add to the operator otherwise.
  OpBuilder& define();
  /// The same, but what has the name is replaced. Nodes that are there keep the definition they
  /// were made with; the name, and the aliases it had, mean the new one from then on. It begins
  /// with nothing of the old, and what other modules add later (a backend that is loaded) goes to
  /// the definition that they were written for. Passes and rules that know an operator by its name
  /// go on to: one of the standard's operators may be replaced by another way to compute the same.
  OpBuilder& override_op();
  /// Attributes are those of struct P (op_param.h).
  template <class P>
  OpBuilder& param() {
    return set_schema(P::Schema());
  }
  template <class T>
  OpBuilder& set_attr(std::string attr, const T& value, int plevel = 10) {
    return set_any(std::move(attr), typeid(T), std::any(value), plevel);
  }
  OpBuilder& set_schema(const ParamSchema* schema);
  OpBuilder& set_any(std::string attr, std::type_index type, std::any value, int plevel);
  /// Commits now; throws on conflict.
  void Commit();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};
inline constexpr int kVarg = -1;

/// End of a registration statement.
struct WEFT_API Registered {
  Registered(OpBuilder& builder);  // NOLINT: commits, or stages while a plugin loads
  Registered(OpBuilder&& builder) : Registered(builder) {}  // NOLINT
};

/// Throws the first error that a static registration met, if any.
WEFT_API void CheckRegistrations();
/// Keeps `error` for CheckRegistrations (used by registration macros, which must not throw).
WEFT_API void KeepRegistrationError(std::exception_ptr error);
/// Commits a registration: runs it, keeping what it throws; or stages it while a StagingScope is
/// open on this thread.
WEFT_API void CommitRegistration(std::function<void()> commit);

#define WEFT_OWNER_ \
  ::weft::Owner { WEFT_MODULE_NAME, __FILE__, __LINE__ }
#define WEFT_REGISTER_OP(Name)                                                          \
  [[maybe_unused]] static const ::weft::Registered WEFT_CONCAT(weft_op_, __COUNTER__) = \
      ::weft::OpBuilder(#Name, WEFT_OWNER_, false)
#define WEFT_REGISTER_OP_IN(Domain, Name)                                               \
  [[maybe_unused]] static const ::weft::Registered WEFT_CONCAT(weft_op_, __COUNTER__) = \
      ::weft::OpBuilder(#Domain "::" #Name, WEFT_OWNER_, false)
#define WEFT_REGISTER_OP_GROUP(Name)                                                         \
  [[maybe_unused]] static const ::weft::Registered WEFT_CONCAT(weft_opgroup_, __COUNTER__) = \
      ::weft::OpBuilder(#Name, WEFT_OWNER_, true)

}  // namespace weft
