// rename, reshape and gather: the same global array under every pair of placements, and lookups in split tables.
#include <algorithm>
#include <random>
#include <set>

#include "support.hpp"

using namespace support;

namespace {

const A eight{8};

mtf::Array array_of(World& world, const Host& elements, const mtf::ShapeValue& shape) {
  auto value = mtf::new_value(world.engine(), "test", shape, mtf::ElementType::float64);
  world.engine().write<double>(*value->block, value->placement,
                               [&](std::int64_t i) { return elements[static_cast<std::size_t>(i)]; });
  return {value, {}};
}
Host host_of(World& world, const mtf::Array& x) {
  return mtf::detail::gather_to_host<double>(world.engine(), *x.value);
}

mtf::ShapeValue shape_of(std::initializer_list<mtf::DimValue> dims) {
  mtf::ShapeValue shape;
  for (const mtf::DimValue& dim : dims) shape.push_back(dim);
  return shape;
}

/// The axes of more than one processor that split the dims, by position: two placements that agree here need no
/// communication.
mtf::AxisSet moving_axes(const World& world, const mtf::ShapeValue& shape) {
  mtf::AxisSet axes = mtf::place(world.engine().rules, shape).split_axes();
  for (int i = 0; i < world.mesh().rank(); ++i) {
    if (world.mesh().axes[i].size == 1) axes = axes - mtf::AxisSet::of(i);
  }
  return axes;
}

/// The global offsets that the processor at `at` holds.
std::set<std::int64_t> held_by(const World& world, const mtf::ShapeValue& shape, const mtf::Coordinates& at) {
  const mtf::Placement placement = mtf::place(world.engine().rules, shape);
  std::set<std::int64_t> held;
  for (std::int64_t element = 0; element < placement.size(); ++element) {
    std::int64_t rest = element;
    bool has = true;
    for (int d = placement.rank() - 1; d >= 0; --d) {
      const mtf::PlacedDim& dim = placement.dims[d];
      const std::int64_t begin = mtf::slice_begin(dim, world.mesh(), at);
      has = has && rest % dim.extent >= begin && rest % dim.extent < begin + dim.local();
      rest /= dim.extent;
    }
    if (has) held.insert(element);
  }
  return held;
}
/// Elements of `to` that the ranks lack, all together.
std::int64_t lacking(const World& world, const mtf::ShapeValue& from, const mtf::ShapeValue& to) {
  std::int64_t sum = 0;
  for (std::int64_t rank = 0; rank < world.mesh().size(); ++rank) {
    const std::set<std::int64_t> had = held_by(world, from, world.mesh().coordinates(rank));
    for (const std::int64_t element : held_by(world, to, world.mesh().coordinates(rank)))
      sum += had.contains(element) ? 0 : 1;
  }
  return sum;
}
/// Elements of double that all ranks have sent since the records were cleared.
std::int64_t sent_by_all(const World& world) {
  double elements = 0;
  for (const mtf::Record& record : world.records()) elements += record.wire_bytes / sizeof(double);
  MPI_Allreduce(MPI_IN_PLACE, &elements, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return std::llround(elements);
}

struct P : mtf::Dim<"p"> {};
struct Q : mtf::Dim<"q"> {};

}  // namespace

TEST_CASE("reshape, resharding: a reshape between any two placements keeps the global array") {
  // A dim's name says what splits it: n nothing, r rows, c cols, rc both with rows major.
  constexpr std::string_view layout = "r:rows;R:rows;c:cols;C:cols;rc:rows,cols;RC:rows,cols;cr:cols,rows;CR:cols,rows";
  const std::vector<std::string_view> firsts{"n", "r", "c", "rc", "cr"};
  const std::vector<std::string_view> seconds{"N", "R", "C", "RC", "CR"};
  const Host elements = [] {
    World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
    return host(normal(alone, 1, eight, b));
  }();
  for (const std::string& mesh : meshes()) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
    std::vector<mtf::ShapeValue> shapes;
    for (const std::string_view first : firsts) {
      for (const std::string_view second : seconds) shapes.push_back(shape_of({{first, 8}, {second, 16}}));
    }
    std::erase_if(shapes, [&](const mtf::ShapeValue& shape) { return !legal(world, shape); });
    int wrong = 0;
    for (const mtf::ShapeValue& from : shapes) {
      for (const mtf::ShapeValue& to : shapes) {
        const mtf::Array x = array_of(world, elements, from);
        watch_collectives(world);
        const mtf::Array y = mtf::untyped::reshape(x, to, "reshape");
        // Nothing that every axis allows to be local is sent; several allgathers follow each other, anything else is
        // one collective.
        std::vector<mtf::Collective> trace;
        for (const mtf::Record& record : world.records()) {
          if (record.is_collective) trace.push_back(record.collective);
        }
        const bool gathers = std::all_of(trace.begin(), trace.end(),
                                         [](mtf::Collective kind) { return kind == mtf::Collective::all_gather; });
        if (trace.size() > 1 && !gathers) ++wrong;
        if (moving_axes(world, from).empty() && !trace.empty()) ++wrong;
        CHECK_MESSAGE(host_of(world, y) == elements, mesh, " from ", mtf::describe(from), " to ", mtf::describe(to));
        CHECK(host_of(world, x) == elements);
      }
    }
    CHECK_MESSAGE(wrong == 0, "reshapes with more collectives than they need, mesh ", mesh);
    CHECK(world.verify_replicas());
  }
}

TEST_CASE("reshapes that join and cut dims") {
  const Host elements = [] {
    World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
    return host(normal(alone, 1, A{128}));
  }();
  for (const std::string& mesh : meshes()) {
    for (const std::string_view layout : {"", "a:rows", "a:rows;b:cols", "a:rows,cols", "a:cols;c:rows",
                                          "a:rows;c:rows", "b:rows;c:cols", "c:rows,cols"}) {
      World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = layout});
      const std::vector<mtf::ShapeValue> shapes{shape_of({{"a", 128}}),
                                                shape_of({{"a", 16}, {"b", 8}}),
                                                shape_of({{"c", 8}, {"d", 16}}),
                                                shape_of({{"c", 64}, {"b", 2}}),
                                                shape_of({{"d", 8}, {"b", 8}, {"e", 2}}),
                                                shape_of({{"a", 8}, {"d", 1}, {"b", 16}})};
      for (const mtf::ShapeValue& from : shapes) {
        for (const mtf::ShapeValue& to : shapes) {
          if (!legal(world, from) || !legal(world, to)) continue;
          const mtf::Array x = array_of(world, elements, from);
          const mtf::Array y = mtf::untyped::reshape(x, to, "reshape");
          CHECK_MESSAGE(host_of(world, y) == elements, mesh, ", ", layout, " from ", mtf::describe(from), " to ",
                        mtf::describe(to));
        }
      }
    }
  }
}

TEST_CASE("reshapes have the reference's values") {
  if (ranks() != 2) return;
  Host elements(16);
  for (std::size_t i = 0; i < 16; ++i) elements[i] = static_cast<double>(i);
  const auto run = [&](std::string_view layout, const mtf::ShapeValue& from, const mtf::ShapeValue& to) {
    World world(MPI_COMM_WORLD, {.mesh = "p:2", .layout = layout});
    const Host part(elements.begin(), elements.begin() + mtf::size_of(from));
    const mtf::Array x = array_of(world, part, from);
    watch_collectives(world);
    const mtf::Array y = mtf::untyped::reshape(x, to, "reshape");
    const std::string sent = joined(collectives(world));
    Host slice(static_cast<std::size_t>(y.value->placement.local_size()));
    world.engine().read(*y.value->block, slice.data());
    CHECK(host_of(world, y) == part);
    return std::pair(sent, slice);
  };
  CHECK(run("a:p", shape_of({{"a", 4}, {"b", 4}}), shape_of({{"au", 4}, {"b", 4}})).first == "allgather over p of 16");
  const auto [sent, slice] = run("a:p;c:p", shape_of({{"a", 4}, {"b", 4}}), shape_of({{"a2", 4}, {"c", 4}}));
  CHECK(sent == "all-to-all over p of 8");
  if (rank_of_process() == 0) CHECK(slice == Host{0, 1, 4, 5, 8, 9, 12, 13});
  CHECK(run("a:p;c:p", shape_of({{"a", 4}, {"b", 4}}), shape_of({{"c", 4}, {"b", 4}})).first.empty());
  CHECK(run("a:p;c:p", shape_of({{"a", 4}, {"b", 4}}), shape_of({{"c", 2}, {"d", 8}})).first.empty());
  CHECK(run("a:p", shape_of({{"a", 4}, {"b", 3}}), shape_of({{"a", 12}})).first.empty());
}

TEST_CASE("reshape, resharding: two axes trade places in one exchange of what moves") {
  if (ranks() != 4) return;
  World world(MPI_COMM_WORLD, {.mesh = "p:2;q:2", .layout = "a:p;b:q;x:q;y:p"});
  Host elements(16);
  for (std::size_t i = 0; i < 16; ++i) elements[i] = static_cast<double>(i);
  const mtf::Array x = array_of(world, elements, shape_of({{"a", 4}, {"b", 4}}));
  watch_collectives(world);
  const mtf::Array y = mtf::untyped::reshape(x, shape_of({{"x", 4}, {"y", 4}}), "reshape");
  CHECK(joined(collectives(world)) == "exchange over p,q of 4");
  // The ranks on the diagonal have their slice already, the two others swap theirs.
  const bool diagonal = world.coordinates()[0] == world.coordinates()[1];
  CHECK(world.totals("p", "q").wire_bytes == (diagonal ? 0.0 : 4 * sizeof(double)));
  CHECK(host_of(world, y) == elements);
  CHECK_THROWS_WITH_AS(static_cast<void>(mtf::untyped::reshape(x, shape_of({{"x", 4}, {"y", 8}}), "reshape")),
                       doctest::Contains("sizes differ"), mtf::plan_error);
  CHECK(world.verify_replicas());
}

TEST_CASE(
    "reshape, resharding: 8 of 12 elements are lacked where [c:3, a:4] with a split becomes [m:12] with m split") {
  if (ranks() != 4) return;
  World world(MPI_COMM_WORLD, {.mesh = "p:4", .layout = "a:p;m:p"});
  Host elements(12);
  for (std::size_t i = 0; i < 12; ++i) elements[i] = static_cast<double>(i) * 0.5;
  const mtf::Array x = array_of(world, elements, shape_of({{"c", 3}, {"a", 4}}));
  watch_collectives(world);
  const mtf::Array y = mtf::untyped::reshape(x, shape_of({{"m", 12}}), "reshape");
  CHECK(joined(collectives(world)) == "exchange over p of 3");
  CHECK(sent_by_all(world) == 8);
  CHECK(host_of(world, y) == elements);
  watch_collectives(world);
  const mtf::Array back = mtf::untyped::reshape(y, shape_of({{"c", 3}, {"a", 4}}), "reshape");
  CHECK(sent_by_all(world) == 8);
  CHECK(host_of(world, back) == elements);
}

TEST_CASE("reshape, resharding: what is lacked is sent, and no more, also without common factors") {
  std::mt19937 random(41);
  const auto draw = [&](int below) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(below)); };
  int cases = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<std::int64_t> sizes{1, 1, 1};
    std::int64_t rest = ranks();
    for (std::size_t axis = 0; axis < 2; ++axis) {
      sizes[axis] = 1 + draw(static_cast<int>(rest));
      while (rest % sizes[axis] != 0) --sizes[axis];
      rest /= sizes[axis];
    }
    sizes[2] = rest;
    std::shuffle(sizes.begin(), sizes.end(), random);
    const std::string mesh =
        "p:" + std::to_string(sizes[0]) + ";q:" + std::to_string(sizes[1]) + ";r:" + std::to_string(sizes[2]);
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = "a:p;b:q;c:r;d:q,p;e:r,q;f:p,r,q;g:r;h:p"});
    const std::int64_t size = std::vector<std::int64_t>{72, 144, 180, 240, 360}[static_cast<std::size_t>(draw(5))];
    const auto shape = [&] {
      std::vector<std::int64_t> extents{1, 1};
      for (std::int64_t& extent : extents) {
        extent = 1 + draw(12);
        while (size / (extent == extents[0] ? 1 : extents[0]) % extent != 0) --extent;
      }
      while (size % (extents[0] * extents[1]) != 0) --extents[1];
      extents.push_back(size / (extents[0] * extents[1]));
      std::shuffle(extents.begin(), extents.end(), random);
      std::vector<std::string_view> names{"a", "b", "c", "d", "e", "f", "g", "h", "n", "o", "x"};
      std::shuffle(names.begin(), names.end(), random);
      return shape_of({{names[0], extents[0]}, {names[1], extents[1]}, {names[2], extents[2]}});
    };
    Host elements(static_cast<std::size_t>(size));
    for (double& x : elements) x = static_cast<double>(random());
    for (int pair = 0; pair < 12; ++pair) {
      mtf::ShapeValue from = shape();
      mtf::ShapeValue to = shape();
      for (int tries = 0; tries < 50 && !legal(world, from); ++tries) from = shape();
      for (int tries = 0; tries < 50 && !legal(world, to); ++tries) to = shape();
      if (!legal(world, from) || !legal(world, to)) continue;
      ++cases;
      CAPTURE(mesh);
      CAPTURE(mtf::describe(from));
      CAPTURE(mtf::describe(to));
      const mtf::Array x = array_of(world, elements, from);
      watch_collectives(world);
      const mtf::Array y = mtf::untyped::reshape(x, to, "reshape");
      CHECK(sent_by_all(world) == lacking(world, from, to));
      CHECK(host_of(world, y) == elements);
    }
    CHECK(world.verify_replicas());
  }
  CHECK(cases > 200);
}

TEST_CASE("reshape, resharding: reshapes without common factors have gradients, and take pending sums") {
  const mtf::Dim<"c"> six{6};
  const mtf::Dim<"d"> four{4};
  const mtf::Dim<"v"> eight_rows{8};
  const mtf::Dim<"w"> three{3};
  const mtf::Dim<"k"> terms{4};
  const auto same = [](const Host& x) { return x; };
  for_each_layout(
      {"", "d:rows;v:cols", "d:cols;v:rows", "d:rows,cols;v:rows", "c:rows;v:cols,rows", "k:rows;v:cols;d:cols"},
      [&](const Pair& pair) {
        for (const mtf::ShapeValue& dims : {shape_of({{"c", 6}, {"d", 4}}), shape_of({{"v", 8}, {"w", 3}}),
                                            shape_of({{"c", 6}, {"d", 4}, {"k", 4}})}) {
          if (!legal(pair.world, dims)) return;
        }
        check_operation(
            pair, "reshape", [&](World& w) { return std::tuple(normal(w, 1, six, four)); },
            [&](World&, const auto& x) { return mtf::reshape(x, eight_rows, three); }, same, {.unites = false});
        const auto sum = [&](World& w) {
          return host(mtf::reshape(
              mtf::einsum<mtf::Dim<"c">, mtf::Dim<"d">>(normal(w, 2, six, terms), normal(w, 3, terms, four)),
              eight_rows, three));
        };
        check_close(sum(pair.world), sum(pair.alone), 1e-12, pair.place);
      });
}

TEST_CASE("reshape, resharding: rename and reshape have gradients under all layouts") {
  const auto same = [](const Host& x) { return x; };
  const P p{8};
  const Q q{16};
  for_each_layout(
      {"", "a:rows", "p:rows", "a:rows;p:rows", "a:rows;q:rows", "b:cols;q:cols", "a:rows;b:cols", "p:rows;q:cols",
       "a:cols,rows", "p:rows,cols", "a:rows;p:rows;b:cols", "a:rows;p:rows;b:cols;q:cols"},
      [&](const Pair& pair) {
        const auto one = [](World& w) { return std::tuple(normal(w, 1, eight, b)); };
        const CheckOptions alone{.unites = false};
        check_operation(
            pair, "rename first", one, [](World&, const auto& x) { return mtf::rename<A, P>(x); }, same, alone);
        check_operation(
            pair, "rename second", one, [](World&, const auto& x) { return mtf::rename<B, Q>(x); }, same, alone);
        check_operation(
            pair, "rename to a dim of static extent", one,
            [](World&, const auto& x) { return mtf::rename<B, mtf::Dim<"q", 16>>(x); }, same, alone);
        check_operation(
            pair, "reshape", one, [&](World&, const auto& x) { return mtf::reshape(x, p, q); }, same, alone);
        check_operation(
            pair, "chain", one,
            [&](World&, const auto& x) { return mtf::square(mtf::rename<P, A>(mtf::rename<A, P>(x) * 3.0)); },
            [](const Host& x) {
              Host result = x;
              for (double& r : result) r = 9 * r * r;
              return result;
            },
            alone);
        // A pending sum goes through the rename: a slice of it is a reduce-scatter.
        check_operation(
            pair, "rename of a sum", [](World& w) { return std::tuple(normal(w, 2, eight, k), normal(w, 3, k, b)); },
            [](World&, const auto& x, const auto& y) { return mtf::rename<A, P>(mtf::einsum<A, B>(x, y)); },
            [](const Host& x, const Host& y) {
              Host result(static_cast<std::size_t>(eight.extent() * b.extent()));
              for (std::int64_t i = 0; i < std::ssize(result); ++i) {
                for (std::int64_t l = 0; l < k.extent(); ++l) {
                  result[static_cast<std::size_t>(i)] += x[static_cast<std::size_t>(i / b.extent() * k.extent() + l)] *
                                                         y[static_cast<std::size_t>(l * b.extent() + i % b.extent())];
                }
              }
              return result;
            },
            alone);
      });
}

TEST_CASE("reshapes by exchange have gradients") {
  const P p{8};
  const Q q{16};
  for_each_layout({"a:rows;b:cols;p:cols;q:rows", "a:rows,cols;p:cols,rows", "a:rows,cols;q:rows;p:cols",
                   "a:rows;b:cols;q:rows,cols"},
                  [&](const Pair& pair) {
                    check_operation(
                        pair, "reshape", [](World& w) { return std::tuple(normal(w, 1, eight, b)); },
                        [&](World&, const auto& x) { return mtf::reshape(x, p, q); }, [](const Host& x) { return x; },
                        {.unites = false});
                  });
}

TEST_CASE("a gradient that is scattered on one path is whole on the others") {
  // dh is pending over the axis of k; the rename's gradient takes a slice of it, the scaling needs all.
  as_on_one_rank({"", "a:rows;k:rows", "a:cols;k:cols", "a:rows,cols;k:cols"}, 1e-12, [](World& w) {
    const P p{8};
    const auto x = mtf::watch(normal(w, 1, eight));
    const auto y = mtf::watch(normal(w, 2, p));
    const auto weights = normal(w, 3, p, k);
    std::vector<Host> results;
    for (const bool spread : {false, true}) {
      const Tensor<P> scaled = spread ? mtf::reduce_mean<K>(mtf::broadcast(y, k)) : y * 2.0;
      const auto h = scaled + mtf::rename<A, P>(x);
      const auto [dx, dy] = mtf::gradients(mtf::reduce_sum(mtf::square(mtf::einsum<K>(h, weights))), x, y);
      results.push_back(host(dx));
      results.push_back(host(dy));
    }
    return results;
  });
}

TEST_CASE("gather looks up split tables; ids outside give zeros") {
  const auto rows_of = [](const Host& table, const std::vector<std::int32_t>& ids, std::int64_t width) {
    Host result;
    for (const std::int32_t id : ids) {
      for (std::int64_t j = 0; j < width; ++j) {
        result.push_back(id >= 0 && id * width < std::ssize(table) ? table[static_cast<std::size_t>(id * width + j)]
                                                                   : 0.0);
      }
    }
    return result;
  };
  for_each_layout(
      {"", "v:rows", "v:rows,cols", "a:rows;v:cols", "a:rows;c:cols", "c:cols;v:rows", "a:rows,cols", "b:cols;v:rows"},
      [&](const Pair& pair) {
        const auto ids_of = [](World& w) { return integers(w, 1, -3, 18, a, b); };
        check_operation(
            pair, "embedding", [](World& w) { return std::tuple(normal(w, 2, v, c)); },
            [&](World& w, const auto& table) { return mtf::gather<V>(table, ids_of(w)); },
            [&](const Host& table) { return rows_of(table, mtf::to_host(ids_of(pair.alone)), c.extent()); });
        check_operation(
            pair, "int64 ids, vocabulary last", [](World& w) { return std::tuple(normal(w, 2, c, v)); },
            [&](World& w, const auto& table) { return mtf::gather<V>(table, mtf::cast<std::int64_t>(ids_of(w))); },
            [&](const Host& table) {
              Host transposed(table.size());
              for (std::int64_t i = 0; i < c.extent(); ++i) {
                for (std::int64_t j = 0; j < v.extent(); ++j)
                  transposed[static_cast<std::size_t>(j * c.extent() + i)] =
                      table[static_cast<std::size_t>(i * v.extent() + j)];
              }
              return rows_of(transposed, mtf::to_host(ids_of(pair.alone)), c.extent());
            });
        check_operation(
            pair, "batched", [](World& w) { return std::tuple(normal(w, 2, a, v)); },
            [&](World& w, const auto& table) { return mtf::gather<V>(table, ids_of(w)); },
            [&](const Host& table) {
              const auto ids = mtf::to_host(ids_of(pair.alone));
              Host result;
              for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
                const std::int32_t id = ids[static_cast<std::size_t>(i)];
                result.push_back(id >= 0 && id < v.extent()
                                     ? table[static_cast<std::size_t>(i / b.extent() * v.extent() + id)]
                                     : 0.0);
              }
              return result;
            });
        check_operation(
            pair, "one id", [](World& w) { return std::tuple(normal(w, 2, v, c)); },
            [&](World& w, const auto& table) { return mtf::gather<V>(table, mtf::constant<std::int32_t>(w, 11)); },
            [&](const Host& table) { return rows_of(table, {11}, c.extent()); });
        const auto numbers = [&](World& w) {
          return mtf::to_host(mtf::gather<V>(integers(w, 3, -99, 99, v), integers(w, 1, -3, 18, c)));
        };
        CHECK(numbers(pair.world) == numbers(pair.alone));
      });
}

TEST_CASE("gather has the reference's values") {
  const auto run = [](World& w) {
    const V four{4};
    const auto table = mtf::from_global<double>(w, Host{1, 2, 3, 4, 5, 6, 7, 8}, four, C{2});
    return host(mtf::gather<V>(table, mtf::from_global<std::int32_t>(w, Ids{0, 3, -1, 9}, A{4})));
  };
  const Host expected{1, 2, 7, 8, 0, 0, 0, 0};
  World alone(MPI_COMM_SELF, {.mesh = "rows:1;cols:1"});
  CHECK(run(alone) == expected);
  if (ranks() > 4) return;
  for (const std::string& mesh : meshes()) {
    World world(MPI_COMM_WORLD, {.mesh = mesh, .layout = "v:rows,cols"});
    CHECK(run(world) == expected);
  }
}
