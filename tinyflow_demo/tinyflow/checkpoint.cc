/// checkpoint.cc: see checkpoint.h.
#include "tinyflow/checkpoint.h"

#include <algorithm>

#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace tf {
namespace {

constexpr size_t kMostShown = 5;  // of what does not fit

std::string TypeText(DType dtype, const weft::Shape& shape) {
  return std::string(weft::DTypeName(dtype)) + shape.ToString();
}

/// What of `store` does not fit the variables of a graph.
std::vector<std::string> Faults(const std::vector<VariableInfo>& variables,
                                const weft::VariableStore& store) {
  std::vector<std::string> faults, known;
  for (const VariableInfo& v : variables) {
    const std::string& name = v.tensor.name();
    known.push_back(name);
    if (!store.Has(name)) {
      faults.push_back("it has no '" + name + "'");
      continue;
    }
    const Array value = store.Get(name);
    const weft::Shape shape = v.tensor.shape();
    if (value->dtype() != v.tensor.dtype() || (shape.is_static() && shape.ints() != value->dims()))
      faults.push_back("its '" + name + "' is " + TypeText(value->dtype(), value->shape()) +
                       ", here " + TypeText(v.tensor.dtype(), shape));
  }
  for (const std::string& name : store.Names())
    if (std::find(known.begin(), known.end(), name) == known.end())
      faults.push_back("'" + name + "' is not here");
  return faults;
}

}  // namespace

void save_checkpoint(const Session& session, const std::string& path,
                     const CheckpointNotes& notes) {
  for (const VariableInfo& v : session.graph()->variables)
    WEFT_CHECK(session.has(v.tensor), kBadBinding, "variable '{}' has no value to save",
               v.tensor.name());
  for (const auto& [key, value] : notes) session.store()->SetMetadata(key, value);
  session.store()->Save(path);
}

Checkpoint::Checkpoint(const std::string& path) : path_(path) {
  values_.Load(path);
  notes_ = values_.AllMetadata();
}

void Checkpoint::Restore(Session* session) const {
  std::vector<std::string> faults = Faults(session->graph()->variables, values_);
  if (!faults.empty()) {
    const size_t all = faults.size();
    faults.resize(std::min(all, kMostShown));
    WEFT_THROW(kInvalidModel, "'{}' is a checkpoint of another graph: {}{}", path_,
               weft::Join(faults, "; "),
               all > kMostShown ? fmt::format("; and {} more", all - kMostShown) : "");
  }
  // Nothing is set before everything is there to be set.
  std::vector<std::pair<std::string, Array>> values;
  for (const std::string& name : values_.Names()) values.emplace_back(name, values_.Get(name));
  for (const auto& [name, value] : values) session->store()->Set(name, value);
}

CheckpointNotes load_checkpoint(Session* session, const std::string& path) {
  const Checkpoint checkpoint(path);
  checkpoint.Restore(session);
  return checkpoint.notes();
}

}  // namespace tf
