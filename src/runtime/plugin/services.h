/// services.h: what the functions of the plugins' table share: exceptions become statuses, structs
/// of either age are read, handles are cast. Private to the runtime.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/module/plugin.h"
#include "weft/core/tensor/tensor.h"
#include "weft/support/check.h"
#include "weft/support/scratch_folder.h"

namespace weft::plugin {

/// Runs `f`; no exception leaves.
template <class F>
WeftStatus Guard(F f) noexcept {
  try {
    f();
    return WEFT_OK;
  } catch (const Error& e) {
    try {
      return SetPluginFailure(WeftStatus(e.code()), e.message());
    } catch (...) {
      return SetPluginFailure(WEFT_E_OUT_OF_MEMORY, {});
    }
  } catch (const std::bad_alloc&) {
    return SetPluginFailure(WEFT_E_OUT_OF_MEMORY, {});  // not the message of an earlier failure
  } catch (...) {
    return SetPluginFailure(WEFT_E_INTERNAL, {});
  }
}

/// Calls a function of a plugin: a status other than WEFT_OK, or anything thrown all the same,
/// becomes an error of ours.
template <class F>
void CallPlugin(const std::string& who, F f) {
  SetPluginFailure(WEFT_OK, {});
  WeftStatus status = WEFT_OK;
  try {
    status = f();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    WEFT_THROW(kPlugin, "{} threw an exception: {}", who, e.what());
  } catch (...) {
    WEFT_THROW(kPlugin, "{} threw something that is not an exception", who);
  }
  ThrowPluginStatus(status, who);
}

/// What both sides know of a struct that a plugin gives; the rest is null. `smallest`: bytes
/// that every version has.
template <class T>
T ReadDef(const T* def, size_t smallest, const char* what) {
  WEFT_CHECK(def != nullptr, kApiMisuse, "{} is null", what);
  WEFT_CHECK(def->struct_size >= smallest, kApiMisuse,
             "{} has a struct_size of {} bytes, the smallest that was ever released has {}", what,
             def->struct_size, smallest);
  T known{};
  std::memcpy(&known, def, std::min(def->struct_size, sizeof known));
  return known;
}
#define WEFT_SIZE_UP_TO(Type, member) (offsetof(Type, member) + sizeof(Type::member))

inline std::string TextOrEmpty(const char* s) { return s ? s : ""; }
/// Required, and not empty.
inline std::string RequiredText(const char* s, const char* what) {
  WEFT_CHECK(s && *s, kApiMisuse, "{} is missing", what);
  return s;
}

inline WeftNode* HandleOf(NodePtr n) { return reinterpret_cast<WeftNode*>(n.get()); }
inline NodePtr NodeOf(const WeftNode* n) { return reinterpret_cast<const Node*>(n); }
inline WeftDim HandleOf(SymInt d) { return reinterpret_cast<WeftDim>(d.node()); }
inline SymInt DimOf(WeftDim d) { return SymInt(reinterpret_cast<const sym::Node*>(d)); }

/// A view and the extents it points to.
struct View {
  WeftView view{};
  std::vector<int64_t> dims;
  View() = default;
  void Set(DType dtype, std::vector<int64_t> extents, const void* data);
  View(const View&) = delete;
  View& operator=(const View&) = delete;
};

/// Views of one call, which stay where they are.
class Views {
 public:
  const WeftView* Add(DType dtype, const std::vector<int64_t>& dims, const void* data) {
    all_.emplace_back().Set(dtype, dims, data);
    return &all_.back().view;
  }

 private:
  std::deque<View> all_;
};

/// A plugin's function as FCompute and FHostEval.
struct Computation {
  WeftComputeFn run = nullptr;
  void* user = nullptr;
  std::string what;  ///< "operator 'demo::X'"
};

}  // namespace weft::plugin

/// A graph that a plugin looks at; lives as long as the callback that gets it.
struct WeftGraph {
  explicit WeftGraph(const weft::Graph& g) : graph(&g) {}
  const weft::Graph* graph;
  weft::Graph* editable = nullptr;  ///< the same, for a pass
  // What functions of the table have given out.
  mutable weft::plugin::View constant;
  mutable weft::TensorPtr shown;  ///< what it is a view of
  /// Pages of a mapped constant go when the next one is shown: who compiles a part for an engine
  /// copies one after another, and would hold all of the file.
  bool shows_once = false;
  mutable std::string onnx, file;
  mutable std::unique_ptr<weft::ScratchFolder> folder;  ///< of `file`
};
