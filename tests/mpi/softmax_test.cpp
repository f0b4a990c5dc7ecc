// softmax and cross-entropy along split and unsplit dims: values, gradients, extreme inputs, reference values.
#include "support.hpp"

using namespace support;

namespace {

double log_sum_exp(const double* row, std::int64_t count) {
  double largest = -HUGE_VAL;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, row[i]);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(row[i] - largest);
  return largest + std::log(sum);
}

/// x[a, b] along b.
Host naive_softmax(const Host& x) {
  Host result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto begin = i / static_cast<std::size_t>(b.extent()) * static_cast<std::size_t>(b.extent());
    result[i] = std::exp(x[i] - log_sum_exp(&x[begin], b.extent()));
  }
  return result;
}
Host naive_logsumexp(const Host& x) {
  Host result;
  for (std::int64_t i = 0; i < a.extent(); ++i)
    result.push_back(log_sum_exp(&x[static_cast<std::size_t>(i * b.extent())], b.extent()));
  return result;
}
Host naive_log_softmax(const Host& x) {
  const Host rows = naive_logsumexp(x);
  Host result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) result[i] = x[i] - rows[i / static_cast<std::size_t>(b.extent())];
  return result;
}

/// logits[a, c, v], targets[a, c]: from the definition, sum over classes of -weight * log softmax.
Host naive_cross_entropy(const Host& logits, const Ids& targets, const mtf::CrossEntropyOptions& options) {
  const auto classes = static_cast<std::size_t>(v.extent());
  Host result;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const double log_z = log_sum_exp(&logits[row * classes], v.extent());
    double loss = options.z_loss * log_z * log_z;
    for (std::size_t i = 0; i < classes; ++i) {
      double weight = options.label_smoothing / static_cast<double>(classes);
      if (targets[row] == static_cast<std::int32_t>(i)) weight += 1 - options.label_smoothing;
      loss += weight * (log_z - logits[row * classes + i]);
    }
    result.push_back(loss);
  }
  return result;
}

}  // namespace

TEST_CASE("softmax, log_softmax and logsumexp under all layouts") {
  for_each_layout(
      {"", "a:rows", "b:rows", "b:cols", "a:rows;b:cols", "a:cols;b:rows", "b:rows,cols", "b:cols,rows", "a:rows,cols"},
      [](const Pair& pair) {
        const auto one = [](World& w) { return std::tuple(normal(w, 1, a, b)); };
        check_operation(pair, "softmax", one, [](World&, const auto& x) { return mtf::softmax<B>(x); }, naive_softmax);
        check_operation(
            pair, "log_softmax", one, [](World&, const auto& x) { return mtf::log_softmax<B>(x); }, naive_log_softmax);
        check_operation(
            pair, "logsumexp", one, [](World&, const auto& x) { return mtf::logsumexp<B>(x); }, naive_logsumexp);
        check_operation(
            pair, "softmax along the first dim", [](World& w) { return std::tuple(normal(w, 1, b, a)); },
            [](World&, const auto& x) { return mtf::einsum<A, B>(mtf::softmax<B>(x)); },
            [](const Host& x) {
              Host transposed(x.size());
              for (std::int64_t i = 0; i < std::ssize(x); ++i) {
                transposed[static_cast<std::size_t>(i % a.extent() * b.extent() + i / a.extent())] =
                    x[static_cast<std::size_t>(i)];
              }
              return naive_softmax(transposed);
            });
      });
}

TEST_CASE("softmax of a pending sum") {
  for_each_layout({"", "k:rows", "k:cols", "b:rows;k:cols", "a:cols;k:rows"}, [](const Pair& pair) {
    check_operation(
        pair, "softmax of an einsum", [](World& w) { return std::tuple(normal(w, 1, a, k), normal(w, 2, k, b)); },
        [](World&, const auto& x, const auto& y) { return mtf::softmax<B>(mtf::einsum<A, B>(x, y)); },
        [&](const Host& x, const Host& y) {
          Host logits(static_cast<std::size_t>(a.extent() * b.extent()));
          for (std::int64_t i = 0; i < std::ssize(logits); ++i) {
            for (std::int64_t l = 0; l < k.extent(); ++l) {
              logits[static_cast<std::size_t>(i)] += x[static_cast<std::size_t>(i / b.extent() * k.extent() + l)] *
                                                     y[static_cast<std::size_t>(l * b.extent() + i % b.extent())];
            }
          }
          return naive_softmax(logits);
        });
  });
}

TEST_CASE("numerics: huge logits and masked rows stay finite") {
  for_each_layout({"", "a:rows", "b:cols", "a:rows;b:cols", "b:rows,cols"}, [](const Pair& pair) {
    Host values = host(normal(pair.alone, 1, a, b));
    const auto at = [](std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(i * b.extent() + j); };
    for (std::int64_t j = 0; j < b.extent(); ++j) {
      values[at(0, j)] = 1e4 * values[at(0, j)];
      values[at(1, j)] = 1e300;
      values[at(2, j)] = -HUGE_VAL;
      values[at(3, j)] = -1e9;
      if (j % 3 != 0) values[at(4, j)] = -HUGE_VAL;
    }
    const auto run = [&](World& w) {
      const auto x = mtf::watch(mtf::from_global<double>(w, values, a, b));
      const auto y = mtf::softmax<B>(x);
      const auto [dx] = mtf::gradients(weighted_sum(y), x);
      const auto z = mtf::logsumexp<B>(x);
      const auto [dz] = mtf::gradients(weighted_sum(mtf::maximum(z, mtf::constant(w, -1e12, a))), x);
      return std::vector<Host>{host(y), host(dx), host(z), host(dz)};
    };
    const std::vector<Host> results = run(pair.world);
    const std::vector<Host> expected = run(pair.alone);
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
      check_close(results[i], expected[i], 1e-12, pair.place + ", result " + std::to_string(i));
      for (const double e : results[i]) CHECK(std::isfinite(e));
    }
    for (std::int64_t j = 0; j < b.extent(); ++j) {
      CHECK(results[0][at(1, j)] == doctest::Approx(1.0 / 16));
      CHECK(results[0][at(2, j)] == 0);
      CHECK(results[1][at(2, j)] == 0);
      CHECK(results[3][at(2, j)] == 0);
      CHECK(results[0][at(3, j)] == doctest::Approx(1.0 / 16));
      if (j % 3 != 0) CHECK(results[0][at(4, j)] == 0);
    }
    CHECK(results[2][2] == -HUGE_VAL);
    CHECK(results[2][1] == doctest::Approx(1e300));
    double sum = 0;
    for (std::int64_t j = 0; j < b.extent(); ++j) sum += results[0][at(4, j)];
    CHECK(sum == doctest::Approx(1.0));
  });
}

TEST_CASE("numerics: NaN in a row stays in that row") {
  for_each_layout({"", "b:rows", "a:cols;b:rows"}, [](const Pair& pair) {
    Host values = host(normal(pair.alone, 1, a, b));
    values[static_cast<std::size_t>(3 * b.extent() + 5)] = NAN;
    const Host result = host(mtf::softmax<B>(mtf::from_global<double>(pair.world, values, a, b)));
    for (std::int64_t i = 0; i < std::ssize(result); ++i)
      CHECK(std::isnan(result[static_cast<std::size_t>(i)]) == (i / b.extent() == 3));
  });
}

TEST_CASE("cross_entropy under all layouts, with targets outside the vocabulary") {
  for_each_layout(
      {"", "a:rows", "v:cols", "a:rows;v:cols", "c:rows;v:cols", "v:rows,cols", "a:cols;c:rows", "v:cols,rows"},
      [](const Pair& pair) {
        const auto logits = [](World& w) { return std::tuple(normal(w, 1, a, c, v)); };
        for (const mtf::CrossEntropyOptions& options :
             {mtf::CrossEntropyOptions{}, mtf::CrossEntropyOptions{.z_loss = 0.01},
              mtf::CrossEntropyOptions{.label_smoothing = 0.1},
              mtf::CrossEntropyOptions{.z_loss = 0.02, .label_smoothing = 0.3}}) {
          check_operation(
              pair,
              "cross_entropy z " + std::to_string(options.z_loss) + " s " + std::to_string(options.label_smoothing),
              logits,
              [&](World& w, const auto& x) { return mtf::cross_entropy<V>(x, integers(w, 2, -2, 17, a, c), options); },
              [&](const Host& x) {
                return naive_cross_entropy(x, mtf::to_host(integers(pair.alone, 2, -2, 17, a, c)), options);
              });
        }
        check_operation(
            pair, "targets in another order", logits,
            [&](World& w, const auto& x) {
              return mtf::cross_entropy<V>(x, mtf::einsum<C, A>(integers(w, 2, 0, 15, a, c)));
            },
            [&](const Host& x) {
              return naive_cross_entropy(x, mtf::to_host(integers(pair.alone, 2, 0, 15, a, c)), {});
            });
        check_operation(
            pair, "vocabulary first", [](World& w) { return std::tuple(normal(w, 1, v, a, c)); },
            [&](World& w, const auto& x) {
              return mtf::cross_entropy<V>(x, mtf::cast<std::int64_t>(integers(w, 2, -1, 16, a, c)));
            },
            [&](const Host& x) {
              Host transposed(x.size());
              const std::int64_t rows = a.extent() * c.extent();
              for (std::int64_t i = 0; i < std::ssize(x); ++i) {
                transposed[static_cast<std::size_t>(i % rows * v.extent() + i / rows)] = x[static_cast<std::size_t>(i)];
              }
              return naive_cross_entropy(transposed, mtf::to_host(integers(pair.alone, 2, -1, 16, a, c)), {});
            });
      });
}

TEST_CASE("cross_entropy has the reference's values") {
  const A rows{2};
  const V classes{4};
  const auto run = [&](World& w) {
    const auto x = mtf::watch(mtf::from_global<double>(w, Host{1, 2, 3, 4, 0, 0, 0, 10}, rows, classes));
    const auto targets = mtf::from_global<std::int32_t>(w, Ids{2, 3}, rows);
    const auto plain = mtf::cross_entropy<V>(x, targets);
    const auto with_z = mtf::cross_entropy<V>(x, targets, {.z_loss = 1e-4});
    const auto [dx] = mtf::gradients(mtf::reduce_sum(with_z), x);
    check_close(host(plain), {1.440189699, 0.000136191}, 1e-8, "loss");
    check_close(host(with_z), {1.442161227, 0.010136463}, 1e-8, "loss with z");
    check_close(host(dx),
                {0.032087073, 0.087221706, -0.762906821, 0.64448608, 4.5485e-5, 4.5485e-5, 4.5485e-5, 0.001863574},
                1e-8, "gradient");
    check_close(host(mtf::softmax<V>(mtf::from_global<double>(w, Host{1, 2, 3, 4}, classes))),
                {.032058603, .087144319, .236882818, .64391426}, 1e-8, "softmax");
  };
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  run(alone);
  if (ranks() > 4) return;
  for (const std::string& mesh : meshes()) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = "v:rows,cols"});
    run(world);
  }
}

TEST_CASE("numerics: cross_entropy of masked and huge logits is finite") {
  for_each_layout({"", "v:cols", "a:rows;v:cols"}, [](const Pair& pair) {
    const auto run = [](World& w) {
      Host values = host(normal(w, 1, a, v));
      for (std::size_t j = 0; j < 16; ++j) {
        values[j] *= 1e5;
        if (j % 2 == 1) values[16 + j] = -HUGE_VAL;  // classes that are switched off
      }
      const auto x = mtf::watch(mtf::from_global<double>(w, values, a, v));
      const auto targets = mtf::from_global<std::int32_t>(w, Ids{3, 4, 1, 2, 15, 0, 7, 8}, a);
      const auto loss = mtf::cross_entropy<V>(x, targets);
      const auto [dx] = mtf::gradients(weighted_sum(loss), x);
      return std::vector<Host>{host(loss), host(dx)};
    };
    const std::vector<Host> results = run(pair.world);
    const std::vector<Host> expected = run(pair.alone);
    for (std::size_t i = 0; i < 2; ++i) {
      check_close(results[i], expected[i], 1e-12, pair.place);
      for (const double e : results[i]) CHECK(std::isfinite(e));
    }
  });
}

TEST_CASE("targets of cross_entropy that do not fit the logits are errors by dims and extents") {
  World w(MPI_COMM_WORLD, {.mesh = mesh_text(1, ranks())});
  const auto logits = normal(w, 1, A{4}, v);
  for (const std::int64_t rows : {3, 5}) {
    CHECK_THROWS_WITH_AS(
        mtf::cross_entropy<V>(logits, integers(w, 2, 0, 15, A{rows})),
        doctest::Contains(
            fmt::format("\": dim \"a\" has extents 4 and {}: one dim name has two extents", rows).c_str()),
        mtf::plan_error);
  }
  CHECK(host(mtf::cross_entropy<V>(logits, integers(w, 2, 0, 15, A{4}))).size() == 4);
}
