// Random einsums, of one to four operands.
#include "program.hpp"

namespace property {

namespace {

/// A union of dims that a naive loop walks through in a moment.
constexpr std::int64_t most_products = 30000;

Program draw_einsum(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, std::int32_t, std::int64_t>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    const auto operands = draw.of<std::int64_t>({1, 2, 2, 2, 3, 3, 4});
    ShapeValue all;
    // Products of whole numbers of which bfloat16 holds the parts of some ranks and not the sum.
    const bool whole = draw.chance(40);
    const std::int64_t high = whole ? draw.of<std::int64_t>({2, 4, 8, 15}) : 2;
    const std::int64_t low = draw.chance(50) ? -high : 0;  // sums that grow
    for (std::int64_t i = 0; i < operands; ++i) {
      ShapeValue shape = draw_shape(draw, dims);
      while (shape.size() > 1 && mtf::size_of(mtf::unite(all, shape)) > most_products) shape.erase(0);
      all = mtf::unite(all, shape);
      p.inputs.push_back({shape, type_of<T>, whole ? Content::integers : Content::normal, low, high});
    }
    const ShapeValue out = shuffled(draw, some_of(draw, all, 60));
    if (whole && operands <= 2 && mtf::floating<T>) {  // with more, products of some are rounded before
      const std::int64_t product = operands == 1 ? high : high * high;
      p.rounds_once = [=](const Slices& s) { return s.rounds_once(all, out, type_of<T>, product); };
    }
    p.roundings = static_cast<int>(2 * std::max<std::int64_t>(1, operands - 1));
    const auto order = draw.chance(30) ? mtf::einsum_order::as_written : mtf::einsum_order::fastest;
    const bool written = order == mtf::einsum_order::as_written;
    p.text = fmt::format("einsum of {} to {}{}", operands, mtf::describe(out), written ? " as written" : "");
    p.exactness = Exactness::sums;
    p.kind = operands > 2 ? "einsum of three or four" : "einsum";
    p.unions = {all};
    p.terms = mtf::size_of(all);
    p.sends = [=](const Slices& s) { return Collectives{s.sum(all, out)}; };
    p.sends_back = [inputs = p.inputs, out](const Slices& s) {
      Collectives sent;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        ShapeValue factors = out;
        for (std::size_t j = 0; j < inputs.size(); ++j) {
          if (j != i) factors = mtf::unite(factors, inputs[j].shape);
        }
        sent.push_back(s.sum(factors, inputs[i].shape));
      }
      return sent;
    };
    p.run = [out, order]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::einsum<E, T>(e, xs, out, order)};
    };
    p.naive = [out, all](const std::vector<Dense>& xs) {
      return std::vector<Dense>{sum(out, all, [&](const Index& i) {
        Scalar product(1);
        for (const Dense& x : xs) product = product * x(i);
        return product;
      })};
    };
    return p;
  });
}

constexpr Kind kinds[]{{"einsum", draw_einsum}, {"einsum of three or four", draw_einsum}};

}  // namespace

std::span<const Kind> contractions() { return kinds; }

}  // namespace property
