/// trainer.h: runs a program: epochs over a data set, evaluation, checkpoints, a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "programs/program.h"

namespace app {

/// "cpu+libtorch fusion"
inline std::string SessionConfig(const std::string& device, const std::string& delegates,
                                 bool fusion) {
  return device + (delegates.empty() ? "" : "+" + delegates) + (fusion ? " fusion" : "");
}

struct TrainOptions {
  std::string program;
  int64_t epochs = 0;            ///< 0: what the program says
  int64_t batch = 0;             ///< 0: the checkpoint's, else what the program says
  std::optional<double> rate;    ///< none: as batch
  std::optional<uint64_t> seed;  ///< none: the checkpoint's, else 1
  bool fusion = true;
  bool tune = false;
  int threads = 0;
  weft::MemoryBudget memory;  ///< of a step, and of every other run
  std::string device = "cpu";
  std::string delegates;  ///< behind it: "libtorch"; empty: none
  weft::DivisionOptions division;
  std::string data;    ///< empty: where the program's Debian package puts it
  int64_t images = 0;  ///< train on the first so many examples; 0: the checkpoint's, else all
  int64_t size = 0;    ///< where the program has a choice; 0: the program's
  int blocks = 0;      ///< as size
  int64_t steps = 0;   ///< stop after so many; 0: after the epochs
  std::string save, load, report, export_onnx;
  bool check_nan = false;
  bool show_progress = false;  ///< a line on stderr that is written over
};

/// What a model is worth on examples that it does not learn from.
struct Score {
  double accuracy = 0;  ///< share of the labels that are told right, or what Program::score says
  double loss = 0;      ///< mean; of language models only, whose perplexity is e^loss
  double perplexity() const;
  double bits() const;  ///< per character
};
struct Epoch {
  int64_t number = 0;  ///< from 1
  double loss = 0, test_accuracy = 0, seconds = 0;
};
struct TrainResult {
  const char* score = "accuracy";  ///< what the accuracies are, as Program says
  double loss = 0;                 ///< mean of the last epoch
  double train_accuracy = 0, test_accuracy = 0;
  std::optional<Score> text;  ///< of a language model
  std::string written;        ///< by a model that writes: a line
  const char* examples = "images";
  int64_t epochs = 0;          ///< done, those before the checkpoint included
  int64_t steps = 0;           ///< of this run
  double step_ms = 0;          ///< median, waiting for data included
  std::vector<double> losses;  ///< of every step
  std::vector<Epoch> history;
  tf::ProgramInfo program;
};

/// Throws kUsage for options that fit neither each other nor the data set nor the checkpoint.
TrainResult Train(const TrainOptions& options);

/// A line of text that a trained model goes on with behind a line end, drawn by `seed`.
std::string Write(tf::Session* session, const programs::Writer& writer,
                  const std::vector<std::string>& alphabet, uint64_t seed);

}  // namespace app
