// Random numbers, dropout and samples: an element depends on seed, stream and global index alone.
#include <mtf/kernels/random.hpp>

#include "program.hpp"

namespace property {

namespace {

/// The number at a global index, from the generator's own words and not through a kernel.
double number_at(const mtf::Key& key, mtf::Distribution distribution, double a, double b, std::int64_t index) {
  const std::uint64_t mixed = key.stream ^ (key.seed * 6364136223846793005ULL + 1442695040888963407ULL);
  const auto at = static_cast<std::uint64_t>(index);
  mtf::RandomPlan plan;
  plan.distribution = distribution;
  plan.a = a;
  plan.b = b;
  return mtf::kernels::draw(plan, mixed, mtf::kernels::Philox(at >> 2U, 0, mixed), at);
}
/// The element of the type that is next to one of them, in a direction.
double neighbour(ElementType type, double from, double to) {
  if (type == ElementType::float64) return std::nextafter(from, to);
  if (type == ElementType::float32)
    return static_cast<double>(std::nextafter(static_cast<float>(from), static_cast<float>(to)));
  if (from == 0) return std::copysign(0x1p-133, to);
  double step = std::abs(from) * 0x1p-10;  // less than half of what lies between neighbours
  while (rounded_to(type, from + std::copysign(step, to - from)) == from) step *= 1.25;
  return rounded_to(type, from + std::copysign(step, to - from));
}
/// The row-major index of an element.
std::int64_t index_in(const ShapeValue& shape, const Index& i) {
  std::int64_t result = 0;
  for (const DimValue& dim : shape) result = result * dim.extent + i[dim.name.text];
  return result;
}

Program draw_random(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, mtf::bfloat16>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    const ShapeValue shape = draw_shape(draw, dims);
    const auto distribution =
        draw.of({mtf::Distribution::uniform, mtf::Distribution::uniform, mtf::Distribution::uniform,
                 mtf::Distribution::normal, mtf::Distribution::truncated_normal});
    const mtf::Key key = mtf::seed{static_cast<std::uint64_t>(draw.number(0, 1000))} / "case";
    // Of uniform numbers the interval, which may have few elements of the type; of others mean and deviation.
    using Pair = std::pair<double, double>;
    const auto [a, b] =
        draw.of({Pair{0, 1}, Pair{-1, 1}, Pair{-40, -39}, Pair{100, 101}, Pair{7, 7.25}, Pair{-2, -1.75}});
    p.kind = "random";
    p.text = fmt::format("random numbers {} {} {} for {}", static_cast<int>(distribution), a, b, mtf::describe(shape));
    p.unions = {shape};
    p.run = [=]<class E>(E& e, const std::vector<Array>&) {
      mtf::require_legal(e, "random", shape);
      return std::vector<Array>{Array{mtf::untyped::random<E, T>(e, e.place(shape), key, distribution, a, b), {}}};
    };
    p.naive = [=](const std::vector<Dense>&) {
      return std::vector<Dense>{make(shape, [&](const Index& i) {
        const double number = rounded_to(type_of<T>, number_at(key, distribution, a, b, index_in(shape, i)));
        if (distribution != mtf::Distribution::uniform) return Scalar(number);
        // The ends are no numbers of the interval, though the nearest element of the type may be one.
        return Scalar(std::clamp(number, neighbour(type_of<T>, a, b), neighbour(type_of<T>, b, a)));
      })};
    };
    return p;
  });
}

Program draw_dropout(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    const ShapeValue x = draw_shape(draw, dims);
    const ShapeValue noise = some_of(draw, x, 70);  // the same along the others
    const double rate = draw.of({0.0, 0.25, 0.5, 0.9});
    const mtf::Key key = mtf::seed{static_cast<std::uint64_t>(draw.number(0, 1000))} / "dropout";
    p.inputs = {{x, type_of<T>}};
    p.kind = "dropout";
    p.exactness = Exactness::rounded;
    p.text = fmt::format("dropout of {} with noise over {}", rate, mtf::describe(noise));
    p.roundings = 3;  // 1 / (1 - rate) is rounded besides
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::dropout<E, T>(e, xs[0], rate, key, noise)};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(x, [&](const Index& i) {
        if (rate == 0) return xs[0](i);
        return xs[0](i) * Scalar(number_at(key, mtf::Distribution::keep, 1 - rate, 1 / (1 - rate), index_in(noise, i)));
      })};
    };
    return p;
  });
}

Program draw_sample(Draw& draw, const ShapeValue& dims) {
  return with_type<double>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    const ShapeValue x = draw_shape(draw, dims);
    const std::string_view d = dim_of(draw, x);
    const double temperature = draw.of({0.0, 0.5, 2.0});
    const mtf::Key key = mtf::seed{static_cast<std::uint64_t>(draw.number(0, 1000))} / "sample";
    p.inputs = {{x, type_of<T>}};
    p.kind = "sample_with_temperature";
    p.text = fmt::format("sample along {} with temperature {}", d, temperature);
    p.differentiable = false;
    p.sends = [=](const Slices& s) {  // those of argmax
      const Sent row = s.sum(x, without(x, d));
      return Collectives{row, row};
    };
    p.run = [=]<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::sample_with_temperature<E, T>(e, xs[0], Name(d), temperature, key)};
    };
    p.naive = [=](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(without(x, d), [&](const Index& row) {
        std::int64_t best = 0;
        double most = -HUGE_VAL;
        for (std::int64_t j = 0; j < extent_of(x, d); ++j) {
          const Index i = row.with(d, j);
          const double uniform = number_at(key, mtf::Distribution::uniform, 0, 1, index_in(x, i));
          const double noisy = xs[0](i).value - (temperature == 0 ? 0 : temperature * std::log(-std::log(uniform)));
          if (noisy > most) {
            most = noisy;
            best = j;
          }
        }
        return Scalar(static_cast<double>(best));
      })};
    };
    return p;
  });
}

constexpr Kind kinds[]{{"random", draw_random}, {"dropout", draw_dropout}, {"sample_with_temperature", draw_sample}};

}  // namespace

std::span<const Kind> noise() { return kinds; }

}  // namespace property
