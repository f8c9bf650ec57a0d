hsimd_room(layout
  SOURCES algebra.cc canonical.cc layout.cc text.cc
  TESTS layout_test.cc)
