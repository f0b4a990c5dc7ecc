// The compiled part of the library. With MTF_COMPILED defined, what worlds on the default execution space do -
// operations, gradients, optimizers, the world itself - comes from a library that was compiled once, instead of being
// compiled into every file of a user.
//
// Every file of a program is compiled alike, with or without it. What the library does not hold (functions of the
// user's own in `map`, rare element types, other execution spaces) is compiled where it is used, as without the
// library.
#pragma once

#include <mtf/compiled_forms.hpp>
#include <mtf/nn/language_model.hpp>
#include <mtf/ops/activation.hpp>
#include <mtf/ops/argmax.hpp>
#include <mtf/ops/comparison.hpp>
#include <mtf/ops/concat.hpp>
#include <mtf/ops/convolution.hpp>
#include <mtf/ops/cross_entropy.hpp>
#include <mtf/ops/cumsum.hpp>
#include <mtf/ops/einsum.hpp>
#include <mtf/ops/elementary.hpp>
#include <mtf/ops/gather.hpp>
#include <mtf/ops/gradients.hpp>
#include <mtf/ops/one_hot.hpp>
#include <mtf/ops/pool.hpp>
#include <mtf/ops/reshape.hpp>
#include <mtf/ops/sample.hpp>
#include <mtf/ops/shift.hpp>
#include <mtf/ops/slice.hpp>
#include <mtf/ops/softmax.hpp>
#include <mtf/ops/sort.hpp>
#include <mtf/ops/top_k.hpp>
#include <mtf/ops/where.hpp>
#include <mtf/optim/adam.hpp>
#include <mtf/optim/sgd.hpp>
#include <mtf/world/transfer.hpp>

namespace mtf {
inline namespace v0 {

/// The engine whose operations are explicit specialisations, defined in the library through those of its base.
class CompiledEngine final : public Engine<Kokkos::DefaultExecutionSpace> {
 public:
  using base = Engine<Kokkos::DefaultExecutionSpace>;
  using base::base;
};
template <>
struct EngineFor<Kokkos::DefaultExecutionSpace> {
  using type = CompiledEngine;
};

extern template class detail::WorldCore<Kokkos::DefaultExecutionSpace>;

#define MTF_AND(...) __VA_OPT__(, ) __VA_ARGS__
#define MTF_DECLARE_FORM(result, name, types, parameters, arguments) \
  template <>                                                        \
  result name<CompiledEngine MTF_AND types>(CompiledEngine & engine MTF_AND parameters);
// A class as a whole: clang takes no specialisation of a constexpr member that is not constexpr.
#define MTF_DECLARE_ELEMENTS(T)                                                            \
  template <>                                                                              \
  struct detail::Elements<CompiledEngine, T> : detail::Elements<CompiledEngine::base, T> { \
    static Ref<Value> add(Ref<Value>&& a, const Value& b);                                 \
    static Ref<Value> fill(Backend& backend, const KeptPlacement& placement, double with); \
  };

MTF_FORMS_OF_NO_ELEMENT(MTF_DECLARE_FORM)
MTF_COMPILED_ELEMENTS(MTF_DECLARE_FORM, MTF_DECLARE_ELEMENTS)

}  // namespace v0
}  // namespace mtf
