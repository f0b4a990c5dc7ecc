// Sums of floating-point numbers against sums in long double, with errors in units in the last place of the sum of the
// magnitudes; the bounds are those of docs/sums.md.
#include <limits>
#include <random>

#include "support.hpp"

using namespace support;

namespace {

const std::initializer_list<std::string_view> layouts{
    "", "a:rows", "k:cols", "a:rows;k:cols", "k:rows,cols", "b:rows;a:cols"};

/// What the terms of a sum look like.
enum class Terms { positive, alternating, growing };
constexpr Terms kinds[] = {Terms::positive, Terms::alternating, Terms::growing};

template <class T>
std::vector<T> terms(Terms kind, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0.05, 1);
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    double x = uniform(random);
    if (kind == Terms::alternating) x *= i % 2 == 0 ? 1000 : -1000;
    if (kind == Terms::growing) x = std::ldexp(x, static_cast<int>(40 * i / count));
    result[i] = static_cast<T>(x);
  }
  return result;
}

/// Ranks hold the same bits (`verify_replicas`), so that each looks at its share of the cases only.
bool is_mine(std::int64_t number) { return number % ranks() == rank_of_process(); }

/// A sum and that of the magnitudes.
struct Exact {
  long double sum = 0;
  long double magnitudes = 0;
  void add(long double x) {
    sum += x;
    magnitudes += std::abs(x);
  }
};

template <class T>
double units(T got, const Exact& exact) {
  const int exponent = static_cast<int>(std::ilogb(exact.magnitudes)) - (std::numeric_limits<T>::digits - 1);
  return static_cast<double>(std::ldexp(std::abs(static_cast<long double>(got) - exact.sum), -exponent));
}
/// Units that a sum of `count` terms may be off by.
template <class T>
double allowed(std::int64_t count) {
  if constexpr (std::same_as<T, float>) {
    return 8;
  } else {
    return count < 2 ? 0 : std::log2(static_cast<double>(count));
  }
}

template <class T>
double worst(const std::vector<T>& got, const std::vector<Exact>& exact) {
  REQUIRE(got.size() == exact.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) most = std::max(most, units(got[i], exact[i]));
  return most;
}
/// An empty `exact` is another rank's affair.
template <mtf::operand X>
void check(const X& x, const std::vector<Exact>& exact, std::int64_t count, double more, const std::string& what) {
  const auto elements = mtf::to_host(x);
  if (exact.empty()) return;
  const double off = worst(elements, exact);
  CHECK_MESSAGE(off <= allowed<mtf::element_of<X>>(count) + more, what, ": off by ", off, " units");
}

/// Groups of few ranks add by MPI, others in their order; here all do as the larger ones.
struct InOrder {
  InOrder() { mtf::detail::mpi_sum_limit = 1; }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;
  ~InOrder() { mtf::detail::mpi_sum_limit = before; }
  int before = mtf::detail::mpi_sum_limit;
};

/// An array of [a, k, b] and its sums over some dims, found once for all layouts.
template <class T>
struct Case {
  std::int64_t na, nk, nb;
  Terms kind;
  std::vector<T> elements;
  bool mine;
  std::vector<Exact> all, leading, first, middle, outside, last, means, squares;

  Case(std::int64_t a_extent, std::int64_t k_extent, std::int64_t b_extent, Terms kind_of_terms, unsigned seed)
      : na(a_extent),
        nk(k_extent),
        nb(b_extent),
        kind(kind_of_terms),
        elements(terms<T>(kind, static_cast<std::size_t>(na * nk * nb), seed)),
        mine(is_mine(seed)) {
    if (!mine) return;
    const auto size = [](std::int64_t n) { return std::vector<Exact>(static_cast<std::size_t>(n)); };
    all = size(1);
    leading = squares = size(nb);
    first = size(nk * nb);
    middle = size(na * nb);
    outside = size(nk);
    last = size(na);
    for (std::int64_t i = 0, n = 0; i < na; ++i) {
      for (std::int64_t j = 0; j < nk; ++j) {
        for (std::int64_t l = 0; l < nb; ++l, ++n) {
          const T e = elements[static_cast<std::size_t>(n)];
          const auto x = static_cast<long double>(e);
          all[0].add(x);
          leading[static_cast<std::size_t>(l)].add(x);
          squares[static_cast<std::size_t>(l)].add(static_cast<long double>(e * e));
          first[static_cast<std::size_t>(j * nb + l)].add(x);
          middle[static_cast<std::size_t>(i * nb + l)].add(x);
          outside[static_cast<std::size_t>(j)].add(x);
          last[static_cast<std::size_t>(i)].add(x);
        }
      }
    }
    means = middle;
    for (Exact& e : means) {
      e.sum /= static_cast<long double>(nk);
      e.magnitudes /= static_cast<long double>(nk);
    }
  }
};
/// Long sums over each of the dims, and sizes around those of trees and blocks.
template <class T>
const std::vector<Case<T>>& cases() {
  static const std::vector<Case<T>> list = [] {
    std::vector<Case<T>> result;
    unsigned seed = 1;
    for (const auto& [na, nk, nb, kind] :
         std::initializer_list<std::tuple<int, int, int, Terms>>{{2400, 8, 8, Terms::positive},
                                                                 {8, 2008, 8, Terms::positive},
                                                                 {8, 1000, 8, Terms::growing},
                                                                 {1200, 8, 8, Terms::alternating},
                                                                 {8, 8, 808, Terms::positive},
                                                                 {16, 8, 72, Terms::growing},
                                                                 {8, 16, 136, Terms::alternating},
                                                                 {8, 8, 8, Terms::positive},
                                                                 {8, 24, 40, Terms::alternating}}) {
      result.emplace_back(na, nk, nb, kind, ++seed);
    }
    return result;
  }();
  return list;
}

template <class T>
void check_reductions(World& w, const std::string& place) {
  for (const Case<T>& s : cases<T>()) {
    const auto x = mtf::from_global(w, s.elements, A{s.na}, K{s.nk}, B{s.nb});
    const std::string what =
        fmt::format("{}, [{}, {}, {}], kind {}", place, s.na, s.nk, s.nb, static_cast<int>(s.kind));
    check(mtf::reduce_sum(x), s.all, s.na * s.nk * s.nb, 0, what + ", all");
    check(mtf::reduce_sum<A, K>(x), s.leading, s.na * s.nk, 0, what + ", leading dims");
    check(mtf::reduce_sum<A>(x), s.first, s.na, 0, what + ", first dim");
    check(mtf::reduce_sum<K>(x), s.middle, s.nk, 0, what + ", middle dim");
    check(mtf::reduce_sum<A, B>(x), s.outside, s.na * s.nb, 0, what + ", first and last");
    check(mtf::reduce_sum<K, B>(x), s.last, s.nk * s.nb, 0, what + ", last dims");
    // One more rounding for the inverse of the extent, one for the product with it.
    check(mtf::reduce_mean<K>(x), s.means, s.nk, 2, what + ", mean");
    check(mtf::reduce_sum<A, K>(mtf::square(x)), s.squares, s.na * s.nk, 0, what + ", squares");
    // The gradient of a bias, whose terms are the weights.
    const auto bias = mtf::watch(mtf::constant<T>(w, T(0.5), B{s.nb}));
    const auto [dbias] = mtf::gradients(mtf::reduce_sum((bias + x) * x), bias);
    check(dbias, s.leading, s.na * s.nk, 0, what + ", bias");
  }
}

std::int64_t cumulative_sums = 0;

template <class T, class D, class X>
void check_cumulative(const X& x, const std::vector<T>& elements, std::int64_t outer, std::int64_t length,
                      std::int64_t inner, const std::string& what) {
  for (const mtf::CumsumOptions options : {mtf::CumsumOptions{}, mtf::CumsumOptions{.exclusive = true},
                                           mtf::CumsumOptions{.exclusive = false, .reverse = true},
                                           mtf::CumsumOptions{.exclusive = true, .reverse = true}}) {
    const auto got = mtf::to_host(mtf::cumsum<D>(x, options));
    if (!is_mine(++cumulative_sums)) continue;
    double most = 0;
    bool turns_back = false;
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) {
        Exact exact;
        T before = 0;
        for (std::int64_t step = 0; step < length; ++step) {
          const std::int64_t j = options.reverse ? length - 1 - step : step;
          const auto at = static_cast<std::size_t>((o * length + j) * inner + i);
          if (!options.exclusive) exact.add(static_cast<long double>(elements[at]));
          const std::int64_t count = step + (options.exclusive ? 0 : 1);
          if (count == 0) {
            CHECK(got[at] == T(0));
          } else {
            // The parts of a split dim round once more for their totals.
            most = std::max(most, units(got[at], exact) - allowed<T>(count));
          }
          if (elements[at] >= T(0)) turns_back = turns_back || got[at] < before;
          before = elements[at] >= T(0) ? got[at] : -std::numeric_limits<T>::infinity();
          if (options.exclusive) exact.add(static_cast<long double>(elements[at]));
        }
      }
    }
    CHECK_MESSAGE(most <= (ranks() > 1 ? 1 : 0), what, ": ", most, " units more than allowed");
    CHECK_MESSAGE(!turns_back, what, ": not monotonic");
  }
}

}  // namespace

TEST_CASE("accuracy: sums, means, squares and bias gradients of float and double on every layout") {
  const int rows = ranks() < 4 ? 1 : 2;
  for (const std::string_view layout : layouts) {
    World w(MPI_COMM_WORLD, {.mesh = mesh_text(rows, ranks() / rows), .layout = layout});
    check_reductions<float>(w, fmt::format("{}, float", layout));
    check_reductions<double>(w, fmt::format("{}, double", layout));
    CHECK(w.verify_replicas());
  }
}

TEST_CASE("accuracy: the same where ranks add in their order") {
  const InOrder in_order;
  for (const char* layout : {"k:cols", "a:cols;k:rows"}) {
    World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = layout});
    check_reductions<float>(w, std::string("in order, ") + layout);
    check_reductions<double>(w, std::string("in order, ") + layout);
  }
}

TEST_CASE("accuracy: cumulative sums along a dim before others and along the last, split or not") {
  for (const char* layout : {"", "k:cols"}) {
    World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = layout});
    const auto run = [&]<class T>(std::type_identity<T>, const char* type) {
      unsigned seed = 50;
      for (const Terms kind : kinds) {
        const std::string what = fmt::format("{}, layout {}, kind {}", type, layout, static_cast<int>(kind));
        for (const std::int64_t length : {8, 24, 1600}) {
          const auto elements = terms<T>(kind, static_cast<std::size_t>(2 * length * 5), ++seed);
          check_cumulative<T, K>(mtf::from_global(w, elements, A{2}, K{length}, B{5}), elements, 2, length, 5, what);
          check_cumulative<T, K>(mtf::from_global(w, elements, A{10}, K{length}), elements, 10, length, 1,
                                 what + ", last");
        }
      }
    };
    run(std::type_identity<float>{}, "float");
    run(std::type_identity<double>{}, "double");
  }
}

TEST_CASE("accuracy: norms, logsumexp and cross-entropy do not drift with the number of terms") {
  for_each_layout({"", "k:cols"}, [&](const Pair& pair) {
    World& w = pair.world;
    const std::int64_t n = 16000;
    const auto elements = terms<float>(Terms::positive, static_cast<std::size_t>(n), 7);
    const auto x = mtf::from_global(w, elements, K{n});
    long double squares = 0, exponentials = 0, all = 0;
    for (const float e : elements) {
      squares += static_cast<long double>(e) * static_cast<long double>(e);
      exponentials += std::exp(static_cast<long double>(e));
      all += static_cast<long double>(e);
    }
    const mtf::RmsNorm<World, float, K> norm(w, "norm", K{n});
    const auto y = mtf::to_host(norm(x));
    const long double factor = 1 / std::sqrt(squares / static_cast<long double>(n) + 1e-6L);
    double most = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const long double exact = static_cast<long double>(elements[i]) * factor;
      most = std::max(most, static_cast<double>(std::abs(static_cast<long double>(y[i]) - exact) / exact));
    }
    CHECK_MESSAGE(most < 10 * 6e-8, pair.place, ", norm: ", most);
    const double log_sum = static_cast<double>(std::log(exponentials));
    CHECK(std::abs(static_cast<double>(mtf::item(mtf::logsumexp<K>(x))) - log_sum) < 3e-6);
    const auto smooth = mtf::cross_entropy<K>(x, mtf::constant<std::int32_t>(w, 3), {.label_smoothing = 0.5});
    const double expected =
        log_sum - 0.5 * static_cast<double>(elements[3]) - 0.5 * static_cast<double>(all / static_cast<long double>(n));
    CHECK(std::abs(static_cast<double>(mtf::item(smooth)) - expected) < 4e-6);
    const auto shares = mtf::to_host(mtf::softmax<K>(x));
    for (const std::size_t i : {std::size_t{0}, shares.size() / 2, shares.size() - 1}) {
      const long double exact = std::exp(static_cast<long double>(elements[i])) / exponentials;
      CHECK(std::abs(static_cast<long double>(shares[i]) / exact - 1) < 1e-6L);
    }
  });
}

TEST_CASE("accuracy: large windows, forward and in the gradient") {
  for (const char* layout : {"", "b:cols"}) {
    World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = layout});
    const std::int64_t n = 700, window = 301, outputs = 400;
    const auto elements = terms<float>(Terms::positive, static_cast<std::size_t>(n * 8), 9);
    const auto x = mtf::watch(mtf::from_global(w, elements, K{n}, B{8}));
    const auto y = mtf::average_pool<mtf::Spatial<K, V>>(x, {.window = window, .stride = 1});
    std::vector<Exact> exact(static_cast<std::size_t>(outputs * 8));
    for (std::int64_t o = 0; o < outputs; ++o) {
      for (std::int64_t j = 0; j < window; ++j) {
        for (std::int64_t i = 0; i < 8; ++i)
          exact[static_cast<std::size_t>(o * 8 + i)].add(
              static_cast<long double>(elements[static_cast<std::size_t>((o + j) * 8 + i)]) / 301);
      }
    }
    CHECK(worst(mtf::to_host(y), exact) <= 10);
    const auto weights = terms<float>(Terms::positive, static_cast<std::size_t>(outputs * 8), 10);
    const auto [dx] = mtf::gradients(mtf::reduce_sum(y * mtf::from_global(w, weights, V{outputs}, B{8})), x);
    std::vector<Exact> gradient(static_cast<std::size_t>(n * 8));
    for (std::int64_t o = 0; o < outputs; ++o) {
      for (std::int64_t j = 0; j < window; ++j) {
        for (std::int64_t i = 0; i < 8; ++i)
          gradient[static_cast<std::size_t>((o + j) * 8 + i)].add(
              static_cast<long double>(weights[static_cast<std::size_t>(o * 8 + i)]) / 301);
      }
    }
    CHECK(worst(mtf::to_host(dx), gradient) <= 10);
  }
}

namespace {
std::int64_t lookups = 0;
}

TEST_CASE("accuracy: rows of one id, into tables of rows and of single numbers, with either dim last") {
  for_each_layout({"", "c:rows;v:cols", "b:cols;c:rows"}, [&](const Pair& pair) {
    World& w = pair.world;
    if (!legal(w, mtf::Shape(c, v, b).value())) return;
    const std::int64_t n = 4000, columns = 16, table_rows = 8;
    std::mt19937 random(11);
    Ids ids(static_cast<std::size_t>(n));
    for (std::int32_t& id : ids) id = random() % 4 == 0 ? static_cast<std::int32_t>(random() % 9) : 3;  // some outside
    const auto at = mtf::from_global(w, ids, C{n});
    const auto run = [&]<class T>(std::type_identity<T>) {
      const auto weights = terms<T>(Terms::positive, static_cast<std::size_t>(n * columns), 12);
      std::vector<Exact> rows(static_cast<std::size_t>(table_rows * columns)), turned(rows.size());
      std::vector<Exact> single(static_cast<std::size_t>(table_rows));
      if (!is_mine(++lookups)) {
        rows.clear();
        turned.clear();
        single.clear();
      }
      for (std::int64_t i = 0; i < n && !rows.empty(); ++i) {
        const std::int64_t id = ids[static_cast<std::size_t>(i)];
        if (id == table_rows) continue;
        single[static_cast<std::size_t>(id)].add(static_cast<long double>(weights[static_cast<std::size_t>(i)]));
        for (std::int64_t j = 0; j < columns; ++j) {
          const auto x = static_cast<long double>(weights[static_cast<std::size_t>(i * columns + j)]);
          rows[static_cast<std::size_t>(id * columns + j)].add(x);
          turned[static_cast<std::size_t>(j * table_rows + id)].add(x);
        }
      }
      const auto gradient = [&](const auto& table, const auto& weight) {
        const auto x = mtf::watch(table);
        return std::get<0>(mtf::gradients(mtf::reduce_sum(mtf::gather<V>(x, at) * weight), x));
      };
      const auto of_rows = mtf::from_global(w, weights, C{n}, B{columns});
      check(gradient(mtf::constant<T>(w, T(0.5), V{table_rows}, B{columns}), of_rows), rows, n / 2, 0,
            pair.place + ", rows");
      check(gradient(mtf::constant<T>(w, T(0.5), B{columns}, V{table_rows}), of_rows), turned, n / 2, 0,
            pair.place + ", columns");
      const std::vector<T> some(weights.begin(), weights.begin() + n);
      check(gradient(mtf::constant<T>(w, T(0.5), V{table_rows}), mtf::from_global(w, some, C{n})), single, n / 2, 0,
            pair.place + ", numbers");
    };
    run(std::type_identity<float>{});
    run(std::type_identity<double>{});
  });
}

TEST_CASE("accuracy: infinities and NaN in sums are those of plain additions") {
  for (const char* layout : {"", "a:cols"}) {
    World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks()), .layout = layout});
    const auto run = [&]<class T>(std::type_identity<T>) {
      constexpr T infinity = std::numeric_limits<T>::infinity();
      const std::int64_t n = 800;
      auto elements = terms<T>(Terms::alternating, static_cast<std::size_t>(n * 4), 21);
      elements[4 * 300] = infinity;  // column 0: inf
      elements[4 * 17 + 1] = -infinity;
      elements[4 * 700 + 1] = infinity;  // column 1: NaN
      elements[4 * 5 + 2] = std::numeric_limits<T>::quiet_NaN();
      elements[4 * 799 + 3] = -infinity;
      const auto x = mtf::from_global(w, elements, A{n}, B{4});
      const auto columns = mtf::to_host(mtf::reduce_sum<A>(x));
      const auto running = mtf::to_host(mtf::cumsum<A>(x));
      const auto last = [&](std::size_t i) { return running[static_cast<std::size_t>(4 * (n - 1)) + i]; };
      CHECK(columns[0] == infinity);
      CHECK(std::isnan(columns[1]));
      CHECK(std::isnan(columns[2]));
      CHECK(columns[3] == -infinity);
      CHECK(last(0) == infinity);
      CHECK(running[4 * 300] == infinity);
      CHECK(std::isfinite(running[4 * 299]));
      CHECK(running[4 * 699 + 1] == -infinity);
      CHECK(std::isnan(last(1)));
      CHECK(std::isnan(last(2)));
      CHECK(std::isfinite(running[4 * 798 + 3]));
      CHECK(last(3) == -infinity);
      std::vector<T> row(static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = elements[4 * i];
      CHECK(mtf::item(mtf::reduce_sum(mtf::from_global(w, row, A{n}))) == infinity);
    };
    run(std::type_identity<float>{});
    run(std::type_identity<double>{});
  }
}
