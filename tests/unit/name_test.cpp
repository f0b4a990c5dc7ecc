// Names: the published hash, equality by hash and text, the same name whatever carries it.
#include <string>

#include <doctest/doctest.h>

#include <mtf/core/dim.hpp>
#include <mtf/core/mesh.hpp>

namespace {

// Test vectors of the 64-bit FNV-1a hash, http://www.isthe.com/chongo/tech/comp/fnv/
constexpr bool hash_has_the_published_values() {
  return mtf::hash_text("") == 0xcbf29ce484222325ULL && mtf::hash_text("a") == 0xaf63dc4c8601ec8cULL &&
         mtf::hash_text("b") == 0xaf63df4c8601f1a5ULL && mtf::hash_text("foobar") == 0x85944171f73967e8ULL;
}
static_assert(hash_has_the_published_values());

struct Batch : mtf::Dim<"batch", 64> {};
struct Other : mtf::Dim<"batch", 64> {};
struct Smaller : mtf::Dim<"batch", 32> {};
struct Rows : mtf::Dim<"rows", 64> {};
struct Length : mtf::Dim<"length"> {};

static_assert(mtf::same_name<Batch, Other> && mtf::same_name<Batch, Smaller> &&
              mtf::same_name<Batch, mtf::Dim<"batch">>);
static_assert(!mtf::same_name<Batch, Rows>);
static_assert(mtf::static_dim<Batch> && !mtf::static_dim<Length>);
static_assert(mtf::dim_like<const Batch&> && !mtf::dim_like<int>);
static_assert(Batch::extent() == 64 && Length{512}.extent() == 512);

}  // namespace

TEST_CASE("the hash of a name is 64-bit FNV-1a") { CHECK(hash_has_the_published_values()); }

TEST_CASE("hashing in parts is hashing the whole") {
  CHECK(mtf::hash_text("bar", mtf::hash_text("foo")) == mtf::hash_text("foobar"));
  // Bytes above 127 count as unsigned.
  CHECK(mtf::hash_text("\xff") == (0xcbf29ce484222325ULL ^ 0xffULL) * 1099511628211ULL);
}

TEST_CASE("names are equal if hash and text are") {
  std::string text = "batch";
  CHECK(mtf::Name("batch") == mtf::Name(text));
  CHECK(mtf::Name("batch") == Batch::name);
  CHECK_FALSE(mtf::Name("batch") == mtf::Name("batc"));
  CHECK_FALSE(mtf::Name("batch") == mtf::Name("batcH"));
  CHECK(mtf::Name() == mtf::Name(""));
  SUBCASE("a collision of hashes is not equality") {
    mtf::Name impostor("bench");
    impostor.hash = mtf::Name("batch").hash;
    CHECK_FALSE(impostor == mtf::Name("batch"));
  }
}

TEST_CASE("a name is known by what it says, not by the type that says it") {
  CHECK(Batch::name == Other::name);
  CHECK(Batch::name == mtf::Axis<"batch", 3>::name);
  CHECK(std::string(Length::name.text) == "length");
  const Length length{7};
  CHECK(length.extent() == 7);
  CHECK(mtf::DimValue{Batch::name, 64} == mtf::DimValue{Other::name, 64});
  CHECK_FALSE(mtf::DimValue{Batch::name, 64} == mtf::DimValue{Smaller::name, 32});
}
