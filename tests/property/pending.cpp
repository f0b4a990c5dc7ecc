// Random sums over ranks that are not complete: scattered by a reshape and then read as a whole; and gradients of one
// array that come from many operations.
#include "program.hpp"

namespace property {

namespace {

/// A sum, outstanding over the axes that split what is summed; then the sum under other dims, one of which may be split
/// over these axes (a reduce-scatter), and the sum once more, as it was.
Program draw_scattered_sum(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, mtf::bfloat16, std::int32_t, std::int64_t>(
      draw, [&]<class T>(std::type_identity<T>) {
        Program p;
        const ShapeValue x = draw_shape(draw, dims, draw.of({2, 3, 3}));
        const auto apart = static_cast<int>(draw.number(1, x.size() - 1));
        ShapeValue kept, summed;
        for (int i = 0; i < x.size(); ++i) (i < apart ? kept : summed).push_back(x[i]);
        kept = shuffled(draw, kept);
        const bool product = draw.chance(40);  // of x and a factor, by an einsum
        const std::int64_t high = draw_high(draw, mtf::size_of(summed), product ? 2 : 1);
        const std::int64_t low = draw.chance(50) ? -high : 0;  // sums that grow
        const ShapeValue shuffled_x = shuffled(draw, x);
        const Content content = draw.chance(50) ? Content::integers : Content::normal;
        p.inputs = {{shuffled_x, type_of<T>, content, low, high}};
        if (product) p.inputs.push_back({shuffled(draw, summed), type_of<T>, content, low, high});
        // One dim gets another name, or becomes two.
        const auto at = static_cast<int>(draw.number(0, kept.size() - 1));
        const DimValue dim = kept[at];
        const std::int64_t inner = draw.chance(30) && dim.extent % 2 == 0 ? 2 : 1;
        ShapeValue to;
        for (int i = 0; i < kept.size(); ++i) {
          if (i == at) to.push_back({Name("m"), dim.extent / inner});
          if (i == at && inner > 1) to.push_back({Name("n"), inner});
          if (i != at) to.push_back(kept[i]);
        }
        p.split_alike = {{"m", dim_of(draw, summed)}};
        p.kind = "scattered sum";
        p.text =
            fmt::format("{} to {} as {}", product ? "einsum" : "reduce_sum", mtf::describe(kept), mtf::describe(to));
        p.exactness = Exactness::sums;
        if (content == Content::integers && mtf::floating<T>) {
          p.rounds_once = [=, x = shuffled_x](const Slices& s) {
            return s.rounds_once(x, kept, type_of<T>, product ? high * high : high);
          };
        }
        p.terms = mtf::size_of(x);
        p.unions = {kept, to};
        // The sum as a whole is an allreduce, or a reduce-scatter and an allgather; the reshape comes on top.
        p.sends = p.sends_back = [=](const Slices&) {
          return Collectives(6, {.any_axes = true, .may = true, .any_kind = true});
        };
        p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
          const Array sum = product ? mtf::untyped::einsum<E, T>(e, xs, kept)
                                    : mtf::untyped::reduce_sum<E, T>(e, xs[0], kept, 1, "reduce_sum");
          const Array other = mtf::untyped::reshape(e, sum, to, "reshape");
          return std::vector<Array>{other, sum};
        };
        p.naive = [=](const std::vector<Dense>& xs) {
          const Dense whole = sum(kept, x, [&](const Index& i) { return product ? xs[0](i) * xs[1](i) : xs[0](i); });
          return std::vector<Dense>{{to, whole.elements}, whole};
        };
        return p;
      });
}

/// A sum of many products of the same array: its gradient comes in as many parts, all of one sign in most cases.
Program draw_used_often(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, mtf::bfloat16>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    ShapeValue x = draw_shape(draw, dims);
    while (x.size() > 1 && mtf::size_of(x) > 32) x.erase(0);
    const std::int64_t uses = draw.of<std::int64_t>({3, 20, 600});
    p.inputs = {{x, type_of<T>}, {some_of(draw, x, 70), type_of<T>}};
    p.kind = "used often";
    p.text = fmt::format("sum of {} products", uses);
    p.exactness = Exactness::rounded;
    p.terms = uses * mtf::size_of(x);
    p.unions = {x};
    // The result is rounded after every addition of pairs, of pairs of pairs, and so on.
    for (std::int64_t sums = 1; sums < uses; sums *= 2) ++p.roundings;
    p.sends_back = [=, other = p.inputs[1].shape](const Slices& s) {
      return Collectives(static_cast<std::size_t>(uses), [&] {
        Sent sum = s.sum(x, other);
        sum.may = true;  // together, or each
        return sum;
      }());
    };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      std::vector<Array> terms;
      for (std::int64_t i = 0; i < uses; ++i)
        terms.push_back(
            mtf::untyped::map<E, T, T>(e, "multiply", mtf::functions::Multiply{}, std::array<Array, 2>{xs[0], xs[1]}));
      while (terms.size() > 1) {
        std::vector<Array> sums;
        for (std::size_t i = 0; i + 1 < terms.size(); i += 2)
          sums.push_back(mtf::untyped::map<E, T, T>(e, "add", mtf::functions::Add{},
                                                    std::array<Array, 2>{terms[i], terms[i + 1]}));
        if (terms.size() % 2 == 1) sums.push_back(terms.back());
        terms = std::move(sums);
      }
      return terms;
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{
          make(x, [&](const Index& i) { return Scalar(static_cast<double>(uses)) * xs[0](i) * xs[1](i); })};
    };
    return p;
  });
}

constexpr Kind kinds[]{
    {"scattered sum", draw_scattered_sum}, {"scattered sum", draw_scattered_sum}, {"used often", draw_used_often}};

}  // namespace

std::span<const Kind> pending() { return kinds; }

}  // namespace property
