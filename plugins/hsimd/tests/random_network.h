/// random_network.h: random machines that any program can run on, and random small networks.
#pragma once

#include <random>
#include <string>

#include "../machine/machine.h"

namespace hsimd {

/// 1 to 3 levels below the root, fan-outs 2 to 8, at most 64 PEs, latencies 1 to 8. Every machine
/// loads and stores, distributes to and collects from every place, and its ALU has all operations;
/// by chance: modes by level, broadcasts, reductions, rings, a matrix unit, levels without a memory
/// of their own, how many memories the PEs have and what ports, slots shared or not.
Machine RandomWholeMachine(std::mt19937* random);

/// The text of a graph of 2 to 7 operators over small tensors: elementwise operators, broadcasts,
/// reductions, products, convolutions, pooling, views. Values stay within some thousands.
std::string RandomNetwork(std::mt19937* random);

}  // namespace hsimd
