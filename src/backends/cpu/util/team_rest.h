/// team_rest.h: what tells whether the threads of an OpenMP team may be looking for work.
#pragma once

namespace weft::cpu {

/// Of this thread's team: it has worked since it was last sent to sleep. Set where regions come by
/// (onednn/keep_nan.cc); where they do not, it stays as it was made.
struct TeamState {
  bool is_told = false;  ///< regions come by
  bool worked = false;
  int threads = 0;  ///< of the team that did
};
inline thread_local TeamState team_state;

}  // namespace weft::cpu
