/// device_session.h: what the programs of one session share on a device, those of bodies and of
/// regions included: a stream, memory of tensors that is used again in its order, range flags, and
/// what is being recorded. Private to the runtime.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "weft/core/tensor/tensor.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/backend/device.h"
#include "weft/runtime/program/program.h"

namespace weft {

/// Has a tensor of that type a place on a device? All others are the host's.
inline bool LiesOnDevice(const Tensor& t) { return t.is_tensor() && DTypeBits(t.dtype()) > 0; }

class DeviceSession {
 public:
  /// `flags`: of all its programs together. What runs do is counted in `stats`.
  DeviceSession(std::shared_ptr<Backend> backend, int flags, const ProgramStats& stats);
  /// Waits.
  ~DeviceSession();
  DeviceSession(const DeviceSession&) = delete;
  DeviceSession& operator=(const DeviceSession&) = delete;

  DeviceStream& stream() { return *stream_; }
  const std::shared_ptr<Backend>& backend() const { return backend_; }
  const ProgramStats& stats() const { return stats_; }

  /// A tensor on the device. Its memory is for what is given to the stream behind its last owner.
  std::shared_ptr<Tensor> NewTensor(DType dtype, std::vector<int64_t> dims);
  /// The same with the content of a tensor of the host.
  std::shared_ptr<Tensor> Bring(const Tensor& host);
  /// The content of a tensor of the device: there when the stream has been waited for.
  std::shared_ptr<Tensor> Fetch(const Tensor& on_device);
  /// Is kept until the stream has been waited for.
  void Hold(std::shared_ptr<void> target) { targets_.push_back(std::move(target)); }
  /// Waits in the middle of a run, for what the host has to see. Throws what flags tell.
  void WaitForHost();
  /// As that of the stream; throws nothing. False: the device has failed, and may still be working.
  bool Drain();
  /// A run, behind which `Wait` or a point in the stream has been waited for or not (`later`).
  void EndRun(bool later);

  /// What went on so far: launches and calls, recorded ones too; times that a run went on as values
  /// told that are not the same in every run of its extents.
  int64_t given() const { return given_; }
  int64_t asked() const { return asked_; }
  void CountGiven() {
    ++given_;
    if (!recorded_) stats_.launches.Add();
  }
  void CountAsked() { ++asked_; }

  /// The range flags of a program, which are cleared before every run. `check` throws where one of
  /// them is raised.
  uint8_t* FlagsOf(const void* program, int count,
                   const std::function<void(const uint8_t* raised)>& check);
  void ClearFlags();
  /// Fetches the flags; to be called when that has been waited for: throws what they tell.
  std::function<void()> FetchFlags();

  /// What was recorded, and the memory that it uses.
  struct Recorded {
    std::unique_ptr<DeviceStream::Recording> recording;
    std::vector<std::shared_ptr<void>> memory;
  };
  bool is_recording() const { return recorded_ != nullptr; }
  /// Records what `give` gives, in place of what there was.
  void Record(const std::function<void()>& give, Recorded* recorded);
  /// What is given next uses it.
  void Use(const std::shared_ptr<void>& memory) {
    if (recorded_) recorded_->memory.push_back(memory);
  }

 private:
  /// Memory that nobody owns, by its size.
  struct Pool {
    struct Block {
      std::shared_ptr<void> memory;
      int64_t run;  ///< that used it last
    };
    std::multimap<int64_t, Block> idle;
    int64_t run = 0;
  };
  struct Flags {
    int at, count;
    std::function<void(const uint8_t*)> check;
  };
  std::shared_ptr<void> Memory(int64_t bytes, int64_t* size);

  const std::shared_ptr<Backend> backend_;
  const ProgramStats& stats_;
  const int num_flags_;
  const std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
  std::shared_ptr<void> flags_;
  std::map<const void*, Flags> flags_of_;
  int flags_taken_ = 0;
  /// Of copies under way, which a failure would let go of.
  std::vector<std::shared_ptr<void>> targets_;
  int64_t given_ = 0, asked_ = 0;
  Recorded* recorded_ = nullptr;
  std::unique_ptr<DeviceStream> stream_;  ///< the last member: all above wait for its end
};

}  // namespace weft
