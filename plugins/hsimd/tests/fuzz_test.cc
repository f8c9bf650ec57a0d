/// fuzz_test.cc: every reader of text on fixed mutations of its seeds, and on bytes that are none.
#include <doctest/doctest.h>

#include <random>

#include "fuzz_targets.h"
#include "mutate.h"
#include "weft/support/error.h"

namespace hsimd {
TEST_CASE("fuzz: mutated texts are read or refused, never more") {
  for (const FuzzTarget& target : FuzzTargets()) {
    std::mt19937 random(17);
    const std::vector<std::string> seeds = target.seeds();
    Edits edits;
    edits.characters = "0123456789@[](){};,.:x->=#\"/_+\n";
    for (const std::string& seed : seeds) target.run(seed);
    for (int round = 0; round < 4000; ++round) {
      const std::string text = Mutate(seeds[random() % seeds.size()], seeds, edits, &random);
      try {
        target.run(text);
      } catch (const weft::UserError&) {
      }
    }
  }
}

TEST_CASE("fuzz: a million bytes for each") {
  std::mt19937 random(19);
  for (const FuzzTarget& target : FuzzTargets()) {
    for (int round = 0; round < 1000; ++round) {
      std::string bytes(1000, ' ');
      for (char& c : bytes) c = char(random());
      CHECK_THROWS_AS(target.run(bytes), weft::UserError);
    }
  }
}

}  // namespace hsimd
