/// device_bodies.h: a node run by programs of its bodies on a device: their operands and results
/// are the device's, and the host waits where it must see a number. Private to the runtime.
#pragma once

#include <memory>
#include <vector>

#include "body_programs.h"
#include "device_session.h"

namespace weft {

/// Runs the node. Tensors of `inputs` and `results` lie on the device where they have a place there
/// (LiesOnDevice); `known`: what the host knows of each input, or shorter.
void RunNodeOnDevice(const NodePtr& node, const BodyPrograms& bodies,
                     const std::vector<TensorPtr>& inputs, const std::vector<KnownValue>& known,
                     const std::shared_ptr<DeviceSession>& session, BodyStates* states,
                     ProgramState* of_all, ResultTensors* results);

}  // namespace weft
