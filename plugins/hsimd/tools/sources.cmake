add_executable(hsimd_command tools/main.cc tools/layout_command.cc tools/machine_command.cc tools/move_command.cc
  tools/program_commands.cc)
set_target_properties(hsimd_command PROPERTIES OUTPUT_NAME hsimd)
target_link_libraries(hsimd_command PRIVATE hsimd_parts CLI11::CLI11 nlohmann_json::nlohmann_json)

# hsimd_command_test(name "what it prints" argument ...): the command says what the expression matches.
function(hsimd_command_test name says)
  add_test(NAME command_${name} COMMAND hsimd_command ${ARGN} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/tests/programs)
  set_tests_properties(command_${name} PROPERTIES PASS_REGULAR_EXPRESSION "${says}")
endfunction()
hsimd_command_test(help "machine.*layout.*move.*check.*sim" --help)
hsimd_command_test(machines "toy4 +4 PEs: 4 PE.*tree64 +64 PEs: 4 L1B x 4 MAB x 4 PE.*mnc2 +4096 PEs" machine)
hsimd_command_test(machine "\"off_chip\": true" machine tree64)
hsimd_command_test(no_machine "error.WEFT-E0101. no machine is named 'tree46' .hint: did you mean 'tree64'" machine tree46)
hsimd_command_test(check "exchange.l1: 7 instructions for toy4, 69 cycles" check exchange.l1)
hsimd_command_test(report "69 cycles" check exchange.l1 --report ${CMAKE_CURRENT_BINARY_DIR}/exchange.html)
hsimd_command_test(check_json "\"cycles\": 69,.*\"predicted_cycles\": 69,.*\"RING\": 6" check exchange.l1 --json)
hsimd_command_test(hazard
  "error.WEFT-E0301. hazard.l1: cycle 7: instruction 1 .@7 ALU.fadd., element 0, touches R0.4. in PE 0 while instruction 0"
  check hazard.l1)
hsimd_command_test(hazard_json "\"code\": *\"WEFT-E0301\"" sim hazard.l1 --json)
hsimd_command_test(sim "y = .1,1,1" sim exchange.l1 --input x=ones.npy --dtype i32 --show 24)
hsimd_command_test(no_input "the program has no input 'z' .hint: it has x" sim exchange.l1 --input z=ones.npy)
hsimd_command_test(no_file "WEFT-E0201" check nowhere.l1)
hsimd_command_test(usage "WEFT-E0101" check)
hsimd_command_test(blocks "PE0: 0 1 2\nPE1: 3 4 5\nPE2: 6 7 8\nPE3: 9 10 11" layout "(12)/((4_PE:1, 3:1))")
hsimd_command_test(cyclic "PE0: 0 4 8\nPE1: 1 5 9\nPE2: 2 6 10\nPE3: 3 7 11" layout "(12)/((3:1, 4_PE:1))")
hsimd_command_test(rows "PE1: .1,0. .1,1. .1,2. .1,3. .1,4. .1,5.\n" layout "(4,6)/((4_PE:1), (6:1))")
hsimd_command_test(split
  "PE0: .0,0. .0,1. .0,2. .1,0. .1,1. .1,2.\nPE1: .0,3. .0,4. .0,5. .1,3. .1,4. .1,5.\nPE2: .2,0. .2,1. .2,2. .3,0."
  layout "(4,6)/((2_PE:2, 2:3), (2_PE:1, 3:1))" --machine toy4)
hsimd_command_test(layout_json "\"words\": 6,.*\"PE\": 3," layout "(4,6)/((4_PE:1), (6:1))" --json)
hsimd_command_test(bad_layout "WEFT-E0202" layout "(4,6)/((4_PE:1)")
hsimd_command_test(move "24 elements, 12 stay, 12 move; way 'ring': .* 9 cycles" move toy4
  "(4,6)/((2_PE:2, 2:3), (2_PE:1, 3:1))" "(4,6)/((4_PE:1), (6:1))")
