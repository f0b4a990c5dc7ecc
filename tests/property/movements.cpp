// Random operations that move elements and compute nothing: reshapes, slices, joins, shifts, halos.
#include "program.hpp"

namespace property {

namespace {

/// Types whose elements are moved.
template <class F>
Program moved(Draw& draw, const F& f) {
  Program p = with_type<double, float, mtf::bfloat16, std::int32_t, std::int64_t, bool>(draw, f);
  p.moves = true;
  return p;
}
template <class T>
Input input_of(const ShapeValue& shape) {
  return {shape, type_of<T>, Content::normal, std::same_as<T, bool> ? 0 : -100, std::same_as<T, bool> ? 1 : 100};
}
/// A program of one input, of a dim of which indices move.
template <class T>
Program along(Draw& draw, const ShapeValue& dims, const std::string& kind, std::string_view& d, std::int64_t& extent) {
  Program p;
  const ShapeValue x = draw_shape(draw, dims);
  d = dim_of(draw, x);
  extent = extent_of(x, d);
  p.inputs = {input_of<T>(x)};
  p.kind = kind;
  p.text = kind + " along " + std::string(d);
  p.sends = p.sends_back = [d](const Slices& s) {
    return Collectives{s.exchange(d)};
  };  // what is not in place, if d is split
  return p;
}

Program draw_reshape(Draw& draw, const ShapeValue& dims) {
  return moved(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    const ShapeValue x = draw_shape(draw, dims);
    ShapeValue to = x;
    if (draw.chance(50)) {  // the same factors under names that may be split otherwise
      for (int i = 0; i < to.size(); ++i)
        std::swap(to[i].name, to[static_cast<int>(draw.number(0, to.size() - 1))].name);
    } else if (draw.chance(30)) {  // sizes that may have nothing in common but their product
      const std::int64_t size = mtf::size_of(x);
      std::int64_t first = draw.number(1, size < 12 ? size : 12);
      while (size % first != 0) --first;
      to = {};
      to.push_back({Name("n"), draw.chance(50) ? first : size / first});
      to.push_back({Name("m"), size / to[0].extent});
    } else {  // other factors: neighbours joined, or a dim taken apart
      const int at = static_cast<int>(draw.number(0, to.size() - 1));
      if (at + 1 < to.size() && draw.chance(50)) {
        to[at] = {Name("m"), to[at].extent * to[at + 1].extent};
        to.erase(at + 1);
      } else {
        const std::int64_t extent = to[at].extent;
        const std::int64_t first = extent % 2 == 0 ? 2 : 1;
        to.erase(at);
        to.push_back({Name("n"), first});
        to.push_back({Name("m"), extent / first});
        for (int i = to.size() - 2; i > at; --i) std::swap(to[i], to[i - 1]);  // to their places among the others
        for (int i = to.size() - 1; i > at + 1; --i) std::swap(to[i], to[i - 1]);
      }
    }
    p.inputs = {input_of<T>(x)};
    p.kind = "reshape";
    p.text = "reshape to " + mtf::describe(to);
    p.sends = p.sends_back = [=](const Slices& s) {  // one collective at most for each axis that splits either
      const mtf::AxisSet over = s.axes(x) | s.axes(to);
      Collectives sent;
      for (int axis = 0; axis < 3; ++axis) {
        if (over.has(axis)) sent.push_back({.any_axes = true, .may = true, .any_kind = true});
      }
      return sent;
    };
    p.unions = {to};
    p.run = [to]<class E>(E&, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::reshape(xs[0], to, "reshape")};
    };
    p.naive = [to](const std::vector<Dense>& xs) { return std::vector<Dense>{{to, xs[0].elements}}; };
    return p;
  });
}

Program draw_shift(Draw& draw, const ShapeValue& dims) {
  return moved(draw, [&]<class T>(std::type_identity<T>) {
    std::string_view d;
    std::int64_t extent = 0;
    Program p = along<T>(draw, dims, "shift", d, extent);
    const std::int64_t by = draw.number(-extent - 1, extent + 1);
    const bool wrap = draw.chance(50);
    p.text += fmt::format(" by {}, wrap {}", by, wrap);
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::shift<E, T>(e, xs[0], Name(d), by, {.wrap = wrap})};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(xs[0].shape, [&](const Index& i) {
        std::int64_t from = i[d] - by;
        if (wrap) from = ((from % extent) + extent) % extent;
        return from < 0 || from >= extent ? Scalar() : xs[0](i.with(d, from));
      })};
    };
    return p;
  });
}

template <class T, class Offset>
Program shifting_by(Draw& draw, const ShapeValue& dims) {
  std::string_view d;
  std::int64_t extent = 0;
  Program p = along<T>(draw, dims, "dynamic_shift", d, extent);
  const bool wrap = draw.chance(50);
  p.sends = p.sends_back = [d](const Slices& s) {  // x whole along d
    Collectives sent;
    for (int axis = 0; axis < 3; ++axis) {
      if (s.axes(d).has(axis)) sent.push_back({.kind = mtf::Collective::all_gather, .axes = mtf::AxisSet::of(axis)});
    }
    return sent;
  };
  p.inputs.push_back(
      {some_of(draw, without(p.inputs[0].shape, d), 60), type_of<Offset>, Content::integers, -extent - 1, extent + 1});
  p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
    return std::vector<Array>{mtf::untyped::dynamic_shift<E, T, Offset>(e, xs[0], xs[1], Name(d), {.wrap = wrap})};
  };
  p.naive = [=](const std::vector<Dense>& xs) {
    return std::vector<Dense>{make(xs[0].shape, [&](const Index& i) {
      std::int64_t from = i[d] - static_cast<std::int64_t>(xs[1](i).value);
      if (wrap) from = ((from % extent) + extent) % extent;
      return from < 0 || from >= extent ? Scalar() : xs[0](i.with(d, from));
    })};
  };
  return p;
}
Program draw_dynamic_shift(Draw& draw, const ShapeValue& dims) {
  return draw.of<DrawProgram>({shifting_by<double, std::int32_t>, shifting_by<float, std::int64_t>,
                               shifting_by<std::int32_t, std::int32_t>})(draw, dims);
}

Program draw_reverse(Draw& draw, const ShapeValue& dims) {
  return moved(draw, [&]<class T>(std::type_identity<T>) {
    std::string_view d;
    std::int64_t extent = 0;
    Program p = along<T>(draw, dims, "reverse", d, extent);
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::reverse<E, T>(e, xs[0], Name(d))};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(xs[0].shape, [&](const Index& i) { return xs[0](i.with(d, extent - 1 - i[d])); })};
    };
    return p;
  });
}

Program draw_slice(Draw& draw, const ShapeValue& dims) {
  return moved(draw, [&]<class T>(std::type_identity<T>) {
    std::string_view d;
    std::int64_t extent = 0;
    Program p = along<T>(draw, dims, "slice", d, extent);
    const std::int64_t begin = draw.number(0, extent - 1);
    const std::int64_t stride = draw.number(1, 3);
    const DimValue to{Name("n"), draw.number(1, (extent - 1 - begin) / stride + 1)};
    p.text += fmt::format(" from {} by {}, {} of them", begin, stride, to.extent);
    p.unions = {replaced(p.inputs[0].shape, d, to)};
    p.sends_back = [to](const Slices& s) { return Collectives{s.exchange(to.name.text)}; };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::slice<E, T>(e, xs[0], Name(d), begin, stride, to)};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(replaced(xs[0].shape, d, to),
                                     [&](const Index& i) { return xs[0](i.with(d, begin + i["n"] * stride)); })};
    };
    return p;
  });
}

Program draw_pad(Draw& draw, const ShapeValue& dims) {
  return moved(draw, [&]<class T>(std::type_identity<T>) {
    std::string_view d;
    std::int64_t extent = 0;
    Program p = along<T>(draw, dims, "pad", d, extent);
    const std::int64_t before = draw.number(0, 3);
    const std::int64_t after = draw.number(0, 3);
    const DimValue to{Name("n"), before + extent + after};
    p.text += fmt::format(" with {} and {}", before, after);
    p.unions = {replaced(p.inputs[0].shape, d, to)};
    p.sends_back = [to](const Slices& s) { return Collectives{s.exchange(to.name.text)}; };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::pad<E, T>(e, xs[0], Name(d), before, after, to)};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(replaced(xs[0].shape, d, to), [&](const Index& i) {
        const std::int64_t from = i["n"] - before;
        return from < 0 || from >= extent ? Scalar() : xs[0](i.with(d, from));
      })};
    };
    return p;
  });
}

Program draw_split(Draw& draw, const ShapeValue& dims) {
  return moved(draw, [&]<class T>(std::type_identity<T>) {
    std::string_view d;
    std::int64_t extent = 0;
    Program p = along<T>(draw, dims, "split", d, extent);
    std::vector<DimValue> parts;
    std::int64_t rest = extent;
    for (const std::string_view name : {"m", "n", "o"}) {
      if (rest == 0) break;
      parts.push_back({Name(name), name == "o" ? rest : draw.number(1, rest)});
      rest -= parts.back().extent;
    }
    for (const DimValue& part : parts) p.unions.push_back(replaced(p.inputs[0].shape, d, part));
    p.text += fmt::format(" into {} parts", parts.size());
    p.sends_back = [parts](const Slices& s) {
      ShapeValue to_dims;
      for (const DimValue& part : parts) to_dims.push_back(part);
      return Collectives{s.exchange(to_dims)};
    };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      const auto results = mtf::untyped::split<E, T>(e, xs[0], Name(d), parts);
      std::vector<Array> arrays;
      for (std::size_t i = 0; i < results.size(); ++i) arrays.push_back(results[i]);
      return arrays;
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      std::vector<Dense> results;
      std::int64_t begin = 0;
      for (const DimValue& part : parts) {
        results.push_back(make(replaced(xs[0].shape, d, part),
                               [&](const Index& i) { return xs[0](i.with(d, begin + i[part.name.text])); }));
        begin += part.extent;
      }
      return results;
    };
    return p;
  });
}

Program draw_unstack(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, std::int32_t>(draw, [&]<class T>(std::type_identity<T>) {
    std::string_view d;
    std::int64_t extent = 0;
    Program p = along<T>(draw, dims, "unstack", d, extent);
    p.moves = true;
    p.sends_back = nullptr;  // every rank has every part
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      const auto results = mtf::untyped::unstack<E, T>(e, xs[0], Name(d));
      std::vector<Array> arrays;
      for (std::size_t i = 0; i < results.size(); ++i) arrays.push_back(results[i]);
      return arrays;
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      std::vector<Dense> results;
      for (std::int64_t j = 0; j < extent; ++j)
        results.push_back(make(without(xs[0].shape, d), [&](const Index& i) { return xs[0](i.with(d, j)); }));
      return results;
    };
    return p;
  });
}

Program draw_concat(Draw& draw, const ShapeValue& dims) {
  return moved(draw, [&]<class T>(std::type_identity<T>) {
    // Two or three operands, whose joined dims may differ in name and extent.
    std::string_view d;
    std::int64_t extent = 0;
    Program p = along<T>(draw, dims, "concat", d, extent);
    const ShapeValue x = p.inputs[0].shape;
    std::vector<DimValue> joined{{Name(d), extent}};
    for (std::int64_t i = draw.number(1, 2); i > 0; --i) {
      joined.push_back(draw.chance(50) ? joined[0] : DimValue{Name(i == 1 ? "m" : "o"), draw.number(1, 8)});
      p.inputs.push_back(input_of<T>(shuffled(draw, replaced(x, d, joined.back()))));
    }
    DimValue to{Name("n"), 0};
    std::vector<Name> from;
    for (const DimValue& dim : joined) {
      to.extent += dim.extent;
      from.push_back(dim.name);
    }
    const ShapeValue out = replaced(x, d, to);
    p.unions = {out};
    p.sends = [joined](const Slices& s) {
      ShapeValue from_dims;
      for (const DimValue& dim : joined) from_dims.push_back(dim);
      return Collectives{s.exchange(from_dims)};
    };
    p.sends_back = [](const Slices& s) { return Collectives{s.exchange("n")}; };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::concat<E, T>(e, "concat", xs, from, to, out)};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(out, [&](const Index& i) {
        std::int64_t at = i["n"];
        std::size_t operand = 0;
        while (at >= joined[operand].extent) at -= joined[operand++].extent;
        return xs[operand](i.with(joined[operand].name.text, at));
      })};
    };
    return p;
  });
}

Program draw_stack(Draw& draw, const ShapeValue& dims) {
  return moved(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    const ShapeValue x = draw_shape(draw, dims);
    const DimValue to{Name("n"), draw.number(1, 8)};
    for (std::int64_t i = 0; i < to.extent; ++i) p.inputs.push_back(input_of<T>(i == 0 ? x : shuffled(draw, x)));
    ShapeValue out;
    out.push_back(to);
    for (const DimValue& dim : x) out.push_back(dim);
    p.kind = "stack";
    p.text = fmt::format("stack of {}", to.extent);
    p.unions = {out};
    p.sends_back = [](const Slices& s) { return Collectives{s.exchange("n")}; };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      const std::vector<Name> none(xs.size());
      return std::vector<Array>{mtf::untyped::concat<E, T>(e, "stack", xs, none, to, out)};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(out, [&](const Index& i) { return xs[static_cast<std::size_t>(i["n"])](i); })};
    };
    return p;
  });
}

Program draw_halo(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, std::int32_t>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    const ShapeValue x = draw_shape(draw, dims, 2);
    const std::string_view blocks = dim_of(draw, x);
    const std::string_view size = dim_of(draw, without(x, blocks));
    const std::int64_t count = extent_of(x, blocks);
    const std::int64_t extent = extent_of(x, size);
    const std::int64_t left = draw.number(0, extent + 2);
    const std::int64_t right = draw.chance(30) ? 0 : draw.number(0, extent + 2);
    const bool wrap = draw.chance(50);
    const DimValue to{Name("n"), left + extent + right};
    p.inputs = {input_of<T>(x)};
    p.kind = "halo_exchange";
    p.moves = std::max(left, right) <= extent && (!wrap || left + right <= extent);  // else elements come twice
    p.text = fmt::format("halo_exchange of {} and {} around blocks {} of {}, wrap {}", left, right, blocks, size, wrap);
    p.unions = {replaced(x, size, to)};
    p.sends = p.sends_back = [blocks](const Slices& s) { return Collectives{s.exchange(blocks)}; };
    p.terms = 2 + (left + right) / extent +
              (left + right) / (extent * count);  // copies of an element, which its gradient sums
    p.legal = [=](const mtf::PlacementRules& rules) {
      return rules.axes_of(Name(size)).empty() && rules.axes_of(to.name).empty();
    };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::halo_exchange<E, T>(e, "halo_exchange", xs[0], Name(blocks), Name(size),
                                                                  left, right, {.wrap = wrap}, to)};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(replaced(x, size, to), [&](const Index& i) {
        const std::int64_t whole = count * extent;
        std::int64_t from = i[blocks] * extent + i["n"] - left;
        if (wrap) from = ((from % whole) + whole) % whole;
        return from < 0 || from >= whole ? Scalar() : xs[0](i.with(blocks, from / extent).with(size, from % extent));
      })};
    };
    return p;
  });
}

constexpr Kind kinds[]{{"reshape", draw_reshape}, {"shift", draw_shift},       {"dynamic_shift", draw_dynamic_shift},
                       {"reverse", draw_reverse}, {"slice", draw_slice},       {"pad", draw_pad},
                       {"split", draw_split},     {"unstack", draw_unstack},   {"concat", draw_concat},
                       {"stack", draw_stack},     {"halo_exchange", draw_halo}};

}  // namespace

std::span<const Kind> movements() { return kinds; }

}  // namespace property
