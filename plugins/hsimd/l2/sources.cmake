hsimd_room(l2 SOURCES body_plan.cc emit.cc emit_matrix.cc emit_vector.cc placer.cc tile_program.cc
  tile_text.cc
  TESTS emit_test.cc placer_test.cc)
