/// program_commands.cc: `hsimd check` and `hsimd sim`: programs of instructions, from text.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "../l1/simulator.h"
#include "../report/report.h"
#include "command.h"
#include "weft/core/tensor/npy.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace hsimd {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

/// "NAME=FILE".
std::pair<std::string, std::string> SplitPair(const std::string& text, const char* option) {
  const size_t equals = text.find('=');
  WEFT_CHECK(equals != std::string::npos && equals > 0 && equals + 1 < text.size(), kUsage,
             "{} takes NAME=FILE.npy, got {}", option, weft::Quote(text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

const Segment& SegmentNamed(const Program& p, const std::string& name, bool is_output) {
  std::vector<std::string> names;
  for (const Segment& s : p.segments) {
    if (s.is_output != is_output) continue;
    if (s.name == name) return s;
    names.push_back(s.name);
  }
  const std::string near = weft::DidYouMean(name, names);
  weft::ThrowError(weft::ErrorCode::kBadBinding,
                   fmt::format("the program has no {} '{}'", is_output ? "output" : "input", name),
                   {}, near.empty() ? "it has " + weft::Join(names, ", ") : near);
}

/// f32 and i32 as they are, bool as 0 and 1, i64 where it fits.
std::vector<uint32_t> WordsOfTensor(const weft::Tensor& t, const std::string& file) {
  std::vector<uint32_t> words(size_t(t.num_elements()));
  for (size_t k = 0; k < words.size(); ++k) {
    switch (t.dtype()) {
      case weft::DType::kF32:
      case weft::DType::kI32:
        words[k] = static_cast<const uint32_t*>(t.data())[k];
        break;
      case weft::DType::kBool:
        words[k] = static_cast<const uint8_t*>(t.data())[k] != 0;
        break;
      case weft::DType::kI64: {
        const int64_t v = static_cast<const int64_t*>(t.data())[k];
        WEFT_CHECK(v == int32_t(v), kBadInput, "{}: element {} is {}, which is not an i32", file, k,
                   v);
        words[k] = uint32_t(int32_t(v));
        break;
      }
      default:
        WEFT_THROW(kTypeMismatch, "{}: words are f32, i32, i64 that fits, or bool, not {}", file,
                   weft::DTypeName(t.dtype()));
    }
  }
  return words;
}

void SetInput(Simulator* simulator, const std::string& option) {
  const auto [name, file] = SplitPair(option, "--input");
  const Segment& s = SegmentNamed(simulator->program(), name, false);
  const std::vector<uint32_t> words = WordsOfTensor(*weft::ReadNpy(file), file);
  WEFT_CHECK(int64_t(words.size()) == s.words, kShapeMismatch,
             "{}: input '{}' has {} words, the file {}", file, name, s.words, words.size());
  simulator->SetWords(s.memory, s.base, words.data(), s.words);
}

void SaveOutput(const Simulator& simulator, const std::string& option, const std::string& dtype) {
  const auto [name, file] = SplitPair(option, "--save");
  const Segment& s = SegmentNamed(simulator.program(), name, true);
  weft::Tensor t(dtype == "i32" ? weft::DType::kI32 : weft::DType::kF32, {s.words});
  simulator.GetWords(s.memory, s.base, static_cast<uint32_t*>(t.mutable_data()), s.words);
  weft::WriteNpy(file, t);
}

Json Summary(const LoadedProgram& l, const Execution& e) {
  Json json;
  json["machine"] = l.machine.name;
  json["instructions"] = l.program.instructions.size();
  json["cycles"] = e.cycles;
  json["predicted_cycles"] = PredictCycles(l.program, l.machine);
  Json busy = Json::object(), touched = Json::object();
  for (size_t u = 0; u < l.machine.units.size(); ++u) {
    if (e.busy[u] > 0) busy[l.machine.units[u].name] = e.busy[u];
  }
  for (size_t k = 0; k < l.machine.memories.size(); ++k) {
    if (e.touched_words[k] > 0) touched[l.machine.memories[k].name] = e.touched_words[k];
  }
  json["busy"] = std::move(busy);
  json["touched_words"] = std::move(touched);
  return json;
}

void PrintSummary(const std::string& file, const Json& s) {
  fmt::print("{}: {} instructions for {}, {} cycles\n", file, s["instructions"].get<int64_t>(),
             s["machine"].get<std::string>(), s["cycles"].get<int64_t>());
  const auto cycles = double(std::max<int64_t>(1, s["cycles"].get<int64_t>()));
  for (const auto& item : s["busy"].items())
    fmt::print("  {:<10} busy {} cycles ({:.1f} %)\n", item.key(), item.value().get<int64_t>(),
               100 * double(item.value().get<int64_t>()) / cycles);
  for (const auto& item : s["touched_words"].items())
    fmt::print("  {:<10} {} words touched\n", item.key(), item.value().get<int64_t>());
}

struct Options {
  std::string file, machine, report, dtype = "f32";
  std::vector<std::string> inputs, saves;
  int64_t show = 0;
  bool json = false;
};

CLI::App* AddProgramCommand(CLI::App* app, const char* name, const char* help, Options* o) {
  CLI::App* command = app->add_subcommand(name, help);
  command->add_option("F.l1", o->file, "the program's text")->required();
  command->add_option("--machine", o->machine, "the machine, where the program's is not built in");
  command->add_option("--report", o->report, "F.html: writes a page about the program");
  command->add_flag("--json", o->json, "print as JSON");
  return command;
}

void WriteReport(const Options& o, const LoadedProgram& l) {
  if (o.report.empty()) return;
  ReportInput input;
  input.title = weft::BaseName(o.file);
  weft::WriteFileAtomic(o.report, MakeReport(l.program, l.machine, input));
}

void RunCheck(const Options& o) {
  const LoadedProgram l = LoadProgram(o.file, o.machine);
  Simulator simulator(l.machine, l.program);
  Execution execution;
  if (const std::optional<Hazard> h = simulator.TryRun(&execution))
    weft::ThrowError(weft::ErrorCode::kInvalidModel, Describe(*h, l.program, l.machine), o.file);
  WriteReport(o, l);
  const Json json = Summary(l, execution);
  if (o.json)
    fmt::print("{}\n", json.dump(2));
  else
    PrintSummary(o.file, json);
}

void RunSim(const Options& o) {
  const LoadedProgram l = LoadProgram(o.file, o.machine);
  Simulator simulator(l.machine, l.program);
  for (const std::string& input : o.inputs) SetInput(&simulator, input);
  Execution execution;
  if (const std::optional<Hazard> h = simulator.TryRun(&execution))
    weft::ThrowError(weft::ErrorCode::kInvalidModel, Describe(*h, l.program, l.machine), o.file);
  WriteReport(o, l);
  for (const std::string& save : o.saves) SaveOutput(simulator, save, o.dtype);
  Json json = Summary(l, execution);
  Json outputs = Json::object();
  for (const Segment& s : l.program.segments) {
    if (!s.is_output || o.show == 0) continue;
    std::vector<uint32_t> words(size_t(std::min(s.words, o.show)));
    simulator.GetWords(s.memory, s.base, words.data(), int64_t(words.size()));
    Json values = Json::array();
    for (const uint32_t w : words) {
      float f;
      std::memcpy(&f, &w, sizeof f);
      if (o.dtype == "i32")
        values.push_back(int32_t(w));
      else if (f - f == 0)
        values.push_back(std::stod(weft::FormatFloat(f)));
      else
        values.push_back(weft::FormatFloat(f));  // JSON has no infinity, no NaN
    }
    outputs[s.name] = std::move(values);
  }
  if (o.show > 0) json["outputs"] = outputs;
  if (o.json) {
    fmt::print("{}\n", json.dump(2));
    return;
  }
  PrintSummary(o.file, json);
  for (const auto& item : outputs.items())
    fmt::print("  {} = {}\n", item.key(), item.value().dump());
}

}  // namespace

LoadedProgram LoadProgram(const std::string& path, const std::string& machine) {
  const std::string text = weft::ReadFile(path, kMaxFileBytes);
  std::string name = machine;
  // The line `machine NAME`; where it is missing, ParseProgram says so for any machine.
  const size_t at = text.find("machine ");
  if (name.empty() && at != std::string::npos)
    name = std::string(weft::Trim(text.substr(at + 8, text.find('\n', at) - at - 8)));
  LoadedProgram loaded;
  const std::vector<std::string> built_in = BuiltInMachines();
  if (machine.empty() && std::find(built_in.begin(), built_in.end(), name) == built_in.end() &&
      at != std::string::npos)
    weft::ThrowError(
        weft::ErrorCode::kUsage,
        fmt::format("the program is for machine '{}', which is not built in", name.substr(0, 64)),
        path, "name its file: --machine ./mine.json");
  loaded.machine = FindMachine(name.empty() ? built_in.front() : name);
  loaded.program = ParseProgram(text, loaded.machine, path);
  return loaded;
}

void AddCheckCommand(CLI::App* app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = AddProgramCommand(
      app, "check", "say whether the machine can execute a program, and its cycles", o.get());
  command->callback([o] { RunCheck(*o); });
}

void AddSimCommand(CLI::App* app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = AddProgramCommand(app, "sim", "execute a program on data", o.get());
  command->add_option("--input", o->inputs,
                      "NAME=FILE.npy: words of an input (0 where none is given)");
  command->add_option("--save", o->saves, "NAME=FILE.npy: writes an output");
  command->add_option("--dtype", o->dtype, "what the words of outputs are: f32 or i32")
      ->check(CLI::IsMember({"f32", "i32"}));
  command->add_option("--show", o->show, "print the first N words of every output")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  command->callback([o] { RunSim(*o); });
}

}  // namespace hsimd
