// Random selections by size and by index: top_k, sort, argmax, nth_element, gather, one_hot.
#include <algorithm>
#include <numeric>

#include "program.hpp"

namespace property {

namespace {

/// Where NaN counts.
enum class Nan {
  largest,  ///< as larger than any number
  first,    ///< before every number
};
/// The indices along d of the elements of x's row, sorted; equal ones by index.
std::vector<std::int64_t> sorted_row(const Dense& x, std::string_view d, const Index& row, bool largest_first,
                                     Nan nan = Nan::largest) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(extent_of(x.shape, d)));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    const double a = x(row.with(d, i)).value;
    const double b = x(row.with(d, j)).value;
    if (a == b || (std::isnan(a) && std::isnan(b))) return i < j;
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == (nan == Nan::first || largest_first);
    return largest_first ? a > b : a < b;
  });
  return order;
}
/// Values and indices of the sorted elements begin, begin + 1, ... of each row, along the dim `to` of a result of this
/// shape.
std::vector<Dense> selected(const Dense& x, std::string_view d, const ShapeValue& shape, std::string_view to,
                            bool largest_first, std::int64_t begin) {
  const auto index_of = [&](const Index& i) {
    return sorted_row(x, d, i, largest_first)[static_cast<std::size_t>(begin + (to.empty() ? 0 : i[to]))];
  };
  return {make(shape, [&](const Index& i) { return x(i.with(d, index_of(i))); }),
          make(shape, [&](const Index& i) { return Scalar(static_cast<double>(index_of(i))); })};
}

/// What finding the first `count` elements of each row sends: values and indices of as many from each rank.
Collectives search(const Slices& s, const ShapeValue& x, std::string_view d, std::int64_t count) {
  const mtf::AxisSet over = s.axes(d);
  const std::int64_t own = std::min(count, extent_of(x, d) / s.parts(over));
  const Sent gathered{
      .kind = mtf::Collective::all_gather, .axes = over, .count = s.local(without(x, d)) * own * s.parts(over)};
  return {gathered, gathered};
}

/// A program over a dim of one input, with ties in most cases, NaN and infinities in some.
template <class T>
Program of_rows(Draw& draw, const ShapeValue& dims, const std::string& kind, std::string_view& d) {
  Program p;
  const ShapeValue x = draw_shape(draw, dims);
  d = dim_of(draw, x);
  p.inputs = {{x, type_of<T>, draw.of({Content::integers, Content::normal, Content::special, Content::special})}};
  p.kind = kind;
  p.text = kind + " along " + std::string(d);
  return p;
}
template <class F>
Program ordered(Draw& draw, const F& f) {
  return with_type<double, float, mtf::bfloat16, std::int32_t, std::int64_t>(draw, f);
}
std::vector<Array> both(const mtf::untyped::SelectionArrays& arrays) { return {arrays.values, arrays.indices}; }

Program draw_top_k(Draw& draw, const ShapeValue& dims) {
  return ordered(draw, [&]<class T>(std::type_identity<T>) {
    std::string_view d;
    Program p = of_rows<T>(draw, dims, "top_k", d);
    const DimValue k{Name("k"), draw.number(1, extent_of(p.inputs[0].shape, d))};
    ShapeValue all = p.inputs[0].shape;
    all.push_back(k);
    p.unions = {all};
    p.text += fmt::format(", k {}", k.extent);
    const ShapeValue x = p.inputs[0].shape;
    p.sends = [=](const Slices& s) { return search(s, x, d, k.extent); };
    p.sends_back = [=](const Slices& s) {
      return Collectives{s.reduction(s.axes("k"), x)};
    };  // each rank has placed its part of k
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return both(mtf::untyped::top_k<E, T>(e, xs[0], Name(d), k));
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      ShapeValue shape = without(xs[0].shape, d);
      shape.push_back(k);
      return selected(xs[0], d, shape, "k", true, 0);
    };
    return p;
  });
}

Program draw_sort(Draw& draw, const ShapeValue& dims) {
  return ordered(draw, [&]<class T>(std::type_identity<T>) {
    std::string_view d;
    Program p = of_rows<T>(draw, dims, "sort", d);
    const auto direction = draw.chance(50) ? mtf::order::ascending : mtf::order::descending;
    const ShapeValue x = p.inputs[0].shape;
    // The ranks share the rows out if they can: the slice there, values and indices back. Else each has all rows.
    const auto sends = [=](const Slices& s, std::size_t trips) {
      const mtf::AxisSet over = s.axes(d);
      if (s.local(without(x, d)) % s.parts(over) == 0)
        return Collectives(trips, {.kind = mtf::Collective::all_to_all, .axes = over, .count = s.local(x)});
      return Collectives{{.kind = mtf::Collective::all_gather, .axes = over, .count = s.local(x) * s.parts(over)}};
    };
    p.sends = [=](const Slices& s) { return sends(s, 3); };
    p.sends_back = [=](const Slices& s) { return sends(s, 2); };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return both(mtf::untyped::sort<E, T>(e, xs[0], Name(d), direction));
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return selected(xs[0], d, xs[0].shape, d, direction == mtf::order::descending, 0);
    };
    return p;
  });
}

Program draw_arg_extreme(Draw& draw, const ShapeValue& dims) {
  return ordered(draw, [&]<class T>(std::type_identity<T>) {
    std::string_view d;
    Program p = of_rows<T>(draw, dims, "argmax, argmin", d);
    const bool largest = draw.chance(50);
    p.differentiable = false;
    p.sends = [d, x = p.inputs[0].shape](const Slices& s) {  // the extremes, and who has them
      const Sent row = s.sum(x, without(x, d));
      return Collectives{row, row};
    };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::arg_extreme<E, T>(
          e, xs[0], Name(d), largest ? mtf::Combine::max : mtf::Combine::min, "arg_extreme")};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(without(xs[0].shape, d), [&](const Index& i) {
        return Scalar(static_cast<double>(sorted_row(xs[0], d, i, largest, Nan::first)[0]));
      })};
    };
    return p;
  });
}

Program draw_nth_element(Draw& draw, const ShapeValue& dims) {
  return ordered(draw, [&]<class T>(std::type_identity<T>) {
    std::string_view d;
    Program p = of_rows<T>(draw, dims, "nth_element", d);
    const std::int64_t n = draw.number(0, extent_of(p.inputs[0].shape, d) - 1);
    const bool largest = draw.chance(50);
    p.text += fmt::format(", n {}, largest {}", n, largest);
    p.sends = [d, n, x = p.inputs[0].shape](const Slices& s) { return search(s, x, d, n + 1); };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::nth_element<E, T>(e, xs[0], Name(d), n, largest, "nth_element")};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{selected(xs[0], d, without(xs[0].shape, d), {}, largest, n)[0]};
    };
    return p;
  });
}

template <class T, class Id>
Program looking_up(Draw& draw, const ShapeValue& dims) {
  Program p;
  const ShapeValue table = draw_shape(draw, dims);
  const std::string_view d = dim_of(draw, table);
  const std::int64_t extent = extent_of(table, d);
  ShapeValue ids = draw_shape(draw, without(dims, d));  // may share dims with the table
  while (ids.size() > 0 && mtf::size_of(mtf::unite(ids, table)) > 20000) ids.erase(0);
  p.inputs = {{table, type_of<T>, Content::normal, std::same_as<T, bool> ? 0 : -4, std::same_as<T, bool> ? 1 : 4},
              {ids, type_of<Id>, Content::integers, -1, extent}};  // -1 and the extent lie outside
  p.kind = "gather";
  p.text = "gather along " + std::string(d);
  ShapeValue all = table;
  p.unions = {mtf::unite(all, ids)};
  p.terms = mtf::size_of(mtf::unite(ids, table));  // rows that meet in the gradient
  const ShapeValue out = mtf::unite(ids, without(table, d));
  p.sends = [=](const Slices& s) { return Collectives{s.reduction(s.axes(d), out)}; };
  p.sends_back = [=](const Slices& s) { return Collectives{s.sum(out, table)}; };
  p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
    return std::vector<Array>{mtf::untyped::gather<E, T, Id>(e, xs[0], xs[1], Name(d))};
  };
  p.naive = [=](const std::vector<Dense>& xs) {
    return std::vector<Dense>{make(mtf::unite(ids, without(table, d)), [&](const Index& i) {
      const auto id = static_cast<std::int64_t>(xs[1](i).value);
      return id < 0 || id >= extent ? Scalar() : xs[0](i.with(d, id));
    })};
  };
  return p;
}
Program draw_gather(Draw& draw, const ShapeValue& dims) {
  return draw.of<DrawProgram>({looking_up<double, std::int32_t>, looking_up<float, std::int64_t>,
                               looking_up<mtf::bfloat16, std::int32_t>, looking_up<std::int32_t, std::int32_t>})(draw,
                                                                                                                 dims);
}

template <class T, class Id>
Program hot(Draw& draw, const ShapeValue& dims) {
  Program p;
  const DimValue to{Name("n"), draw.number(1, 12)};
  const ShapeValue ids = draw_shape(draw, dims, 0);
  const double on = std::same_as<T, bool> ? 1 : 2;
  const double off = std::same_as<T, bool> ? 0 : -1;
  p.inputs = {{ids, type_of<Id>, Content::integers, -1, to.extent}};
  p.kind = "one_hot";
  p.text = fmt::format("one_hot of {}", to.extent);
  ShapeValue out = ids;
  out.push_back(to);
  p.unions = {out};
  p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
    return std::vector<Array>{mtf::untyped::one_hot<E, T, Id>(e, xs[0], to, static_cast<T>(on), static_cast<T>(off))};
  };
  p.naive = [=](const std::vector<Dense>& xs) {
    return std::vector<Dense>{
        make(out, [&](const Index& i) { return Scalar(static_cast<double>(i["n"]) == xs[0](i).value ? on : off); })};
  };
  return p;
}
Program draw_one_hot(Draw& draw, const ShapeValue& dims) {
  return draw.of<DrawProgram>({hot<double, std::int32_t>, hot<float, std::int64_t>, hot<mtf::bfloat16, std::int32_t>,
                               hot<std::int64_t, std::int32_t>, hot<bool, std::int64_t>})(draw, dims);
}

constexpr Kind kinds[]{{"top_k", draw_top_k},
                       {"sort", draw_sort},
                       {"argmax, argmin", draw_arg_extreme},
                       {"nth_element", draw_nth_element},
                       {"gather", draw_gather},
                       {"one_hot", draw_one_hot}};

}  // namespace

std::span<const Kind> selections() { return kinds; }

}  // namespace property
