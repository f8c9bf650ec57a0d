hsimd_room(l1
  SOURCES bank.cc check.cc link_plan.cc matrix_unit.cc parse_program.cc places.cc predict.cc print_program.cc
          simulator.cc
  TESTS program_test.cc simulator_test.cc)
