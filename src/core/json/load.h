/// load.h: what the readers of both kinds of JSON share. Private to the JSON reader.
#pragma once

#include <initializer_list>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "doc.h"
#include "weft/core/graph/graph.h"
#include "weft/core/json/json.h"
#include "weft/core/op/op.h"

namespace weft {

using Ref = JsonDoc::Ref;

/// Operators by name; all that are not registered are reported at once.
class JsonOps {
 public:
  JsonOps(const JsonDoc& doc, const JsonOptions& options) : doc_(doc), options_(options) {}
  /// Null (and noted) where there is none.
  const Op* Get(Ref name, int64_t num_outputs);
  void ThrowUnknown() const;

 private:
  const JsonDoc& doc_;
  const JsonOptions& options_;
  std::unordered_map<std::string, const Op*> known_;
  std::vector<std::pair<std::string, Ref>> unknown_;
};

/// Parses the attributes of a node whose operator, attributes and inputs are set, and checks their
/// number. `at` is where the node stands.
void FinishJsonNode(const JsonDoc& doc, Node* n, Ref at);
/// Calls `f` and gives what it throws the place of `at`; what another's
/// code throws becomes kSyntax.
template <class F>
auto AtPlace(const JsonDoc& doc, Ref at, F f) -> decltype(f()) {
  try {
    return f();
  } catch (Error& e) {
    if (e.place().rfind(doc.Source() + ":", 0) != 0) e.AddPlace(doc.Place(at));
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    doc.Fail(ErrorCode::kSyntax, e.what(), at);
  }
}

/// What all graphs of one document share.
struct JsonLoadState {
  const JsonDoc& doc;
  const JsonOptions& options;
  JsonOps ops;
  bool newer = false;  ///< written by a newer minor version: keys may be unknown
  std::vector<Ref> tensor_at;
  std::vector<TensorPtr> tensor_made;
  std::unordered_map<std::string, Shape> shapes;
  int64_t nodes = 0;

  [[noreturn]] void Fail(const std::string& message, Ref at,
                         ErrorCode code = ErrorCode::kInvalidModel) const {
    doc.Fail(code, message, at);
  }
};

/// The members of an object by the keys that are known; others are errors, or ignored in a newer
/// file.
class JsonMembers {
 public:
  JsonMembers(const JsonLoadState& s, Ref object, std::initializer_list<std::string_view> keys,
              const char* what);
  /// 0: absent (token 0 is the document itself).
  Ref operator[](size_t i) const { return found_[i]; }
  Ref Need(size_t i, const char* what) const;

 private:
  const JsonDoc& doc_;
  Ref object_;
  Ref found_[10] = {};
};

template <class F>
void EachJson(const JsonDoc& doc, Ref array, const char* what, F f) {
  doc.Expect(array, JsonDoc::Kind::kArray, what);
  for (Ref r = doc.First(array); r != doc.End(array); r = doc.Next(r)) f(r);
}
Strings ReadJsonStrings(const JsonDoc& doc, Ref array, const char* what);
DType ReadJsonDType(const JsonDoc& doc, Ref r);
/// Tensor `number` of the document (null: null); all that name it share it.
TensorPtr JsonTensor(JsonLoadState& s, Ref number);
/// One tensor. Memory is asked for where its data is there.
TensorPtr ReadJsonTensor(const JsonLoadState& s, Ref at);

/// A graph as NNVM's SaveJSON writes it.
Graph LoadNnvmJson(const JsonDoc& doc, const JsonOptions& options);

}  // namespace weft
