hsimd_room(rules)
