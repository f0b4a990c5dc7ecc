// Counters of collectives.
#include <string>

#include <doctest/doctest.h>

#include <mtf/runtime/counters.hpp>

namespace {

mtf::CollectivePlan plan(mtf::Collective collective, mtf::AxisSet axes, std::int64_t count,
                         mtf::ElementType type = mtf::ElementType::float32) {
  return {.collective = collective, .axes = axes, .count = count, .type = type};
}
constexpr mtf::AxisSet rows = mtf::AxisSet::of(0);
constexpr mtf::AxisSet cols = mtf::AxisSet::of(1);

mtf::CollectiveTotals along(const mtf::Counters& counters, mtf::AxisSet axes) {
  return counters.sum([&](const mtf::CollectiveTotals& t) { return t.axes == axes; });
}

}  // namespace

TEST_CASE("the bytes on the wire are those of the best algorithm for each kind") {
  struct Expected {
    mtf::Collective collective;
    double factor;
  };
  using mtf::Collective;
  for (const std::int64_t size : {1, 2, 4, 7}) {
    const double share = static_cast<double>(size - 1) / static_cast<double>(size);
    for (const auto& [collective, factor] :
         {Expected{Collective::all_reduce, 2 * share}, Expected{Collective::reduce_scatter, share},
          Expected{Collective::all_gather, share}, Expected{Collective::all_to_all, share},
          Expected{Collective::shift, 1}}) {
      CAPTURE(std::string(mtf::name_of(collective)));
      CAPTURE(size);
      mtf::Counters counters;
      counters.record(plan(collective, rows, 280, mtf::ElementType::float64), 3, size);
      const mtf::CollectiveTotals totals = along(counters, rows);
      CHECK(totals.count == 1);
      CHECK(totals.elements == 280);
      CHECK(totals.bytes == 2240);
      CHECK(totals.mpi_calls == 3);
      CHECK(totals.wire_bytes == doctest::Approx(factor * 2240));
    }
  }
}

TEST_CASE("totals are kept by kind and by axes") {
  mtf::Counters counters;
  counters.record(plan(mtf::Collective::all_reduce, rows, 10), 1, 2);
  counters.record(plan(mtf::Collective::all_reduce, rows, 20), 2, 2);
  counters.record(plan(mtf::Collective::all_gather, rows, 8), 1, 2);
  counters.record(plan(mtf::Collective::all_reduce, rows | cols, 5, mtf::ElementType::boolean), 1, 4);
  CHECK(counters.all().size() == 3);
  CHECK(along(counters, rows).count == 3);
  CHECK(along(counters, rows).elements == 38);
  CHECK(along(counters, rows).mpi_calls == 4);
  CHECK(along(counters, rows).wire_bytes == doctest::Approx(30 * 4 + 8 * 4 / 2.0));
  CHECK(along(counters, rows | cols).bytes == 5);
  CHECK(along(counters, cols).count == 0);
  CHECK(
      counters.sum([](const mtf::CollectiveTotals& t) { return t.collective == mtf::Collective::all_reduce; }).count ==
      3);
  counters.reset();
  CHECK(counters.all().empty());
}

TEST_CASE("the hash of the sequence tells order, kind, axes and count apart") {
  const auto hash = [](std::initializer_list<mtf::CollectivePlan> plans) {
    mtf::Counters counters;
    for (const mtf::CollectivePlan& p : plans) counters.record(p, 1, 2);
    return counters.sequence();
  };
  const auto a = plan(mtf::Collective::all_reduce, rows, 10);
  const auto b = plan(mtf::Collective::all_reduce, cols, 10);
  const auto c = plan(mtf::Collective::all_reduce, rows, 11);
  const auto d = plan(mtf::Collective::all_gather, rows, 10);
  CHECK(hash({a, b}) == hash({a, b}));
  CHECK(hash({a, b}) != hash({b, a}));
  CHECK(hash({a}) != hash({b}));
  CHECK(hash({a}) != hash({c}));
  CHECK(hash({a}) != hash({d}));
  CHECK(hash({a}) != hash({a, a}));
  mtf::Counters counters;
  const std::uint64_t empty = counters.sequence();
  counters.record(a, 1, 2);
  counters.reset();
  CHECK(counters.sequence() == empty);
}

TEST_CASE("kinds, combinations and element types have names and sizes") {
  using mtf::Collective;
  for (const Collective kind : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                                Collective::all_to_all, Collective::broadcast, Collective::shift}) {
    CHECK_FALSE(mtf::name_of(kind).empty());
  }
  CHECK(mtf::bytes_of(mtf::element_type_of<float>::value) == sizeof(float));
  CHECK(mtf::bytes_of(mtf::element_type_of<double>::value) == sizeof(double));
  CHECK(mtf::bytes_of(mtf::element_type_of<std::int32_t>::value) == 4);
  CHECK(mtf::bytes_of(mtf::element_type_of<std::int64_t>::value) == 8);
  CHECK(mtf::bytes_of(mtf::element_type_of<bool>::value) == sizeof(bool));
  CHECK(std::string(mtf::name_of(mtf::ElementType::float64)) == "double");
}
