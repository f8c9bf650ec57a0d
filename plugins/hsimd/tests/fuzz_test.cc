/// fuzz_test.cc: every reader of text on fixed mutations of its seeds, and on bytes that are none.
#include <doctest/doctest.h>

#include <random>

#include "fuzz_targets.h"
#include "weft/support/error.h"

namespace hsimd {
namespace {

std::string Mutate(std::string text, const std::vector<std::string>& seeds, std::mt19937* random) {
  const auto pick = [&](size_t n) { return size_t((*random)()) % n; };
  for (size_t edits = 1 + pick(4); edits > 0; --edits) {
    if (text.empty()) text = " ";
    const size_t at = pick(text.size());
    const std::string& other = seeds[pick(seeds.size())];
    switch (pick(6)) {
      case 0:
        text[at] = char((*random)());
        break;
      case 1:
        text.erase(at, 1 + pick(12));
        break;
      case 2:
        text.insert(at, other.substr(pick(other.size()), pick(40)));
        break;
      case 3:
        text.insert(at, std::to_string(int64_t((*random)()) << pick(34)));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        text[at] = "0123456789@[](){};,.:x->=#\"/_+\n"[pick(31)];
    }
  }
  return text;
}

}  // namespace

TEST_CASE("fuzz: mutated texts are read or refused, never more") {
  for (const FuzzTarget& target : FuzzTargets()) {
    std::mt19937 random(17);
    const std::vector<std::string> seeds = target.seeds();
    for (const std::string& seed : seeds) target.run(seed);
    for (int round = 0; round < 4000; ++round) {
      const std::string text = Mutate(seeds[random() % seeds.size()], seeds, &random);
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
