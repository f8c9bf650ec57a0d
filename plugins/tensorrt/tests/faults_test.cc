/// faults_test.cc: what is missing on a machine, and what TensorRT refuses or fails at.
#include "harness.h"

using namespace weft;

namespace test {

/// In this order: what has been opened stays open.
void Opening() {
  const auto delegate = GetDelegate("tensorrt");
  CHECK(delegate->traits().memory == 2);
  CHECK(delegate->traits().concurrent);
  CHECK(!delegate->traits().deterministic);
  CHECK(delegate->traits().streams);
  const auto lacks = [&](const std::vector<std::string>& says) {
    Throws(ErrorCode::kUnsupported, says, [&] { delegate->Version(); });
  };
  {
    const Setting none("/nowhere/libcuda.so.1", "WEFT_LIBCUDA");
    lacks({"CUDA driver", "/nowhere/libcuda.so.1", "WEFT_LIBCUDA"});
  }
  {
    const Setting other(folder + "/fake/lib/libnvinfer.so.10", "WEFT_LIBCUDA");
    lacks({"lacks cuInit", "install a driver"});
  }
  {
    const Setting broken("init", "FAKE_CUDA");
    lacks({"does not start", "no CUDA-capable device"});
  }
  {
    const Setting none("/nowhere", "WEFT_TENSORRT");
    lacks({"TensorRT is not installed", "not in /nowhere", "install TensorRT 10", "WEFT_TENSORRT"});
  }
  {
    const Setting half(folder + "/no_parser", "WEFT_TENSORRT");
    lacks({"ONNX parser is missing", "install TensorRT 10"});
  }
  setenv("WEFT_TENSORRT", (folder + "/fake").c_str(), 1);
  for (const auto& [number, text] : {std::pair("8602", "TensorRT 8.6.2"),
                                     {"110000", "TensorRT 11.0.0"},
                                     {"101200", "TensorRT 10.12.0"}}) {
    const Setting version(std::string("version=") + number);
    lacks({text, "10.13", "build the plugin again"});
  }
  CHECK(delegate->Version() == "10.13.0, a fake GPU (sm_90)");
  // It is open now.
  const Setting none("/nowhere", "WEFT_TENSORRT");
  CHECK(delegate->Version() == "10.13.0, a fake GPU (sm_90)");
}

void Faults() {
  const Graph g = Typed("(%x: f32[3, 4]) -> (%y)", "  %e = Exp(%x) : ?\n  %y = Relu(%e) : ?");
  const std::vector<Buffer> in = {Buffer::Filled({3, 4})};
  const auto fails = [&](const std::string& how, ErrorCode code,
                         const std::vector<std::string>& says) {
    const Setting setting(how);
    Throws(code, says, [&] { Compiled(g); });
  };
  fails("refuse=Exp", ErrorCode::kUnsupported, {"parser refuses", "Exp", "No importer registered"});
  fails("build=fail", ErrorCode::kUnsupported,
        {"cannot build", "Could not find any implementation"});
  fails("build=fail log=thread", ErrorCode::kUnsupported, {"Could not find any implementation"});
  fails("build=memory", ErrorCode::kOutOfMemory, {"cannot build", "OutOfMemory"});
  fails("load=fail", ErrorCode::kUnsupported, {"cannot load", "Serialization assertion"});
  const auto engine = Compiled(g);
  {
    const Setting setting("context=fail");
    Throws(ErrorCode::kOutOfMemory, {"no execution context", "OutOfMemory"},
           [&] { engine->Prepare(); });
  }
  const auto instance = engine->Prepare();
  {
    const Setting setting("run=fail");
    Throws(ErrorCode::kDevice, {"cannot run", "illegal memory access"}, [&] {
      Ran(instance.get(), in, {3, 4});
    });
  }
  {
    const Setting setting("memory", "FAKE_CUDA");
    Throws(ErrorCode::kOutOfMemory, {"cuMemAlloc", "out of memory"}, [&] {
      Ran(instance.get(), {Buffer::Filled({3, 4}, 8)}, {3, 4});
    });
  }
  CHECK(Apart(Ran(instance.get(), in, {3, 4}), Expected(g, in)) < 1e-6);
  {
    const Setting setting("extents=wrong");
    const auto wrong = engine->Prepare();
    Throws(ErrorCode::kShapeMismatch, {"computes y0 as [4, 4]", "expected [3, 4]"}, [&] {
      Ran(wrong.get(), in, {3, 4});
    });
  }
  // Operands of other types and extents, and another number of them.
  Throws(ErrorCode::kShapeMismatch, {"x0 is [3, 5]", "built for [3, 4]"}, [&] {
    Ran(engine->Prepare().get(), {Buffer::Filled({3, 5})}, {3, 4});
  });
  Throws(ErrorCode::kArity, {"takes 1 operands"}, [&] {
    Ran(instance.get(), {in[0], in[0]}, {3, 4});
  });
  {
    DelegateTensor wrong = in[0].tensor();
    wrong.dtype = DType::kI32;
    const Buffer out = Buffer::Filled({3, 4});
    Throws(ErrorCode::kTypeMismatch, {"x0 has element type"},
           [&] { engine->Prepare()->Run({wrong}, {out.tensor()}, nullptr); });
  }

  // An input that nothing reads, which TensorRT drops.
  const Graph unread = Typed("(%x: f32[3, 4], %z: f32[7]) -> (%y)", "  %y = Relu(%x) : ?");
  {
    const Setting setting("drop=x1");
    const std::vector<Buffer> both = {in[0], Buffer::Filled({7}, 4)};
    int64_t copied = -1;
    CHECK(Apart(Ran(Compiled(unread)->Prepare().get(), both, {3, 4}, &copied),
                Expected(unread, both)) < 1e-6);
    CHECK(copied == 0);
  }
  // Extents as an operand: TensorRT reads those on the host, the region has them on the device.
  const Graph shaped =
      Typed("(%x: f32[3, 4], %s: i64[2]) -> (%y)", "  %y = Reshape(%x, %s) : f32[?, ?]");
  Throws(ErrorCode::kUnsupported, {"x1 holds extents", "host memory"}, [&] { Compiled(shaped); });
  const Graph shape = Typed("(%x: f32[3, 4]) -> (%y)", "  %y = Shape(%x) : ?");
  Throws(ErrorCode::kUnsupported, {"y0 holds extents"}, [&] { Compiled(shape); });
  const Graph doubles = Typed("(%x: f32[3, 4], %z: f64[2]) -> (%y)", "  %y = Relu(%x) : ?");
  Throws(ErrorCode::kUnsupported, {"no tensors of element type"}, [&] { Compiled(doubles); });
}

}  // namespace test
