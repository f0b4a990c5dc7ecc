// Plans of loops: collapsing, copies, packing, reductions, executed by naive loops.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mtf/plan/loop.hpp>

namespace {

using Offsets = std::vector<std::vector<std::int64_t>>;

/// The offsets of all operands, iteration by iteration.
Offsets walk(const mtf::Loop& loop) {
  Offsets result;
  for (std::int64_t i = 0; i < loop.size(); ++i) {
    std::vector<std::int64_t> at(static_cast<std::size_t>(loop.operands));
    std::int64_t rest = i;
    for (int d = loop.dims.size() - 1; d >= 0; --d) {
      for (int o = 0; o < loop.operands; ++o)
        at[static_cast<std::size_t>(o)] += rest % loop.dims[d].extent * loop.dims[d].strides[o];
      rest /= loop.dims[d].extent;
    }
    result.push_back(at);
  }
  return result;
}

std::vector<int> iota(std::int64_t count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

std::vector<int> run(const mtf::CopyPlan& plan, const std::vector<int>& in, std::size_t out_size) {
  std::vector<int> out(out_size, -1);
  for (const auto& at : walk(plan.loop)) {
    out[static_cast<std::size_t>(at[0] + plan.out_offset)] = in[static_cast<std::size_t>(at[1] + plan.in_offset)];
  }
  return out;
}

const std::vector<std::string> names{"a", "b", "c", "d", "e"};

/// Some of the dims, row-major, in a random order.
mtf::StridedShape draw(std::mt19937& random, const std::vector<std::int64_t>& extents, std::size_t rank) {
  std::vector<std::size_t> order(extents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  mtf::StridedShape shape;
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < rank; ++i) shape.push_back({mtf::Name(names[order[i]]), extents[order[i]], 1});
  for (int i = shape.size() - 1; i >= 0; --i) {
    shape[i].stride = stride;
    stride *= shape[i].extent;
  }
  return shape;
}
std::int64_t size_of(const mtf::StridedShape& shape) {
  std::int64_t product = 1;
  for (const mtf::StridedDim& dim : shape) product *= dim.extent;
  return product;
}

constexpr bool collapses_a_matrix() {
  mtf::Loop loop;
  loop.operands = 2;
  loop.dims.push_back({3, {8, 4}});
  loop.dims.push_back({1, {100, 100}});
  loop.dims.push_back({4, {2, 1}});
  loop.dims.push_back({2, {1, 0}});
  const mtf::Loop result = mtf::collapse(loop);
  return result.dims.size() == 2 && result.dims[0].extent == 12 && result.dims[0].strides[0] == 2 &&
         result.dims[0].strides[1] == 1 && result.dims[1].extent == 2 && result.dims[1].strides[1] == 0;
}
static_assert(collapses_a_matrix());

}  // namespace

TEST_CASE("neighbouring dims that all operands walk through as one are joined") { CHECK(collapses_a_matrix()); }

TEST_CASE("collapsing keeps the walk") {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    mtf::Loop loop;
    loop.operands = 1 + round % 4;
    for (int d = 0; d < round % 6; ++d) {
      mtf::LoopDim dim;
      dim.extent = 1 + static_cast<std::int64_t>(random() % 3);
      for (int o = 0; o < loop.operands; ++o) dim.strides[o] = static_cast<std::int64_t>(random() % 4);
      loop.dims.push_back(dim);
    }
    const mtf::Loop collapsed = mtf::collapse(loop);
    CHECK(collapsed.size() == loop.size());
    CHECK(walk(collapsed) == walk(loop));
    for (const mtf::LoopDim& dim : collapsed.dims) CHECK(dim.extent > 1);
  }
}

TEST_CASE("a copy moves every element to its place by name") {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::int64_t> extents{2, 1, 3, 2, 4};
    const std::size_t rank = static_cast<std::size_t>(round) % 6;
    const mtf::StridedShape out = draw(random, extents, rank);
    mtf::StridedShape in = out;
    // A permutation of the same dims; the last one may be missing, which broadcasts.
    std::shuffle(in.begin(), in.end(), random);
    if (round % 3 == 0 && !in.empty()) in.erase(in.size() - 1);
    std::int64_t stride = 1;
    for (int i = in.size() - 1; i >= 0; --i) {
      in[i].stride = stride;
      stride *= in[i].extent;
    }
    const std::vector<int> from = iota(size_of(in));
    const std::vector<int> to = run(mtf::plan_copy(out, in), from, static_cast<std::size_t>(size_of(out)));
    bool right = true;
    for (std::int64_t i = 0; i < size_of(out); ++i) {
      std::int64_t at = 0;
      for (const mtf::StridedDim& dim : out) at += i / dim.stride % dim.extent * mtf::stride_of(in, dim.name);
      right = right && to[static_cast<std::size_t>(i)] == from[static_cast<std::size_t>(at)];
    }
    CHECK(right);
  }
}

TEST_CASE("packing gathers the part of each member, unpacking is its inverse") {
  for (const std::int64_t outer : {1, 2, 5}) {
    for (const std::int64_t parts : {1, 2, 3, 8}) {
      for (const std::int64_t inner : {1, 4, 7}) {
        const std::vector<int> in = iota(outer * parts * inner);
        const std::vector<int> packed = run(mtf::plan_pack(outer, parts, inner), in, in.size());
        bool right = true;
        for (std::int64_t p = 0; p < parts; ++p) {
          for (std::int64_t o = 0; o < outer; ++o) {
            for (std::int64_t i = 0; i < inner; ++i) {
              right = right && packed[static_cast<std::size_t>((p * outer + o) * inner + i)] ==
                                   in[static_cast<std::size_t>((o * parts + p) * inner + i)];
            }
          }
        }
        CHECK(right);
        CHECK(run(mtf::plan_unpack(outer, parts, inner), packed, in.size()) == in);
      }
    }
  }
}

TEST_CASE("a reduction meets every element once, at its output") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::int64_t> extents{2, 1, 3, 2, 4};
    const mtf::StridedShape in = draw(random, extents, static_cast<std::size_t>(round) % 6);
    mtf::StridedShape out;
    for (const mtf::StridedDim& dim : in) {
      if (random() % 2 == 0) out.push_back(dim);
    }
    std::shuffle(out.begin(), out.end(), random);
    std::int64_t stride = 1;
    for (int i = out.size() - 1; i >= 0; --i) {
      out[i].stride = stride;
      stride *= out[i].extent;
    }
    const mtf::ReducePlan plan = mtf::plan_reduce(out, in, mtf::Combine::sum);
    CHECK(plan.work() == size_of(in));
    CHECK(plan.kept.size() == size_of(out));
    const std::vector<int> from = iota(size_of(in));
    std::vector<int> sums(static_cast<std::size_t>(size_of(out)));
    std::vector<int> expected = sums;
    for (const auto& kept : walk(plan.kept)) {
      for (const auto& reduced : walk(plan.reduced))
        sums[static_cast<std::size_t>(kept[0])] += from[static_cast<std::size_t>(kept[1] + reduced[1])];
    }
    for (std::int64_t i = 0; i < size_of(in); ++i) {
      std::int64_t at = 0;
      for (const mtf::StridedDim& dim : in) at += i / dim.stride % dim.extent * mtf::stride_of(out, dim.name);
      expected[static_cast<std::size_t>(at)] += from[static_cast<std::size_t>(i)];
    }
    CHECK(sums == expected);
  }
}
