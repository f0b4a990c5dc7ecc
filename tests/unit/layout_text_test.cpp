// Random texts of layouts and meshes: each is read as a naive parser of regular expressions reads it, or is an error.
#include <algorithm>
#include <cstdint>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/tensor/error.hpp>
#include <mtf/tensor/search_options.hpp>

namespace {

/// What a text says, without the library.
struct ReadRule {
  std::string dim;
  std::vector<std::string> axes;
  bool optional = false;

  friend bool operator==(const ReadRule&, const ReadRule&) = default;
};
using Read = std::vector<ReadRule>;

/// Classes of characters: letters of names become 'n', digits 'd', white space '_'; what no text may have becomes '!'.
std::string classes_of(std::string_view text) {
  std::string classes;
  for (const char c : text) {
    if (std::string_view(" \t\n\r\v\f").find(c) != std::string_view::npos) {
      classes += '_';
    } else if (c >= '0' && c <= '9') {
      classes += 'd';
    } else if (std::string_view(":,?.-").find(c) != std::string_view::npos) {
      classes += c;
    } else {
      const bool is_control = (c >= 0 && c < 32) || c == 127;
      classes += is_control || std::string_view("=\"'`()[]{}<>").find(c) != std::string_view::npos ? '!' : 'n';
    }
  }
  return classes;
}
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ';') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  for (std::string& part : parts) {
    const auto is_space = [](char c) { return classes_of({&c, 1}) == "_"; };
    part.erase(part.begin(), std::find_if_not(part.begin(), part.end(), is_space));
    part.erase(std::find_if_not(part.rbegin(), part.rend(), is_space).base(), part.end());
  }
  std::erase(parts, "");
  return parts;
}

/// The rules of a text, and the number of its parts that cannot be read.
Read naive_layout(std::string_view text, int& malformed) {
  static const std::regex rules(
      "[nd.-]+_*:_*[nd.-]+(_*,_*[nd.-]+)*(_*\\?)*((_+|_*,_*)[nd.-]+_*:_*[nd.-]+(_*,_*[nd.-]+)*(_*\\?)*)*");
  static const std::regex dim("[nd.-]+_*:");
  static const std::regex axis("[nd.-]+");
  Read result;
  for (const std::string& part : parts_of(text)) {
    const std::string classes = classes_of(part);
    if (!std::regex_match(classes, rules)) {
      ++malformed;
      continue;
    }
    std::vector<std::ptrdiff_t> begins;
    for (std::sregex_iterator at(classes.begin(), classes.end(), dim), end; at != end; ++at)
      begins.push_back(at->position());
    begins.push_back(static_cast<std::ptrdiff_t>(part.size()));
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      const std::string own =
          classes.substr(static_cast<std::size_t>(begins[i]), static_cast<std::size_t>(begins[i + 1] - begins[i]));
      ReadRule rule;
      rule.optional = own.find('?') != std::string::npos;
      for (std::sregex_iterator at(own.begin(), own.end(), axis), end; at != end; ++at) {
        const std::string name =
            part.substr(static_cast<std::size_t>(begins[i] + at->position()), static_cast<std::size_t>(at->length()));
        if (rule.dim.empty()) {
          rule.dim = name;
        } else {
          rule.axes.push_back(name);
        }
      }
      result.push_back(rule);
    }
  }
  return result;
}

struct ReadAxis {
  std::string name;
  std::int64_t size = 0;

  friend bool operator==(const ReadAxis&, const ReadAxis&) = default;
};
/// The axes of a text that a mesh may have, the number of parts that cannot be read, and that of axes that are refused.
std::vector<ReadAxis> naive_mesh(std::string_view text, int& malformed, int& refused) {
  static const std::regex axes("[_,.]*([nd-][nd.-]*_*:_*-?d{1,9}([_,.]+[nd-][nd.-]*_*:_*-?d{1,9})*[_,.]*)?");
  static const std::regex axis("([nd-][nd.-]*)_*:_*(-?d{1,9})");
  std::vector<ReadAxis> result;
  for (const std::string& part : parts_of(text)) {
    const std::string classes = classes_of(part);
    if (!std::regex_match(classes, axes)) {
      ++malformed;
      continue;
    }
    for (std::sregex_iterator at(classes.begin(), classes.end(), axis), end; at != end; ++at) {
      const auto piece = [&](std::size_t group) {
        return part.substr(static_cast<std::size_t>(at->position(group)), static_cast<std::size_t>(at->length(group)));
      };
      const ReadAxis read{piece(1), std::stoll(piece(2))};
      const bool is_new =
          std::none_of(result.begin(), result.end(), [&](const ReadAxis& other) { return other.name == read.name; });
      double processors = static_cast<double>(read.size);
      for (const ReadAxis& other : result) processors *= static_cast<double>(other.size);
      if (read.size > 0 && is_new && result.size() < mtf::max_axes && processors < 9.2e18) {
        result.push_back(read);
      } else {
        ++refused;
      }
    }
  }
  return result;
}

class Texts {
 public:
  explicit Texts(std::uint64_t seed) : random_(seed) {}

  std::string next(bool of_mesh) {
    std::string text;
    const int pieces = number(9);
    for (int i = 0; i < pieces; ++i) {
      text += space();
      text += one_of({"batch", "d_ff", "a", "b", "x.1", "2", "-", "\xc3\xa9t\xc3\xa9", "\xff"});
      text += space() + ":" + space();
      text += of_mesh ? one_of({"1", "2", "03", "-1", "0", "999999999", "1234567890", "x"})
                      : one_of({"rows", "cols", "y.2", "a"});
      for (; !of_mesh && number(3) == 0;) text += space() + "," + space() + one_of({"rows", "cols", "a", "7"});
      for (; number(of_mesh ? 20 : 4) == 0;) text += space() + "?";
      text += space() + one_of({";", ";", ";", ",", " ", "\n", ".", ";;", ""});
    }
    // Some are as they should be, the others have something odd in them.
    for (int damage = number(3); damage > 0 && !text.empty(); --damage) {
      const auto at = static_cast<std::size_t>(number(static_cast<int>(text.size())));
      const std::string odd = one_of({":", ";", ",", "?", ".", "-", "=", " ", "\n", "\t", "\v", "\"", "[", "a", "0",
                                      std::string(1, '\0'), "\x01", "\x7f", "\x80"});
      if (number(3) == 0) {
        text.erase(at, 1);
      } else {
        text.insert(at, odd);
      }
    }
    return text;
  }

 private:
  int number(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  std::string one_of(const std::vector<std::string>& choices) {
    return choices[static_cast<std::size_t>(number(static_cast<int>(choices.size())))];
  }
  std::string space() { return one_of({"", "", "", "", "", " ", "\t", "\r\n", " \v", "\f"}); }

  std::mt19937_64 random_;
};

constexpr int cases = 20'000;

int count(const mtf::Violations& violations, mtf::Fault fault) {
  return static_cast<int>(
      std::count_if(violations.begin(), violations.end(), [&](const mtf::Violation& v) { return v.fault == fault; }));
}

}  // namespace

TEST_CASE("random texts of layouts are read as regular expressions read them") {
  Texts texts(20240611);
  int good = 0;
  int bad = 0;
  for (int i = 0; i < cases; ++i) {
    const std::string text = texts.next(false);
    CAPTURE(text);
    int malformed = 0;
    Read expected = naive_layout(text, malformed);
    mtf::Violations violations;
    const mtf::LayoutValue layout = mtf::parse_layout(text, violations);
    const auto too_long =
        std::erase_if(expected, [](const ReadRule& rule) { return rule.axes.size() > mtf::max_axes_of_dim; });
    CHECK(violations.omitted == 0);
    CHECK(count(violations, mtf::Fault::malformed_layout) == malformed);
    CHECK(count(violations, mtf::Fault::too_many_axes) == static_cast<int>(too_long));
    Read read;
    for (const mtf::Rule& rule : layout.rules) {
      read.push_back({std::string(rule.dim.text), {}, rule.optional});
      for (const mtf::Name& axis : rule.axes) read.back().axes.emplace_back(axis.text);
    }
    CHECK(read == expected);
    for (const mtf::Violation& violation : violations) {
      CHECK(violation.position >= 0);
      CHECK(violation.position <= static_cast<int>(text.size()));
      CHECK(mtf::describe(violation).find('\n') == std::string::npos);
    }
    // What was read is written so that it can be read again.
    const std::string written = mtf::detail::without_quotes(mtf::detail::text_of(layout));
    mtf::Violations none;
    const mtf::LayoutValue again = mtf::parse_layout(written, none);
    CHECK(none.empty());
    REQUIRE(again.rules.size() == layout.rules.size());
    for (int r = 0; r < again.rules.size(); ++r) {
      CHECK(again.rules[r].dim == layout.rules[r].dim);
      CHECK(again.rules[r].axes == layout.rules[r].axes);
      CHECK(again.rules[r].optional == layout.rules[r].optional);
    }
    ++(malformed == 0 ? good : bad);
  }
  CHECK(good > cases / 10);
  CHECK(bad > cases / 10);
}

TEST_CASE("random texts of meshes are read as regular expressions read them") {
  Texts texts(20240612);
  int good = 0;
  int bad = 0;
  for (int i = 0; i < cases; ++i) {
    const std::string text = texts.next(true);
    CAPTURE(text);
    int malformed = 0;
    int refused = 0;
    const std::vector<ReadAxis> expected = naive_mesh(text, malformed, refused);
    mtf::Violations violations;
    const mtf::MeshValue mesh = mtf::parse_mesh(text, violations);
    CHECK(count(violations, mtf::Fault::malformed_layout) == malformed);
    CHECK(violations.size() + violations.omitted == malformed + refused);
    std::vector<ReadAxis> read;
    for (const mtf::AxisValue& axis : mesh.axes) read.push_back({std::string(axis.name.text), axis.size});
    CHECK(read == expected);
    const std::string written = mtf::detail::without_quotes(mtf::describe(mesh));
    mtf::Violations none;
    CHECK(mtf::parse_mesh(written, none).axes == mesh.axes);
    CHECK(none.empty());
    ++(malformed == 0 ? good : bad);
  }
  CHECK(good > cases / 10);
  CHECK(bad > cases / 10);
}
