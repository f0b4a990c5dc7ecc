// The order of an einsum of three or more: against all orders, for random shapes and layouts; what it is measured by.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/plan/contraction_order.hpp>

namespace {

using Letters = std::set<char>;
using Order = mtf::ContractionOrder;

/// An einsum, its dims named by letters.
struct Problem {
  std::vector<std::string> operands;
  std::string to;
  std::map<char, std::int64_t> extents;
  std::map<char, std::int64_t> parts;  ///< of dims that are split

  [[nodiscard]] std::int64_t local(char dim) const {
    const auto found = parts.find(dim);
    return extents.at(dim) / (found == parts.end() ? 1 : found->second);
  }
  [[nodiscard]] double size(const Letters& dims) const {
    double product = 1;
    for (const char dim : dims) product *= static_cast<double>(local(dim));
    return product;
  }
  [[nodiscard]] mtf::Placement place(const std::string& dims) const {
    mtf::Placement placement;
    for (const char dim : dims) {
      mtf::PlacedDim placed;
      placed.name = mtf::Name(std::string_view(&dim, 1));
      placed.extent = extents.at(dim);
      placed.parts = placed.extent / local(dim);
      if (placed.parts > 1) placed.axes.push_back(0);
      placement.dims.push_back(placed);
    }
    return placement;
  }
  [[nodiscard]] Order plan(mtf::einsum_order order = mtf::einsum_order::fastest) const {
    std::vector<mtf::Placement> placements;
    for (const std::string& operand : operands) placements.push_back(place(operand));
    std::vector<const mtf::Placement*> pointers;
    for (const mtf::Placement& placement : placements) pointers.push_back(&placement);
    return mtf::plan_contraction_order(pointers, place(to), order);
  }
};

/// What an order costs, as a loop over its products finds it: independent of the plan.
struct Measured {
  bool fits = true;
  double work = 0, peak = 0;
  [[nodiscard]] bool operator<(const Measured& other) const {
    if (fits != other.fits) return fits;
    return work != other.work ? work < other.work : peak < other.peak;
  }
};

class Simulation {
 public:
  explicit Simulation(const Problem& problem) : problem_(problem) {
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
      const std::string& operand = problem.operands[i];
      factors_.emplace_back(operand.begin(), operand.end());
      alive_.insert(static_cast<int>(i));
      sizes_.push_back(0);
    }
    // Dims of one operand alone are summed before it is multiplied.
    std::vector<Letters> summed;
    for (const int i : alive_) summed.push_back(wanted(factors_[static_cast<std::size_t>(i)], {i}));
    factors_ = summed;
  }
  void multiply(int a, int b) {
    Letters both = factors_[static_cast<std::size_t>(a)];
    both.insert(factors_[static_cast<std::size_t>(b)].begin(), factors_[static_cast<std::size_t>(b)].end());
    measured.work += problem_.size(both);
    const Letters kept = wanted(both, {a, b});
    alive_.erase(a);
    alive_.erase(b);
    live_ += problem_.size(kept);
    measured.peak = std::max(measured.peak, live_);
    live_ -= sizes_[static_cast<std::size_t>(a)] + sizes_[static_cast<std::size_t>(b)];
    if (kept.size() > 12) measured.fits = false;
    alive_.insert(static_cast<int>(factors_.size()));
    factors_.push_back(kept);
    sizes_.push_back(problem_.size(kept));
  }
  [[nodiscard]] const std::set<int>& alive() const { return alive_; }
  Measured measured;

 private:
  [[nodiscard]] Letters wanted(const Letters& dims, const std::set<int>& besides) const {
    Letters others(problem_.to.begin(), problem_.to.end());
    for (const int i : alive_) {
      if (!besides.contains(i))
        others.insert(factors_[static_cast<std::size_t>(i)].begin(), factors_[static_cast<std::size_t>(i)].end());
    }
    Letters result;
    for (const char dim : dims) {
      if (others.contains(dim)) result.insert(dim);
    }
    return result;
  }

  const Problem& problem_;
  std::vector<Letters> factors_;
  std::vector<double> sizes_;
  std::set<int> alive_;
  double live_ = 0;
};

/// The best of all sequences of products.
Measured best_of_all(const Simulation& so_far) {
  if (so_far.alive().size() == 1) return so_far.measured;
  Measured best{false, std::numeric_limits<double>::max(), 0};
  for (const int a : so_far.alive()) {
    for (const int b : so_far.alive()) {
      if (a >= b) continue;
      Simulation next = so_far;
      next.multiply(a, b);
      best = std::min(best, best_of_all(next));
    }
  }
  return best;
}

Measured measure(const Problem& problem, const Order& order) {
  Simulation simulation(problem);
  REQUIRE(order.products.size() == static_cast<int>(problem.operands.size()) - 1);
  for (const Order::Product& product : order.products) {
    REQUIRE(simulation.alive().contains(product.first));
    REQUIRE(simulation.alive().contains(product.second));
    REQUIRE(product.first != product.second);
    simulation.multiply(product.first, product.second);
  }
  CHECK(simulation.alive().size() == 1);
  CHECK(simulation.measured.fits == order.fits);
  CHECK(simulation.measured.work == static_cast<double>(order.multiply_adds));
  CHECK(simulation.measured.peak == static_cast<double>(order.peak));
  return simulation.measured;
}

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int number(int low, int high) { return low + static_cast<int>(random_() % static_cast<unsigned>(high - low + 1)); }
  /// Operands over the dims a, b, ...; some are split.
  Problem problem(int operands, int dims, int most_of_operand) {
    Problem result;
    for (int d = 0; d < dims; ++d) {
      const char dim = static_cast<char>('a' + d);
      const std::int64_t extents[]{1, 2, 3, 4, 8, 16, 24, 64, 100, 512};
      result.extents[dim] = extents[number(0, 9)];
      if (result.extents[dim] % 4 == 0 && number(0, 3) == 0) result.parts[dim] = 4;
    }
    Letters used;
    for (int i = 0; i < operands; ++i) {
      Letters operand;
      const int count = number(i == 0 ? 1 : 0, most_of_operand);
      while (static_cast<int>(operand.size()) < std::min(count, dims))
        operand.insert(static_cast<char>('a' + number(0, dims - 1)));
      std::string text(operand.begin(), operand.end());
      std::shuffle(text.begin(), text.end(), random_);
      result.operands.push_back(text);
      used.insert(operand.begin(), operand.end());
    }
    for (const char dim : used) {
      if (number(0, 2) == 0 && result.to.size() < 12) result.to += dim;
    }
    return result;
  }
  /// [a, b] [b, c] [c, d] ... to [a, last].
  Problem chain(int operands) {
    Problem result;
    for (int i = 0; i <= operands; ++i) {
      result.extents[static_cast<char>('a' + i)] = number(1, 40);
      if (i < operands) result.operands.push_back({static_cast<char>('a' + i), static_cast<char>('b' + i)});
    }
    result.to = {'a', static_cast<char>('a' + operands)};
    return result;
  }

 private:
  std::mt19937 random_;
};

std::string text_of(const Order& order) {
  std::string text;
  for (const Order::Product& product : order.products)
    text += std::to_string(product.first) + "*" + std::to_string(product.second) + " ";
  return text;
}

std::string describe(const Problem& problem) {
  std::string text;
  for (const std::string& operand : problem.operands) text += operand + ",";
  text += "->" + problem.to;
  for (const auto& [dim, extent] : problem.extents)
    text += std::string(" ") + dim + ":" + std::to_string(extent) + "/" + std::to_string(extent / problem.local(dim));
  return text;
}

constexpr mtf::PlacedDim dim_of(std::string_view name, std::int64_t extent) {
  mtf::PlacedDim dim;
  dim.name = mtf::Name(name);
  dim.extent = extent;
  return dim;
}
constexpr Order plans_a_chain() {
  mtf::Placement ab, bc, cd, ad;
  ab.dims.push_back(dim_of("a", 512));
  ab.dims.push_back(dim_of("b", 512));
  bc.dims.push_back(dim_of("b", 512));
  bc.dims.push_back(dim_of("c", 512));
  cd.dims.push_back(dim_of("c", 512));
  cd.dims.push_back(dim_of("d", 2));
  ad.dims.push_back(dim_of("a", 512));
  ad.dims.push_back(dim_of("d", 2));
  const mtf::Placement* const operands[]{&ab, &bc, &cd};
  return mtf::plan_contraction_order(operands, ad, mtf::einsum_order::fastest);
}
static_assert(plans_a_chain().multiply_adds == 2 * 512 * 512 * 2);
static_assert(plans_a_chain().products[0] == Order::Product{1, 2});

}  // namespace

TEST_CASE("the order is the same in constant expressions and at run time") {
  constexpr Order compiled = plans_a_chain();
  const Order run = plans_a_chain();
  CHECK(compiled.products == run.products);
  CHECK(compiled.peak == run.peak);
}

TEST_CASE("no order of three to five operands takes less time, or as much and less memory") {
  Draw draw(1);
  int not_from_left = 0;
  for (int round = 0; round < 1500; ++round) {
    const int operands = draw.number(3, 5);
    const Problem problem = round % 3 == 0 ? draw.chain(operands) : draw.problem(operands, draw.number(1, 7), 4);
    CAPTURE(describe(problem));
    const Order order = problem.plan();
    const Measured found = measure(problem, order);
    const Measured best = best_of_all(Simulation(problem));
    CHECK(found.fits == best.fits);
    CHECK(found.work == best.work);
    CHECK(found.peak == best.peak);
    const Order written = problem.plan(mtf::einsum_order::as_written);
    const Measured from_left = measure(problem, written);
    CHECK_FALSE(from_left < found);
    if (!(found < from_left)) CHECK(text_of(order) == text_of(written));  // ties stay as they are written
    not_from_left += found < from_left ? 1 : 0;
    CHECK(text_of(problem.plan()) == text_of(order));
  }
  CHECK(not_from_left > 250);
}

TEST_CASE("six to eight operands: never worse than from the left, and near the best") {
  Draw draw(2);
  int better = 0, best_found = 0, rounds = 0;
  double excess = 0;
  for (int round = 0; round < 400; ++round) {
    const int operands = draw.number(6, 8);
    const Problem problem = round % 3 == 0 ? draw.chain(operands) : draw.problem(operands, draw.number(2, 10), 4);
    CAPTURE(describe(problem));
    const Measured found = measure(problem, problem.plan());
    const Measured from_left = measure(problem, problem.plan(mtf::einsum_order::as_written));
    CHECK_FALSE(from_left < found);
    better += found < from_left ? 1 : 0;
    if (operands == 6 && rounds < 60) {
      ++rounds;
      const double least = best_of_all(Simulation(problem)).work;
      best_found += found.work <= least ? 1 : 0;
      excess += std::log2(found.work / least);
    }
  }
  MESSAGE("better than from the left in ", better, " of 400; six operands: the least work in ", best_found, " of ",
          rounds, ", on average 2^", excess / rounds, " of it");
  CHECK(better > 200);
  CHECK(2 * best_found > rounds);
}

TEST_CASE("as written is from the left") {
  Draw draw(3);
  for (int operands = 3; operands <= 8; ++operands) {
    const Problem problem = draw.problem(operands, 6, 3);
    std::string expected = "0*1 ";
    for (int i = 2; i < operands; ++i) expected += std::to_string(operands + i - 2) + "*" + std::to_string(i) + " ";
    const Order order = problem.plan(mtf::einsum_order::as_written);
    // The factor that holds the first operand comes first.
    CHECK(text_of(order) == expected);
  }
}

TEST_CASE("what is split counts by its slice: another order under another layout") {
  // a[i, j] b[j, k] c[k, l]: from the left i j k + i k l, from the right j k l + i j l.
  Problem problem{{"ij", "jk", "kl"}, "il", {{'i', 32}, {'j', 64}, {'k', 64}, {'l', 48}}, {}};
  CHECK(text_of(problem.plan()) == "0*1 3*2 ");
  CHECK(problem.plan().multiply_adds == 32 * 64 * 64 + 32 * 64 * 48);
  problem.parts = {{'l', 4}};
  CHECK(text_of(problem.plan()) == "1*2 0*3 ");
  CHECK(problem.plan().multiply_adds == 64 * 64 * 12 + 32 * 64 * 12);
}

TEST_CASE("of orders of equal work the one that holds least is taken, then the one from the left") {
  const Problem outer{{"p", "q", "q"}, "p", {{'p', 4096}, {'q', 4096}}, {}};
  CHECK(outer.plan().multiply_adds == 2 * 4096);
  CHECK(outer.plan().peak == 4097);
  const Problem equal{{"a", "a", "a", "a"}, "a", {{'a', 7}}, {}};
  CHECK(text_of(equal.plan()) == text_of(equal.plan(mtf::einsum_order::as_written)));
  // From the left i k (j + l) with [i, k] in between, from the right j l (i + k) with [j, l]: 144 either way, 18 or 16.
  const Problem tie{{"ij", "jk", "kl"}, "il", {{'i', 3}, {'j', 4}, {'k', 6}, {'l', 4}}, {}};
  CHECK(tie.plan().multiply_adds == 144);
  CHECK(tie.plan(mtf::einsum_order::as_written).multiply_adds == 144);
  CHECK(tie.plan(mtf::einsum_order::as_written).peak == 18 + 12);
  CHECK(text_of(tie.plan()) == "1*2 0*3 ");
  CHECK(tie.plan().peak == 16 + 12);
}

TEST_CASE("an order without a product of too many dims is found where there is one") {
  Draw draw(4);
  // The first two have nothing in common and the last needs all: 14 dims from the left.
  Problem far{{"abcdefg", "hijklmn", "abcdefg"}, "hijklmn", {}, {}};
  for (char dim = 'a'; dim <= 'n'; ++dim) far.extents[dim] = draw.number(1, 3);
  CHECK_FALSE(far.plan(mtf::einsum_order::as_written).fits);
  CHECK(far.plan().fits);
  // Whatever is multiplied first leaves more than twelve.
  Problem hopeless{{"abcdefgopqr", "hijklmnabcd", "opqrstuhijk"}, "ahocjqelsgnu", {}, {}};
  for (char dim = 'a'; dim <= 'u'; ++dim) hopeless.extents[dim] = 2;
  CHECK_FALSE(hopeless.plan().fits);
  CHECK_FALSE(best_of_all(Simulation(hopeless)).fits);
  int found = 0, none = 0;
  for (int round = 0; round < 600; ++round) {
    const int operands = draw.number(3, 8);
    Problem problem = draw.problem(operands, 24, 12);
    while (problem.to.size() < 12 && round % 2 == 0) {  // a result that needs as much as it can
      const char dim = static_cast<char>('a' + draw.number(0, 23));
      const auto has_it = [&](const std::string& operand) { return operand.find(dim) != std::string::npos; };
      if (!has_it(problem.to) && std::any_of(problem.operands.begin(), problem.operands.end(), has_it))
        problem.to += dim;
      if (std::all_of(problem.extents.begin(), problem.extents.end(), [&](const auto& known) {
            const auto has = [&](const std::string& text) { return text.find(known.first) != std::string::npos; };
            return has(problem.to) || std::none_of(problem.operands.begin(), problem.operands.end(), has);
          }))
        break;
    }
    for (auto& [dim, extent] : problem.extents) extent = draw.number(1, 3);
    problem.parts.clear();
    CAPTURE(describe(problem));
    const Order order = problem.plan();
    (void)measure(problem, order);
    if (order.fits) {
      found += problem.plan(mtf::einsum_order::as_written).fits ? 0 : 1;
    } else if (operands <= 5 || (operands == 6 && ++none < 10)) {
      none += operands <= 5 ? 1 : 0;
      CHECK_FALSE(best_of_all(Simulation(problem)).fits);
    }
  }
  CHECK(found > 20);
  CHECK(none > 20);
}

TEST_CASE("the work of huge dims is counted as far as it goes") {
  const std::int64_t large = std::int64_t{1} << 20;
  const Problem problem{{"ab", "bc", "ac", "abc"}, "a", {{'a', large}, {'b', large}, {'c', large}}, {}};
  const Order order = problem.plan();
  CHECK(order.multiply_adds > 0);
  CHECK(order.peak > 0);
}
