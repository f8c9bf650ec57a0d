/// read_line.cc: reads a line of text from an image, with the recogniser that the PaddleOCR project
/// trained.
///
///   read_line --model M.onnx [--backend B] PICTURES...
///
/// A picture is a PGM or PPM file (P5, P6). It is scaled to the model's height of 48, its width
/// follows; the model gives a score per character for every few columns; equal neighbours are one
/// character and class 0 is none (CTC). The characters stand in the model's metadata. Every picture
/// is read twice, with fusion off and on, by two programs that serve every width.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "weft/api/model.h"
#include "weft/core/graph/metadata.h"
#include "weft/support/error.h"
#include "weft/support/timer.h"

namespace {

using namespace weft;

constexpr int kHeight = 48, kChannels = 3;
constexpr int64_t kMaxPixels = int64_t{1} << 26;

[[noreturn]] void Refuse(const std::string& path, const char* why) {
  ThrowError(ErrorCode::kBadTensorFile, why, path, "expected a PGM or PPM file of 8 bits a sample");
}

/// Samples in [0, 1], row by row, the channels of a pixel side by side.
struct Picture {
  int width = 0, height = 0, channels = 1;
  std::vector<float> samples;
  float at(int x, int y, int c) const {
    return samples[size_t((int64_t{y} * width + x) * channels + c)];
  }
};

/// A number of the header; comments go from # to the end of the line.
int64_t ReadNumber(std::ifstream& in) {
  while (in >> std::ws && in.peek() == '#') in.ignore(1 << 16, '\n');
  int64_t v = -1;
  in >> v;
  return v;
}

Picture ReadPicture(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) ThrowError(ErrorCode::kIo, "cannot read the image", path);
  char magic[2] = {};
  in.read(magic, 2);
  if (magic[0] != 'P' || (magic[1] != '5' && magic[1] != '6')) Refuse(path, "not an image");
  const int64_t width = ReadNumber(in), height = ReadNumber(in), top = ReadNumber(in);
  in.get();
  if (width < 1 || height < 1 || top < 1 || top > 255 || width > kMaxPixels / height)
    Refuse(path, "a header that makes no sense");
  Picture p;
  p.width = int(width);
  p.height = int(height);
  p.channels = magic[1] == '6' ? 3 : 1;
  std::string bytes(size_t(width * height * p.channels), '\0');
  in.read(bytes.data(), std::streamsize(bytes.size()));
  if (size_t(in.gcount()) != bytes.size()) Refuse(path, "fewer pixels than the header says");
  for (char b : bytes) p.samples.push_back(float(uint8_t(b)) / float(top));
  return p;
}

/// [1, 3, 48, width] in [-1, 1], sampled between the nearest four pixels; a grey
/// picture fills all channels.
TensorPtr ToInput(const Picture& p) {
  const double step = double(p.height) / kHeight;
  const int width = std::max(1, int(std::ceil(p.width / step)));
  auto t =
      std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{1, kChannels, kHeight, width});
  float* out = t->mutable_data_as<float>();
  const auto place = [step](int i, int size, int* low, double* part) {
    const double at = std::clamp((i + 0.5) * step - 0.5, 0.0, double(size - 1));
    *low = std::min(int(at), std::max(size - 2, 0));
    *part = at - *low;
  };
  for (int c = 0; c < kChannels; ++c) {
    // The model was trained on blue, green, red.
    const int from = p.channels == 1 ? 0 : kChannels - 1 - c;
    for (int y = 0; y < kHeight; ++y) {
      int y0 = 0, x0 = 0;
      double fy = 0, fx = 0;
      place(y, p.height, &y0, &fy);
      const int y1 = std::min(y0 + 1, p.height - 1);
      for (int x = 0; x < width; ++x) {
        place(x, p.width, &x0, &fx);
        const int x1 = std::min(x0 + 1, p.width - 1);
        const double upper = (1 - fx) * p.at(x0, y0, from) + fx * p.at(x1, y0, from);
        const double lower = (1 - fx) * p.at(x0, y1, from) + fx * p.at(x1, y1, from);
        *out++ = float(((1 - fy) * upper + fy * lower - 0.5) / 0.5);
      }
    }
  }
  return t;
}

/// Class k > 0 is line k of the metadata; the last class is a space.
std::vector<std::string> Characters(const Graph& model) {
  const auto& metadata = Metadata(model);
  const auto it = metadata.find("character");
  if (it == metadata.end())
    ThrowError(ErrorCode::kInvalidModel, "the model's metadata has no characters");
  std::vector<std::string> all{""};
  const std::string& text = it->second;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    all.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (all.back().empty()) all.pop_back();  // after the last line's end
  all.push_back(" ");
  return all;
}

/// The likeliest class of every step; repeats are one, class 0 separates.
std::string Decode(const Tensor& scores, const std::vector<std::string>& characters) {
  if (scores.dtype() != DType::kF32 || scores.rank() != 3 ||
      scores.dims()[2] != int64_t(characters.size()))
    ThrowError(ErrorCode::kInvalidModel, "the model does not give one score per character");
  std::string text;
  const auto classes = characters.size();
  size_t last = 0;
  for (int64_t t = 0; t < scores.dims()[1]; ++t) {
    const float* row = scores.data_as<float>() + size_t(t) * classes;
    const size_t best = size_t(std::max_element(row, row + classes) - row);
    if (best != last) text += characters[best];
    last = best;
  }
  text.erase(0, text.find_first_not_of(' '));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

void ReadAll(const std::string& model, const std::string& backend,
             const std::vector<std::string>& pictures) {
  const Graph graph = LoadModel(model);
  const std::vector<std::string> characters = Characters(graph);
  for (const bool fusion : {false, true}) {
    CompileOptions options;
    options.backend = backend;
    options.fusion = fusion;
    const auto program = Compile(graph, options);
    Session session(program);
    std::printf("fusion %s: %d kernels, %d library calls\n", fusion ? "on" : "off",
                program->stats().kernels, program->stats().library_calls);
    for (const std::string& path : pictures) {
      const TensorPtr input = ToInput(ReadPicture(path));
      std::vector<TensorPtr> outputs = session.Run({input});
      double best_ms = 1e300;
      for (int run = 0; run < 5; ++run) {  // sizes are bound now: what a service would see
        Timer timer;
        outputs = session.Run({input});
        best_ms = std::min(best_ms, timer.milliseconds());
      }
      std::printf("  %s  \"%s\"  %.2f ms\n", path.c_str(),
                  Decode(*outputs.at(0), characters).c_str(), best_ms);
    }
  }
}

int Usage(const std::string& why) {
  std::fprintf(stderr, "%s\nusage: read_line --model M.onnx [--backend B] PICTURES...\n",
               why.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::string model, backend = "cpu";
  std::vector<std::string> pictures;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--model" && i + 1 < argc)
      model = argv[++i];
    else if (word == "--backend" && i + 1 < argc)
      backend = argv[++i];
    else if (!word.empty() && word[0] == '-')
      return Usage("unexpected argument '" + word + "'");
    else
      pictures.push_back(word);
  }
  if (model.empty()) return Usage("--model is missing");
  if (pictures.empty()) return Usage("no pictures are given");
  try {
    ReadAll(model, backend, pictures);
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return ExitCode(e.code());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 4;
  }
}
