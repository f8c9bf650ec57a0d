/// program.h: what a training program says to the command that runs it: its graph, and how it
/// wants to be run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tinyflow/tinyflow.h"

namespace programs {

struct Settings {
  double rate = 0;   ///< learning rate
  double steps = 0;  ///< of the whole training, for schedules
  double steps_per_epoch = 0;
  // Where the program has a choice:
  tf::DType dtype = tf::float32;  ///< of activations and of the operands of products
  int64_t size = 0;               ///< what `size_is` says; 0: the program's
  int blocks = 0;                 ///< what `blocks_are` says; 0: the program's
  int64_t batch = 0;              ///< of programs that remember; 0: the program's
  int64_t classes = 0;            ///< 0: the program's
};

/// Gives what comes next, one symbol after the other: its state is fed and fetched.
struct Writer {
  tf::Tensor x;  ///< placeholder of one class number, [1, 1]
  tf::Tensors state;
  tf::Tensor logits;  ///< [1, classes]
  tf::Tensors next;   ///< the state behind x
};

/// The graph, in the default graph.
struct Model {
  tf::Tensor x, y;    ///< placeholders of pictures and class numbers
  tf::Tensor logits;  ///< [labels, classes]
  tf::Tensor loss;
  tf::Tensor train_step;
  /// Run in turn to give variables their first values, after initialize_all_variables().
  std::vector<tf::Tensor> initialize;
  tf::Tensor correct = {};  ///< how many labels are told right; null: by the greatest of `logits`
  /// Variables that hand on what a step remembers, zero before an epoch, and the fetch that sets
  /// them in runs that do not train.
  tf::Tensors remembered = {};
  tf::Tensor carry = {};
  std::optional<Writer> writer = {};
};

/// What a program is trained on.
enum class Data {
  kPictures,  ///< Fashion-MNIST
  kText,      ///< x and y are [batch, steps]
  kSums,      ///< pairs of numbers, made as they are needed: x [batch, 2], y their sums
};

struct Program {
  std::string name, alias, summary;
  std::function<Model(const Settings&)> build;
  int64_t epochs, batch;
  double rate;
  tf::data::Layout layout;  ///< of the pictures it is fed
  int64_t classes = 10;
  bool synthetic = false;            ///< no data set goes with it: it is timed on random pictures
  bool any_dtype = false;            ///< Settings may say one
  const char* size_is = nullptr;     ///< Settings may say a size, which is this
  const char* blocks_are = nullptr;  ///< the same of blocks
  const char* score = "accuracy";    ///< what Model::correct is a share of
  Data data = Data::kPictures;
  // Of programs on texts:
  const char* text = tf::data::kJargonFile;
  int64_t steps = 1;       ///< of a sequence
  bool remembers = false;  ///< a step begins where the last one ended, so batches are of one size
};

/// All programs, by name; one file each.
const std::vector<Program>& All();
/// By name or alias; throws kUsage with near names.
const Program& Find(const std::string& name);
/// Throws kUsage for a size or number of blocks, if not 0, that the program leaves no choice of.
void CheckChoices(const Program& program, int64_t size, int blocks);
/// The same; throws kUsage for a learning rate that is no number above 0 in f32.
double CheckedRate(double rate);

Program CharLstm();
Program AdditionLoop();
Program MnistSoftmax();
Program MnistSoftmaxMinimum();
Program MnistMlpAutoShapeInference();
Program MnistLenet();
Program CifarResnet();
Program Resnet50();
Program Transformer();
Program Unet();
Program MySigmoid();
Program MyOptimizer();

/// Fashion-MNIST as it is, in rows of 784 numbers.
tf::data::Layout FlatPictures();

}  // namespace programs
