/// build_test.cc: what the builder is asked for, what runs give, what is kept.
#include <thread>

#include "harness.h"

using namespace weft;

namespace test {
namespace {

Graph Mlp() {
  return Typed("(%x: f32[3, 4], %w: f32[4, 5]) -> (%y)",
               "  %m = MatMul(%x, %w) : ?\n  %t = Tanh(%m) : ?\n  %y = Add(%t, %m) : ?");
}
/// Rows of any number.
Graph Rows() {
  return Typed("<n>(%x: f32[n, 4], %w: f32[4, 5]) -> (%y)",
               "  %m = MatMul(%x, %w) : ?\n  %y = Relu(%m) : ?");
}

}  // namespace

void Building() {
  const Graph g = Mlp();
  const std::vector<Buffer> in = {Buffer::Filled({3, 4}), Buffer::Filled({4, 5})};
  const std::vector<float> expected = Expected(g, in);
  Calls calls;
  {
    const auto engine = Compiled(g, "", 3);
    CHECK(Apart(Ran(engine->Prepare().get(), in, {3, 5}), expected) < 1e-6);
    CHECK(calls.Have("network 2"));  // strongly typed
    CHECK(calls.Have("build 0"));    // neither TF32, which is TensorRT's default, nor f16, nor bf16
    CHECK(calls.Have("threads 3"));
    CHECK(calls.Have("level 3"));
    CHECK(calls.Have("formats x0 1"));
    CHECK(calls.Have("formats y0 1"));
    CHECK(calls.text().find("workspace") == std::string::npos);
    CHECK(calls.text().find("profile") == std::string::npos);
  }
  calls.Clear();
  {
    const auto engine = Compiled(g, "tf32=true,workspace=64,level=5");
    const double apart = Apart(Ran(engine->Prepare().get(), in, {3, 5}), expected);
    CHECK(apart > 1e-6);
    CHECK(apart < 1e-2);
    CHECK(calls.Have("build 64"));
    CHECK(calls.Have("network 2"));
    CHECK(calls.Have("workspace 67108864"));
    CHECK(calls.Have("level 5"));
  }
  calls.Clear();
  Compiled(g, "fp16=true,bf16=true");
  CHECK(calls.Have("network 0"));  // types are TensorRT's to choose
  CHECK(calls.Have("build 131073"));
  Throws(ErrorCode::kUsage, {"level", "0 to 5"}, [&] { Compiled(g, "level=6"); });
  Throws(ErrorCode::kUsage, {"workspace"}, [&] { Compiled(g, "workspace=-1"); });
}

void Extents() {
  const Graph g = Rows();
  Throws(ErrorCode::kUnsupported, {"'n' has no range", "extents=n=1..8..32"}, [&] { Compiled(g); });
  Throws(ErrorCode::kUnsupported, {"'n' has no range"}, [&] { Compiled(g, "extents=m=1..2..3"); });
  for (const char* wrong :
       {"n=3..2..4", "n=1..2", "n=1..2..3..4", "n=-1..2..3", "n=", "x", "n=1..2..3x"})
    Throws(ErrorCode::kUsage, {"option extents", "MIN..OPT..MAX"},
           [&] { Compiled(g, std::string("extents=") + wrong); });
  Calls calls;
  const auto engine = Compiled(g, "extents=n=0..8..32");
  CHECK(calls.Have("profile x0 0 0x4"));
  CHECK(calls.Have("profile x0 1 8x4"));
  CHECK(calls.Have("profile x0 2 32x4"));
  CHECK(calls.text().find("profile x1") == std::string::npos);
  const auto instance = engine->Prepare();
  for (const int64_t n : {1, 8, 32, 5, 5, 0, 7}) {
    const std::vector<Buffer> in = {Buffer::Filled({n, 4}), Buffer::Filled({4, 5})};
    calls.Clear();
    CHECK(Apart(Ran(instance.get(), in, {n, 5}), Expected(g, in)) < 1e-6);
  }
  // What the context knows is not told again.
  const std::vector<Buffer> in = {Buffer::Filled({7, 4}), Buffer::Filled({4, 5})};
  calls.Clear();
  Ran(instance.get(), in, {7, 5});
  CHECK(calls.text().find("shape") == std::string::npos);
  Throws(ErrorCode::kShapeMismatch, {"x0 is [33, 4]", "[0..32, 4]", "extents"}, [&] {
    Ran(instance.get(), {Buffer::Filled({33, 4}), Buffer::Filled({4, 5})}, {33, 5});
  });
  Throws(ErrorCode::kShapeMismatch, {"expected [6, 5]"}, [&] { Ran(instance.get(), in, {6, 5}); });
  CHECK(Apart(Ran(engine->Prepare().get(), in, {7, 5}), Expected(g, in)) < 1e-6);

  // Extents that are expressions; a range for all symbols that have none of their own.
  const Graph sums = Typed("<h, w>(%x: f32[2*h + 1, w//2], %z: f32[min(h, 4), h%3]) -> (%y, %u)",
                           "  %y = Relu(%x) : ?\n  %u = Relu(%z) : ?");
  calls.Clear();
  Compiled(sums, "extents=w=4..8..17/1..2..10");
  CHECK(calls.Have("profile x0 0 3x2"));
  CHECK(calls.Have("profile x0 1 5x4"));
  CHECK(calls.Have("profile x0 2 21x8"));
  CHECK(calls.Have("profile x1 0 1x0"));
  CHECK(calls.Have("profile x1 1 2x2"));
  CHECK(calls.Have("profile x1 2 4x2"));
  const Graph less = Typed("<h>(%x: f32[h - 5]) -> (%y)", "  %y = Relu(%x) : ?");
  Throws(ErrorCode::kUnsupported, {"between -4..5"}, [&] { Compiled(less, "extents=1..8..10"); });
  calls.Clear();
  Compiled(less, "extents=6..8..10");
  CHECK(calls.Have("profile x0 0 1"));
  CHECK(calls.Have("profile x0 2 5"));
}

void Running() {
  const Graph g = Mlp();
  const auto engine = Compiled(g);
  const auto instance = engine->Prepare();
  // Where all addresses are multiples of 256, nothing is copied; else what lies askew.
  int64_t copied = -1;
  std::vector<Buffer> in = {Buffer::Filled({3, 4}), Buffer::Filled({4, 5})};
  const std::vector<float> expected = Expected(g, in);
  CHECK(Apart(Ran(instance.get(), in, {3, 5}, &copied), expected) < 1e-6);
  CHECK(copied == 0);
  Calls calls;
  in = {Buffer::Filled({3, 4}, 64), Buffer::Filled({4, 5})};
  CHECK(Apart(Ran(instance.get(), in, {3, 5}, &copied), expected) < 1e-6);
  CHECK(copied == 3 * 4 * 4);
  const Buffer out({3, 5}, std::vector<float>(15, -77), 64);
  CHECK(instance->Run({in[0].tensor(), in[1].tensor()}, {out.tensor()}, nullptr) ==
        3 * 4 * 4 + 3 * 5 * 4);
  CHECK(Apart(out.values(), expected) < 1e-6);
  // On the caller's stream; addresses that have not changed are not told again.
  int stream = 0;
  calls.Clear();
  instance->Run({in[0].tensor(), in[1].tensor()}, {out.tensor()}, &stream);
  CHECK(calls.text() == "run on a stream\n");
  // One on another stream waits for the one before it.
  const int waits = OfCuda("fake_cuda_waits");
  int other = 0;
  for (int* s : {&stream, &other, &other, &stream})
    instance->Run({in[0].tensor(), in[1].tensor()}, {out.tensor()}, s);
  CHECK(OfCuda("fake_cuda_waits") == waits + 2);
  CHECK(Apart(out.values(), expected) < 1e-6);

  // Instances of one engine at a time, each on a thread.
  std::vector<std::thread> threads;
  std::vector<double> apart(8, 1);
  for (size_t t = 0; t < apart.size(); ++t)
    threads.emplace_back([&, t] {
      const auto own = engine->Prepare();
      const std::vector<Buffer> x = {Buffer::Filled({3, 4}), Buffer::Filled({4, 5})};
      double most = 0;
      for (int k = 0; k < 50; ++k)
        most = std::max(most, Apart(Ran(own.get(), x, {3, 5}), expected));
      apart[t] = most;
    });
  for (std::thread& t : threads) t.join();
  for (const double a : apart) CHECK(a < 1e-6);

  // Where time went, on demand.
  CHECK(instance->Profile().empty());
  const auto profiled = Compiled(g, "profile=true");
  const auto timed = profiled->Prepare();
  for (int k = 0; k < 2; ++k) {
    Ran(timed.get(), in, {3, 5});
    const std::vector<DelegateRow> rows = timed->Profile();
    CHECK(rows.size() == 3);
    for (const DelegateRow& r : rows) CHECK(r.us == 250 && r.kind == "tensorrt");
  }
}

void Keeping() {
  const Graph g = Rows();
  const std::string options = "extents=1..8..32";
  const std::vector<Buffer> in = {Buffer::Filled({6, 4}), Buffer::Filled({4, 5})};
  const std::string bytes = Compiled(g, options)->Export();
  Calls calls;
  const auto engine = Imported(g, bytes, options);
  CHECK(Apart(Ran(engine->Prepare().get(), in, {6, 5}), Expected(g, in)) < 1e-6);
  CHECK(calls.text().find("build") == std::string::npos);
  CHECK(engine->Export() == bytes);

  const auto refused = [&](const std::string& what, const Graph& graph, const std::string& with,
                           ErrorCode code, const std::vector<std::string>& says) {
    Throws(code, says, [&] { Imported(graph, what, with); });
  };
  refused("", g, options, ErrorCode::kIo, {"not bytes of an engine"});
  refused("ELF", g, options, ErrorCode::kIo, {"not bytes of an engine"});
  refused(bytes.substr(0, bytes.size() - 1), g, options, ErrorCode::kIo, {"damaged"});
  refused(bytes + "x", g, options, ErrorCode::kIo, {"damaged"});
  refused(bytes.substr(0, 30), g, options, ErrorCode::kUnsupported, {"made by", "this is"});
  const size_t head = bytes.find("plan ");
  refused(bytes.substr(0, head + 4), g, options, ErrorCode::kIo, {"damaged"});
  for (size_t at = head; at < bytes.size(); at += 7) {
    std::string bent = bytes;
    bent[at] = char(bent[at] ^ 4);
    refused(bent, g, options, ErrorCode::kIo, {"damaged"});
  }
  // Other options, another device's name, another version.
  refused(bytes, g, options + ",tf32=true", ErrorCode::kUnsupported, {"tf32=0", "tf32=1"});
  std::string other = bytes;
  other.replace(other.find("fake"), 4, "true");
  refused(other, g, options, ErrorCode::kUnsupported, {"a true GPU", "a fake GPU"});
  other = bytes;
  other.replace(other.find("10.13.0"), 7, "10.12.0");
  refused(other, g, options, ErrorCode::kUnsupported, {"TensorRT 10.12.0", "TensorRT 10.13.0"});
  {  // a key that lies: TensorRT itself looks
    const Setting newer("version=101400");
    refused(bytes, g, options, ErrorCode::kIo, {"cannot load", "Version tag does not match"});
  }
  // Another region.
  const Graph wider = Typed("<n>(%x: f32[n, 6], %w: f32[6, 5]) -> (%y)",
                            "  %m = MatMul(%x, %w) : ?\n  %y = Relu(%m) : ?");
  const Graph one = Typed("<n>(%x: f32[n, 4]) -> (%y)", "  %y = Relu(%x) : ?");
  const Graph two = Typed("<n>(%x: f32[n, 4], %w: f32[4, 5]) -> (%y, %m)",
                          "  %m = MatMul(%x, %w) : ?\n  %y = Relu(%m) : ?");
  const Graph whole = Typed("<n>(%x: i64[n, 4], %w: f32[4, 5]) -> (%y)", "  %y = Relu(%w) : ?");
  for (const Graph* region : {&wider, &one, &two, &whole})
    refused(bytes, *region, options, ErrorCode::kUnsupported, {"does not fit the region"});

  // The timing cache: made, added to, and made anew where it is not one.
  const std::string file = folder + "/timings";
  const auto text = [&] {
    std::ifstream f(file);
    return std::string(std::istreambuf_iterator<char>(f), {});
  };
  std::remove(file.c_str());
  Compiled(Mlp(), "timing_cache=" + file);
  const std::string first = text();
  CHECK(first.find("fake timings\na layer of") == 0);
  Compiled(one, options + ",timing_cache=" + file);
  const std::string second = text();
  CHECK(second.size() > first.size());
  Compiled(one, options + ",timing_cache=" + file);
  CHECK(text() == second);
  std::ofstream(file) << "something else";
  Compiled(Mlp(), "timing_cache=" + file);
  CHECK(text() == first);
  Compiled(Mlp(), "timing_cache=" + folder + "/nowhere/timings");  // warned about
}

}  // namespace test
