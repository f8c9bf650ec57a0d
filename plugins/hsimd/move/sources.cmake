hsimd_room(move
  SOURCES box.cc estimate.cc hop.cc in_place.cc move.cc search.cc timeline.cc tree.cc
  TESTS interpreter.cc move_test.cc estimate_test.cc)

# Writes move/rearrangements.txt, once.
add_executable(hsimd_rearrangements EXCLUDE_FROM_ALL move/rearrangements.cc)
target_compile_features(hsimd_rearrangements PRIVATE cxx_std_17)
if(TARGET hsimd_move_test)
  target_compile_definitions(hsimd_move_test PRIVATE
    REARRANGEMENTS="${CMAKE_CURRENT_SOURCE_DIR}/move/rearrangements.txt")
endif()
