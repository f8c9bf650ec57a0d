hsimd_room(l2)
