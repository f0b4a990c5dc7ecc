// Reports: their numbers are those of the cost, their pages and JSON are well formed; and the counters of
// Mesh-TensorFlow.
#include <cctype>
#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <mtf/io/communication_bounds.hpp>
#include <mtf/io/make_report.hpp>
#include <mtf/io/report_html.hpp>
#include <mtf/io/report_json.hpp>
#include <mtf/model.hpp>

#include "../../examples/plan_paper/language_models.hpp"

namespace {

constexpr LanguageModelSizes small{
    .batch = 8, .length = 16, .d_model = 32, .heads = 4, .d_kv = 8, .d_ff = 64, .vocab = 48, .layers = 2};

struct Case {
  std::string_view mesh, layout;
};
constexpr Case cases[]{{"all:1", ""},
                       {"rows:2;cols:4", "batch:rows;heads:cols;d_ff:cols;vocab:cols"},
                       {"rows:2;planes:2;cols:2", "batch:rows;heads:cols;d_ff:planes,cols"},
                       {"all:48", "vocab:all"},
                       {"a:2;b:1", "batch:b"}};

mtf::Machine machine() {
  mtf::Machine result;
  result.any_axis = mtf::AxisSpeed("", 3e-6, 5e9);
  return result;
}
mtf::Report small_report(const Case& on) {
  return report_language_model(small, on.mesh, on.layout, {.title = "a < b & \"c\"", .machine = machine()});
}

std::int64_t sum_of(const mtf::Cost& cost, std::int64_t mtf::CollectiveCost::* member) {
  std::int64_t sum = 0;
  for (const mtf::CollectiveCost& each : cost.collective_costs) sum += each.*member;
  return sum;
}
std::int64_t sum_of(const mtf::Cost& cost, std::int64_t mtf::WorkCost::* member) {
  std::int64_t sum = 0;
  for (const mtf::WorkCost& each : cost.work_costs) sum += each.*member;
  return sum;
}
double wire_of(const mtf::Cost& cost) {
  double sum = 0;
  for (const mtf::CollectiveCost& each : cost.collective_costs) sum += each.wire_bytes;
  return sum;
}

/// Numbers of the first line that begins with `head`, after it.
std::vector<double> numbers_after(const std::string& text, const std::string& head) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(head)) continue;
    std::istringstream words(line.substr(head.size()));
    std::vector<double> numbers;
    for (std::string word; words >> word;) {
      if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) numbers.push_back(std::stod(word));
    }
    return numbers;
  }
  FAIL("no line begins with ", head);
  return {};
}

/// Whether every element of a page is closed in order and every attribute quoted; says what is wrong.
std::string what_is_wrong(const std::string& page) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while ((at = page.find('<', at)) != std::string::npos) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "an open tag";
    std::string tag = page.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with('!')) continue;
    if (tag.find('<') != std::string::npos) return "a < in <" + tag;
    int quotes = 0;
    for (const char c : tag) quotes += c == '"' ? 1 : 0;
    if (quotes % 2 != 0) return "quotes of <" + tag;
    std::string name;
    for (const char c : tag) {
      if (c != '/' && std::isalnum(static_cast<unsigned char>(c)) == 0) break;
      name += c;
    }
    if (name.starts_with('/')) {
      if (open.empty() || open.back() != name.substr(1))
        return "</" + name.substr(1) + "> closes " + (open.empty() ? "nothing" : open.back());
      open.pop_back();
    } else if (!tag.ends_with('/') && name != "meta" && name != "br") {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}
std::size_t count_of(const std::string& text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

using World = mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout>;
struct B : mtf::Dim<"b"> {};
struct K : mtf::Dim<"k"> {};
struct N : mtf::Dim<"n"> {};

}  // namespace

TEST_CASE("a report has the numbers of the cost of what was traced") {
  for (const Case& on : cases) {
    CAPTURE(on.mesh);
    mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> world({.mesh = on.mesh, .layout = on.layout});
    world.start_tracing();
    const B batch{8};
    const K inner{16};
    const auto w = mtf::variable<float>(world, "w", mtf::init::glorot, inner, N{48});
    const auto y = mtf::einsum<B, N>(mtf::placeholder<float>(world, batch, inner), w);
    mtf::Sgd<World, float>(world).apply(mtf::gradients_of_variables(world, mtf::reduce_sum(mtf::square(y))), 0.1);
    const mtf::Report report = mtf::make_report(world, {.machine = machine()});
    const mtf::Cost cost = world.cost();
    CHECK(report.cost.collective_costs == cost.collective_costs);
    CHECK(sum_of(report.cost, &mtf::WorkCost::bytes) == sum_of(cost, &mtf::WorkCost::bytes));
    CHECK(sum_of(report.cost, &mtf::WorkCost::work) == sum_of(cost, &mtf::WorkCost::work));
    CHECK(report.cost.parameters == cost.parameters);
    CHECK(report.cost.parameters_per_rank == cost.parameters_per_rank);
    CHECK(report.cost.parameter_bytes == cost.parameter_bytes);
    CHECK(report.cost.state_bytes == cost.state_bytes);
    CHECK(report.cost.peak_bytes == cost.peak_bytes);
    CHECK(report.cost.unused == cost.unused);
    CHECK(report.einsum == doctest::Approx(static_cast<double>(cost.multiply_adds() * cost.processors())));
    CHECK(report.einsum_unique == doctest::Approx(static_cast<double>(cost.distinct_multiply_adds())));
    CHECK_FALSE(report.is_measured);
    CHECK(report.time.at_most() == doctest::Approx(mtf::estimate(cost, machine()).at_most()));
    CHECK(report.seconds() == doctest::Approx(report.time.at_most()));
  }
}

TEST_CASE("sums of the tables are the totals") {
  for (const Case& on : cases) {
    CAPTURE(on.mesh);
    const mtf::Report report = small_report(on);
    const mtf::Cost& cost = report.cost;
    std::int64_t bytes = 0, plans = 0, multiply_adds = 0, element_operations = 0, products = 0, distinct = 0;
    for (const mtf::Report::Operation& each : report.operations) {
      bytes += each.bytes;
      plans += each.plans;
      multiply_adds += each.multiply_adds;
      element_operations += each.element_operations;
      CHECK(each.runs <= each.plans);
      CHECK(each.runs > 0);
    }
    CHECK(bytes == sum_of(cost, &mtf::WorkCost::bytes));
    CHECK(plans == sum_of(cost, &mtf::WorkCost::count));
    CHECK(multiply_adds == cost.multiply_adds());
    CHECK(multiply_adds + element_operations == sum_of(cost, &mtf::WorkCost::work));
    for (const mtf::Report::Product& each : report.products) {
      products += each.multiply_adds;
      distinct += each.distinct;
      CHECK(each.least_elements <= each.grid_elements * (1 + 1e-12) + 1e-6);
    }
    CHECK(products == cost.multiply_adds());
    CHECK(distinct == cost.distinct_multiply_adds());
    std::int64_t count = 0, payload = 0;
    double wire = 0;
    for (const mtf::Report::Communication& each : report.communication) {
      count += each.count;
      payload += each.bytes;
      wire += each.wire_bytes;
    }
    CHECK(count == sum_of(cost, &mtf::CollectiveCost::count));
    CHECK(payload == sum_of(cost, &mtf::CollectiveCost::bytes));
    CHECK(wire == doctest::Approx(wire_of(cost)));
    std::int64_t variables = 0;
    for (const mtf::Report::Tensor& each : report.tensors)
      variables += each.is_variable ? each.count * each.local_elements : 0;
    CHECK(variables == cost.parameters_per_rank);

    // The same numbers in the text.
    const std::string text = mtf::to_text(report);
    const std::vector<double> operations = numbers_after(text, "total  ");
    CHECK(operations.at(2) == doctest::Approx(static_cast<double>(multiply_adds)));
    CHECK(operations.at(4) == doctest::Approx(static_cast<double>(bytes)));
    const std::vector<double> all = numbers_after(text, "all                total");
    CHECK(all.at(0) == doctest::Approx(static_cast<double>(count)));
    CHECK(all.at(2) == doctest::Approx(static_cast<double>(payload)));
    CHECK(std::abs(all.at(3) - wire_of(cost)) <= 0.5);
    CHECK(text.find(" \n") == std::string::npos);

    // And in JSON, read again.
    const nlohmann::json json = nlohmann::json::parse(mtf::json_of(report).dump());
    double json_wire = 0;
    for (const nlohmann::json& axis : json["along_axes"]) json_wire += axis["wire_bytes"].get<double>();
    CHECK(json_wire == doctest::Approx(wire_of(cost)));
    std::int64_t json_bytes = 0;
    for (const nlohmann::json& operation : json["operations"]) json_bytes += operation["bytes"].get<std::int64_t>();
    CHECK(json_bytes == bytes);
    CHECK(json["events"].size() == report.events.size());
    CHECK(json["memory"]["peak_bytes"] == cost.peak_bytes);
    CHECK(json["parameters"]["total"] == cost.parameters);
    CHECK(json["mesh"].size() == report.mesh.size());
    CHECK(json["title"] == "a < b & \"c\"");
    CHECK(json["time"]["at_most"].get<double>() == doctest::Approx(report.time.at_most()));
  }
}

TEST_CASE("the page is well formed, needs nothing from outside, and draws every kind of tensor") {
  for (const Case& on : cases) {
    CAPTURE(on.mesh);
    const mtf::Report report = small_report(on);
    const std::string page = mtf::to_html(report);
    CHECK(what_is_wrong(page) == "");
    for (const char* outside : {"http:", "https:", "src=", "url(", "@import", "<link", "<script", "nan", "inf\""})
      CHECK(count_of(page, outside) == 0);
    CHECK(page.find("a &lt; b &amp; &quot;c&quot;") != std::string::npos);
    std::vector<std::vector<mtf::Report::Dim>> kinds;
    for (const mtf::Report::Tensor& tensor : report.tensors) {
      bool known = false;
      for (const auto& kind : kinds) known = known || kind == tensor.dims;
      if (!known) kinds.push_back(tensor.dims);
    }
    CHECK(count_of(page, "<figure>") == kinds.size());
    CHECK(count_of(page, "<svg") == kinds.size() + 2);
    for (const mtf::Report::AlongAxes& along : report.along_axes) {
      CHECK(page.find(fmt::format(">{}</text>", report.names(along.axes))) != std::string::npos);
      CHECK(page.find(mtf::detail::whole_number(static_cast<std::int64_t>(along.wire_bytes))) != std::string::npos);
    }
    for (const std::string& finding : report.findings)
      CHECK(page.find(mtf::detail::escaped(finding)) != std::string::npos);
    CHECK(page.find(mtf::detail::with_prefix(static_cast<double>(report.cost.peak_bytes), "B")) != std::string::npos);
  }
}

TEST_CASE("shares of the time add up to all of it, with what is outside of plans") {
  for (const Case& on : cases) {
    CAPTURE(on.mesh);
    for (const bool with_gaps : {false, true}) {
      mtf::Report report = small_report(on);
      if (with_gaps) {  // as a world measures it: time passes between plans
        std::mt19937_64 random(5);
        double gaps = 0;
        const double step = report.seconds();
        for (mtf::Report::Event& event : report.events) {
          gaps +=
              std::uniform_real_distribution<double>(0, 2 * step / static_cast<double>(report.events.size()))(random);
          event.begin += gaps;
        }
        report.is_measured = true;
        CHECK(report.outside_seconds() == doctest::Approx(gaps));
      }
      CHECK(report.outside_seconds() >= 0);
      CHECK(report.outside_seconds() <= (with_gaps ? 1.0 : 1e-9) * report.seconds());
      const std::string text = mtf::to_text(report);
      double sum = 0;
      for (const char* row : {"local work", "communication", "outside of plans"})
        sum += numbers_after(text, row).back();
      CHECK(std::abs(sum - 100) < 0.2);
      CHECK(numbers_after(text, "the whole step").back() == 100);
      CHECK(std::abs(numbers_after(text, "local work").back() - numbers_after(text, "total  ").back()) < 0.06);
      CHECK(std::abs(numbers_after(text, "communication").back() -
                     numbers_after(text, "all                total").back()) < 0.06);
      const nlohmann::json seconds = mtf::json_of(report)["seconds"];
      CHECK(seconds["local_work"].get<double>() + seconds["communication"].get<double>() +
                seconds["outside_of_plans"].get<double>() ==
            doctest::Approx(seconds["step"].get<double>()));
      double listed = 0;
      const nlohmann::json json = mtf::json_of(report);
      for (const char* list : {"operations", "communication"}) {
        for (const nlohmann::json& each : json[list]) listed += each["seconds"].get<double>();
      }
      CHECK(listed + seconds["outside_of_plans"].get<double>() == doctest::Approx(seconds["step"].get<double>()));
      const std::string page = mtf::to_html(report);
      CHECK(page.find("<td>outside of plans</td>") != std::string::npos);
      CHECK(page.find("<td class=\"n\">" + mtf::detail::percent_text(report.outside_seconds(), report.seconds()) +
                      "</td>") != std::string::npos);
    }
  }
}

namespace {

// Names that a C++ program can give: quotes, tags, marks of the tables, controls, bytes that are not UTF-8.
struct OddRows : mtf::Dim<"#<odd>\xff\x1b&\"", 8> {};
struct OddCols : mtf::Dim<"<td>;a:b,\xc2\x9b\n", 4> {};
struct OddMesh : mtf::Mesh<mtf::Axis<"\xfe,<x>", 2>, mtf::Axis<"#2\t", 2>> {};
struct OddLayout : mtf::Layout<mtf::Split<"#<odd>\xff\x1b&\"", "\xfe,<x>">> {};
struct PlainRows : mtf::Dim<"rows", 8> {};
struct PlainCols : mtf::Dim<"cols", 4> {};
struct PlainMesh : mtf::Mesh<mtf::Axis<"x", 2>, mtf::Axis<"y", 2>> {};
struct PlainLayout : mtf::Layout<mtf::Split<"rows", "x">> {};

template <class Mesh, class Layout, class Rows, class Cols>
mtf::Report named_report(const char* path, const char* title) {
  mtf::DryRun<Mesh, Layout> world;
  world.start_tracing();
  const auto w = mtf::variable<float, Cols>(world, path, mtf::init::ones);
  const auto x = mtf::placeholder<float>(world, Rows{}, Cols{});
  mtf::Sgd<mtf::DryRun<Mesh, Layout>, float> sgd(world);
  sgd.apply(mtf::gradients_of_variables(world, mtf::reduce_sum(mtf::einsum<Rows>(x, w))), 0.1);
  return mtf::make_report(world, {.title = title});
}

}  // namespace

TEST_CASE("names of any bytes leave the text lines, the JSON JSON and the page a page") {
  const mtf::Report odd =
      named_report<OddMesh, OddLayout, OddRows, OddCols>("<w>\n\x80/\"v\"\x7f", "<b>\xe2\x82 of \r\n odd");
  const mtf::Report plain = named_report<PlainMesh, PlainLayout, PlainRows, PlainCols>("w", "plain");
  const auto is_clean = [](const std::string& text) {
    bool good = mtf::detail::valid_utf8(text) == text && text.find("\xc2\x9b") == std::string::npos;
    for (const char c : text) good = good && (c == '\n' || (c & 0x60) != 0 || c < 0) && c != '\x7f';
    return good;
  };
  const auto lines_of = [](const std::string& text) { return count_of(text, "\n"); };

  CHECK(is_clean(mtf::to_text(odd)));
  CHECK(lines_of(mtf::to_text(odd)) == lines_of(mtf::to_text(plain)));

  const std::string page = mtf::to_html(odd);
  CHECK(is_clean(page));
  CHECK(what_is_wrong(page) == "");
  CHECK(lines_of(page) == lines_of(mtf::to_html(plain)));
  for (const char* tag : {"<odd>", "<td>;", "<x>", "<w>", "<b>\xef"}) CHECK(count_of(page, tag) == 0);
  CHECK(count_of(page, "#&lt;odd&gt;\xef\xbf\xbd\\x1b&amp;&quot;") > 0);
  CHECK(count_of(page, "<td>\xef\xbf\xbd,&lt;x&gt;</td><td class=\"n\">2</td>") == 1);  // the rule's axes and parts

  const nlohmann::json json = nlohmann::json::parse(mtf::json_of(odd).dump());
  CHECK(json["title"] == "<b>\xef\xbf\xbd\xef\xbf\xbd of \r\n odd");
  CHECK(json["mesh"][0]["name"] == "\xef\xbf\xbd,<x>");
  CHECK(json["rules"][0]["dim"] == "#<odd>\xef\xbf\xbd\x1b&\"");
  CHECK(json["rules"][0]["axes"][0] == "\xef\xbf\xbd,<x>");
  bool has_variable = false;
  for (const nlohmann::json& tensor : json["tensors"])
    has_variable = has_variable || tensor["name"] == "<w>\n\xef\xbf\xbd/\"v\"\x7f";
  CHECK(has_variable);
}

TEST_CASE("events fill the step, and phases follow each other") {
  const mtf::Report report = small_report(cases[1]);
  REQUIRE(!report.events.empty());
  double end = 0;
  mtf::Phase phase = mtf::Phase::forward;
  for (const mtf::Report::Event& event : report.events) {
    CHECK(event.begin == doctest::Approx(end));
    CHECK(event.phase >= phase);
    phase = event.phase;
    end = event.begin + event.seconds;
  }
  CHECK(phase == mtf::Phase::update);
  CHECK(end == doctest::Approx(report.time.at_most()));
}

TEST_CASE("a batch in parts goes forward and backward by turns, then comes the update") {
  World world({.mesh = "p:2", .layout = "b:p"});
  const auto w = mtf::variable<float>(world, "w", mtf::init::glorot, K{4}, N{6});
  const auto x = mtf::placeholder<float>(world, B{8}, K{4});
  world.start_tracing();
  auto [gradients, loss] = mtf::serialize_training_step(
      world, B{4},
      [&](mtf::Microbatch part, const auto& rows) {
        return std::tuple(mtf::reduce_mean(mtf::square(mtf::einsum<B, N>(rows, w))) / part.count);
      },
      x);
  (void)loss;
  mtf::Sgd<World, float>(world).apply(gradients, 0.1);
  const mtf::Report report = mtf::make_report(world);
  std::vector<mtf::Phase> turns;
  for (const mtf::Report::Event& event : report.events) {
    if (turns.empty() || turns.back() != event.phase) turns.push_back(event.phase);
  }
  using enum mtf::Phase;
  CHECK(turns == std::vector<mtf::Phase>{forward, backward, forward, backward, update});
}

TEST_CASE("findings name the axis, the operation and the dims") {
  // Of 2 x 2 x 2 ranks "planes" splits d_ff only: not attention, not the logits, which "cols" does not split either.
  const mtf::Report report = small_report(cases[2]);
  const auto found = [&](std::string_view words) {
    for (const std::string& finding : report.findings) {
      if (finding.find(words) != std::string::npos) return true;
    }
    return false;
  };
  CHECK(
      found("Axis \"planes\" splits nothing in einsum over [batch/rows, length, d_model, heads/cols, d_kv]: in 24 "
            "products each of its 2 ranks"));
  CHECK(found("Axis \"cols\" splits nothing in einsum over [batch/rows, length, d_model, vocab]: in 3 products"));
  CHECK_FALSE(found("d_ff"));
  CHECK(report.einsum > report.einsum_unique);
  CHECK(small_report(cases[1]).findings.empty());

  World world({.mesh = "p:2", .layout = "bacth:p"});
  world.start_tracing();
  (void)mtf::einsum<B, N>(mtf::placeholder<float>(world, B{2}, K{4}), mtf::placeholder<float>(world, K{4}, N{6}));
  const mtf::Report misspelt = mtf::make_report(world);
  REQUIRE(misspelt.findings.size() == 2);
  CHECK(misspelt.findings[0].find("\"bacth\" splits nothing") != std::string::npos);
  CHECK(misspelt.cost.unused_rules() == 1);
}

TEST_CASE("an empty trace gives an empty report") {
  const World world({.mesh = "p:2", .layout = ""});
  const mtf::Report report = mtf::make_report(world);
  CHECK(report.events.empty());
  CHECK(what_is_wrong(mtf::to_html(report)) == "");
  CHECK(mtf::json_of(report)["operations"].empty());
  CHECK(mtf::to_text(report).find("Nothing to remark") != std::string::npos);
}

TEST_CASE("counters of Mesh-TensorFlow: the reference's golden values") {
  // x [b:2, k:4], w [k:4, n:6].
  const auto einsum = [](std::string_view mesh, std::string_view layout) {
    World world({.mesh = mesh, .layout = layout});
    const auto x = mtf::placeholder<float>(world, B{2}, K{4});
    const auto w = mtf::placeholder<float>(world, K{4}, N{6});
    world.start_tracing();
    mtf::complete(*mtf::einsum<B, N>(x, w).array().value, "use");
    return mtf::original_counters(world);
  };
  mtf::OriginalCounters counters = einsum("p:2", "k:p");
  CHECK(counters["allreduce/[0]/einsum_op"] == 24);
  CHECK(counters["einsum"] == 48);
  counters = einsum("p:2;q:2", "b:p;k:q");
  CHECK(counters["allreduce/[1]/einsum_op"] == 24);
  CHECK(counters["einsum"] == 48);
  counters = einsum("p:2;q:2", "k:p");
  CHECK(counters["allreduce/[0]/einsum_op"] == 48);
  CHECK(counters["einsum"] == 96);
  CHECK(counters["einsum_unique"] == 48);
  counters = einsum("p:2;q:2", "k:p,q");
  CHECK(counters["allreduce/[0, 1]/einsum_op"] == 48);

  // Adding does not make a sum of einsums one of something else.
  {
    World world({.mesh = "p:2", .layout = "k:p"});
    const auto x = mtf::placeholder<float>(world, B{2}, K{4});
    const auto w = mtf::placeholder<float>(world, K{4}, N{6});
    world.start_tracing();
    const auto first = mtf::einsum<B, N>(x, w);
    mtf::complete(*(first + mtf::einsum<B, N>(x, w) * 2.0F).array().value, "use");
    counters = mtf::original_counters(world);
    CHECK(counters["allreduce/[0]/einsum_op"] == 24);
    CHECK(counters.count("allreduce/[0]/reduce_op") == 0);
    CHECK(counters["einsum"] == 96);
  }

  // Sums of sums along the same axes cost one allreduce; whatever is not linear forces both.
  World world({.mesh = "p:2", .layout = "k:p"});
  const auto x = mtf::placeholder<float>(world, B{2}, K{4});
  world.start_tracing();
  mtf::complete(*(mtf::reduce_sum<K>(x) + mtf::reduce_sum<K>(x * 2.0F)).array().value, "use");
  CHECK(mtf::original_counters(world)["allreduce/[0]/reduce_op"] == 4);
  world.start_tracing();
  (void)(mtf::reduce_sum<K>(x) * mtf::reduce_sum<K>(x * 2.0F));
  CHECK(mtf::original_counters(world)["allreduce/[0]/reduce_op"] == 8);
}

namespace {
struct A4 : mtf::Dim<"a", 4> {};
struct B4 : mtf::Dim<"b", 4> {};
struct C4 : mtf::Dim<"c", 4> {};
struct Whole : mtf::Dim<"au", 4> {};
struct A2 : mtf::Dim<"a2", 4> {};
}  // namespace

TEST_CASE("counters of reshapes and lookups") {
  const auto count = [](std::string_view layout, const auto& reshape) {
    World world({.mesh = "p:2", .layout = layout});
    const auto x = mtf::placeholder<float>(world, A4{}, B4{});
    world.start_tracing();
    (void)reshape(x);
    return mtf::original_counters(world);
  };
  mtf::OriginalCounters counters = count("a:p", [](const auto& x) { return mtf::rename<A4, Whole>(x); });
  CHECK(counters["allconcat/0/reshape_op"] == 32);
  counters = count("a:p;c:p", [](const auto& x) { return mtf::reshape<A2, C4>(x); });
  CHECK(counters["alltoall/0/reshape_op"] == 16);
  counters = count("a:p;c:p", [](const auto& x) { return mtf::reshape<C4, B4>(x); });
  CHECK(counters.count("alltoall/0/reshape_op") == 0);

  // A lookup of b = 6 rows of n = 4 in a table of k = 8 rows, split over two: 6 x 8 x 4 multiply-adds forward and twice
  // that backward.
  World world({.mesh = "p:2", .layout = "k:p"});
  const auto table = mtf::variable<float>(world, "table", mtf::init::glorot, K{8}, N{4});
  const auto ids = mtf::placeholder<std::int32_t>(world, B{6});
  world.start_tracing();
  const auto rows = mtf::gather<K>(table, ids);
  const auto [gradient] = mtf::gradients(mtf::reduce_sum(mtf::square(rows)), table);
  (void)gradient;
  counters = mtf::original_counters(world, {.one_hot_lookups = true});
  CHECK(counters["einsum"] == 3 * 6 * 8 * 4);
  CHECK(counters["einsum_unique"] == 3 * 6 * 8 * 4);
  CHECK(counters["allreduce/[0]/einsum_op"] == 2 * 6 * 4);
  CHECK(counters["variables/trainable"] == 8 * 4);
  CHECK(mtf::original_counters(world).count("einsum") == 0);
}

TEST_CASE("subtotals of counters") {
  const std::string text = mtf::to_text(mtf::OriginalCounters{
      {"allreduce/[0]/einsum_op", 3}, {"allreduce/[0]/reduce_op", 4}, {"allreduce/[1]/einsum_op", 5}, {"einsum", 7}});
  CHECK(numbers_after(text, "allreduce ").at(0) == 12);
  CHECK(numbers_after(text, "allreduce/[0] ").at(0) == 7);
  CHECK(numbers_after(text, "allreduce/[1]/einsum_op ").at(0) == 5);
  CHECK(numbers_after(text, "einsum ").at(0) == 7);
}

TEST_CASE("the bound of a product: the reference's value, cases that meet, and no grid below it") {
  // Feed-forward of the largest model on 512 ranks: 65,536 x 1,024 x 262,144.
  CHECK(mtf::least_product_elements(65536, 262144, 1024, 512) == doctest::Approx(1.121e7).epsilon(5e-4));
  CHECK(mtf::grid_product_elements(65536, 262144, 1024, 16, 32, 1) == doctest::Approx(1.193e7).epsilon(5e-4));
  CHECK(mtf::grid_product_elements(65536, 262144, 1024, 16, 32, 1) /
            mtf::least_product_elements(65536, 262144, 1024, 512) ==
        doctest::Approx(1.064).epsilon(5e-4));
  CHECK(mtf::least_product_elements(64, 64, 64, 1) == 0);
  // Where the cases meet they agree.
  for (const double ranks : {8.0, 64.0 * 512 / (16 * 16)}) {
    CHECK(mtf::least_product_elements(512, 64, 16, ranks * (1 - 1e-9)) ==
          doctest::Approx(mtf::least_product_elements(512, 64, 16, ranks * (1 + 1e-9))));
  }
  std::mt19937 random(5);
  const auto draw = [&] { return static_cast<double>(1 << std::uniform_int_distribution<int>(0, 9)(random)); };
  for (int i = 0; i < 2000; ++i) {
    const double pm = std::min(draw(), 8.0), pn = std::min(draw(), 8.0), pk = std::min(draw(), 8.0);
    const double m = pm * draw(), n = pn * draw(), k = pk * draw();
    CHECK(mtf::least_product_elements(m, n, k, pm * pn * pk) <=
          mtf::grid_product_elements(m, n, k, pm, pn, pk) * (1 + 1e-12) + 1e-9);
  }
}
