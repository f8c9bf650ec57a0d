/// run.cc: `weft run`: one run of a model. Outputs are written only after the run has succeeded,
/// all of them or none.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "command_line.h"
#include "common.h"
#include "inputs.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"
#include "weft/support/timer.h"

namespace weft::tool {
namespace {

struct Args {
  ModelArgs model;
  InputArgs inputs;
  EngineArgs engine;
  std::string outputs_dir;
};

struct Summary {
  double min = std::numeric_limits<double>::quiet_NaN(), max = min, mean = min;
  int64_t nans = 0;
};

Summary Summarize(const Tensor& t) {
  Summary s;
  if (!IsComputable(t.dtype()) || t.num_elements() == 0) return s;
  double lo = std::numeric_limits<double>::infinity(), hi = -lo, sum = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double v = t.at(i);
    if (std::isnan(v)) {
      ++s.nans;
      continue;
    }
    lo = std::min(lo, v);
    hi = std::max(hi, v);
    sum += v;
  }
  if (s.nans == t.num_elements()) return s;
  s.min = lo;
  s.max = hi;
  s.mean = sum / double(t.num_elements() - s.nans);
  return s;
}

std::string Short(double v) { return std::isnan(v) ? "-" : fmt::format("{:.6g}", v); }

int RunModel(const Args& a) {
  const Prepared p = PrepareProgram(a.model, a.inputs, a.engine);
  const std::shared_ptr<const Program>& program = p.program;
  std::vector<std::string> names, files;
  for (const IoSpec& o : program->outputs()) names.push_back(o.name);
  if (!a.outputs_dir.empty()) files = TensorFiles(a.outputs_dir, names, "--outputs-dir");
  Session session(program);
  Timer timer;
  const std::vector<TensorPtr> outputs = session.Run(p.inputs);
  const double seconds = timer.seconds();
  ReportKernelFaults(session);
  if (!files.empty()) files = WriteTensors(a.outputs_dir, files, names, outputs);
  if (!files.empty() && !a.model.json) return 0;

  Json rows = Json::array();
  Table table({"output", "dtype", "shape", ">min", ">max", ">mean"});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& t = *outputs[i];
    const std::string& name = program->outputs()[i].name;
    const Summary s = Summarize(t);
    table.AddRow({name, t.type().ToString(), t.shape().ToString(), Short(s.min), Short(s.max),
                  Short(s.mean)});
    Json row = {{"name", name},
                {"dtype", t.type().ToString()},
                {"shape", t.is_tensor() ? Json(t.dims()) : Json()},
                {"min", s.min},
                {"max", s.max},
                {"mean", s.mean},
                {"nans", s.nans}};
    if (!files.empty()) row["file"] = files[i];
    rows.push_back(std::move(row));
  }
  if (a.model.json) {
    PrintJson({{"outputs", std::move(rows)},
               {"backend", p.engine.backend},
               {"bindings", BindingsJson(p.dims.bindings)},
               {"compile_s", program->stats().compile_seconds},
               {"run_s", seconds}});
  } else {
    PrintText(table.ToString());
  }
  return 0;
}

}  // namespace

Command MakeRun(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand("run", "run a model once");
  AddModel(app, &a->model);
  AddInputs(app, &a->inputs);
  app.AddFlag("--random", &a->inputs.random, "random values for inputs that are not given");
  AddRandomWeights(app, &a->model);
  app.Add("--outputs-dir D", &a->outputs_dir,
          "write every output to D/NAME.npy ('/' and ':' become '_'), or NAME.pb where NumPy lacks "
          "its type");
  AddEngine(app, &a->engine);
  return {app, [a] { return RunModel(*a); }};
}

}  // namespace weft::tool
