// Scope, the path of a variable, and Key, the name of a stream of random numbers.
#include <cstdint>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <mtf/core/path.hpp>

namespace {

constexpr bool paths_are_built_with_slashes() {
  const mtf::Scope scope("decoder");
  const mtf::Scope layer = scope / "layer" / 12;
  return (layer / "wi").view() == "decoder/layer/12/wi" && scope.view() == "decoder" &&
         (mtf::Scope() / "w").view() == "w" && (mtf::Scope() / 0 / 7).view() == "0/7" && mtf::Scope().view().empty();
}
static_assert(paths_are_built_with_slashes());

constexpr bool keys_differ_by_every_part() {
  const mtf::Key root = mtf::seed{1};
  return (root / "a").stream != (root / "b").stream && (root / 1).stream != (root / 2).stream &&
         (root / 1).stream != (root / "1").stream && (root / "a" / "b").stream != (root / "ab").stream &&
         (root / "a" / "b").stream != (root / "b" / "a").stream && (root / 1 / 2).stream != (root / 2 / 1).stream &&
         (root / "a").seed == 1 && (root / 1).stream == (root / std::int64_t{1}).stream &&
         (root / 1U).stream == (root / 1).stream;
}
static_assert(keys_differ_by_every_part());

}  // namespace

TEST_CASE("a scope grows by parts, and is a value") { CHECK(paths_are_built_with_slashes()); }
TEST_CASE("a key changes with every part") { CHECK(keys_differ_by_every_part()); }

TEST_CASE("numbers in a path") {
  CHECK(std::string((mtf::Scope("x") / std::int64_t{9223372036854775807}).view()) == "x/9223372036854775807");
  CHECK(std::string((mtf::Scope("x") / std::uint8_t{255}).view()) == "x/255");
  CHECK(std::string((mtf::Scope("x") / -1).view()) == "x/-1");
  CHECK(std::string((mtf::Scope() / -120).view()) == "-120");
  CHECK(std::string((mtf::Scope("x") / std::int8_t{-128}).view()) == "x/-128");
  CHECK(std::string((mtf::Scope("x") / (-std::int64_t{9223372036854775807} - 1)).view()) == "x/-9223372036854775808");
  CHECK_FALSE(mtf::Scope("x") / -1 == mtf::Scope("x") / 0);
}

TEST_CASE("a path that is too long is cut at 159 characters") {
  const std::string part(100, 'p');
  const mtf::Scope scope = mtf::Scope(part) / part;
  CHECK(scope.view().size() == 159);
  CHECK((scope / "more").view() == scope.view());
  CHECK((scope / 5).view() == scope.view());
}

TEST_CASE("keys of many layers and steps do not meet") {
  std::set<std::uint64_t> streams;
  for (int layer = 0; layer < 50; ++layer) {
    for (int step = 0; step < 200; ++step) streams.insert((mtf::seed{3} / "dropout" / layer / step).stream);
  }
  CHECK(streams.size() == 10000);
}
