/// format.cc: the table of model formats.
#include "weft/api/format.h"

#include <map>
#include <memory>

#include "weft/core/op/op.h"
#include "weft/core/op/staging.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

std::map<std::string, std::shared_ptr<const ModelFormat>, std::less<>>& Table() {
  static auto* table = new std::map<std::string, std::shared_ptr<const ModelFormat>, std::less<>>;
  return *table;  // a registry
}

const ModelFormat* FindFormat(std::string_view name) {
  CheckRegistrations();
  RegistryRead lock;
  const auto it = Table().find(ToLower(std::string(name)));
  return it == Table().end() ? nullptr : it->second.get();
}

/// ".json, .onnx, .weft": those that `which` says yes to.
template <class F>
std::string Extensions(F&& which) {
  std::vector<std::string> names;
  for (const ModelFormat* f : ListModelFormats())
    if (which(*f)) names.push_back("." + f->name);
  return Join(names, ", ");
}

}  // namespace

bool RegisterModelFormat(ModelFormat given) {
  CommitRegistration([format = std::make_shared<const ModelFormat>(std::move(given))] {
    WEFT_CHECK(!Table().count(format->name), kDuplicate, "model format '{}' is registered twice",
               format->name);
    OnRollback([name = format->name] { Table().erase(name); });
    Table()[format->name] = format;
    NoteRegistration("model format", format->name);
  });
  return true;
}

std::vector<const ModelFormat*> ListModelFormats() {
  CheckRegistrations();
  RegistryRead lock;
  std::vector<const ModelFormat*> all;
  for (const auto& [name, format] : Table()) all.push_back(format.get());
  return all;
}

const ModelFormat& GetModelFormat(std::string_view name) {
  if (const ModelFormat* f = FindFormat(name)) return *f;
  std::vector<std::string> names;
  for (const ModelFormat* f : ListModelFormats()) names.push_back(f->name);
  ThrowError(ErrorCode::kUsage, fmt::format("'{}' is not a model format", name), "",
             "the formats are " + Join(names, ", "));
}

const ModelFormat& FormatOfPath(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot != path.npos)
    if (const ModelFormat* f = FindFormat(std::string_view(path).substr(dot + 1))) return *f;
  ThrowError(ErrorCode::kUsage,
             fmt::format("'{}' has no extension that names a model format", path), "",
             "expected one of " + Extensions([](const ModelFormat&) { return true; }));
}

const ModelFormat& WritableFormat(const std::string& path) {
  const size_t dot = path.rfind('.');
  const ModelFormat* f =
      dot == path.npos ? nullptr : FindFormat(std::string_view(path).substr(dot + 1));
  if (f && f->write) return *f;
  ThrowError(ErrorCode::kUsage, fmt::format("cannot write '{}'", path), "",
             "graphs are written as " +
                 Extensions([](const ModelFormat& known) { return bool(known.write); }));
}

}  // namespace weft
