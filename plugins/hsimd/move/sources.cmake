hsimd_room(move)
