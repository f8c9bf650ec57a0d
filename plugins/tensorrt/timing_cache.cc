/// timing_cache.cc: see timing_cache.h.
#include "timing_cache.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>

#include "host.h"

namespace weft_tensorrt {
namespace {

std::string Read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::unique_ptr<nvinfer1::ITimingCache> OpenTimingCache(const std::string& file,
                                                        nvinfer1::IBuilderConfig* config) {
  if (file.empty()) return nullptr;
  const std::string bytes = Read(file);
  std::unique_ptr<nvinfer1::ITimingCache> cache(
      config->createTimingCache(bytes.data(), bytes.size()));
  // One that is damaged, or of another device, is as good as none.
  if (!cache || !config->setTimingCache(*cache, false)) {
    cache.reset(config->createTimingCache(nullptr, 0));
    if (cache) config->setTimingCache(*cache, false);
  }
  return cache;
}

void SaveTimingCache(const std::string& file, nvinfer1::IBuilderConfig* config) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  // Others may have written since it was read.
  const std::string now = Read(file);
  std::unique_ptr<nvinfer1::ITimingCache> all(config->createTimingCache(now.data(), now.size()));
  if (!all) all.reset(config->createTimingCache(nullptr, 0));
  if (!all || !config->getTimingCache()) return;
  all->combine(*config->getTimingCache(), true);
  const std::unique_ptr<nvinfer1::IHostMemory> bytes(all->serialize());
  if (!bytes) return;
  const std::string other = file + "." + std::to_string(getpid()) + ".new";
  std::ofstream out(other, std::ios::binary);
  out.write(static_cast<const char*>(bytes->data()), std::streamsize(bytes->size()));
  out.close();
  if (!out || std::rename(other.c_str(), file.c_str()) != 0) {
    std::remove(other.c_str());
    weft->warn(("tensorrt: the timing cache cannot be written to " + file).c_str());
  }
}

}  // namespace weft_tensorrt
