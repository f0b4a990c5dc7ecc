// Random convolutions, transposed convolutions and pools over one or two spatial dims.
#include "program.hpp"

namespace property {

namespace {

struct Sliding {
  std::string_view input, window, output;
  std::int64_t size = 1, stride = 1, dilation = 1;
  std::int64_t in = 1, out = 1;
};

/// The position of the window's first element under "same" padding: what is missing goes half before, half after, the
/// odd one after.
std::int64_t padding_before(const Sliding& s, std::int64_t input, std::int64_t outputs, mtf::Padding padding) {
  const std::int64_t missing = (outputs - 1) * s.stride + (s.size - 1) * s.dilation + 1 - input;
  return padding == mtf::Padding::same && missing > 0 ? missing / 2 : 0;
}

/// One or two spatial dims of x.
std::vector<Sliding> draw_sliding(Draw& draw, const ShapeValue& x, std::int64_t longest) {
  std::vector<Sliding> spatial;
  ShapeValue rest = x;
  for (std::int64_t i = draw.number(1, std::min<std::int64_t>(2, x.size())); i > 0; --i) {
    Sliding s;
    s.input = dim_of(draw, rest);
    rest = without(rest, s.input);
    s.window = spatial.empty() ? "u" : "v";
    s.output = spatial.empty() ? "m" : "n";
    s.in = extent_of(x, s.input);
    s.size = draw.number(1, longest);
    s.stride = draw.number(1, 3);
    s.dilation = draw.number(1, 2);
    spatial.push_back(s);
  }
  return spatial;
}
mtf::PerDim each(const std::vector<Sliding>& spatial, std::int64_t Sliding::* number) {
  mtf::PerDim result(spatial[0].*number);
  for (std::size_t i = 1; i < spatial.size(); ++i) result.values.push_back(spatial[i].*number);
  return result;
}
mtf::SpatialList list_of(const std::vector<Sliding>& spatial, bool with_windows) {
  mtf::SpatialList list;
  for (const Sliding& s : spatial)
    list.push_back({Name(s.input), with_windows ? Name(s.window) : Name{}, Name(s.output), mtf::dynamic});
  return list;
}

/// One exchange at most for each spatial dim that is split, and the others.
Collectives exchanges(const Slices& s, const std::vector<Sliding>& spatial, Collectives others) {
  for (const Sliding& dim : spatial) {
    ShapeValue both;
    both.push_back({Name(dim.input), dim.in});
    both.push_back({Name(dim.output), dim.out});
    others.push_back(s.exchange(both));
  }
  return others;
}
/// A sum over some axes, at most one.
Sent at_most_one_sum(const Slices& s, const ShapeValue& of) {
  return {.kind = mtf::Collective::all_reduce, .count = s.local(of), .any_axes = true, .may = true};
}

Program draw_convolution(Draw& draw, const ShapeValue& dims, bool transposed) {
  return with_type<double, float, mtf::bfloat16, std::int32_t>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    ShapeValue x = draw_shape(draw, dims);
    while (x.size() > 1 && mtf::size_of(x) > 1024) x.erase(0);
    std::vector<Sliding> spatial = draw_sliding(draw, x, 4);
    const auto padding = draw.chance(60) ? mtf::Padding::same : mtf::Padding::valid;
    ShapeValue filter, all = x, out = x;
    for (Sliding& s : spatial) {
      const std::int64_t span = (s.size - 1) * s.dilation + 1;
      if (transposed) {
        s.out = padding == mtf::Padding::same ? s.in * s.stride : (s.in - 1) * s.stride + span;
      } else {
        if (padding == mtf::Padding::valid && span > s.in) s.size = s.dilation = 1;
        const std::int64_t covered = (s.size - 1) * s.dilation + 1;
        s.out = padding == mtf::Padding::same ? (s.in + s.stride - 1) / s.stride : (s.in - covered) / s.stride + 1;
      }
      filter.push_back({Name(s.window), s.size});
      out = replaced(out, s.input, {Name(s.output), s.out});
      all.push_back({Name(s.window), s.size});
      all.push_back({Name(s.output), s.out});
    }
    // A dim of x that is summed, and a new one of the result.
    ShapeValue summed = x;
    for (const Sliding& s : spatial) summed = without(summed, s.input);
    if (summed.size() > 0 && draw.chance(60)) {
      const DimValue in = summed[static_cast<int>(draw.number(0, summed.size() - 1))];
      filter.push_back(in);
      out = without(out, in.name.text);
    }
    if (draw.chance(60)) {
      const DimValue fresh{Name("o"), draw.of<std::int64_t>({1, 3, 4, 8})};
      filter.push_back(fresh);
      all.push_back(fresh);
    }
    filter = shuffled(draw, filter);
    for (const DimValue& dim : filter) {
      if (mtf::find(x, dim.name) < 0 && dim.name.text == "o") out.push_back(dim);
    }
    p.inputs = {{x, type_of<T>, Content::normal, -3, 3}, {filter, type_of<T>, Content::normal, -3, 3}};
    p.kind = transposed ? "transposed_convolution" : "convolution";
    p.exactness = Exactness::sums;
    p.text = p.kind + " of";
    for (const Sliding& s : spatial)
      p.text += fmt::format(" {} (window {}, stride {}, dilation {})", s.input, s.size, s.stride, s.dilation);
    p.text += padding == mtf::Padding::same ? ", same," : ", valid,";
    p.terms = std::max(mtf::size_of(x), mtf::size_of(out)) * mtf::size_of(filter);
    p.sends = [=](const Slices& s) { return exchanges(s, spatial, {at_most_one_sum(s, out)}); };
    p.sends_back = [=](const Slices& s) {
      return exchanges(s, spatial, {at_most_one_sum(s, x), at_most_one_sum(s, filter)});
    };
    p.legal = [=](const mtf::PlacementRules& rules) {
      for (const Sliding& s : spatial) {
        if (!rules.axes_of(Name(s.window)).empty()) return false;
      }
      return mtf::detail::check_windows(rules, all, list_of(spatial, true)).empty() &&
             mtf::check(rules, out, true).empty();
    };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      const mtf::ConvolutionOptions options{each(spatial, &Sliding::stride), each(spatial, &Sliding::dilation),
                                            padding};
      return std::vector<Array>{
          mtf::untyped::convolution<E, T>(e, xs[0], xs[1], list_of(spatial, true), options, transposed)};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      // The big side is what windows slide over, the small one has a place for each window.
      ShapeValue over = transposed ? x : out;
      for (const DimValue& dim : filter) {
        if (mtf::find(over, dim.name) < 0) over.push_back(dim);
      }
      for (const DimValue& dim : x) {
        bool slides = false;
        for (const Sliding& s : spatial) slides = slides || s.input == dim.name.text;
        if (!slides && mtf::find(over, dim.name) < 0) over.push_back(dim);
      }
      Dense result{out, std::vector<Scalar>(static_cast<std::size_t>(mtf::size_of(out)))};
      for_each(over, [&](const Index& i) {
        Index big = i;
        for (const Sliding& s : spatial) {
          const std::int64_t extent = transposed ? s.out : s.in;
          const std::int64_t place = i[transposed ? s.input : s.output];
          const std::int64_t at = place * s.stride - padding_before(s, extent, transposed ? s.in : s.out, padding) +
                                  i[s.window] * s.dilation;
          if (at < 0 || at >= extent) return;
          big[transposed ? s.output : s.input] = at;
        }
        Scalar& element = result.elements[result.offset(big)];
        element = element + xs[0](big) * xs[1](i);
      });
      return std::vector<Dense>{result};
    };
    return p;
  });
}
Program draw_forward(Draw& draw, const ShapeValue& dims) { return draw_convolution(draw, dims, false); }
Program draw_transposed(Draw& draw, const ShapeValue& dims) { return draw_convolution(draw, dims, true); }

template <class T>
Program pooling(Draw& draw, const ShapeValue& dims, bool average) {
  Program p;
  const ShapeValue x = draw_shape(draw, dims);
  std::vector<Sliding> spatial = draw_sliding(draw, x, 3);
  ShapeValue all = x, out = x;
  std::int64_t area = 1;
  for (Sliding& s : spatial) {
    s.dilation = 1;
    s.size = std::min(s.size, s.in);
    if (draw.chance(50)) s.stride = s.size;
    s.out = (s.in - s.size) / s.stride + 1;
    area *= s.size;
    out = replaced(out, s.input, {Name(s.output), s.out});
    all.push_back({Name(s.output), s.out});
  }
  p.inputs = {{x, type_of<T>, !average && draw.chance(50) ? Content::integers : Content::normal}};
  p.kind = average ? "average_pool" : "max_pool";
  p.exactness = average ? Exactness::rounded : Exactness::same;
  p.text = p.kind + " of";
  for (const Sliding& s : spatial) p.text += fmt::format(" {} (window {}, stride {})", s.input, s.size, s.stride);
  p.terms = area;
  if (average) p.roundings = 3;
  p.sends = [=](const Slices& s) { return exchanges(s, spatial, {}); };
  p.sends_back = [=](const Slices& s) { return exchanges(s, spatial, {at_most_one_sum(s, x)}); };
  p.legal = [=](const mtf::PlacementRules& rules) {
    return mtf::detail::check_windows(rules, all, list_of(spatial, false)).empty() &&
           mtf::check(rules, out, true).empty();
  };
  p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
    const mtf::PoolOptions options{each(spatial, &Sliding::size), each(spatial, &Sliding::stride)};
    return std::vector<Array>{mtf::untyped::pool<E, T>(e, xs[0], list_of(spatial, false), options, average)};
  };
  p.naive = [=](const std::vector<Dense>& xs) {
    // Every window as dims of their own, then a reduction over them.
    ShapeValue windows = out;
    for (const Sliding& s : spatial) windows.push_back({Name(s.window), s.size});
    const Dense seen = make(windows, [&](const Index& i) {
      Index from = i;
      for (const Sliding& s : spatial) from[s.input] = i[s.output] * s.stride + i[s.window];
      return xs[0](from);
    });
    if (!average) return std::vector<Dense>{extreme(out, seen, true)};
    return std::vector<Dense>{
        sum(out, windows, [&](const Index& i) { return seen(i) / Scalar(static_cast<double>(area)); })};
  };
  return p;
}
Program draw_max_pool(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, std::int32_t>(
      draw, [&]<class T>(std::type_identity<T>) { return pooling<T>(draw, dims, false); });
}
Program draw_average_pool(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16>(
      draw, [&]<class T>(std::type_identity<T>) { return pooling<T>(draw, dims, true); });
}

constexpr Kind kinds[]{{"convolution", draw_forward},
                       {"transposed_convolution", draw_transposed},
                       {"max_pool", draw_max_pool},
                       {"average_pool", draw_average_pool}};

}  // namespace

std::span<const Kind> windows() { return kinds; }

}  // namespace property
