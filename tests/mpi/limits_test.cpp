// What is not undefined: integers that overflow, conversions to them, divisions by 0; and numbers that parameters of
// operations cannot be. With --sanitize the former also show that the compiler was promised nothing else.
#include <functional>
#include <limits>

#include "support.hpp"

using namespace support;

namespace {

// Exact results of 64-bit integers.
__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

struct P : mtf::Dim<"p", 8> {};
struct Q : mtf::Dim<"q", 8> {};

template <class T>
constexpr T least = std::numeric_limits<T>::min();
template <class T>
constexpr T most = std::numeric_limits<T>::max();

template <class T>
std::vector<T> ends() {
  return {least<T>, most<T>, static_cast<T>(least<T> + 1), static_cast<T>(most<T> - 1), 0, 1, -1, 12345};
}
/// The number modulo 2^bits.
template <class T>
T wrapped(Wide x) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(static_cast<UnsignedWide>(x)));
}

template <class T>
void check_integers(World& w) {
  const std::vector<T> all = ends<T>();
  std::vector<T> xs, ys;
  for (const T x : all) {
    for (const T y : all) {
      xs.push_back(x);
      ys.push_back(y);
    }
  }
  const auto x = mtf::from_global<T>(w, xs, P{}, Q{});
  const auto y = mtf::from_global<T>(w, ys, P{}, Q{});
  const auto two = [&](const char* name, const auto& z, Wide (*exact)(Wide, Wide)) {
    const auto values = mtf::to_host(z);
    for (std::size_t i = 0; i < xs.size(); ++i)
      CHECK_MESSAGE(values[i] == wrapped<T>(exact(xs[i], ys[i])), name, " of ", xs[i], " and ", ys[i]);
  };
  using I = Wide;
  two("+", x + y, [](I p, I q) { return p + q; });
  two("-", x - y, [](I p, I q) { return p - q; });
  two("*", x * y, [](I p, I q) { return p * q; });
  two("squared_difference", mtf::squared_difference(x, y), [](I p, I q) {
    const auto difference = static_cast<I>(wrapped<T>(p - q));
    return difference * difference;
  });
  two("negative", -x, [](I p, I) { return -p; });
  two("abs", mtf::abs(x), [](I p, I) { return p < 0 ? -p : p; });
  two("square", mtf::square(x), [](I p, I) { return p * p; });
  two("x + 1", x + 1, [](I p, I) { return p + 1; });
  two("x - 2", x - 2, [](I p, I) { return p - 2; });
  two("-3 - x", -3 - x, [](I p, I) { return -3 - p; });
  two("-7 x", -7 * x, [](I p, I) { return -7 * p; });
  two("add_n", mtf::add_n(x, y, x), [](I p, I q) { return p + q + p; });
  two("floor_divide", mtf::floor_divide(x, y), [](I p, I q) {
    if (q == 0) return I{0};
    return p / q - (p % q != 0 && (p < 0) != (q < 0) ? 1 : 0);
  });
  two("mod", mtf::mod(x, y), [](I p, I q) {
    if (q == 0) return I{0};
    const I rest = p % q;
    return rest != 0 && (rest < 0) != (q < 0) ? rest + q : rest;
  });
  two("maximum", mtf::maximum(x, y), [](I p, I q) { return p > q ? p : q; });
  two("clip", mtf::clip(x, -5, most<T>), [](I p, I) { return p < -5 ? I{-5} : p; });

  // Sums along a dim, split or not, and products: the same modulo 2^bits in any order.
  const auto sums = mtf::to_host(mtf::reduce_sum<Q>(y));
  const auto columns = mtf::to_host(mtf::reduce_sum<P>(x));
  const auto squares = mtf::to_host(mtf::reduce_sum<Q>(mtf::square(y)));
  const auto running = mtf::to_host(mtf::cumsum<Q>(y));
  const auto backwards = mtf::to_host(mtf::cumsum<P>(x, {.exclusive = true, .reverse = true}));
  const auto products = mtf::to_host(mtf::einsum<P>(x, y));
  for (std::size_t i = 0; i < 8; ++i) {
    I sum = 0, column = 0, square = 0, product = 0;
    for (std::size_t j = 0; j < 8; ++j) {
      sum += ys[i * 8 + j];
      column += xs[j * 8 + i];
      square += wrapped<T>(static_cast<I>(ys[i * 8 + j]) * ys[i * 8 + j]);
      product += wrapped<T>(static_cast<I>(xs[i * 8 + j]) * ys[i * 8 + j]);
      CHECK(running[i * 8 + j] == wrapped<T>(sum));
      I after = 0;
      for (std::size_t k = i + 1; k < 8; ++k) after += xs[k * 8 + j];
      CHECK(backwards[i * 8 + j] == wrapped<T>(after));
    }
    CHECK(sums[i] == wrapped<T>(sum));
    CHECK(columns[i] == wrapped<T>(column));
    CHECK(squares[i] == wrapped<T>(square));
    CHECK(products[i] == wrapped<T>(product));
  }

  // Ids and offsets of any size.
  const auto table = mtf::from_global<double>(w, Host{0, 1, 2, 3, 4, 5, 6, 7}, Q{});
  const auto ids = mtf::from_global<T>(w, all, P{});
  const Host found = host(mtf::gather<Q>(table, ids));
  const Host rows = host(mtf::one_hot<double>(ids, Q{}));
  const auto x_rows = mtf::from_global<double>(w, Host(64, 0.25), P{}, Q{});
  const Host losses = host(mtf::cross_entropy<Q>(x_rows, ids));
  const Host shifted = host(mtf::dynamic_shift<Q>(x_rows, ids, {.wrap = true}));
  const Host shifted_out = host(mtf::dynamic_shift<Q>(x_rows, ids));
  for (std::size_t i = 0; i < 8; ++i) {
    const bool inside = all[i] >= 0 && all[i] < 8;
    CHECK(found[i] == (inside ? static_cast<double>(all[i]) : 0));
    CHECK(losses[i] == doctest::Approx(inside ? std::log(8.0) : 0));
    for (std::size_t j = 0; j < 8; ++j) {
      CHECK(rows[i * 8 + j] == (inside && static_cast<std::size_t>(all[i]) == j ? 1 : 0));
      CHECK(shifted[i * 8 + j] == 0.25);
      const auto from = static_cast<Wide>(j) - all[i];
      CHECK(shifted_out[i * 8 + j] == (from >= 0 && from < 8 ? 0.25 : 0));
    }
  }
}

template <class To, class From>
void check_cast(World& w) {
  const double high = std::ldexp(1.0, std::numeric_limits<To>::digits);
  const auto at = [](double x) { return static_cast<From>(x); };
  const std::vector<From> xs{at(NAN),
                             at(HUGE_VAL),
                             at(-HUGE_VAL),
                             at(high),
                             at(-high),
                             std::nextafter(at(high), From(0)),
                             at(-2 * high),
                             std::nextafter(at(-high), From(-HUGE_VAL)),
                             at(2.75),
                             at(-2.75),
                             at(-0.0),
                             at(1e30),
                             at(-1e30),
                             std::numeric_limits<From>::denorm_min(),
                             std::numeric_limits<From>::max(),
                             std::numeric_limits<From>::lowest()};
  const auto got = mtf::to_host(mtf::cast<To>(mtf::from_global<From>(w, xs, mtf::Dim<"p", 16>{})));
  const auto inner = static_cast<To>(xs[5]);  // in range
  const std::vector<To> expected{0, most<To>, least<To>, most<To>, least<To>, inner, least<To>, least<To>,
                                 2, -2,       0,         most<To>, least<To>, 0,     most<To>,  least<To>};
  for (std::size_t i = 0; i < xs.size(); ++i) CHECK_MESSAGE(got[i] == expected[i], static_cast<double>(xs[i]));
}

constexpr bool constants_agree() {
  using mtf::detail::converted;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  bool good = converted<std::int32_t>(infinity) == most<std::int32_t> &&
              converted<std::int64_t>(-infinity) == least<std::int64_t> &&
              converted<std::int32_t>(std::numeric_limits<float>::quiet_NaN()) == 0 &&
              converted<std::int32_t>(-2.5F) == -2;
  good = good && mtf::functions::Add{}(most<std::int32_t>, 1) == least<std::int32_t>;
  good = good && mtf::functions::Multiply{}(least<std::int64_t>, std::int64_t{-1}) == least<std::int64_t>;
  return good && mtf::functions::FloorDivide{}(least<std::int32_t>, -1) == least<std::int32_t>;
}
static_assert(constants_agree());

/// A call that must be refused with this text, after "mtf: ", before anything is sent or registered.
struct Refused {
  std::function<void(double)> call;
  const char* start;      ///< of the message, operation and parameter
  const char* permitted;  ///< in it
  std::vector<double> values;
};

constexpr double infinity = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

}  // namespace

TEST_CASE("limits: integers wrap around") {
  for_each_layout({"", "p:rows", "q:cols", "p:rows;q:cols", "q:rows,cols"}, [](const Pair& pair) {
    check_integers<std::int32_t>(pair.world);
    check_integers<std::int64_t>(pair.world);
  });
}

TEST_CASE("limits: casts to integers saturate, NaN is 0") {
  for_each_layout({"", "p:rows"}, [](const Pair& pair) {
    check_cast<std::int32_t, float>(pair.world);
    check_cast<std::int32_t, double>(pair.world);
    check_cast<std::int64_t, float>(pair.world);
    check_cast<std::int64_t, double>(pair.world);
  });
  World w(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  const auto one = [&]<class To>(std::type_identity<To>, auto x) {
    return mtf::item(mtf::cast<To>(mtf::constant(w, x)));
  };
  CHECK(one(std::type_identity<std::int32_t>{}, (std::int64_t{5} << 32) + 7) == 7);
  CHECK(one(std::type_identity<std::int32_t>{}, most<std::int64_t>) == -1);
  CHECK(one(std::type_identity<float>{}, 1e300) == HUGE_VALF);
  CHECK(one(std::type_identity<float>{}, -1e300) == -HUGE_VALF);
  CHECK(std::isnan(one(std::type_identity<float>{}, not_a_number)));
  CHECK(one(std::type_identity<bool>{}, not_a_number));
  CHECK(one(std::type_identity<bool>{}, std::numeric_limits<double>::denorm_min()));
  CHECK(!one(std::type_identity<bool>{}, -0.0));
  CHECK(one(std::type_identity<std::int32_t>{}, mtf::bfloat16(3e38F)) == most<std::int32_t>);
  CHECK(one(std::type_identity<std::int64_t>{}, mtf::bfloat16(std::nanf(""))) == 0);
  CHECK(static_cast<float>(one(std::type_identity<mtf::bfloat16>{}, std::numeric_limits<float>::max())) == HUGE_VALF);
  CHECK(constants_agree());
}

TEST_CASE("limits: numbers that parameters cannot be are refused by name before anything happens") {
  for_each_layout({"", "a:rows;v:cols"}, [](const Pair& pair) {
    World& w = pair.world;
    using Float = float;
    const auto x = normal(w, 1, a, v);
    const auto targets = integers(w, 2, 0, 15, a);
    auto weight = mtf::variable<double>(w, "weight", mtf::init::zeros, v);
    const auto step = [&] { return mtf::gradients_of_variables(w, mtf::reduce_sum(x * weight)); };
    const auto gradients = step();
    const mtf::Key key = mtf::seed{1} / "k";
    const double nan = not_a_number;
    const std::vector<double> no_amount{-1, -1e-300, nan, infinity, -infinity};
    const std::vector<double> no_rate{-0.5, 1, 1.5, nan, infinity};
    const std::vector<double> no_share{-1e-9, 1.0000001, nan, infinity};
    const std::vector<double> not_finite{nan, infinity, -infinity};
    const auto model = [&](mtf::LanguageModelOptions options) {
      const mtf::LanguageModelDims dims{mtf::LanguageModelDims::Batch{8},  mtf::LanguageModelDims::Length{4},
                                        mtf::LanguageModelDims::Memory{4}, mtf::LanguageModelDims::Model{8},
                                        mtf::LanguageModelDims::Heads{2},  mtf::LanguageModelDims::Kv{4},
                                        mtf::LanguageModelDims::Ff{8},     mtf::LanguageModelDims::Vocab{16}};
      mtf::LanguageModel<World, double, mtf::LanguageModelDims>(w, dims, options, mtf::Scope{} / "model");
    };
    const std::vector<Refused> all{
        {[&](double p) { (void)mtf::dropout(x, p, key); }, "dropout: rate is ", "in [0, 1)", no_rate},
        {[&](double p) { (void)mtf::sample_with_temperature<V>(x, p, key); },
         "sample_with_temperature: temperature is ", "in [0, 1e30]", no_amount},
        {[&](double p) { (void)mtf::random_normal_of<Float>(w, key, p, 1, a); },
         "random_normal: mean is ",
         "finite",
         {nan, infinity, -infinity, 1e300}},
        {[&](double p) { (void)mtf::random_normal_of<double>(w, key, 0, p, a); }, "random_normal: stddev is ",
         "at least 0", no_amount},
        {[&](double p) { (void)mtf::random_truncated_normal_of<double>(w, key, 0, p, a); },
         "random_truncated_normal: stddev is ", "at least 0", no_amount},
        {[&](double p) { (void)mtf::random_uniform_of<double>(w, key, p, 1, a); }, "random_uniform: low is ", "finite",
         not_finite},
        {[&](double p) { (void)mtf::random_uniform_of<Float>(w, key, 0, p, a); },
         "random_uniform: high is ",
         "above low",
         {0, -1, nan, infinity, 1e300}},
        {[&](double p) { (void)mtf::random_uniform_of<double>(w, key, -1e308, p, a); },
         "random_uniform: high is ",
         "above low by a finite number",
         {1e308}},
        {[&](double p) { (void)mtf::variable<double>(w, "bad", mtf::init::normal(p), v); },
         "variable \"bad\": stddev is ", "at least 0", no_amount},
        {[&](double p) { (void)mtf::variable<double>(w, "bad", mtf::init::truncated_normal(p), v); },
         "variable \"bad\": stddev is ", "at least 0", no_amount},
        {[&](double p) { (void)mtf::variable<double>(w, "bad", mtf::init::uniform(1, p), v); },
         "variable \"bad\": high is ",
         "above low",
         {1, 0.5, nan, infinity}},
        {[&](double p) { (void)mtf::cross_entropy<V>(x, targets, {.label_smoothing = p}); },
         "cross_entropy: label_smoothing is ", "in [0, 1]", no_share},
        {[&](double p) { (void)mtf::cross_entropy<V>(x, targets, {.z_loss = p}); }, "cross_entropy: z_loss is ",
         "at least 0", no_amount},
        {[&](double p) { (void)mtf::leaky_relu(x, p); }, "leaky_relu: slope is ", "finite", not_finite},
        {[&](double p) { (void)mtf::clip(x, p, 3); }, "clip: low is ", "a number", {nan}},
        {[&](double p) { (void)mtf::clip(x, 3, p); }, "clip: high is ", "no less than low", {2.5, -infinity}},
        {[&](double p) { (void)mtf::clip(x, 3, p); }, "clip: high is ", "a number", {nan}},
        {[&](double p) { (void)mtf::clip_activation_gradient(x, p); }, "clip_activation_gradient: rms is ",
         "at least 0", no_amount},
        {[&](double p) { mtf::Sgd<World, double>(w, p); }, "sgd: momentum is ", "in [0, 1]", no_share},
        {[&](double p) { mtf::Sgd<World, double>(w, 0.9).apply(gradients, p); }, "sgd: rate is ", "at least 0",
         no_amount},
        {[&](double p) { mtf::Adam<World, double>(w, {.beta1 = p}); }, "adam: beta1 is ", "in [0, 1)", no_rate},
        {[&](double p) { mtf::Adam<World, double>(w, {.beta2 = p}); }, "adam: beta2 is ", "in [0, 1)", no_rate},
        {[&](double p) { mtf::Adam<World, double>(w, {.epsilon = p}); }, "adam: epsilon is ", "at least 0", no_amount},
        {[&](double p) { mtf::Adam<World, double>(w, {.weight_decay = p}); }, "adam: weight_decay is ", "at least 0",
         no_amount},
        {[&](double p) { mtf::Adam<World, double>(w).apply(gradients, p); }, "adam: rate is ", "at least 0", no_amount},
        {[&](double p) { (void)mtf::LinearSchedule{.peak = p}.rate({}); }, "LinearSchedule: peak is ", "at least 0",
         no_amount},
        {[&](double p) { (void)mtf::LinearSchedule{.peak = 1}.rate({.time_fraction = p}); },
         "LinearSchedule: time_fraction is ", "at least 0", no_amount},
        {[&](double p) { (void)mtf::LinearSchedule{.peak = 1, .warmup_steps = static_cast<std::int64_t>(p)}.rate({}); },
         "LinearSchedule: warmup_steps is ",
         "at least 0",
         {-1, -1e18}},
        {[&](double p) { model({.dropout = p}); }, "LanguageModel: dropout is ", "in [0, 1)", no_rate},
        {[&](double p) { model({.label_smoothing = p}); }, "LanguageModel: label_smoothing is ", "in [0, 1]", no_share},
        {[&](double p) { model({.z_loss = p}); }, "LanguageModel: z_loss is ", "at least 0", no_amount},
        {[&](double p) { model({.embedding_stddev = p}); }, "LanguageModel: embedding_stddev is ", "at least 0",
         no_amount},
        {[&](double p) { model({.output_scale = p}); }, "LanguageModel: output_scale is ", "at least 0", no_amount},
        {[&](double p) { model({.layers = static_cast<std::int64_t>(p)}); },
         "LanguageModel: layers is ",
         "at least 0",
         {-1}},
    };
    const Host before = host(weight);
    watch_collectives(w);
    for (const Refused& refused : all) {
      for (const double value : refused.values) {
        try {
          refused.call(value);
          FAIL_CHECK(refused.start, value, " was taken, ", pair.place);
        } catch (const mtf::plan_error& error) {
          const std::string text = error.what();
          CHECK_MESSAGE(text.starts_with(std::string("mtf: ") + refused.start + fmt::format("{}", value)), text);
          CHECK_MESSAGE(text.find(std::string("; it has to be ")) != std::string::npos, text);
          CHECK_MESSAGE(text.find(refused.permitted) != std::string::npos, text);
        }
      }
    }
    CHECK(w.records().empty());
    CHECK(host(weight) == before);
    // Nothing is left of what was refused: the paths are free, and the ends of the ranges are permitted.
    (void)mtf::variable<double>(w, "bad", mtf::init::normal(0), v);
    (void)mtf::dropout(x, 0, key);
    (void)mtf::sample_with_temperature<V>(x, 1e30, key);
    (void)mtf::cross_entropy<V>(x, targets, {.label_smoothing = 1});
    (void)mtf::clip(x, -infinity, infinity);
    CHECK(host(mtf::random_normal_of<double>(w, key, 2, 0, a)) == Host(8, 2.0));
    mtf::Sgd<World, double>(w, 1).apply(gradients, 0);
    mtf::Adam<World, double>(w, {.beta1 = 0, .epsilon = 1e-8}).apply(step(), 0);
    CHECK(host(weight) == before);
    model({.dropout = 0, .embedding_stddev = 0});
  });
}
