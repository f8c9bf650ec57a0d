/// source.h: where the batches of a program come from: pictures of Fashion-MNIST, a text, numbers
/// made as they are needed. What a batch holds depends on seed, epoch and number alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "programs/program.h"

namespace app {

/// Batches of one pass, each valid until the next; null behind the last.
using Batches = std::function<const tf::data::Batch*()>;

class Source {
 public:
  virtual ~Source() = default;
  virtual const char* examples() const = 0;      ///< what is counted: "images"
  virtual int64_t classes() const { return 0; }  ///< of labels, where only the data know; else 0
  /// How many there are to train on, with so many a step.
  virtual int64_t count(int64_t batch) const = 0;
  /// Trains on the first `n` of them from now on.
  virtual void Truncate(int64_t n) = 0;
  /// Steps of an epoch of `examples`.
  virtual int64_t StepsOf(int64_t examples, int64_t batch) const = 0;
  virtual Batches Train(const tf::data::Loader::Options& options) const = 0;
  /// What a model is judged by, and as many of the first examples that it is trained on. `batch`:
  /// of a model that takes no other; 0: any.
  virtual Batches Test(int64_t batch) const = 0;
  virtual Batches Trained(int64_t batch) const = 0;
  /// Texts of the classes; empty where they have none.
  virtual std::vector<std::string> alphabet() const { return {}; }
};

/// `data`: folder or file, as --data says; empty: where the Debian package puts it. Throws kIo,
/// naming the package, where the data are not there.
std::unique_ptr<Source> SourceOf(const programs::Program& program, const std::string& data,
                                 uint64_t seed);

/// A batch of the shapes that a program takes, at random.
tf::data::Batch RandomBatch(const programs::Program& program, int64_t batch, uint64_t seed,
                            int64_t size = 0);

}  // namespace app
