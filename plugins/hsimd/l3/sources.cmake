hsimd_room(l3
  SOURCES assign_layouts.cc layout_network.cc min_sum.cc
  TESTS assign_layouts_test.cc)
