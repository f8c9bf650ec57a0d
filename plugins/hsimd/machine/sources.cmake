hsimd_room(machine
  SOURCES alu_ops.cc)
