hsimd_room(l1
  SOURCES bank.cc check.cc dependences.cc footprint.cc link_plan.cc matrix_unit.cc merge.cc overlap.cc
          parse_program.cc places.cc predict.cc print_program.cc simulator.cc timeline.cc
  TESTS merge_test.cc program_test.cc simulator_test.cc)
