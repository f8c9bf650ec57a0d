hsimd_room(l1)
