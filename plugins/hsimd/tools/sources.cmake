hsimd_room(tools)
