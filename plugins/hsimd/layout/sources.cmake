hsimd_room(layout)
