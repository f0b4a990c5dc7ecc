// How random training programs are drawn, how they read, and how a failing one becomes small.
#include "training.hpp"

namespace property {

namespace {

constexpr std::string_view layer_names[]{"dense",   "bias", "scale",   "norm",       "attention",
                                         "dropout", "mix",  "renamed", "recomputed", "custom"};
constexpr std::string_view action_names[]{"train", "probe", "assign", "stale", "lend", "share"};

Layer draw_layer(Draw& draw, const Training& program) {
  const int number = static_cast<int>(program.layers.size());
  Layer layer;
  layer.kind = static_cast<LayerKind>(draw.number(0, layer_kinds - 1));
  const auto result = [&] {
    return static_cast<int>(draw.chance(70) ? draw.number(std::max(0, number - 1), number) : draw.number(0, number));
  };
  layer.input = result();
  layer.other = result();
  layer.variables = number;
  for (int i = 0; i < number; ++i) {
    const Layer& earlier = program.layers[static_cast<std::size_t>(i)];
    if (earlier.kind == layer.kind && earlier.variables == i && draw.chance(25)) layer.variables = i;
  }
  layer.form = static_cast<int>(draw.number(0, 2));
  // A sum that is outstanding meets a rename, which may scatter it.
  if (number > 0 && draw.chance(30)) {
    const LayerKind before = program.layers.back().kind;
    if (before == LayerKind::dense || before == LayerKind::recomputed || before == LayerKind::attention) {
      layer.kind = LayerKind::renamed;
      layer.input = layer.variables = number;
    }
  }
  const bool drops = layer.kind == LayerKind::dropout || draw.chance(40);
  layer.rate = drops ? 0.1 * static_cast<double>(draw.number(1, 6)) : 0;
  layer.is_captured = draw.chance(60);
  return layer;
}

Action draw_action(Draw& draw) {
  Action action;
  action.kind = draw.chance(35) ? ActionKind::train : static_cast<ActionKind>(draw.number(0, action_kinds - 1));
  action.seed = static_cast<std::uint64_t>(draw.number(0, 1LL << 40));
  action.variable = static_cast<int>(draw.number(0, 9));
  action.form = static_cast<int>(draw.number(0, 2));
  action.parts = draw.chance(50) ? 1 : draw.number(2, 4);
  action.is_adam = draw.chance(50);
  action.rate = 0.01 * static_cast<double>(draw.number(1, 20));
  action.holds = draw.chance(40);
  action.reads_first = draw.chance(50);
  action.passes = static_cast<int>(draw.number(1, 3));
  action.goes_on = draw.chance(50);
  for (int i = 0; i < 16; ++i) action.wanted.push_back(draw.chance(50));
  return action;
}

/// Lists of dims that meet in an operation of the program.
std::vector<ShapeValue> unions_of(const Training& program) {
  std::vector<std::string_view> lists{"abc"};
  for (const Layer& layer : program.layers) {
    switch (layer.kind) {
      case LayerKind::dense:
      case LayerKind::recomputed: lists.push_back("abce"); break;
      case LayerKind::attention: lists.insert(lists.end(), {"abcfg", "abfgh"}); break;
      case LayerKind::renamed: lists.push_back("abd"); break;
      default: break;
    }
  }
  std::vector<ShapeValue> unions;
  for (const std::string_view list : lists) unions.push_back(program.shape(list));
  for (const Action& action : program.actions) {
    Training part = program;
    if (action.kind != ActionKind::train) continue;
    part.extents[0] /= action.parts;
    for (const std::string_view list : lists) unions.push_back(part.shape(list));
  }
  for (const LayerVariable& variable : variables_of(program)) unions.push_back(variable.shape);
  for (const Action& action : program.actions) {
    if (action.kind != ActionKind::share) continue;
    const LayerVariable shared = variables_of(program)[static_cast<std::size_t>(action.variable)];
    unions.push_back(replaced(shared.shape, "c", {Name("d"), program.extent('d')}));
  }
  return unions;
}

}  // namespace

ShapeValue Training::shape(std::string_view letters) const {
  ShapeValue result;
  for (std::size_t i = 0; i < letters.size(); ++i) result.push_back({Name(letters.substr(i, 1)), extent(letters[i])});
  return result;
}
std::string Training::mesh_text() const { return text_of_mesh(mesh); }
std::string Training::layout() const { return text_of_rules(rules); }
std::string Training::text() const {
  std::string lines =
      fmt::format("training {} on {} ranks, {}, dims {}, mesh {}, layout \"{}\"\n", number, support::ranks(),
                  mtf::name_of(type), mtf::describe(shape("abcdefgh")), mesh_text(), layout());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    lines += fmt::format("  result {}: {} of result {}", i + 1, layer_names[static_cast<std::size_t>(layer.kind)],
                         layer.input);
    if (layer.kind == LayerKind::mix) lines += fmt::format(" and result {}", layer.other);
    lines += fmt::format(", form {}", layer.form);
    if (layer.variables != static_cast<int>(i))
      lines += fmt::format(", with the variables of result {}", layer.variables + 1);
    if (layer.rate > 0) lines += fmt::format(", rate {}", layer.rate);
    if (layer.kind == LayerKind::recomputed && layer.is_captured) lines += ", variables captured";
    lines += '\n';
  }
  lines += "  loss:";
  for (const Term& term : terms) lines += fmt::format(" form {} of result {}", term.form, term.result);
  if (penalty.variable >= 0)
    lines += fmt::format(", penalty of variable {} in part {}", penalty.variable, penalty.part);
  lines += '\n';
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    lines += fmt::format("  action {}: {}", i, action_names[static_cast<std::size_t>(action.kind)]);
    if (action.kind == ActionKind::train) {
      lines += fmt::format(" in {} parts", action.parts);
      lines += action.is_adam
                   ? fmt::format(", adam {} {} {} {}", adam.beta1, adam.beta2, adam.epsilon, adam.weight_decay)
                   : fmt::format(", momentum {}", momentum);
      lines += fmt::format(", rate {}", action.rate);
      if (action.holds) lines += fmt::format(", holding variable {}", action.variable);
      if (action.reads_first) lines += ", gradients read first";
    } else if (action.kind == ActionKind::probe) {
      lines += fmt::format(" {} times{}, of", action.passes, action.goes_on ? " and once more" : "");
      for (std::size_t r = 0; r <= layers.size(); ++r) {
        if (action.wanted[r]) lines += fmt::format(" {}", r);
      }
    } else {
      lines += fmt::format(" of variable {}, form {}", action.variable, action.form);
    }
    lines += '\n';
  }
  return lines;
}
std::vector<bool> Training::reached() const {
  std::vector<bool> result(layers.size() + 1, false);
  for (const Term& term : terms) result[static_cast<std::size_t>(term.result)] = true;
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (!result[i + 1]) continue;
    result[static_cast<std::size_t>(layers[i].input)] = true;
    if (layers[i].kind == LayerKind::mix) result[static_cast<std::size_t>(layers[i].other)] = true;
  }
  return result;
}

std::vector<LayerVariable> variables_of(const Training& program) {
  std::vector<LayerVariable> all;
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    const Layer& layer = program.layers[i];
    if (layer.variables != static_cast<int>(i)) continue;
    const auto add = [&](const char* name, std::string_view dims) { all.push_back({i, name, program.shape(dims)}); };
    switch (layer.kind) {
      case LayerKind::dense:
      case LayerKind::recomputed: add("w", "ce"), add("v", "ec"); break;
      case LayerKind::bias:
      case LayerKind::scale:
      case LayerKind::custom: add("s", "c"); break;
      case LayerKind::norm: add("scale", "c"); break;
      case LayerKind::attention: add("q", "cfg"), add("k", "cfg"), add("v", "cfg"), add("o", "fgc"); break;
      case LayerKind::dropout:
      case LayerKind::mix:
      case LayerKind::renamed: break;
    }
  }
  return all;
}

bool is_legal(const Training& program) {
  const mtf::DryRun<mtf::dynamic_mesh, mtf::dynamic_layout> dry(mtf::WorldOptions{
      .mesh = program.mesh_text(), .layout = program.layout(), .unused_rules = mtf::UnusedRules::ignore});
  return std::ranges::all_of(unions_of(program),
                             [&](const ShapeValue& dims) { return mtf::check(dry.rules(), dims, false).empty(); });
}

void repair(Training& program) {
  const int count = static_cast<int>(program.layers.size());
  for (int i = 0; i < count; ++i) {
    Layer& layer = program.layers[static_cast<std::size_t>(i)];
    layer.input = std::clamp(layer.input, 0, i);
    layer.other = std::clamp(layer.other, 0, i);
    const Layer& owner = program.layers[static_cast<std::size_t>(std::clamp(layer.variables, 0, i))];
    if (layer.variables < 0 || owner.kind != layer.kind || owner.variables != layer.variables) layer.variables = i;
  }
  for (Term& term : program.terms) term.result = std::clamp(term.result, 0, count);
  const int variables = static_cast<int>(variables_of(program).size());
  program.penalty.variable = std::min(program.penalty.variable, variables - 1);
  // A loss that depends on no variable, in any part, is an error.
  const std::vector<bool> reached = program.reached();
  bool depends = false;
  for (int i = 0; i < count; ++i) {
    const bool has_variables = std::ranges::any_of(variables_of(program), [&](const LayerVariable& variable) {
      return static_cast<int>(variable.layer) == program.layers[static_cast<std::size_t>(i)].variables;
    });
    depends = depends || (has_variables && reached[static_cast<std::size_t>(i + 1)]);
  }
  if (!depends) program.penalty = {.variable = std::max(0, program.penalty.variable), .part = -1};
  for (Action& action : program.actions) action.variable %= variables;
}

Training draw_training(std::uint64_t number) {
  Draw draw(0x747261696e + number);
  Training program;
  program.number = number;
  program.type = draw.chance(65) ? ElementType::float64 : ElementType::float32;
  program.mesh = draw_mesh(draw);
  program.momentum = draw.chance(20) ? 0 : 0.1 * static_cast<double>(draw.number(1, 9));
  program.adam = {.beta1 = 0.1 * static_cast<double>(draw.number(0, 9)),
                  .beta2 = draw.of({0.5, 0.9, 0.99, 0.999}),
                  .epsilon = draw.of({0.01, 0.03, 0.1, 0.5}),
                  .weight_decay = draw.chance(50) ? 0 : 0.1 * static_cast<double>(draw.number(1, 9))};
  const auto layers = static_cast<std::size_t>(draw.number(1, 6));
  // A program without variables has nothing to train.
  while (program.layers.size() < layers || variables_of(program).empty())
    program.layers.push_back(draw_layer(draw, program));
  const int last = static_cast<int>(program.layers.size());
  program.terms.push_back({last, static_cast<int>(draw.number(0, 2))});
  while (draw.chance(35))
    program.terms.push_back({static_cast<int>(draw.number(0, last)), static_cast<int>(draw.number(0, 2))});
  if (draw.chance(50)) program.penalty.variable = static_cast<int>(draw.number(0, 9));
  const std::int64_t actions = draw.number(1, 5);
  for (std::int64_t i = 0; i < actions; ++i) program.actions.push_back(draw_action(draw));
  if (draw.chance(50)) program.penalty.part = static_cast<int>(draw.number(0, 1));
  repair(program);

  std::int64_t multiple = draw.of<std::int64_t>({1, 2, 4, 8});
  for (const Action& action : program.actions) {
    if (multiple % action.parts != 0) multiple *= action.parts;
  }
  program.extents[0] = std::min<std::int64_t>(multiple * draw.number(1, 2), 48);
  for (Action& action : program.actions) {
    while (program.extents[0] % action.parts != 0) --action.parts;
  }
  for (std::size_t d = 1; d < 8; ++d)
    program.extents[d] = draw.chance(75) ? draw.of<std::int64_t>({2, 4, 8}) : draw.number(1, 3);
  program.extents[1] = std::min<std::int64_t>(program.extents[1], 4);
  program.extents[3] = program.extents[2];
  program.extents[7] = program.extents[1];
  for (const std::size_t d : {5U, 6U}) program.extents[d] = std::min<std::int64_t>(program.extents[d], 4);

  for (char dim = 'a'; dim <= 'h'; ++dim) {
    auto order = program.mesh;
    for (std::size_t i = order.size(); i-- > 1;)
      std::swap(order[i], order[static_cast<std::size_t>(draw.number(0, static_cast<std::int64_t>(i)))]);
    std::vector<std::string> over;
    std::int64_t parts = 1;
    for (const auto& [axis, size] : order) {
      if (!draw.chance(over.empty() ? (dim == 'a' ? 65 : 40) : 30) || program.extent(dim) % (parts * size) != 0)
        continue;
      parts *= size;
      over.push_back(axis);
    }
    // The name that c gets may be split as c is, or as a dim over which sums are outstanding.
    const auto like = dim == 'd' && draw.chance(50) ? "c" : (dim == 'e' || dim == 'f') && draw.chance(50) ? "d" : "";
    for (const auto& [other, same] : program.rules) {
      std::int64_t all = 1;
      for (const auto& [axis, size] : program.mesh) all *= std::ranges::find(same, axis) != same.end() ? size : 1;
      if (other == like && program.extent(dim) % all == 0) over = same;
    }
    if (!over.empty()) program.rules.emplace_back(std::string(1, dim), over);
  }
  while (!is_legal(program)) program.rules.erase(program.rules.begin() + draw.number(0, std::ssize(program.rules) - 1));
  return program;
}

Batch batch_of(const Training& program, const Action& action) {
  Draw draw(action.seed);
  const ShapeValue shape = program.shape("abc");
  Batch batch{draw_elements(draw, {shape, program.type}), draw_elements(draw, {shape, program.type})};
  const auto row = static_cast<std::size_t>(program.extent('c'));
  for (std::size_t i = 0; i < batch.x.size(); i += row) {
    if (draw.chance(15)) std::fill_n(batch.x.begin() + static_cast<std::ptrdiff_t>(i), row, 0.0);
  }
  return batch;
}
Host assigned_elements(const Training& program, const Action& action, const ShapeValue& shape) {
  Draw draw(action.seed + 1);
  return draw_elements(draw, {shape, program.type});
}

Training shrunk(Training program, const std::function<bool(const Training&)>& fails) {
  using Change = std::function<void(Training&)>;
  for (bool smaller = true; smaller;) {
    smaller = false;
    std::vector<Change> changes;
    for (std::size_t i = program.actions.size(); program.actions.size() > 1 && i-- > 0;)
      changes.emplace_back([=](Training& p) { p.actions.erase(p.actions.begin() + static_cast<std::ptrdiff_t>(i)); });
    for (std::size_t i = program.layers.size(); i-- > 0;) {
      changes.emplace_back([=](Training& p) {
        p.layers.erase(p.layers.begin() + static_cast<std::ptrdiff_t>(i));
        const int at = static_cast<int>(i);
        for (Layer& layer : p.layers) {
          for (int* number : {&layer.input, &layer.other}) *number -= *number > at ? 1 : 0;
          layer.variables -= layer.variables > at ? 1 : 0;
        }
        for (Term& term : p.terms) term.result -= term.result > at ? 1 : 0;
      });
    }
    for (std::size_t i = 0; i < program.rules.size(); ++i)
      changes.emplace_back([=](Training& p) { p.rules.erase(p.rules.begin() + static_cast<std::ptrdiff_t>(i)); });
    for (std::size_t i = 0; program.terms.size() > 1 && i < program.terms.size(); ++i)
      changes.emplace_back([=](Training& p) { p.terms.erase(p.terms.begin() + static_cast<std::ptrdiff_t>(i)); });
    if (program.penalty.variable >= 0) changes.emplace_back([](Training& p) { p.penalty.variable = -1; });
    for (std::size_t i = 0; i < program.actions.size(); ++i) {
      if (program.actions[i].parts > 1) changes.emplace_back([=](Training& p) { p.actions[i].parts = 1; });
      if (program.actions[i].passes > 1) changes.emplace_back([=](Training& p) { p.actions[i].passes = 1; });
    }
    for (std::size_t i = 0; i < program.layers.size(); ++i) {
      if (program.layers[i].rate > 0 && program.layers[i].kind != LayerKind::dropout)
        changes.emplace_back([=](Training& p) { p.layers[i].rate = 0; });
    }
    for (const Change& change : changes) {
      Training part = program;
      change(part);
      if (variables_of(part).empty()) continue;
      repair(part);  // which may take the change back
      if (part.text() == program.text() || !is_legal(part) || !fails(part)) continue;
      program = std::move(part);
      smaller = true;
      break;
    }
  }
  return program;
}

}  // namespace property
