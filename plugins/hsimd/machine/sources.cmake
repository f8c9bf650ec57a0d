hsimd_room(machine)
