// Results of random graphs beside those of one rank: the same bits, or as near as roundings leave them.
#include "graph_results.hpp"

namespace property {

namespace {

/// Which results have the same bits under every layout, as far as the types have bits for the sums. `results` are those
/// of one rank.
std::vector<bool> exact_results(const Graph& graph, const Results& results) {
  std::vector<std::vector<bool>> exact;
  std::vector<bool> all;
  std::size_t input_at = 0, result_at = 0;
  const auto is_whole = [](const Host& x) {
    return std::ranges::all_of(x, [](double element) { return element == std::floor(element); });
  };
  const auto has_bits = [](ElementType type, double sum) {
    return !is_floating(type) || sum <= (type == ElementType::float64    ? 0x1p50
                                         : type == ElementType::bfloat16 ? 0x1p7
                                                                         : 0x1p22);
  };
  for (const Step& step : graph.steps) {
    bool same = true, whole = true;
    double sum = static_cast<double>(step.program.terms);
    ElementType type = ElementType::int64;
    for (std::size_t i = 0; i < step.sources.size(); ++i) {
      const Host& x = results.inputs[input_at++];
      const Source& source = step.sources[i];
      const Input& input = step.program.inputs[i];
      bool is_same = true;
      if (source.step >= 0) {
        const auto from = static_cast<std::size_t>(source.step);
        const ShapeValue& shape = graph.steps[from].made[static_cast<std::size_t>(source.output)];
        is_same = exact[from][static_cast<std::size_t>(source.output)];
        const ShapeValue common = common_dims(shape, input.shape);
        if (common.size() < shape.size() && is_floating(input.type)) {
          std::size_t before = 0;  // the elements that were summed
          for (std::size_t s = 0; s < from; ++s) before += graph.steps[s].made.size();
          const Host& summed = results.values[before + static_cast<std::size_t>(source.output)];
          is_same = is_same && is_whole(summed) &&
                    has_bits(input.type, largest(summed) * static_cast<double>(mtf::size_of(shape)));
        }
      }
      same = same && is_same;
      if (!is_floating(input.type)) continue;
      type = type == ElementType::int64 || bytes_of(input.type) < bytes_of(type) ? input.type : type;
      whole = whole && is_whole(x);
      sum *= std::max(1.0, largest(x));
    }
    const bool holds = step.program.exactness == Exactness::same ||
                       (step.program.exactness == Exactness::sums && whole && has_bits(type, sum)) ||
                       (step.program.exactness == Exactness::sums && type == ElementType::int64);
    exact.emplace_back();
    for (std::size_t o = 0; o < step.made.size(); ++o, ++result_at) {
      exact.back().push_back(same && holds);
      all.push_back(same && holds);
    }
  }
  return all;
}

double base_tolerance(ElementType type) {
  return type == ElementType::float64 ? 1e-12 : type == ElementType::float32 ? 1e-5 : 0x1p-6;
}

/// How far results of one rank move if inputs are rounded otherwise, in the worst of several ways; each by its largest
/// element.
struct Movement {
  std::vector<double> values, gradients;
};
Movement movement_of(World& alone, const Graph& graph, const Results& expected) {
  Movement movement{std::vector<double>(expected.values.size()), std::vector<double>(expected.gradients.size())};
  const auto widen = [](std::vector<double>& worst, const std::vector<Host>& moved, const std::vector<Host>& still) {
    for (std::size_t i = 0; i < still.size(); ++i) {
      for (std::size_t j = 0; j < still[i].size(); ++j) {
        const double a = moved[i].empty() ? 0 : moved[i][j];
        if (a == still[i][j] || (a != a && still[i][j] != still[i][j])) continue;
        const double apart = std::abs(a - still[i][j]);
        worst[i] = std::max(worst[i], apart == apart ? apart : HUGE_VAL);
      }
    }
  };
  for (std::uint64_t sample = 1; sample <= 12; ++sample) {
    const Results moved = results_of(alone, graph, {.seed = sample * 0x9e3779b97f4a7c15U});
    widen(movement.values, moved.values, expected.values);
    widen(movement.gradients, moved.gradients, expected.gradients);
  }
  return movement;
}

}  // namespace

std::string difference_from_one_rank(const Graph& graph, const Results& results, Tally& tally) {
  World alone(MPI_COMM_SELF, {.mesh = "p:1"});
  const Results expected = results_of(alone, graph);
  if (!expected.kept) return "on one rank a result changed after it was made";
  if (expected.left != 0) return fmt::format("on one rank {} bytes are left", expected.left);
  if (results.gradients.size() != expected.gradients.size()) return "other leaves have gradients than on one rank";
  const std::vector<bool> exact = exact_results(graph, expected);
  bool coarse = false;
  for (const Step& step : graph.steps) {
    for (const Input& input : step.program.inputs) coarse = coarse || input.type == ElementType::bfloat16;
  }
  std::optional<Movement> movement;
  const auto differs = [&](const Host& got, const Host& wanted, ElementType type, std::int64_t& loose, auto&& moved) {
    const double scale = 1 + largest(wanted);
    const double base = base_tolerance(type) * scale;
    if (agree(got, wanted, [&](std::size_t) { return base; })) return false;
    // At the end of the range a rounding decides between a number and infinity: such elements say nothing, the others do.
    const double end = type == ElementType::float64 ? 0x1p1000 : 0x1p120;
    Host compared = got;
    for (std::size_t i = 0; i < got.size() && i < wanted.size(); ++i) {
      if (!(std::abs(wanted[i]) < end)) compared[i] = wanted[i];
    }
    if (agree(compared, wanted, [&](std::size_t) { return base; })) return ++loose, false;
    if (!movement) movement = movement_of(alone, graph, expected);
    const double apart = moved();
    // What moves that much rests on a tie, or on a difference of nearly equal numbers, and says nothing.
    if (apart > (coarse ? 0.25 : 1e-3) * scale) return ++loose, false;
    return !agree(compared, wanted, [&](std::size_t) { return base + 8 * apart; });
  };
  std::size_t at = 0;
  for (std::size_t s = 0; s < graph.steps.size(); ++s) {
    for (std::size_t o = 0; o < graph.steps[s].made.size(); ++o, ++at) {
      ++(exact[at] ? tally.exact : tally.near);
      const Host& got = results.values[at];
      const Host& wanted = expected.values[at];
      const bool wrong =
          exact[at] ? !agree(got, wanted, [](std::size_t) { return 0.0; })
                    : differs(got, wanted, expected.types[at], tally.loose, [&] { return movement->values[at]; });
      if (wrong)
        return fmt::format("result {}.{} differs from one rank's by {}{}", s, o, support::difference(got, wanted),
                           exact[at] ? ", where there are no roundings" : "");
    }
  }
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    tally.gradients += expected.gradients[i].empty() ? 0 : 1;
    if (differs(results.gradients[i], expected.gradients[i], expected.gradient_types[i], tally.loose_gradients,
                [&] { return movement->gradients[i]; }))
      return fmt::format("the gradient of watched leaf {} differs from one rank's by {}", i,
                         support::difference(results.gradients[i], expected.gradients[i]));
  }
  return {};
}

}  // namespace property
