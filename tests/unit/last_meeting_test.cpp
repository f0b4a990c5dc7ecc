// What several ranks have to say, in lines.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/runtime/last_meeting.hpp>

namespace {

mtf::detail::RankError error(int rank, const std::string& text) {
  return {.rank = rank, .place = "rank " + std::to_string(rank) + " (rows=" + std::to_string(rank) + ")", .text = text};
}

}  // namespace

TEST_CASE("one line for each text, with the ranks that have it") {
  using mtf::detail::lines_of;
  CHECK(lines_of({error(0, "x")}, 1) == "mtf: rank 0 (rows=0): x\n");
  CHECK(lines_of({error(2, "x")}, 4) == "mtf: rank 2 (rows=2): x\n");
  CHECK(lines_of({error(1, "x"), error(0, "x")}, 2) == "mtf: on all ranks: x\n");
  CHECK(lines_of({error(1, "x"), error(0, "x")}, 3) == "mtf: ranks 0, 1: x\n");
  CHECK(lines_of({error(1, "x"), error(0, "y")}, 2) == "mtf: rank 0 (rows=0): y\nmtf: rank 1 (rows=1): x\n");
  CHECK(lines_of({error(7, "x"), error(0, "y\n  and z"), error(5, "x"), error(6, "x"), error(2, "x")}, 9) ==
        "mtf: rank 0 (rows=0): y\n  and z\nmtf: ranks 2, 5-7: x\n");
}

TEST_CASE("the order in which ranks are heard does not matter") {
  std::mt19937 random(7);
  for (int repetition = 0; repetition < 100; ++repetition) {
    const int size = 1 + static_cast<int>(random() % 12);
    std::vector<mtf::detail::RankError> errors;
    for (int rank = 0; rank < size; ++rank) {
      if (random() % 3 != 0) errors.push_back(error(rank, std::string(1, static_cast<char>('a' + random() % 3))));
    }
    const std::string lines = mtf::detail::lines_of(errors, size);
    std::shuffle(errors.begin(), errors.end(), random);
    CHECK(mtf::detail::lines_of(errors, size) == lines);
  }
}
