/// rnn.h: recurrent layers and what goes with them. A layer is an object here: it has its variables
/// from the beginning, and may be called more than once, to train on many sequences and to write
/// one. Sequences are [steps, batch, width].
///
///   const nn::Embedding embedding(classes, 256);
///   const nn::LSTM lstm(256, 256, {2, 0.2});             // two layers, dropout between them
///   const Tensors first = lstm.carried_state(32);        // variables
///   const nn::Sequence h = lstm(embedding(ids), first);  // ids: [35, 32]
///   ... train::Optimizer::minimize ...
///   nn::carry(first, h);  // the next run begins where this one ends: gradients end there too
#pragma once

#include <string>
#include <vector>

#include "tinyflow/loop.h"

namespace tf::nn {

/// Rows of a table by number. Variable NAME/weight [rows, width], normal in the beginning.
class Embedding {
 public:
  Embedding(int64_t rows, int64_t width, const std::string& name = "embedding");
  /// ids [...] (i64 or i32, in [0, rows)) -> [..., width]
  Tensor operator()(const Tensor& ids) const;
  const Tensor& weight() const { return weight_; }

 private:
  Tensor weight_;
};

struct RecurrentOptions {
  int layers = 1;          ///< each reads what the one below gives
  double dropout = 0;      ///< between layers, when training
  bool both_ways = false;  ///< another direction from the end; outputs are twice as wide
};

/// What a recurrent layer gives.
struct Sequence {
  Tensor outputs;  ///< of the last layer: [steps, batch, units], twice as wide both ways
  /// After the last step, of every layer: h, of an LSTM also c; [directions, batch, units].
  Tensors state;
};

/// What LSTM and GRU have in common. Layer k has the variables NAME/layerK/weight_input,
/// weight_hidden and bias in the layout of ONNX's operators, uniform in +-1 / sqrt(units) in the
/// beginning.
class Recurrent {
 public:
  /// `state`: as Sequence::state, none: zeros. `lengths` (i32 [batch], may be null): what is behind
  /// the end of a sequence gives zeros and leaves its state alone.
  Sequence operator()(const Tensor& x, const Tensors& state = {}, const Tensor& lengths = {}) const;
  /// Variables for the state of `batch` sequences, zeros in the beginning.
  Tensors carried_state(int64_t batch, const std::string& name = "state") const;
  /// Placeholders for the same, of any batch.
  Tensors fed_state(const std::string& name = "state") const;

 protected:
  Recurrent(const char* op, int gates, int states, int64_t inputs, int64_t units,
            const RecurrentOptions& options, const std::string& name);

 private:
  struct Layer {
    Tensor weight_input, weight_hidden, bias;
  };
  int64_t directions() const { return options_.both_ways ? 2 : 1; }
  Tensors StateOf(const std::function<Tensor(const std::string& name)>& make,
                  const std::string& name) const;

  const char* op_;
  int states_;  ///< of a layer
  int64_t units_;
  RecurrentOptions options_;
  std::vector<Layer> layers_;
};

/// Hochreiter and Schmidhuber 1997, with a gate to forget (Gers et al. 1999).
class LSTM : public Recurrent {
 public:
  LSTM(int64_t inputs, int64_t units, const RecurrentOptions& options = {},
       const std::string& name = "lstm")
      : Recurrent("LSTM", 4, 2, inputs, units, options, name) {}
};
/// Cho et al. 2014, with the reset gate behind the product, as in cuDNN and PyTorch.
class GRU : public Recurrent {
 public:
  GRU(int64_t inputs, int64_t units, const RecurrentOptions& options = {},
      const std::string& name = "gru")
      : Recurrent("GRU", 3, 1, inputs, units, options, name) {}
};

/// Truncated back-propagation: every training step leaves the last state of `sequence` in
/// `variables`. The result does the same where it is fetched, for runs that do not train. Call it
/// when `sequence` has been built, before the optimizer's step.
Tensor carry(const Tensors& variables, const Sequence& sequence);

}  // namespace tf::nn
