// serialize_training_step: a batch in parts that run one after the other, for the memory of one part.
#pragma once

#include <array>
#include <tuple>
#include <type_traits>

#include <mtf/ops/along.hpp>
#include <mtf/ops/gradients.hpp>

namespace mtf {
inline namespace v0 {

/// Which part of a batch runs.
struct Microbatch {
  std::int64_t index = 0;
  std::int64_t count = 1;
};

namespace untyped {

namespace detail {

inline constexpr const char* microbatch_name = "serialize_training_step";

/// The rows first, first + count, ... of a dim against the rows 0, 1, ... of a part: a local copy, because the parts of
/// a dim split evenly are themselves split evenly.
[[nodiscard]] constexpr CopyPlan plan_rows(const Placement& part, const Placement& whole, const StridedRows& rows,
                                           bool from_whole) {
  StridedShape strided = row_major(whole);
  std::int64_t offset = 0;
  for (StridedDim& dim : strided) {
    if (!(dim.name == rows.dim)) continue;
    offset = rows.first * dim.stride;
    dim.stride *= rows.count;
  }
  const StridedShape own = row_major(part);
  CopyPlan plan;
  plan.loop = collapse(from_whole ? loop_over(own, own, strided) : loop_over(own, strided, own));
  (from_whole ? plan.in_offset : plan.out_offset) = offset;
  return plan;
}

}  // namespace detail

[[nodiscard]] constexpr Ref<Value> select_rows(Backend& backend, const Ref<Value>& whole, const StridedRows& rows) {
  ShapeValue shape = whole->placement.shape();
  shape[find(shape, rows.dim)].extent = rows.extent;
  backend.announce(detail::microbatch_name);
  complete(*whole, detail::microbatch_name);
  Ref<Value> part = new_value(backend, detail::microbatch_name, shape, whole->type());
  backend.copy(detail::plan_rows(part->placement, whole->placement, rows, true), *part->block, *whole->block);
  return part;
}

/// Puts the rows of a part to their places in `whole`, which is made by the first part. A sum stays pending.
constexpr void join_rows(Backend& backend, Ref<Value>& whole, const Ref<Value>& part, const StridedRows& rows) {
  backend.announce(detail::microbatch_name);
  if (!part->block->scattered.empty()) complete(*part, detail::microbatch_name);
  if (!whole) {
    ShapeValue shape = part->placement.shape();
    shape[find(shape, rows.dim)].extent = rows.extent * rows.count;
    whole = new_value(backend, detail::microbatch_name, shape, part->type());
    whole->block->pending = part->pending();
  }
  if (whole->pending() != part->pending()) {
    complete(*whole, detail::microbatch_name);
    complete(*part, detail::microbatch_name);
  }
  backend.copy(detail::plan_rows(part->placement, whole->placement, rows, false), *whole->block, *part->block);
}

/// Adds a part's result that has no batch. Sums that are pending over the same axes stay so, those of bfloat16 are held
/// in float.
template <class E, class T>
constexpr void add_part(Ref<Value>& sum, const Ref<Value>& part) {
  part->backend().announce(detail::microbatch_name);
  if (!part->block->scattered.empty()) complete_unrounded(*part, detail::microbatch_name);
  if (!sum) {
    sum = part;
    return;
  }
  if (sum->pending() != part->pending() || !sum->block->scattered.empty()) {
    complete_unrounded(*sum, detail::microbatch_name);
    complete_unrounded(*part, detail::microbatch_name);
  }
  sum = mtf::detail::Elements<E, T>::add(std::move(sum), *part);
}

/// Rows of the whole batch in the inputs; checks what can be wrong with them.
MTF_NOINLINE constexpr std::int64_t batch_rows(Backend& backend, std::span<const Array> xs, const DimValue& part) {
  constexpr const char* name = detail::microbatch_name;
  mtf::detail::require_open(backend, name);
  if (backend.rows != nullptr) raise(name, "it does not nest; split the batch once, into more parts");
  std::int64_t rows = 0;
  const auto dim = [&] { return quoted(part.name); };
  for (const Array& x : xs) {
    const int at = x.value->placement.find(part.name);
    if (at < 0) continue;
    if (x.node) {
      raise(name,
            "an input with the batch dim depends on variables or watched tensors, which would need one graph for all "
            "parts; compute "
            "it inside the function");
    }
    const std::int64_t extent = x.value->placement.dims[at].extent;
    if (rows != 0 && rows != extent) {
      raise(name, "dim " + dim() + " has extents " + std::to_string(rows) + " and " + std::to_string(extent) +
                      " in two inputs: " MTF_RULE_UNEQUAL_EXTENTS);
    }
    rows = extent;
  }
  if (rows % part.extent != 0) {
    raise(name, "dim " + dim() + " has extent " + std::to_string(rows) +
                    ", which is not a multiple of the microbatch's " + std::to_string(part.extent));
  }
  ShapeValue shape;
  shape.push_back(part);
  require_legal(backend, name, shape);
  return rows;
}

}  // namespace untyped

namespace detail {

template <class D, class... Lists>
struct DimOf;  // the dim of D's name in the first list that has it
template <class D, class First, class... Lists>
struct DimOf<D, First, Lists...> : DimOf<D, Lists...> {};
template <class D, class First, class... Lists>
  requires(contains(First::shape(), D::name))
struct DimOf<D, First, Lists...> {
  using type = select_dims<positions(First::shape(), static_shape<D>()), First>;
};

template <class D, class X>
using part_of = tensor_of<world_of<X>, element_of<X>, replace_dim<D, D, dims_of<X>>>;

template <class List>
struct OnlyDim;
template <class D>
struct OnlyDim<DimList<D>> {
  using type = D;
};

template <class R>
struct Outputs {
  using type = std::tuple<R>;
};
template <class... Rs>
struct Outputs<std::tuple<Rs...>> {
  using type = std::tuple<Rs...>;
};

/// While it lives, random numbers follow the rows of a part.
class RowsOfPart {
 public:
  constexpr RowsOfPart(Backend& backend, const StridedRows& rows) : backend_(&backend) { backend.rows = &rows; }
  RowsOfPart(const RowsOfPart&) = delete;
  RowsOfPart& operator=(const RowsOfPart&) = delete;
  constexpr ~RowsOfPart() { backend_->rows = nullptr; }

 private:
  Backend* backend_;
};

template <class World>
void require_all_gradients(const World&, const VariableGradients& gradients) {
  for (std::size_t i = 0; i < gradients.variables.size(); ++i) {
    if (gradients.values[i]) continue;
    raise(untyped::detail::microbatch_name, "the loss does not depend on variable \"" +
                                                std::string(gradients.variables[i]->path.view()) +
                                                "\"; make it untrainable, or ask for unused::zeros");
  }
}

}  // namespace detail

/// Runs `step` on one part of the batch after the other and sums the gradients: the training step of the whole batch
/// with the memory of a part. `part` is the batch dim as the step sees it; the inputs have a dim of that name whose
/// extent is a multiple of it (inputs without it are passed as they are). Of count parts, part m takes rows m, m +
/// count, ..., which is local under any layout.
///
///     auto [gradients, loss, logits] = mtf::serialize_training_step(world, Batch{8}, [&](mtf::Microbatch part, const
///     auto& x, const auto& y) {
///       const auto logits = model(x);
///       return std::tuple(mean_loss(logits, y) / part.count, logits);
///     }, inputs, targets);
///     optimizer.apply(gradients, rate);
///
/// `step` returns the loss of the part, a scalar, or a std::tuple that begins with it. Returned are the gradients of
/// all trainable variables, then the outputs: those that have the batch dim for the whole batch, the others summed. So
/// a mean per part is divided by the number of parts. Random numbers over the batch dim are those of the whole batch's
/// rows.
///
/// Errors: extents that do not divide; inputs that depend on variables; a variable on which the loss does not depend,
/// unless `unused::zeros` is asked for. Communication: that of the step for each part, but gradients stay pending: one
/// allreduce for each variable, however many parts.
template <class World, dim_like D, class F, operand... Xs>
auto serialize_training_step(World& world, const D& part, const F& step, unused when_unused, const Xs&... xs) {
  if constexpr (any_poisoned<Xs...>) {
    return poisoned{};
  } else {
    constexpr bool one_world = (std::same_as<world_of<Xs>, World> && ...);
    static_assert(one_world, "mtf: " MTF_RULE_DIFFERENT_WORLDS);
    constexpr bool batched = (detail::has_dim<D, Xs> || ...);
    static_assert(batched, "mtf: serialize_training_step: no input has the batch dim; check the spelling of its name");
    if constexpr (!(one_world && batched)) {
      return poisoned{};
    } else {
      constexpr bool callable = std::invocable<const F&, Microbatch, detail::part_of<D, Xs>...>;
      static_assert(callable,
                    "mtf: serialize_training_step: the step cannot be called as step(microbatch, inputs...), with the "
                    "inputs' batch dim that "
                    "of a part");
      if constexpr (!callable) {
        return poisoned{};
      } else {
        using Outputs = typename detail::Outputs<
            std::remove_cvref_t<std::invoke_result_t<const F&, Microbatch, detail::part_of<D, Xs>...>>>::type;
        using E = typename World::engine_type;
        using Whole = typename detail::OnlyDim<typename detail::DimOf<D, dims_of<Xs>...>::type>::type;
        E& engine = world.engine();
        const std::array<Array, sizeof...(Xs)> arrays{detail::array_of(xs)...};
        detail::require_same_backend(engine, untyped::detail::microbatch_name, arrays);
        StridedRows rows{.dim = D::name, .extent = part.extent()};
        rows.count = untyped::batch_rows(engine, arrays, {D::name, part.extent()}) / part.extent();
        VariableGradients gradients;
        return [&]<class... Os, std::size_t... O>(std::type_identity<std::tuple<Os...>>, std::index_sequence<O...>) {
          static_assert(((detail::has_dim<D, Os> || !std::same_as<element_of<Os>, bool>) && ...),
                        "mtf: serialize_training_step: an output of bool without the batch dim cannot be summed; "
                        "cast<std::int32_t>(x) it");
          std::array<Ref<Value>, sizeof...(Os)> results;
          for (; rows.first < rows.count; ++rows.first) {
            const detail::RowsOfPart rows_of_part(engine, rows);
            std::array<Array, sizeof...(Xs)> inputs = arrays;
            for (Array& input : inputs) {
              if (input.value->placement.find(rows.dim) >= 0)
                input.value = untyped::select_rows(engine, input.value, rows);
            }
            std::array<Array, sizeof...(Os)> outputs;
            [&]<std::size_t... I>(std::index_sequence<I...>) {
              const Outputs returned(step(Microbatch{rows.first, rows.count}, detail::part_of<D, Xs>(inputs[I])...));
              outputs = {detail::array_of(std::get<O>(returned))...};
              gradients += gradients_of_variables(world, std::get<0>(returned));
            }(std::index_sequence_for<Xs...>{});
            if (rows.first == 0 && when_unused == unused::error) detail::require_all_gradients(world, gradients);
            const auto take = [&]<class Output>(std::type_identity<Output>, std::size_t o) {
              if constexpr (detail::has_dim<D, Output>) {
                untyped::join_rows(engine, results[o], outputs[o].value, rows);
              } else {
                untyped::add_part<E, element_of<Output>>(results[o], outputs[o].value);
              }
            };
            (take(std::type_identity<Os>{}, O), ...);
          }
          return std::tuple<VariableGradients,
                            tensor_of<World, element_of<Os>, detail::replace_dim<Whole, Whole, dims_of<Os>>>...>(
              std::move(gradients), tensor_of<World, element_of<Os>, detail::replace_dim<Whole, Whole, dims_of<Os>>>(
                                        Array{results[O], {}})...);
        }(std::type_identity<Outputs>{}, std::make_index_sequence<std::tuple_size_v<Outputs>>{});
      }
    }
  }
}
template <class World, dim_like D, class F, operand... Xs>
auto serialize_training_step(World& world, const D& part, const F& step, const Xs&... xs) {
  return serialize_training_step(world, part, step, unused::error, xs...);
}

}  // namespace v0
}  // namespace mtf
