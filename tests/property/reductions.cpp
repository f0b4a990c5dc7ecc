// Random reductions, broadcasts, softmaxes and losses, running sums.
#include "program.hpp"

namespace property {

namespace {

/// `whole`: of whole numbers, of which bfloat16 holds the parts of some ranks and not the sum.
template <class T>
Program reducing(Draw& draw, const ShapeValue& dims, bool whole) {
  Program p;
  const ShapeValue x = draw_shape(draw, dims);
  const ShapeValue kept = shuffled(draw, some_of(draw, x, 50));
  const double factor = !mtf::floating<T> || draw.chance(whole ? 75 : 50) ? 1
                        : draw.chance(50)
                            ? 0.5
                            : static_cast<double>(mtf::size_of(kept)) / static_cast<double>(mtf::size_of(x));
  const std::int64_t high = whole ? draw_high(draw, mtf::size_of(x) / mtf::size_of(kept), 1) : 4;
  p.inputs = {{x, type_of<T>, whole ? Content::integers : Content::normal, draw.chance(70) ? 0 : -high, high}};
  if (whole && factor == 1 && mtf::floating<T>) {
    p.rounds_once = [=](const Slices& s) { return s.rounds_once(x, kept, type_of<T>, high); };
  }
  for (const DimValue& dim : x) {
    if (whole && mtf::find(kept, dim.name) < 0 && dim.extent % support::ranks() == 0) p.summed = dim.name.text;
  }
  p.kind = "reduce_sum";
  p.exactness = factor == 1 || factor == 0.5 ? Exactness::sums : Exactness::rounded;
  p.text = fmt::format("reduce_sum to {} times {}", mtf::describe(kept), factor);
  p.terms = mtf::size_of(x);
  p.sends = [=](const Slices& s) { return Collectives{s.sum(x, kept)}; };
  p.run = [kept, factor]<class E>(E& e, const std::vector<Array>& xs) {
    return std::vector<Array>{mtf::untyped::reduce_sum<E, T>(e, xs[0], kept, factor, "reduce_sum")};
  };
  p.naive = [kept, factor](const std::vector<Dense>& xs) {
    return std::vector<Dense>{sum(kept, xs[0].shape, [&](const Index& i) { return Scalar(factor) * xs[0](i); })};
  };
  return p;
}
Program draw_reduce_sum(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, std::int32_t, std::int64_t>(
      draw, [&]<class T>(std::type_identity<T>) { return reducing<T>(draw, dims, draw.chance(50)); });
}
Program draw_bfloat16_sum(Draw& draw, const ShapeValue& dims) { return reducing<mtf::bfloat16>(draw, dims, true); }

Program draw_reduce_extreme(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, std::int32_t, std::int64_t>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    const ShapeValue x = draw_shape(draw, dims);
    const ShapeValue kept = shuffled(draw, some_of(draw, x, 50));
    const bool largest = draw.chance(50);
    p.inputs = {
        {x, type_of<T>, draw.of({Content::integers, Content::normal, Content::special, Content::special}), -3, 3}};
    p.kind = "reduce_max, reduce_min";
    p.text = (largest ? "reduce_max to " : "reduce_min to ") + mtf::describe(kept);
    p.sends = [=](const Slices& s) { return Collectives{s.sum(x, kept)}; };
    p.run = [kept, largest]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::reduce_extreme<E, T>(
          e, xs[0], kept, largest ? mtf::Combine::max : mtf::Combine::min, "reduce_extreme")};
    };
    p.naive = [kept, largest](const std::vector<Dense>& xs) {
      return std::vector<Dense>{extreme(kept, xs[0], largest)};
    };
    return p;
  });
}

Program draw_reduce_logical(Draw& draw, const ShapeValue& dims) {
  Program p;
  const ShapeValue x = draw_shape(draw, dims);
  const ShapeValue kept = some_of(draw, x, 50);
  const bool all = draw.chance(50);
  p.inputs = {{x, ElementType::boolean, Content::integers, 0, 1}};
  p.kind = "reduce_all, reduce_any";
  p.text = (all ? "reduce_all to " : "reduce_any to ") + mtf::describe(kept);
  p.sends = [=](const Slices& s) { return Collectives{s.sum(x, kept)}; };
  p.run = [kept, all]<class E>(E& e, const std::vector<Array>& xs) {
    mtf::require_legal(e, "reduce_logical", kept);
    const auto combine = all ? mtf::Combine::logical_and : mtf::Combine::logical_or;
    return std::vector<Array>{
        Array{mtf::untyped::extreme<E, bool>(e, xs[0].value, e.place(kept), combine, "reduce_logical"), {}}};
  };
  p.naive = [kept, all](const std::vector<Dense>& xs) { return std::vector<Dense>{extreme(kept, xs[0], !all)}; };
  return p;
}

Program draw_broadcast(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, std::int32_t, std::int64_t>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    const ShapeValue x = draw_shape(draw, dims);
    ShapeValue more = draw_shape(draw, dims);
    while (more.size() > 1 && mtf::size_of(mtf::unite(x, more)) > 20000) more.erase(0);
    const ShapeValue to = shuffled(draw, mtf::unite(x, more));
    p.inputs = {{x, type_of<T>}};
    p.kind = "broadcast";
    p.text = "broadcast to " + mtf::describe(to);
    p.unions = {to};
    p.terms = mtf::size_of(to);
    p.sends_back = [=](const Slices& s) { return Collectives{s.sum(to, x)}; };
    p.run = [to]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::broadcast<E, T>(e, xs[0], to)};
    };
    p.naive = [to](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(to, [&](const Index& i) { return xs[0](i); })};
    };
    return p;
  });
}

/// The largest along d, and sums along d of exp(x - the largest), in which nothing overflows.
struct Exponentials {
  Dense largest, sums;
};
Exponentials exponentials(const Dense& x, std::string_view d, double at_least = -HUGE_VAL) {
  Exponentials result;
  result.largest = extreme(without(x.shape, d), x, true);
  for (Scalar& element : result.largest.elements) element = Scalar(std::max(element.value, at_least));
  result.sums = sum(without(x.shape, d), x.shape, [&](const Index& i) { return exp(x(i) - result.largest(i)); });
  return result;
}
/// Normal numbers, or such that their exponentials overflow.
Content draw_logits(Draw& draw) { return draw.chance(60) ? Content::normal : Content::far; }

Program draw_softmax(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float>(draw, [&]<class T>(std::type_identity<T>) {
    using mtf::untyped::SoftmaxKind;
    Program p;
    const ShapeValue x = draw_shape(draw, dims);
    const std::string_view d = dim_of(draw, x);
    const auto kind = draw.of({SoftmaxKind::softmax, SoftmaxKind::log_softmax, SoftmaxKind::logsumexp});
    const bool with_extra = draw.chance(40);
    p.inputs = {{x, type_of<T>, draw_logits(draw)}};
    p.kind = "softmax";
    p.exactness = Exactness::rounded;
    p.text = fmt::format("softmax {} along {}{}", static_cast<int>(kind), d, with_extra ? " with an extra logit" : "");
    p.terms = mtf::size_of(x);
    const auto row = [=](const Slices& s) { return s.sum(x, without(x, d)); };
    p.sends = [=](const Slices& s) { return Collectives{row(s), row(s)}; };  // the largest, the sum
    if (kind != SoftmaxKind::logsumexp) p.sends_back = [=](const Slices& s) { return Collectives{row(s)}; };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      mtf::Ref<mtf::Value> extra;
      if (with_extra) extra = mtf::detail::Elements<E, T>::filled(e, e.place({}), T(0.5));
      return std::vector<Array>{mtf::untyped::softmax<E, T>(e, xs[0], Name(d), kind, "softmax", extra)};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      auto [largest, sums] = exponentials(xs[0], d, with_extra ? 0.5 : -HUGE_VAL);
      if (with_extra) {
        for (std::size_t i = 0; i < sums.elements.size(); ++i)
          sums.elements[i] = sums.elements[i] + exp(Scalar(0.5) - largest.elements[i]);
      }
      if (kind == SoftmaxKind::logsumexp)
        return std::vector<Dense>{make(sums.shape, [&](const Index& i) { return largest(i) + log(sums(i)); })};
      return std::vector<Dense>{make(xs[0].shape, [&](const Index& i) {
        const Scalar shifted = xs[0](i) - largest(i);
        return kind == SoftmaxKind::softmax ? exp(shifted) / sums(i) : shifted - log(sums(i));
      })};
    };
    return p;
  });
}

template <class T, class Id>
Program loss(Draw& draw, const ShapeValue& dims) {
  Program p;
  const ShapeValue x = draw_shape(draw, dims);
  const std::string_view d = dim_of(draw, x);
  const std::int64_t extent = extent_of(x, d);
  const mtf::CrossEntropyOptions options{.z_loss = draw.chance(50) ? 0.01 : 0,
                                         .label_smoothing = draw.chance(50) ? 0.1 : 0};
  // Some targets lie outside: they have no class.
  p.inputs = {{x, type_of<T>, draw_logits(draw)},
              {shuffled(draw, without(x, d)), type_of<Id>, Content::integers, -1, extent}};
  p.kind = "cross_entropy";
  p.exactness = Exactness::rounded;
  p.text = fmt::format("cross_entropy over {}", d);
  p.terms = mtf::size_of(x);
  p.sends = [=](const Slices& s) {  // the largest, the sum, the target's logit
    const Sent row = s.sum(x, without(x, d));
    Sent facts = row;
    if (options.label_smoothing > 0) facts.count *= 3;  // with the other classes and their number
    return Collectives{row, row, facts};
  };
  p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
    return std::vector<Array>{mtf::untyped::cross_entropy<E, T, Id>(e, xs[0], xs[1], Name(d), options)};
  };
  p.naive = [=](const std::vector<Dense>& xs) {
    const auto [largest, sums] = exponentials(xs[0], d);
    return std::vector<Dense>{make(sums.shape, [&](const Index& i) {
      const Scalar log_z = largest(i) + log(sums(i));
      const auto target = static_cast<std::int64_t>(xs[1](i).value);
      const bool inside = target >= 0 && target < extent;
      Scalar result = Scalar(options.z_loss) * log_z * log_z;
      for (std::int64_t v = 0; v < extent; ++v) {
        const double weight = (inside && v == target ? 1 - options.label_smoothing : 0) +
                              options.label_smoothing / static_cast<double>(extent);
        result = result + Scalar(weight) * (log_z - xs[0](i.with(d, v)));
      }
      return result;
    })};
  };
  return p;
}
Program draw_cross_entropy(Draw& draw, const ShapeValue& dims) {
  return draw.of<DrawProgram>({loss<double, std::int32_t>, loss<float, std::int32_t>, loss<double, std::int64_t>})(
      draw, dims);
}

Program draw_cumsum(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, std::int32_t, std::int64_t>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    const ShapeValue x = draw_shape(draw, dims);
    const std::string_view d = dim_of(draw, x);
    const mtf::CumsumOptions options{.exclusive = draw.chance(50), .reverse = draw.chance(50)};
    p.inputs = {{x, type_of<T>}};
    p.kind = "cumsum";
    p.exactness = Exactness::sums;
    p.text = fmt::format("cumsum along {}, exclusive {}, reverse {}", d, options.exclusive, options.reverse);
    p.terms = extent_of(x, d);
    p.sends = p.sends_back = [=](const Slices& s) {  // the totals of the ranks
      const mtf::AxisSet over = s.axes(d);
      return Collectives{
          {.kind = mtf::Collective::all_gather, .axes = over, .count = s.local(without(x, d)) * s.parts(over)}};
    };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::cumsum<E, T>(e, xs[0], Name(d), options)};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(xs[0].shape, [&](const Index& i) {
        Scalar result;
        for (std::int64_t j = 0; j < extent_of(x, d); ++j) {
          const std::int64_t own = i[d];
          const bool beyond = options.reverse ? j < own : j > own;
          if (!beyond && !(options.exclusive && j == own)) result = result + xs[0](i.with(d, j));
        }
        return result;
      })};
    };
    return p;
  });
}

constexpr Kind kinds[]{{"reduce_sum", draw_reduce_sum},
                       {"reduce_sum", draw_bfloat16_sum},
                       {"reduce_sum", draw_bfloat16_sum},
                       {"reduce_max, reduce_min", draw_reduce_extreme},
                       {"reduce_max, reduce_min", draw_reduce_extreme},
                       {"reduce_all, reduce_any", draw_reduce_logical},
                       {"broadcast", draw_broadcast},
                       {"softmax", draw_softmax},
                       {"cross_entropy", draw_cross_entropy},
                       {"cumsum", draw_cumsum}};

}  // namespace

std::span<const Kind> reductions() { return kinds; }

}  // namespace property
