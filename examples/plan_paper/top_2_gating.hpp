// Top-2 gating of a mixture of experts: each position goes to at most two experts, and each expert takes a fixed number
// of a group.
#pragma once

#include <cstdint>
#include <type_traits>

#include <mtf/model.hpp>

template <class Combine, class Loss>
struct Gates {
  Combine dispatch;  ///< [outer..., Group, Experts, Capacity]: 1 where a position goes to a place of an expert
  Combine combine;   ///< the same with the weight of the expert's result
  /// A scalar: experts times the mean product of an expert's share of positions and of probability, times experts.
  Loss balance;
};

namespace gating {

struct Complement {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& gate, const X& mask) const {
    return gate * (X(1) - mask);
  }
};
struct Normalized {
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& gate, const X& other) const {
    return gate / (gate + other + X(1e-9));
  }
};
/// 1 where a is below b.
struct IsLess {
  static constexpr bool has_gradient = false;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a, const X& b) const {
    return a < b ? X(1) : X(0);
  }
};
struct IsBelow {
  static constexpr bool has_gradient = false;
  double bound;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a) const {
    return a < X(bound) ? X(1) : X(0);
  }
};
struct IsAbove {
  static constexpr bool has_gradient = false;
  double bound;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a) const {
    return a > X(bound) ? X(1) : X(0);
  }
};
struct IsOne {
  static constexpr bool has_gradient = false;
  template <class X>
  MTF_FUNCTION constexpr X operator()(const X& a) const {
    return a == X(1) ? X(1) : X(0);
  }
};

}  // namespace gating

/// Gates of gates[Outer..., Group, Experts], the softmax over Experts. `importance`[Outer..., Group] lets a position go
/// to two experts where it is 1, to one where it is between 0 and 1, else to none. A second expert is used with
/// probability (its weight) / `threshold`, and always where that is more than 1.
///
/// The first choices of a group take the places of an expert in order, then the second choices; what finds none is
/// dropped.
template <class World, class X, class Importance, class Experts, class Capacity, class Group, class... Outer>
auto top_2_gates(World& world, const X& gates, const Importance& importance, double threshold, const mtf::Key& key,
                 const Experts& experts, const Capacity& capacity, const Group& group, const Outer&... outer) {
  const auto places = static_cast<double>(capacity.extent());
  const auto index_1 = mtf::argmax<Experts>(gates);
  auto mask_1 = mtf::one_hot<float>(index_1, experts);
  const auto first_only = mtf::map(gating::IsOne{}, importance);
  mask_1 = mask_1 * first_only;
  const auto gate_1 = mtf::reduce_max<Experts>(gates) * first_only;
  const auto without_first = mtf::map(gating::Complement{}, gates, mask_1);
  const auto index_2 = mtf::argmax<Experts>(without_first);
  auto mask_2 = mtf::one_hot<float>(index_2, experts) * mtf::map(gating::IsAbove{0.0}, importance);
  const auto gate_2 = mtf::reduce_max<Experts>(without_first);
  const auto weight_1 = mtf::map(gating::Normalized{}, gate_1, gate_2);
  const auto weight_2 = mtf::map(gating::Normalized{}, gate_2, gate_1);

  const auto share = mtf::reduce_mean<Group>(mask_1);
  const auto probability = mtf::reduce_mean<Group>(gates * first_only);
  const auto count = static_cast<double>(experts.extent());
  const auto balance = mtf::reduce_mean(share * probability) * static_cast<float>(count * count);

  const auto noise = mtf::random_uniform_of<float>(world, key, 0.0, threshold, outer..., group);
  mask_2 = mask_2 * mtf::map(gating::IsLess{}, noise, weight_2);

  const auto place_1 = mtf::cumsum<Group>(mask_1, {.exclusive = true}) * mask_1;
  const auto kept_1 = mask_1 * mtf::map(gating::IsBelow{places}, place_1);
  const auto place_2 = (mtf::cumsum<Group>(mask_2, {.exclusive = true}) + mtf::reduce_sum<Group>(kept_1)) * mask_2;
  const auto kept_2 = mask_2 * mtf::map(gating::IsBelow{places}, place_2);

  const auto spread = [&](const auto& weight, const auto& kept, const auto& index, const auto& place) {
    const auto at = mtf::one_hot<float>(mtf::cast<std::int32_t>(mtf::reduce_sum<Experts>(place)), capacity);
    return weight * mtf::reduce_sum<Experts>(kept) * mtf::one_hot<float>(index, experts) * at;
  };
  const auto combine = spread(weight_1, kept_1, index_1, place_1) + spread(weight_2, kept_2, index_2, place_2);
  const auto dispatch = mtf::map(gating::IsAbove{0.0}, combine);
  return Gates<std::remove_cvref_t<decltype(combine)>, std::remove_cvref_t<decltype(balance)>>{dispatch, combine,
                                                                                               balance};
}
