/// program.h: what a training program says to the command that runs it: its graph, and how it wants to be run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tinyflow/tinyflow.h"

namespace programs {

struct Settings {
  double rate = 0;   ///< learning rate
  double steps = 0;  ///< of the whole training, for schedules
  double steps_per_epoch = 0;
};

/// The graph, in the default graph.
struct Model {
  tf::Tensor x, y;    ///< placeholders of pictures and class numbers
  tf::Tensor logits;  ///< [batch, classes]
  tf::Tensor loss;
  tf::Tensor train_step;
  /// Run in turn to give variables their first values, after initialize_all_variables().
  std::vector<tf::Tensor> initialize;
};

struct Program {
  std::string name, alias, summary;
  std::function<Model(const Settings&)> build;
  int64_t epochs, batch;
  double rate;
  tf::data::Layout layout;  ///< of the pictures it is fed
};

/// All programs, by name; one file each.
const std::vector<Program>& All();
/// By name or alias; throws kUsage with near names.
const Program& Find(const std::string& name);
/// The same; throws kUsage for a learning rate that is no number above 0 in f32.
double CheckedRate(double rate);

Program MnistSoftmax();
Program MnistSoftmaxMinimum();
Program MnistMlpAutoShapeInference();
Program MnistLenet();
Program CifarResnet();
Program MySigmoid();
Program MyOptimizer();

/// Fashion-MNIST as it is, in rows of 784 numbers.
tf::data::Layout FlatPictures();

}  // namespace programs
