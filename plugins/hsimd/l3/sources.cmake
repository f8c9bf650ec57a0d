hsimd_room(l3
  SOURCES addresses.cc assign_layouts.cc layout_network.cc min_sum.cc schedule.cc schedule_actions.cc schedule_exact.cc
          verify_schedule.cc
  TESTS addresses_test.cc assign_layouts_test.cc schedule_test.cc)
