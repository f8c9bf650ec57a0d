hsimd_room(l3)
