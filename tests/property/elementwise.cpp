// Random element-wise operations: arithmetic, comparisons, logic, choices, casts.
#include "program.hpp"

namespace property {

namespace {

/// a * b + c in one step: a user's function of three operands.
struct MultiplyAdd {
  template <class X>
  constexpr X operator()(const X& a, const X& b, const X& c) const {
    return static_cast<X>(a * b + c);
  }
};

/// A program of one function of N operands of type T with results of type R.
template <class R, class T, std::size_t N, class F, class Naive>
Program mapped(Draw& draw, const ShapeValue& dims, const std::string& kind, const char* name, const F& f,
               const Naive& naive, Content content = Content::normal, std::int64_t low = -4, std::int64_t high = 4) {
  Program p;
  ShapeValue all;
  for (std::size_t i = 0; i < N; ++i) {
    ShapeValue shape = draw_shape(draw, dims);
    while (shape.size() > 1 && mtf::size_of(mtf::unite(all, shape)) > 20000) shape.erase(0);
    all = mtf::unite(all, shape);
    p.inputs.push_back({shape, type_of<T>, content, low, high});
  }
  p.kind = kind;
  p.text = std::string(name);
  p.unions = {all};
  p.differentiable = mtf::floating<R> && std::same_as<R, T>;
  p.terms = mtf::size_of(all);  // of the gradient of a broadcast operand
  // An operand that is broadcast sums what comes back.
  p.sends_back = [inputs = p.inputs, all](const Slices& s) {
    Collectives sent;
    for (const Input& input : inputs) sent.push_back(s.sum(all, input.shape));
    return sent;
  };
  p.run = [f, name]<class E>(E& e, const std::vector<Array>& xs) {
    std::array<Array, N> operands;
    for (std::size_t i = 0; i < N; ++i) operands[i] = xs[i];
    return std::vector<Array>{mtf::untyped::map<E, R, T>(e, name, f, operands)};
  };
  p.naive = [naive](const std::vector<Dense>& xs) {
    ShapeValue shape;
    for (const Dense& x : xs) shape = mtf::broadcast_shape(shape, x.shape);
    return std::vector<Dense>{make(shape, [&](const Index& i) {
      std::array<Scalar, N> operands;
      for (std::size_t n = 0; n < N; ++n) operands[n] = xs[n](i);
      return naive(operands);
    })};
  };
  return p;
}

Program draw_sum(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, std::int32_t, std::int64_t>(draw, [&]<class T>(std::type_identity<T>) {
    if (draw.chance(50)) {
      return mapped<T, T, 2>(draw, dims, "add, subtract", "add", mtf::functions::Add{},
                             [](const auto& x) { return x[0] + x[1]; });
    }
    return mapped<T, T, 2>(draw, dims, "add, subtract", "subtract", mtf::functions::Subtract{},
                           [](const auto& x) { return x[0] - x[1]; });
  });
}
Program draw_product(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, std::int32_t, std::int64_t>(draw, [&]<class T>(std::type_identity<T>) {
    return mapped<T, T, 2>(draw, dims, "multiply", "multiply", mtf::functions::Multiply{},
                           [](const auto& x) { return x[0] * x[1]; });
  });
}
/// Functions with a kink or a plateau, at whole numbers in half of the cases, so that 0 occurs often.
Program draw_activation(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float>(draw, [&]<class T>(std::type_identity<T>) {
    const Content content = draw.chance(50) ? Content::integers : Content::normal;
    const auto one = [&](const char* name, const auto& f, const auto& naive) {
      return mapped<T, T, 1>(draw, dims, "activation", name, f, [=](const auto& x) { return naive(x[0]); }, content);
    };
    switch (draw.number(0, 2)) {
      case 0: return one("relu", mtf::functions::Relu{}, [](const Scalar& x) { return x.value > 0 ? x : Scalar(0); });
      case 1:
        return one("abs", mtf::functions::Abs{}, [](const Scalar& x) {
          return x.value > 0 ? x : x.value < 0 ? Scalar(0) - x : Scalar(0);
        });
      default:
        return one("leaky_relu", mtf::functions::LeakyRelu{0.25},
                   [](const Scalar& x) { return x.value > 0 ? x : Scalar(0.25) * x; });
    }
  });
}
/// A function of its own and its derivative, for a naive loop; the magnitudes are bounds of what is added up within.
template <class F, class D>
Scalar with_derivative(const Scalar& x, const F& f, const D& derivative) {
  const double v = f(x.value);
  const double d = derivative(x.value);
  return {v, d * x.slope, std::abs(v) + 4 * (1 + x.size), 4 * (1 + std::abs(d)) * x.slope_size * (1 + x.size)};
}
Program draw_smooth_activation(Draw& draw, const ShapeValue& dims) {
  const Content content = draw.chance(50) ? Content::integers : Content::normal;
  const auto one = [&](const char* name, const auto& f, const auto& value, const auto& derivative) {
    Program p = mapped<double, double, 1>(
        draw, dims, "smooth activation", name, f,
        [=](const auto& x) { return with_derivative(x[0], value, derivative); }, content);
    p.exactness = Exactness::rounded;
    return p;
  };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  switch (draw.number(0, 6)) {
    case 0:
      return one("sigmoid", mtf::functions::Sigmoid{}, sigmoid,
                 [=](double x) { return sigmoid(x) * (1 - sigmoid(x)); });
    case 1:
      return one(
          "swish", mtf::functions::Swish{}, [=](double x) { return x * sigmoid(x); },
          [=](double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); });
    case 2:
      return one(
          "tanh", mtf::functions::Tanh{}, [](double x) { return std::tanh(x); },
          [](double x) { return 1 - std::tanh(x) * std::tanh(x); });
    case 3:
      return one("softplus", mtf::functions::Softplus{}, [](double x) { return std::log1p(std::exp(x)); }, sigmoid);
    case 4:  // at 0 the slopes of both sides are 1
      return one(
          "elu", mtf::functions::Elu{}, [](double x) { return x > 0 ? x : std::expm1(x); },
          [](double x) { return x > 0 ? 1 : std::exp(x); });
    case 5: {  // and here that of the right
      constexpr double alpha = 1.6732632423543772;
      constexpr double scale = 1.0507009873554805;
      return one(
          "selu", mtf::functions::Selu{}, [](double x) { return scale * (x < 0 ? alpha * std::expm1(x) : x); },
          [](double x) { return scale * (x < 0 ? alpha * std::exp(x) : 1); });
    }
    default: {  // (1 + tanh(u)) / 2 times x, u = sqrt(2 / pi) (x + 0.044715 x^3)
      const double c = std::sqrt(2 / std::acos(-1.0));
      const auto u = [=](double x) { return std::tanh(c * (x + 0.044715 * x * x * x)); };
      return one(
          "gelu", mtf::functions::Gelu{}, [=](double x) { return x * (1 + u(x)) / 2; },
          [=](double x) { return (1 + u(x)) / 2 + x / 2 * (1 - u(x) * u(x)) * c * (1 + 3 * 0.044715 * x * x); });
    }
  }
}
/// Quotients rounded down and their remainders: of whole numbers, 0 among the divisors.
Program draw_integer_division(Draw& draw, const ShapeValue& dims) {
  const auto quotient = [](double a, double b) { return b == 0 ? 0 : std::floor(a / b); };
  if (draw.chance(50)) {
    return mapped<std::int32_t, std::int32_t, 2>(
        draw, dims, "floor_divide, mod", "floor_divide", mtf::functions::FloorDivide{},
        [=](const auto& x) { return Scalar(quotient(x[0].value, x[1].value)); }, Content::integers, -9, 9);
  }
  return mapped<std::int32_t, std::int32_t, 2>(
      draw, dims, "floor_divide, mod", "mod", mtf::functions::Modulo{},
      [=](const auto& x) {
        return Scalar(x[1].value == 0 ? 0 : x[0].value - x[1].value * quotient(x[0].value, x[1].value));
      },
      Content::integers, -9, 9);
}
/// What no gradient passes.
Program draw_stop_gradient(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float>(draw, [&]<class T>(std::type_identity<T>) {
    Program p;
    p.inputs = {{draw_shape(draw, dims), type_of<T>}};
    p.kind = "stop_gradient";
    p.text = "stop_gradient";
    p.differentiable = false;
    p.run = []<class E>(E&, const std::vector<Array>& xs) { return std::vector<Array>{{xs[0].value, {}}}; };
    p.naive = [](const std::vector<Dense>& xs) {
      return std::vector<Dense>{make(xs[0].shape, [&](const Index& i) { return Scalar(xs[0](i).value); })};
    };
    return p;
  });
}
Program draw_extreme_of_two(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, std::int32_t>(draw, [&]<class T>(std::type_identity<T>) {
    // At a tie each operand has the full slope; small integers tie often. The first NaN goes before all numbers.
    const Content content = draw.of({Content::normal, Content::integers, Content::special});
    const auto one = [&](const char* name, const auto& f, bool largest) {
      const auto naive = [=](const auto& x) {
        if (x[0].value == x[1].value)
          return Scalar{x[0].value, x[0].slope + x[1].slope, x[0].size, x[0].slope_size + x[1].slope_size};
        const bool first = largest ? x[0].value > x[1].value : x[0].value < x[1].value;
        return first || std::isnan(x[0].value) ? x[0] : x[1];
      };
      return mapped<T, T, 2>(draw, dims, "maximum, minimum", name, f, naive, content, -2, 2);
    };
    if (draw.chance(50)) return one("maximum", mtf::functions::Maximum{}, true);
    return one("minimum", mtf::functions::Minimum{}, false);
  });
}
Program draw_function_of_three(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, std::int64_t>(draw, [&]<class T>(std::type_identity<T>) {
    Program p = mapped<T, T, 3>(draw, dims, "map of three", "multiply_add", MultiplyAdd{},
                                [](const auto& x) { return x[0] * x[1] + x[2]; });
    p.exactness = Exactness::sums;  // one rounding or two
    return p;
  });
}
Program draw_exponential(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float>(draw, [&]<class T>(std::type_identity<T>) {
    Program p =
        mapped<T, T, 1>(draw, dims, "exp", "exp", mtf::functions::Exp{}, [](const auto& x) { return exp(x[0]); });
    p.exactness = Exactness::rounded;
    return p;
  });
}
Program draw_comparison(Draw& draw, const ShapeValue& dims) {
  return with_type<double, mtf::bfloat16, std::int32_t, std::int64_t>(draw, [&]<class T>(std::type_identity<T>) {
    const Content content = draw.chance(50) ? Content::integers : Content::special;
    if (draw.chance(50)) {
      return mapped<bool, T, 2>(
          draw, dims, "comparison", "less", mtf::functions::Less{},
          [](const auto& x) { return Scalar(x[0].value < x[1].value); }, content, -2, 2);
    }
    return mapped<bool, T, 2>(
        draw, dims, "comparison", "equal", mtf::functions::Equal{},
        [](const auto& x) { return Scalar(x[0].value == x[1].value); }, content, -2, 2);
  });
}
Program draw_logic(Draw& draw, const ShapeValue& dims) {
  switch (draw.number(0, 2)) {
    case 0:
      return mapped<bool, bool, 2>(
          draw, dims, "logic", "logical_and", mtf::functions::LogicalAnd{},
          [](const auto& x) { return Scalar(x[0].value != 0 && x[1].value != 0); }, Content::integers, 0, 1);
    case 1:
      return mapped<bool, bool, 2>(
          draw, dims, "logic", "logical_or", mtf::functions::LogicalOr{},
          [](const auto& x) { return Scalar(x[0].value != 0 || x[1].value != 0); }, Content::integers, 0, 1);
    default:
      return mapped<bool, bool, 1>(
          draw, dims, "logic", "logical_not", mtf::functions::LogicalNot{},
          [](const auto& x) { return Scalar(x[0].value == 0); }, Content::integers, 0, 1);
  }
}
Program draw_where(Draw& draw, const ShapeValue& dims) {
  return with_type<double, float, mtf::bfloat16, std::int32_t, std::int64_t, bool>(draw, [&]<class T>(
                                                                                             std::type_identity<T>) {
    Program p = mapped<T, T, 2>(
        draw, dims, "where", "where", mtf::functions::Maximum{}, [](const auto& x) { return x[0]; },
        draw.chance(50) ? Content::normal : Content::special, std::same_as<T, bool> ? 0 : -4,
        std::same_as<T, bool> ? 1 : 4);
    const ShapeValue condition = draw_shape(draw, p.unions[0]);
    p.inputs.push_back({condition, ElementType::boolean, Content::integers, 0, 1});
    p.run = []<class E>(E& e, const std::vector<Array>& xs) {
      return std::vector<Array>{mtf::untyped::where<E, T>(e, xs[2], xs[0], xs[1])};
    };
    p.naive = [](const std::vector<Dense>& xs) {
      const ShapeValue shape = mtf::broadcast_shape(mtf::broadcast_shape(xs[0].shape, xs[2].shape), xs[1].shape);
      return std::vector<Dense>{make(shape, [&](const Index& i) { return xs[2](i).value != 0 ? xs[0](i) : xs[1](i); })};
    };
    return p;
  });
}

template <class To, class From>
Program casting(Draw& draw, const ShapeValue& dims) {
  Program p;
  const Content content = draw.of({Content::normal, Content::halves, Content::special});
  p.inputs = {{draw_shape(draw, dims), type_of<From>, content, std::same_as<From, bool> ? 0 : -4,
               std::same_as<From, bool> ? 1 : 4}};
  p.kind = "cast";
  p.text = "cast to " + name_of_type<To>();
  p.differentiable = mtf::floating<To> && mtf::floating<From>;
  p.run = []<class E>(E& e, const std::vector<Array>& xs) {
    return std::vector<Array>{mtf::untyped::cast<E, To, From>(e, xs[0])};
  };
  p.naive = [](const std::vector<Dense>& xs) {
    return std::vector<Dense>{make(xs[0].shape, [&](const Index& i) {
      Scalar x = xs[0](i);
      if (std::same_as<To, bool>) return Scalar(x.value != 0);
      if constexpr (std::integral<To>) {  // towards zero, the nearest that there is, 0 of NaN
        if (std::isnan(x.value)) return Scalar(0);
        const auto lowest = static_cast<double>(std::numeric_limits<To>::min());
        const auto highest = static_cast<double>(std::numeric_limits<To>::max());
        return Scalar(std::clamp(std::trunc(x.value), lowest, highest));
      }
      return x;
    })};
  };
  return p;
}
Program draw_cast(Draw& draw, const ShapeValue& dims) {
  constexpr DrawProgram pairs[]{casting<float, double>,         casting<double, float>,
                                casting<mtf::bfloat16, double>, casting<float, mtf::bfloat16>,
                                casting<mtf::bfloat16, double>, casting<mtf::bfloat16, float>,
                                casting<std::int32_t, double>,  casting<std::int64_t, std::int32_t>,
                                casting<double, std::int64_t>,  casting<float, bool>,
                                casting<bool, std::int32_t>,    casting<std::int32_t, mtf::bfloat16>};
  return pairs[draw.number(0, std::ssize(pairs) - 1)](draw, dims);
}

constexpr Kind kinds[]{{"activation", draw_activation},
                       {"smooth activation", draw_smooth_activation},
                       {"floor_divide, mod", draw_integer_division},
                       {"stop_gradient", draw_stop_gradient},
                       {"add, subtract", draw_sum},
                       {"multiply", draw_product},
                       {"maximum, minimum", draw_extreme_of_two},
                       {"map of three", draw_function_of_three},
                       {"exp", draw_exponential},
                       {"comparison", draw_comparison},
                       {"logic", draw_logic},
                       {"where", draw_where},
                       {"cast", draw_cast}};

}  // namespace

std::span<const Kind> elementwise() { return kinds; }

}  // namespace property
