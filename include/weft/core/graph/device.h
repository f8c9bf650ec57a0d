/// device.h: graph attributes that say where nodes run.
///
///   "device_hint"  DeviceMap  given    the device, or group, that the user wants a node on
///   "device"       DeviceMap  derived  the device of every node, by the pass PlaceDevice
#pragma once

#include <string>

#include "weft/core/graph/graph_attr.h"

namespace weft {

/// Names of devices ("cpu", "cuda:0") by node.
using DeviceMap = NodeMap<std::string>;

}  // namespace weft
