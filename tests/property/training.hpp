// Random training programs: a few layers over variables, and a few actions that train them, differentiate them, assign
// to them, lend them memory.
#pragma once

#include "execution.hpp"
#include "worlds.hpp"

namespace property {

/// What a layer does with x[a, b, c], the batch, a length and a model dim; its result has the same dims. The others: d
/// has the extent of c, e is hidden, f are heads, g keys and values, h is b under another name.
enum class LayerKind : std::uint8_t { dense, bias, scale, norm, attention, dropout, mix, renamed, recomputed, custom };
inline constexpr int layer_kinds = 10;

struct Layer {
  LayerKind kind{};
  int input = 0;             ///< which result: 0 is what is given, i + 1 that of layer i
  int other = 0;             ///< the second operand of a mix
  int variables = 0;         ///< the layer whose variables it uses: its own number, or that of an earlier one
  int form = 0;              ///< a variant, 0, 1 or 2: a function, the dims of noise, which outputs are used
  double rate = 0;           ///< of dropout
  bool is_captured = false;  ///< recomputed: the function refers to its variables, which are not among its inputs
};
/// A part of the loss.
struct Term {
  int result = 0;
  int form = 0;  ///< squares of differences from the targets, products with them, a mean of squares
};
/// The squares of a variable, in the loss.
struct Penalty {
  int variable = -1;  ///< none
  int part = -1;      ///< the microbatch that alone has it, all if -1
};

enum class ActionKind : std::uint8_t { train, probe, assign, stale, lend, share };
inline constexpr int action_kinds = 6;

struct Action {
  ActionKind kind{};
  std::uint64_t seed = 0;  ///< of its data
  int variable = 0;        ///< that it assigns to, or of which it holds a snapshot
  int form = 0;            ///< assign, assign_add or assign_sub
  // train:
  std::int64_t parts = 1;
  bool is_adam = false;
  double rate = 0.1;
  bool holds = false;        ///< a snapshot is held meanwhile
  bool reads_first = false;  ///< gradients are read before the update
  // probe:
  int passes = 1;
  bool goes_on = false;      ///< after the last pass, which is to be refused
  std::vector<bool> wanted;  ///< whether the gradient of a result is asked for
};

struct Training {
  std::uint64_t number = 0;
  ElementType type = ElementType::float64;
  DrawnMesh mesh;
  std::vector<std::pair<std::string, std::vector<std::string>>> rules;  ///< the major axis first
  std::array<std::int64_t, 8> extents{};                                ///< of a to h
  double momentum = 0;
  mtf::AdamOptions adam;
  std::vector<Layer> layers;
  std::vector<Term> terms;
  Penalty penalty;
  std::vector<Action> actions;

  [[nodiscard]] std::int64_t extent(char dim) const { return extents[static_cast<std::size_t>(dim - 'a')]; }
  [[nodiscard]] ShapeValue shape(std::string_view letters) const;
  [[nodiscard]] std::string mesh_text() const;
  [[nodiscard]] std::string layout() const;
  /// The world, then one line a layer and an action.
  [[nodiscard]] std::string text() const;
  /// Whether the loss depends on a layer.
  [[nodiscard]] std::vector<bool> reached() const;
};

/// A variable of a layer.
struct LayerVariable {
  std::size_t layer = 0;
  std::string name;
  ShapeValue shape;
};
/// All variables of a program, in the order in which they are made.
[[nodiscard]] std::vector<LayerVariable> variables_of(const Training& program);

[[nodiscard]] Training draw_training(std::uint64_t number);
/// Makes indices fit after layers or actions were taken away.
void repair(Training& program);
[[nodiscard]] bool is_legal(const Training& program);

/// The elements of the data of an action, of the program's element type: some rows of the input are zeros.
struct Batch {
  Host x, target;
};
[[nodiscard]] Batch batch_of(const Training& program, const Action& action);
/// What is assigned to a variable.
[[nodiscard]] Host assigned_elements(const Training& program, const Action& action, const ShapeValue& shape);

/// How near a result is to the reference.
enum class Nearness : std::uint8_t {
  same,    ///< the same bits
  update,  ///< a few roundings
  sums,    ///< what sums and functions leave
};
struct Observation {
  std::string name;
  Host values;
  Nearness nearness = Nearness::sums;
  double scale = 1;  ///< of a reference: how much larger errors may be, since numbers on the way to it are large
};
/// What a program gives, in order. 1 stands for an error that was thrown or a thing that holds, 0 for none.
using Trace = std::vector<Observation>;

/// A program ends where a variable has grown large: functions of large numbers are not told from roundings.
[[nodiscard]] inline bool is_moderate(const Host& variable) { return largest(variable) < 6; }

[[nodiscard]] Trace trace_of(World& world, const Training& program);

/// What the program is to give, found by loops on the host in double. The variables after each action are taken from
/// `observed`, so that roundings do not add up. Random masks are drawn in `alone`, which has one rank.
[[nodiscard]] Trace reference_of(World& alone, const Training& program, const Trace& observed);

/// What is wrong with each program on all ranks; empty if nothing is. All ranks get the same answer.
[[nodiscard]] std::vector<std::string> faults_of(std::span<const Training> programs);

[[nodiscard]] Training shrunk(Training program, const std::function<bool(const Training&)>& fails);

}  // namespace property
