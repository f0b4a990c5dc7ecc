// Every kernel on the execution space of GPUs, to be compiled and not to be run: for float, or with MTF_TEST_EVERY_TYPE for
// every element type that it takes.
#include <cstdint>

#include <mtf/kernels/contract.hpp>
#include <mtf/kernels/cross_entropy.hpp>
#include <mtf/kernels/elementwise.hpp>
#include <mtf/kernels/gather.hpp>
#include <mtf/kernels/optimizer.hpp>
#include <mtf/kernels/pool_gradient.hpp>
#include <mtf/kernels/random.hpp>
#include <mtf/kernels/reduce.hpp>
#include <mtf/kernels/scan.hpp>
#include <mtf/kernels/selection.hpp>
#include <mtf/kernels/window.hpp>

namespace {

using Space = Kokkos::Cuda;
using Index = std::int32_t;
using mtf::kernels::execute;

// Function objects as a user writes them; functions of numbers are found by their argument.
struct Shifted {
  template <class X>
  MTF_FUNCTION X operator()(const X& x, const X& maximum) const {
    return maximum < X(0) && x == maximum ? X(0) : exp(x - maximum);
  }
};
struct Product {
  template <class X>
  MTF_FUNCTION X operator()(const X& x, const X& y, const X& z) const {
    return x * y * z;
  }
};

// Memory that no kernel will touch.
template <class T>
T* out() {
  return nullptr;
}
template <class T>
const T* in() {
  return nullptr;
}

template <class T>
void any_element(const Space& space) {
  execute(space, mtf::FillPlan{}, out<T>(), T());
  execute(space, mtf::ReducePlan{}, out<T>(), in<T>());
}

template <class T>
void number(const Space& space) {
  execute(space, mtf::ContractionPlan{}, out<T>(), in<T>(), in<T>());
  execute(space, mtf::CumulativeSumPlan{}, out<T>(), in<T>());
  execute(space, mtf::ArgExtremePlan{}, out<T>(), out<Index>(), in<T>());
  execute(space, mtf::SelectPlan{}, out<T>(), out<Index>(), in<T>());
  execute(space, mtf::PlaceBackPlan{}, out<T>(), in<T>(), in<Index>());
  execute(space, mtf::PatchesPlan{}, out<T>(), in<T>());
  execute(space, mtf::AddPatchesPlan{}, out<T>(), in<T>());
  execute(space, mtf::PoolGradientPlan{}, out<T>(), in<T>(), in<T>(), in<T>());
}

template <class T>
void floating(const Space& space) {
  execute(space, mtf::MapPlan{}, Shifted{}, out<T>(), in<T>(), in<T>());
  execute(space, mtf::MapPlan{}, Product{}, out<T>(), in<T>(), in<T>(), in<T>());
  execute(space, mtf::MapGradientPlan{}, Shifted{}, out<T>(), in<T>(), in<T>(), in<T>());
  execute(space, mtf::RandomPlan{}, out<T>());
}

template <class T>
void real(const Space& space) {
  any_element<T>(space);
  number<T>(space);
  floating<T>(space);
  execute(space, mtf::MomentumPlan{}, out<T>(), out<T>(), in<T>());
  execute(space, mtf::MomentumPlan{}, out<T>(), in<T>());
  execute(space, mtf::AdamPlan{}, out<T>(), out<T>(), out<T>(), in<T>());
  execute(space, mtf::TargetLogitPlan{}, out<T>(), in<T>(), in<T>(), in<Index>());
  execute(space, mtf::CrossEntropyGradientPlan{}, out<T>(), in<T>(), in<T>(), in<T>(), in<T>(), in<T>(), in<Index>());
  execute(space, mtf::GatherPlan{}, out<T>(), in<T>(), in<Index>());
  execute(space, mtf::ScatterAddPlan{}, out<T>(), in<T>(), in<Index>());
}

}  // namespace

void compile_kernels(const Space& space);
void compile_kernels(const Space& space) {
  execute(space, mtf::CopyPlan{}, 4, static_cast<void*>(nullptr), static_cast<const void*>(nullptr));
  real<float>(space);
#if defined(MTF_TEST_EVERY_TYPE)
  real<double>(space);
  floating<mtf::bfloat16>(space);
  execute(space, mtf::ReducePlan{}, out<float>(), in<mtf::bfloat16>());
  any_element<bool>(space);
  any_element<std::int32_t>(space);
  any_element<std::int64_t>(space);
  number<std::int32_t>(space);
  number<std::int64_t>(space);
  execute(space, mtf::RandomPlan{}, out<std::int32_t>());
  execute(space, mtf::RangePlan{}, out<std::int32_t>());
#endif
}
