// Layouts: as types and as text the same rules, the same placements and the same faults.
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/core/placement.hpp>
#include <mtf/tensor/error.hpp>

namespace {

struct Mesh : mtf::Mesh<mtf::Axis<"rows", 2>, mtf::Axis<"cols", 4>, mtf::Axis<"one", 1>> {};
constexpr mtf::MeshValue mesh = Mesh::value();

bool equal(const mtf::LayoutValue& a, const mtf::LayoutValue& b) {
  if (a.rules.size() != b.rules.size()) return false;
  for (int i = 0; i < a.rules.size(); ++i) {
    if (!(a.rules[i].dim == b.rules[i].dim && a.rules[i].axes == b.rules[i].axes &&
          a.rules[i].optional == b.rules[i].optional))
      return false;
  }
  return true;
}
bool equal(const mtf::Violations& a, const mtf::Violations& b) {
  if (a.size() != b.size()) return false;
  for (int i = 0; i < a.size(); ++i) {
    if (!mtf::same_facts(a[i], b[i]) || a[i].position != b[i].position || a[i].other_position != b[i].other_position)
      return false;
  }
  return true;
}

mtf::ShapeValue shape(std::vector<mtf::DimValue> dims) {
  mtf::ShapeValue result;
  for (const mtf::DimValue& dim : dims) result.push_back(dim);
  return result;
}

/// The type and the text must agree on rules, on what is wrong with them, and on what they do to `dims`.
template <class Layout>
mtf::PlacementRules same(std::string_view text, int violated = 0) {
  CAPTURE(std::string(text));
  mtf::Violations parsing;
  const mtf::LayoutValue parsed = mtf::parse_layout(text, parsing);
  CHECK(parsing.empty());
  CHECK(equal(parsed, Layout::value()));
  mtf::Violations of_type;
  mtf::Violations of_text;
  const mtf::PlacementRules by_type = mtf::resolve(Layout::value(), mesh, of_type);
  const mtf::PlacementRules by_text = mtf::resolve(parsed, mesh, of_text);
  CHECK(equal(of_type, of_text));
  CHECK(of_type.size() == violated);
  for (const char* dim : {"batch", "hidden", "io", "absent"}) CHECK(by_type.axes_of(dim) == by_text.axes_of(dim));
  for (const bool unique : {true, false}) {
    const mtf::ShapeValue dims = shape({{"batch", 16}, {"hidden", 6}, {"io", 8}, {"hidden", 6}, {"hidden", 7}});
    CHECK(equal(mtf::check(by_type, dims, unique), mtf::check(by_text, dims, unique)));
  }
  return by_type;
}

constexpr bool resolves_in_constant_expressions() {
  mtf::Violations violations;
  const auto rules = mtf::resolve(mtf::Layout<mtf::Split<"batch", "rows", "cols">>::value(), mesh, violations);
  return violations.empty() && rules.axes_of("batch").size() == 2 && rules.axes_of("batch")[1] == 1 &&
         rules.axes_of("x").empty();
}
static_assert(resolves_in_constant_expressions());

constexpr bool text_is_read_in_constant_expressions() {
  mtf::Violations violations;
  const mtf::LayoutValue layout = mtf::parse_layout("batch:rows;d_ff:cols,rows?", violations);
  return violations.empty() && layout.rules.size() == 2 && layout.rules[1].optional && !layout.rules[0].optional &&
         layout.rules[1].axes.size() == 2;
}
static_assert(text_is_read_in_constant_expressions());

}  // namespace

TEST_CASE("layouts in constant expressions and at run time") {
  CHECK(resolves_in_constant_expressions());
  CHECK(text_is_read_in_constant_expressions());
}

TEST_CASE("a layout as a type and as text") {
  using mtf::Layout;
  using mtf::Split;
  same<Layout<>>("");
  const auto two = same<Layout<Split<"batch", "rows">, Split<"hidden", "cols">>>("batch:rows;hidden:cols");
  CHECK(two.axes_of("batch")[0] == 0);
  CHECK(two.axes_of("hidden")[0] == 1);
  CHECK(two.axes_of("io").empty());
  same<Layout<Split<"batch", "rows">, Split<"hidden", "rows">>>(" batch : rows ;hidden:rows;");
  const auto major = same<Layout<Split<"batch", "cols", "rows">>>("batch:cols,rows");
  CHECK(major.axes_of("batch")[0] == 1);
  CHECK(major.axes_of("batch")[1] == 0);
  same<Layout<Split<"io", "one">>>("io:one");
}

TEST_CASE("white space around the names of a layout text means nothing, and several question marks are one") {
  using mtf::Split;
  using Two = mtf::Layout<Split<"batch", "rows">, Split<"hidden", "cols">>;
  for (const char* text : {"batch:rows;\nhidden:cols", "batch:rows;\thidden:cols", "batch:rows;\r\nhidden:cols\r\n",
                           "\v batch\f:\trows\n;hidden :cols", "batch:rows\nhidden:cols", "batch:rows hidden:cols",
                           "batch:rows,hidden:cols", "batch:rows , hidden : cols", "\n;;batch:rows;;hidden:cols;\n"})
    same<Two>(text);
  using Three = mtf::Layout<Split<"batch", "cols", "rows">, Split<"hidden", "one">>;
  for (const char* text :
       {"batch:cols\n,\nrows;hidden:one", "batch:cols,rows,hidden:one", "batch:cols, rows hidden:one"})
    same<Three>(text);
  using Optional = mtf::Layout<mtf::optional_rule<Split<"batch", "rows">>, Split<"hidden", "cols">>;
  for (const char* text : {"batch:rows?;hidden:cols", "batch:rows??;hidden:cols", "batch:rows ? ?\t;hidden:cols",
                           "batch:rows? hidden:cols", "batch:rows?,hidden:cols"}) {
    const auto rules = same<Optional>(text);
    CHECK(rules.axes_of("batch").size() == 1);
  }
}

TEST_CASE("an optional rule does nothing on a mesh without its axes") {
  using mtf::Split;
  const auto rules =
      same<mtf::Layout<mtf::optional_rule<Split<"batch", "depth">>, mtf::optional_rule<Split<"io", "rows">>>>(
          "batch:depth?;io:rows?");
  CHECK(rules.axes_of("batch").empty());
  CHECK(rules.axes_of("io").size() == 1);
  // A later rule for the dim of one that does nothing is no second rule.
  CHECK(
      same<mtf::Layout<mtf::optional_rule<Split<"batch", "depth">>, Split<"batch", "rows">>>("batch:depth?;batch:rows")
          .axes_of("batch")
          .size() == 1);
}

TEST_CASE("faults of a layout are found alike in types and text, all at once") {
  using mtf::Layout;
  using mtf::Split;
  same<Layout<Split<"batch", "depth">>>("batch:depth", 1);
  same<Layout<Split<"batch", "rows">, Split<"batch", "cols">>>("batch:rows;batch:cols", 1);
  same<Layout<Split<"batch", "rows", "rows">>>("batch:rows,rows", 1);
  using All = Layout<Split<"batch", "depth", "width">, Split<"hidden", "rows">, Split<"hidden", "cols">,
                     Split<"io", "cols", "cols">>;
  same<All>("batch:depth,width;hidden:rows;hidden:cols;io:cols,cols", 4);
  mtf::Violations found;
  (void)mtf::resolve(All::value(), mesh, found);
  REQUIRE(found.size() == 4);
  CHECK(found[0].fault == mtf::Fault::unknown_axis);
  CHECK(found[0].axis == mtf::Name("depth"));
  CHECK(found[0].dim == mtf::Name("batch"));
  CHECK(found[1].axis == mtf::Name("width"));
  CHECK(found[2].fault == mtf::Fault::repeated_rule);
  CHECK(found[2].position == 2);
  CHECK(found[3].fault == mtf::Fault::repeated_axis);
  CHECK(found[3].position == 3);
  CHECK(mtf::find(found, mtf::Fault::repeated_rule) == 2);
  CHECK(mtf::find(found, mtf::Fault::too_many_dims) == -1);
}

TEST_CASE("a layout text that cannot be read") {
  for (const char* text : {"batch",
                           "batch:",
                           ":rows",
                           "batch:,rows",
                           "batch:rows:cols",
                           "batch:?",
                           ":",
                           "batch: ?",
                           "d:a,,b",
                           "batch:rows,",
                           "batch:rows;d_ff=cols",
                           "ba tch:rows",
                           "batch:rows cols",
                           "batch:rows cols?",
                           "batch?:rows",
                           "batch:?rows",
                           "batch:rows?cols",
                           "batch:rows?d_ff:cols",
                           "\"batch:rows",
                           "[batch:rows]",
                           "batch:\"rows\"",
                           "batch->rows",
                           "batch:r\x01ows",
                           "batch:rows\x7f",
                           "batch\n tch:rows",
                           ",batch:rows",
                           "batch:rows,,d_ff:cols",
                           "batch:rows.d_ff:cols"}) {
    CAPTURE(text);
    mtf::Violations violations;
    const std::string_view part = std::string_view(text).substr(std::string_view(text).rfind(';') + 1);
    CHECK(mtf::parse_layout(text, violations).rules.size() == (part.size() < std::string_view(text).size() ? 1 : 0));
    REQUIRE(violations.size() == 1);
    CHECK(violations[0].fault == mtf::Fault::malformed_layout);
    CHECK(violations[0].dim == mtf::Name(part));
  }
  SUBCASE("each such part is listed, the others are read") {
    mtf::Violations violations;
    CHECK(mtf::parse_layout("a:rows;b;c:cols;:d", violations).rules.size() == 2);
    REQUIRE(violations.size() == 2);
    CHECK(violations[0].dim == mtf::Name("b"));
    CHECK(violations[1].dim == mtf::Name(":d"));
  }
  SUBCASE("more rules than a layout takes") {
    std::string text;
    for (int i = 0; i < mtf::max_rules + 2; ++i) text += std::string("d").append(std::to_string(i)).append(":rows;");
    mtf::Violations violations;
    CHECK(mtf::parse_layout(text, violations).rules.size() == mtf::max_rules);
    REQUIRE(violations.size() == 2);
    CHECK(violations[0].fault == mtf::Fault::too_many_rules);
    CHECK(violations[0].dim == mtf::Name("d32:rows"));
  }
  SUBCASE("more axes than split a dim") {
    mtf::Violations violations;
    CHECK(mtf::parse_layout("d:a,b,c,d,e,f,g;e:a,b,c,d,e,f", violations).rules.size() == 1);
    REQUIRE(violations.size() == 1);
    CHECK(violations[0].fault == mtf::Fault::too_many_axes);
    CHECK(violations[0].dim == mtf::Name("d:a,b,c,d,e,f,g"));
  }
}

TEST_CASE("the message of a text that cannot be read is one line that says where, and what is permitted") {
  const auto message = [](std::string_view text) {
    mtf::Violations violations;
    (void)mtf::parse_layout(text, violations);
    REQUIRE(violations.size() == 1);
    const std::string words = mtf::describe(violations[0]);
    CHECK(words.find('\n') == std::string::npos);
    CHECK(words.find("write \"dim:axis;dim:axis,axis\"") != std::string::npos);
    return words;
  };
  const auto ends = [&](std::string_view text, std::string_view end) {
    const std::string words = message(text);
    CHECK_MESSAGE(words.ends_with(end), words);
  };
  ends("batch:rows;\n d_ff=cols", "; reading stops before \"=\", character 18");
  ends("batch:rows;heads", "; something is missing at its end, character 17");
  ends("batch:ro\x1b[0mws", "; reading stops before \"\\x1b\", character 9");
  CHECK(message("batch\n\ttch:rows").starts_with("\"batch\\n\\ttch:rows\": "));
}

TEST_CASE("an axis that the mesh lacks is met with the one that may be meant") {
  mtf::Violations found;
  (void)mtf::resolve(mtf::Layout<mtf::Split<"batch", "rosw">, mtf::Split<"io", "planes">>::value(), mesh, found);
  REQUIRE(found.size() == 2);
  CHECK(mtf::describe(found[0], mesh).find("axis \"rosw\" (did you mean \"rows\"?): ") != std::string::npos);
  CHECK(mtf::describe(found[1], mesh).find("axis \"planes\": ") != std::string::npos);
}

TEST_CASE("edit distances and nearest names") {
  CHECK(mtf::edit_distance("", "") == 0);
  CHECK(mtf::edit_distance("abc", "") == 3);
  CHECK(mtf::edit_distance("", "ab") == 2);
  CHECK(mtf::edit_distance("batch", "batch") == 0);
  CHECK(mtf::edit_distance("bacth", "batch") == 1);   // exchanged
  CHECK(mtf::edit_distance("btch", "batch") == 1);    // left out
  CHECK(mtf::edit_distance("bbatch", "batch") == 1);  // too many
  CHECK(mtf::edit_distance("botch", "batch") == 1);   // replaced
  CHECK(mtf::edit_distance("kitten", "sitting") == 3);
  CHECK(mtf::edit_distance("ca", "abc") == 3);  // the restricted distance
  const auto nearest = mtf::nearest_name("bacth", {"length", "batch", "bath"});
  CHECK(nearest.name == "batch");
  CHECK(nearest.is_similar);
  CHECK_FALSE(mtf::nearest_name("planes", {"batch", "length"}).is_similar);
  CHECK_FALSE(mtf::nearest_name("x", {"y"}).is_similar);
  CHECK(mtf::nearest_name("dff", {"d_ff"}).is_similar);
  CHECK(mtf::nearest_name("x", {}).name.empty());
}

TEST_CASE("uneven, empty, one: faults of a tensor are listed all at once") {
  mtf::Violations none;
  const auto rules = mtf::resolve(
      mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "rows">, mtf::Split<"io", "cols", "rows">>::value(),
      mesh, none);
  const auto found =
      mtf::check(rules, shape({{"batch", 3}, {"hidden", 4}, {"io", 12}, {"free", 1}, {"free", 1}}), true);
  REQUIRE(found.size() == 5);
  CHECK(found[0].fault == mtf::Fault::indivisible_extent);
  CHECK(found[0].dim == mtf::Name("batch"));
  CHECK(found[0].extent == 3);
  CHECK(found[0].other_extent == 2);
  CHECK(found[0].axis == mtf::Name("rows"));
  CHECK(found[1].fault == mtf::Fault::axis_used_twice);
  CHECK(found[1].dim == mtf::Name("hidden"));
  CHECK(found[1].other_dim == mtf::Name("batch"));
  CHECK(found[2].fault == mtf::Fault::axis_used_twice);
  CHECK(found[2].dim == mtf::Name("io"));
  CHECK(found[3].fault == mtf::Fault::indivisible_extent);
  CHECK(found[3].other_extent == 8);
  CHECK(found[4].fault == mtf::Fault::repeated_dim);
  CHECK(found[4].position == 4);
  CHECK(found[4].other_position == 3);
}

TEST_CASE("faults of a union") {
  mtf::Violations none;
  const auto rules =
      mtf::resolve(mtf::Layout<mtf::Split<"batch", "rows">, mtf::Split<"hidden", "rows">>::value(), mesh, none);
  SUBCASE("a name may recur with one extent") {
    CHECK(mtf::check(rules, shape({{"batch", 2}, {"io", 3}, {"batch", 2}}), false).empty());
  }
  SUBCASE("but not with two") {
    const auto found = mtf::check(rules, shape({{"io", 3}, {"batch", 2}, {"io", 4}}), false);
    REQUIRE(found.size() == 1);
    CHECK(found[0].fault == mtf::Fault::unequal_extents);
    CHECK(found[0].extent == 4);
    CHECK(found[0].other_extent == 3);
  }
  SUBCASE("operands that are legal alone are not legal together") {
    CHECK(mtf::check(rules, shape({{"batch", 2}}), true).empty());
    CHECK(mtf::check(rules, shape({{"hidden", 2}}), true).empty());
    CHECK(mtf::check(rules, shape({{"batch", 2}, {"hidden", 2}}), false)[0].fault == mtf::Fault::axis_used_twice);
  }
  SUBCASE("extents that are not known yet are taken to fit") {
    CHECK(mtf::check(rules, shape({{"batch", mtf::dynamic}, {"io", 3}, {"io", mtf::dynamic}}), false).empty());
  }
}

TEST_CASE("uneven, empty, one: an axis of size 1 splits nothing and is used nevertheless") {
  mtf::Violations none;
  const auto rules = mtf::resolve(mtf::Layout<mtf::Split<"a", "one">, mtf::Split<"b", "one">>::value(), mesh, none);
  CHECK(mtf::check(rules, shape({{"a", 7}}), true).empty());
  CHECK(mtf::place(rules, shape({{"a", 7}})).dims[0].local() == 7);
  CHECK(mtf::check(rules, shape({{"a", 7}, {"b", 7}}), true)[0].fault == mtf::Fault::axis_used_twice);
}

TEST_CASE("uneven, empty, one: an extent of 1 does not divide") {
  mtf::Violations none;
  const auto rules = mtf::resolve(mtf::Layout<mtf::Split<"a", "rows">>::value(), mesh, none);
  const auto found = mtf::check(rules, shape({{"a", 1}}), true);
  REQUIRE(found.size() == 1);
  CHECK(found[0].fault == mtf::Fault::indivisible_extent);
}

TEST_CASE("uneven, empty, one: an extent below 1 is refused, also the number -1") {
  mtf::Violations none;
  const auto rules = mtf::resolve(mtf::Layout<mtf::Split<"a", "rows">>::value(), mesh, none);
  struct A : mtf::Dim<"a"> {
    using Dim::Dim;
  };
  for (const std::int64_t extent : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{-4}, mtf::dynamic}) {
    for (const bool unique : {true, false}) {
      const auto found = mtf::check(rules, mtf::Shape(A{extent}).value(), unique);
      REQUIRE(found.size() >= 1);
      CHECK(found[0].fault == mtf::Fault::empty_dim);
      CHECK(found[0].extent <= 0);
    }
  }
}

TEST_CASE("elements that 64 bits do not count are refused") {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  const auto faults = [](const mtf::ShapeValue& dims, bool unique) { return mtf::check({}, dims, unique); };
  // A tensor: its bytes must be countable too.
  CHECK(faults(shape({{"a", large}, {"b", (1 << 20) - 1}}), true).empty());
  CHECK(faults(shape({{"a", large}, {"b", 1 << 20}}), true).size() == 1);
  // A union: 2^63 - 1, in which a name counts once and an extent that is not known yet for nothing.
  CHECK(faults(shape({{"a", large}, {"b", (1 << 23) - 1}, {"a", large}}), false).empty());
  CHECK(faults(shape({{"a", large}, {"b", mtf::dynamic}}), true).empty());
  CHECK(faults(shape({{"a", large}, {"b", 1 << 23}}), false).size() == 1);
  CHECK(faults(shape({{"a", std::numeric_limits<std::int64_t>::max()}}), false).empty());
  const auto found = faults(shape({{"c", 1}, {"a", large}, {"b", large}, {"d", large}}), true);
  REQUIRE(found.size() == 1);
  CHECK(found[0].fault == mtf::Fault::too_many_elements);
  CHECK(found[0].dim == mtf::Name("b"));
  CHECK(found[0].extent == large);
  CHECK(found[0].other_extent == large);
  CHECK(found[0].position == 2);
}

TEST_CASE("a tensor has at most 12 dims, an operation 24") {
  const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (int i = 0; i < 24; ++i) result.push_back(std::string("d") += std::to_string(i));
    return result;
  }();
  mtf::ShapeValue dims;
  for (int i = 0; i < 24; ++i) {
    dims.push_back({mtf::Name(names[static_cast<std::size_t>(i)]), 2});
    CAPTURE(i);
    CHECK(mtf::check({}, dims, true).empty() == (dims.size() <= 12));
    CHECK(mtf::check({}, dims, false).empty());
  }
  CHECK(mtf::check({}, dims, true)[0].fault == mtf::Fault::too_many_dims);
}

TEST_CASE("of the violations that do not fit into the list there is the number") {
  std::string text;
  for (int i = 0; i < 19; ++i) text += std::string("part").append(std::to_string(i)).append(";");
  mtf::Violations violations;
  (void)mtf::parse_layout(text, violations);
  CHECK(violations.size() == 16);
  CHECK(violations.omitted == 3);
  CHECK(violations[15].dim == mtf::Name("part15"));
  CHECK_THROWS_AS(mtf::raise("test", violations), mtf::plan_error);
  try {
    mtf::raise("test", violations);
  } catch (const mtf::plan_error& error) {
    const std::string_view what = error.what();
    CHECK(what.find("\"part15\": ") != std::string_view::npos);
    CHECK(what.find("part16") == std::string_view::npos);
    CHECK(what.ends_with("\n  and 3 more"));
  }
}

TEST_CASE("every fault has a sentence that says the way out") {
  using mtf::Fault;
  for (const Fault fault :
       {Fault::axis_used_twice,    Fault::unknown_axis,    Fault::repeated_rule,       Fault::repeated_axis,
        Fault::indivisible_extent, Fault::empty_dim,       Fault::repeated_dim,        Fault::unequal_extents,
        Fault::missing_dim,        Fault::too_many_dims,   Fault::too_many_elements,   Fault::malformed_layout,
        Fault::missing_axis_size,  Fault::other_axis_size, Fault::extra_axis,          Fault::repeated_mesh_axis,
        Fault::empty_axis,         Fault::too_many_axes,   Fault::too_many_processors, Fault::too_many_rules}) {
    CHECK(mtf::sentence(fault).size() > 20);
    CHECK((fault == Fault::too_many_dims || mtf::sentence(fault).find(';') != std::string_view::npos));
  }
}
