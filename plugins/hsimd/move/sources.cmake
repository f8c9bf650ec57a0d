hsimd_room(move
  SOURCES box.cc hop.cc in_place.cc move.cc timeline.cc tree.cc
  TESTS interpreter.cc move_test.cc)
