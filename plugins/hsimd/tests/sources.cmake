add_executable(hsimd_fuzz_test tests/fuzz_test.cc tests/fuzz_targets.cc)
target_link_libraries(hsimd_fuzz_test PRIVATE hsimd_test_main)
add_test(NAME fuzz COMMAND hsimd_fuzz_test)

option(HSIMD_FUZZ "Build the targets under libFuzzer (clang)" OFF)
if(HSIMD_FUZZ)
  foreach(target IN ITEMS machine program layout tiles)
    add_executable(hsimd_fuzz_${target} tests/libfuzzer.cc tests/fuzz_targets.cc)
    target_compile_definitions(hsimd_fuzz_${target} PRIVATE HSIMD_FUZZ_TARGET="${target}")
    target_link_libraries(hsimd_fuzz_${target} PRIVATE hsimd_parts)
    target_link_options(hsimd_fuzz_${target} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()

# Training steps on tree64, by the plugin as a user has it.
add_executable(hsimd_training_test tests/training_test.cc)
target_link_libraries(hsimd_training_test PRIVATE hsimd_test_main)
target_compile_definitions(hsimd_training_test PRIVATE HSIMD_PLUGIN="$<TARGET_FILE:hsimd>"
  HSIMD_MODELS="${CMAKE_CURRENT_SOURCE_DIR}/tests/models")
add_dependencies(hsimd_training_test hsimd)
add_test(NAME training COMMAND hsimd_training_test)

# Random networks on random machines, by the plugin as a user has it.
add_executable(hsimd_networks_test tests/networks_test.cc tests/random_network.cc)
target_link_libraries(hsimd_networks_test PRIVATE hsimd_test_main)
target_compile_definitions(hsimd_networks_test PRIVATE HSIMD_PLUGIN="$<TARGET_FILE:hsimd>")
add_dependencies(hsimd_networks_test hsimd)
add_test(NAME networks COMMAND hsimd_networks_test)
