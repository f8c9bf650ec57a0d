/// magika.cc: names the file type of every file given, with the model that the Magika project
/// trained, all files in one batch.
///
///   magika_demo --data DIR [--backend B] [--no-fusion] FILES...
///
/// DIR holds model.onnx, config.min.json and content_types_kb.min.json of the Python package
/// `magika`. A file becomes the bytes of its first and last block without white space at the outer
/// ends, cut or padded to a fixed length; the model gives a score per label; a score below the
/// label's threshold becomes `txt` or `unknown`. Answers equal those of the package itself.
///
/// Only Weft's public interface is used: ImportOnnx, Compile, Session.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/onnx/import.h"
#include "weft/runtime/program/program.h"
#include "weft/support/error.h"
#include "weft/support/timer.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// What the model's makers fixed when they trained it.
struct Config {
  size_t begin_size, end_size, block_size, min_size;
  int32_t padding;
  double medium_confidence;
  std::vector<std::string> labels;
  std::map<std::string, double> thresholds;
  std::map<std::string, std::string> overwrite;
  std::map<std::string, bool> is_text;
};

struct Answer {
  std::string label;
  double score = 1;
};

Json ReadJson(const fs::path& path) {
  std::ifstream file(path);
  if (!file) weft::ThrowError(weft::ErrorCode::kIo, "cannot read " + path.string());
  return Json::parse(file);
}

Config ReadConfig(const fs::path& dir) {
  const Json j = ReadJson(dir / "config.min.json");
  if (j.at("mid_size") != 0 || j.at("use_inputs_at_offsets") != false)
    weft::ThrowError(weft::ErrorCode::kUnsupported,
                     "this demo knows models that read the two ends of a file only");
  Config c;
  c.begin_size = j.at("beg_size");
  c.end_size = j.at("end_size");
  c.block_size = j.at("block_size");
  c.min_size = j.at("min_file_size_for_dl");
  c.padding = j.at("padding_token");
  c.medium_confidence = j.at("medium_confidence_threshold");
  c.labels = j.at("target_labels_space").get<std::vector<std::string>>();
  c.thresholds = j.at("thresholds").get<std::map<std::string, double>>();
  c.overwrite = j.at("overwrite_map").get<std::map<std::string, std::string>>();
  const Json kinds = ReadJson(dir / "content_types_kb.min.json");
  for (const auto& [label, info] : kinds.items()) c.is_text[label] = info.at("is_text").get<bool>();
  return c;
}

/// The ASCII white space of C's "C" locale.
bool IsSpace(char ch) { return ch != '\0' && std::strchr(" \t\n\r\v\f", ch) != nullptr; }

/// Well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF, nothing cut off.
bool IsUtf8(const std::string& s) {
  for (size_t i = 0; i < s.size();) {
    const auto c = static_cast<unsigned char>(s[i]);
    const int more = c < 0x80                ? 0
                     : c >= 0xc2 && c < 0xe0 ? 1
                     : (c & 0xf0) == 0xe0    ? 2
                     : c >= 0xf0 && c < 0xf5 ? 3
                                             : -1;
    if (more < 0 || i + size_t(more) >= s.size()) return false;
    uint32_t code = more == 0 ? c : c & (0x3fu >> more);
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(s[i + size_t(k)]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3fu);
    }
    if ((more == 2 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) ||
        (more == 3 && (code < 0x10000 || code > 0x10ffff)))
      return false;
    i += size_t(more) + 1;
  }
  return true;
}

std::string ReadAt(std::ifstream& file, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  file.seekg(std::streamoff(offset));
  file.read(bytes.data(), std::streamsize(size));
  bytes.resize(size_t(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

/// Either an answer that needs no model, or the model's input for this file.
struct Sample {
  bool needs_model = false;
  Answer answer;
  std::vector<int32_t> tokens;
};

Sample MakeSample(const Config& c, const fs::path& path) {
  Sample s;
  std::error_code error;
  if (!fs::exists(path, error)) return s.answer = {"(no such file)", 0}, s;
  if (fs::is_directory(path, error)) return s.answer = {"directory"}, s;
  if (!fs::is_regular_file(path, error)) return s.answer = {"unknown"}, s;
  std::ifstream file(path, std::ios::binary);
  if (!file) return s.answer = {"(not readable)", 0}, s;
  const uint64_t size = fs::file_size(path);
  if (size == 0) return s.answer = {"empty"}, s;

  const size_t block = size_t(std::min<uint64_t>(c.block_size, size));
  const std::string begin = ReadAt(file, 0, block), end = ReadAt(file, size - block, block);
  const size_t first =
      size_t(std::find_if_not(begin.begin(), begin.end(), IsSpace) - begin.begin());
  // Too little to go by: text or not is all that can be said.
  if (size < c.min_size || begin.size() - first < c.min_size)
    return s.answer = {IsUtf8(begin) ? "txt" : "unknown"}, s;
  const size_t last = size_t(end.rend() - std::find_if_not(end.rbegin(), end.rend(), IsSpace));

  s.needs_model = true;
  s.tokens.assign(c.begin_size + c.end_size, c.padding);
  for (size_t i = 0; i < c.begin_size && first + i < begin.size(); ++i)
    s.tokens[i] = static_cast<unsigned char>(begin[first + i]);
  for (size_t i = 0; i < c.end_size && i < last; ++i)
    s.tokens[s.tokens.size() - 1 - i] = static_cast<unsigned char>(end[last - 1 - i]);
  return s;
}

Answer Decide(const Config& c, const float* scores) {
  const size_t best = size_t(std::max_element(scores, scores + c.labels.size()) - scores);
  const std::string& label = c.labels[best];
  const double score = scores[best];
  const auto overwrite = c.overwrite.find(label);
  const std::string& answer = overwrite == c.overwrite.end() ? label : overwrite->second;
  const auto threshold = c.thresholds.find(label);
  if (score >= (threshold == c.thresholds.end() ? c.medium_confidence : threshold->second))
    return {answer, score};
  return {c.is_text.at(answer) ? "txt" : "unknown", score};
}

struct Options {
  fs::path data;
  std::string backend = "cpu";
  bool fusion = true;
  std::vector<fs::path> files;
};

void Classify(const Options& o) {
  const Config config = ReadConfig(o.data);
  std::vector<Sample> samples;
  std::vector<int32_t> tokens;
  int64_t batch = 0;
  for (const fs::path& f : o.files) {
    samples.push_back(MakeSample(config, f));
    if (!samples.back().needs_model) continue;
    tokens.insert(tokens.end(), samples.back().tokens.begin(), samples.back().tokens.end());
    ++batch;
  }

  std::string timing = "no file needed the model";
  if (batch > 0) {
    weft::CompileOptions options;
    options.backend = o.backend;
    options.fusion = o.fusion;
    const auto program = weft::Compile(weft::ImportOnnx((o.data / "model.onnx").string()), options);
    weft::Session session(program);
    auto input = std::make_shared<weft::Tensor>(
        weft::DType::kI32,
        std::vector<int64_t>{batch, int64_t(config.begin_size + config.end_size)});
    std::memcpy(input->mutable_data(), tokens.data(), tokens.size() * sizeof(int32_t));
    weft::Timer timer;
    std::vector<weft::TensorPtr> outputs = session.Run({input});
    const double first_ms = timer.milliseconds();
    timer.Restart();
    outputs =
        session.Run({input});  // sizes are bound and memory is there: what a service would see
    const double run_ms = timer.milliseconds();

    const weft::Tensor& scores = *outputs.at(0);
    const auto labels = int64_t(config.labels.size());
    if (scores.dtype() != weft::DType::kF32 || scores.dims() != std::vector<int64_t>{batch, labels})
      weft::ThrowError(weft::ErrorCode::kInvalidModel,
                       "the model does not give one score per label of its configuration");
    int64_t row = 0;
    for (Sample& s : samples)
      if (s.needs_model) s.answer = Decide(config, scores.data_as<float>() + row++ * labels);
    const weft::ProgramStats& stats = program->stats();
    char text[256];
    std::snprintf(text, sizeof(text),
                  "%lld in one batch on %s: %.2f ms (first run %.2f ms, compiled in %.0f ms; %d "
                  "kernels, %d library calls)",
                  static_cast<long long>(batch), o.backend.c_str(), run_ms, first_ms,
                  stats.compile_seconds * 1e3, stats.kernels, stats.library_calls);
    timing = text;
  }

  size_t width = 4;
  for (const fs::path& f : o.files) width = std::max(width, f.string().size());
  for (size_t i = 0; i < o.files.size(); ++i)
    std::printf("%-*s  %-14s %6.2f %%\n", int(width), o.files[i].c_str(),
                samples[i].answer.label.c_str(), 100 * samples[i].answer.score);
  std::printf("%zu files, %s\n", o.files.size(), timing.c_str());
}

int Usage(const char* why) {
  std::fprintf(stderr, "%s\nusage: magika_demo --data DIR [--backend B] [--no-fusion] FILES...\n",
               why);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  bool only_files = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (only_files || word.empty() || word[0] != '-') {
      o.files.emplace_back(word);
    } else if (word == "--") {
      only_files = true;
    } else if (word == "--no-fusion") {
      o.fusion = false;
    } else if (word == "--data" && i + 1 < argc) {
      o.data = argv[++i];
    } else if (word == "--backend" && i + 1 < argc) {
      o.backend = argv[++i];
    } else {
      return Usage(("unexpected argument '" + word + "'").c_str());
    }
  }
  if (o.data.empty()) return Usage("--data is missing");
  if (o.files.empty()) return Usage("no files are given");
  try {
    Classify(o);
    return 0;
  } catch (const weft::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return weft::ExitCode(e.code());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 4;
  }
}
