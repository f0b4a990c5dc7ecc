// What can be wrong with a layout, as values: the same list feeds compile-time messages and exceptions.
#pragma once

#include <cstdint>
#include <string_view>

#include <mtf/core/inline_vector.hpp>
#include <mtf/core/name.hpp>

// The rules in words, with the way out. Macros, because a static_assert takes only a literal: one text serves the
// compiler's message and the exception.
#define MTF_RULE_AXIS_USED_TWICE                                                                                     \
  "two dims of one tensor or operation are split over the same mesh axis; drop one rule, or rename one of the dims " \
  "before the operation"
#define MTF_RULE_UNKNOWN_AXIS                                                                                     \
  "a layout rule names an axis that the mesh does not have; correct the name, or wrap the rule in optional_rule " \
  "(text form: batch:rows?)"
#define MTF_RULE_REPEATED_RULE                                                                                   \
  "two layout rules name the same dim; to split a dim over several axes write them in one rule, Split<\"dim\", " \
  "\"major\", \"minor\">"
#define MTF_RULE_REPEATED_AXIS "a layout rule names the same axis twice; name each axis once"
#define MTF_RULE_INDIVISIBLE_EXTENT                                                                                   \
  "the extent of a split dim is not a multiple of the size of its mesh axes; change the extent or the axis size, or " \
  "drop the rule"
#define MTF_RULE_EMPTY_DIM \
  "the extent of a dim is not positive; an empty tensor has no meaning here, so leave out the operation or the dim"
#define MTF_RULE_REPEATED_DIM "a dim name occurs twice in one tensor; rename one of the two"
#define MTF_RULE_UNEQUAL_EXTENTS \
  "one dim name has two extents in one operation; give the dims different names or the same extent"
#define MTF_RULE_MISSING_DIM \
  "an operation names a dim that its operand does not have; check the spelling of the dim's name"
#define MTF_RULE_DIFFERENT_WORLDS                                                                                    \
  "the operands of an operation belong to different worlds; use from_global(other_world, to_host(x)) to carry data " \
  "over"
#define MTF_RULE_DIFFERENT_ELEMENTS \
  "the operands of an operation have different element types; convert one with cast<T>(x)"
#define MTF_RULE_NOT_FLOATING                                                                                      \
  "gradients exist only from and with respect to floating-point tensors; cast<float>(x) before the operations to " \
  "differentiate"
#define MTF_RULE_SUM_OF_BOOL \
  "a sum of bools would be a bool; cast<std::int32_t>(x) to count, or use reduce_any or reduce_all"
#define MTF_RULE_TOO_MANY_DIMS "more dims than the library takes: 12 in a tensor, 24 in an operation"
#define MTF_RULE_TOO_MANY_ELEMENTS                                                                                   \
  "the extents multiply to more than can be counted in 64 bits: a tensor has less than 2^60 elements, an operation " \
  "less than 2^63 combinations of indices; shorten a dim, or compute it in parts"
#define MTF_RULE_SPLIT_WINDOW                                                                                     \
  "the window dim of a filter is split, but every rank needs the whole window; drop the rule, or rename<Window, " \
  "Whole>(filter) to a dim without one"
#define MTF_RULE_SPLIT_BLOCK \
  "the dim within a block is split; rename it to a dim without a layout rule before the operation"
#define MTF_RULE_SPATIAL_NAMES                                                                                      \
  "a dim of a Spatial has a name that another dim of the operation has; rename one of the two (only Output may be " \
  "Input itself)"
#define MTF_RULE_MALFORMED_LAYOUT                                                                                    \
  "the text of a layout or mesh cannot be read; write \"dim:axis;dim:axis,axis\" and \"axis:size;axis:size\", with " \
  "\"?\" after an optional rule and without white space, control characters, quotes, brackets or \"=\" in names"
#define MTF_RULE_REPEATED_MESH_AXIS "the text of a mesh names an axis twice; name each axis once, with its size"
#define MTF_RULE_EMPTY_AXIS \
  "the size of a mesh axis is not positive; give the number of processors along it, or leave out the axis"
#define MTF_RULE_MISSING_AXIS_SIZE \
  "the mesh type leaves the size of an axis to the mesh text, which does not give it; write \"axis:size\" there"
#define MTF_RULE_OTHER_AXIS_SIZE                                                                                     \
  "the mesh text gives an axis another size than the mesh type; leave the axis out of the text, or its size out of " \
  "the type"
#define MTF_RULE_EXTRA_AXIS                                                                                          \
  "the mesh text names an axis that the mesh type lacks; correct the name, or use dynamic_mesh, whose axes are the " \
  "text's"
#define MTF_RULE_TOO_MANY_AXES \
  "more axes than the library takes: 32 in a mesh, 6 that split one dim; join axes that always go together into one"
#define MTF_RULE_TOO_MANY_PROCESSORS \
  "the sizes of the axes of a mesh multiply to more than can be counted in 64 bits; correct the size of the axis"
#define MTF_RULE_TOO_MANY_RULES "a layout has at most 32 rules; drop those whose dim is in no tensor of the program"

namespace mtf {
inline namespace v0 {

enum class Fault {
  axis_used_twice,      ///< two dims of one tensor or operation are split over one axis
  unknown_axis,         ///< a rule names an axis that the mesh does not have
  repeated_rule,        ///< two rules for one dim
  repeated_axis,        ///< one rule names an axis twice
  indivisible_extent,   ///< an extent is not a multiple of the axis sizes that split it
  empty_dim,            ///< an extent is not positive
  repeated_dim,         ///< a dim name occurs twice in one tensor
  unequal_extents,      ///< one name has two extents in one operation
  missing_dim,          ///< an operation names a dim that its operand does not have
  too_many_dims,        ///< more dims than max_rank or max_union_rank
  too_many_elements,    ///< more elements than max_elements or max_union_elements
  malformed_layout,     ///< a layout or mesh text that cannot be read
  repeated_mesh_axis,   ///< a mesh text names an axis twice
  empty_axis,           ///< the size of a mesh axis is not positive
  missing_axis_size,    ///< neither the mesh type nor the mesh text gives the size of an axis
  other_axis_size,      ///< the mesh text gives an axis another size than the mesh type
  extra_axis,           ///< the mesh text names an axis that the mesh type lacks
  too_many_axes,        ///< more axes than max_axes in a mesh or max_axes_of_dim in a rule
  too_many_processors,  ///< the sizes of the axes of a mesh text multiply to 2^63 or more
  too_many_rules,       ///< more rules than max_rules
};

/// One violated rule. Which members mean something depends on the fault; names not used are empty.
struct Violation {
  Fault fault{};
  Name dim{};
  Name other_dim{};
  Name axis{};
  std::uint32_t axes = 0;  ///< bit i: axis i of the mesh divides `dim`
  std::int64_t extent = 0;
  std::int64_t other_extent = 0;
  int position = 0;        ///< position of `dim` in the list that was checked; of a text, where reading it stopped
  int other_position = 0;  ///< position of `other_dim`
};

/// What is wrong, in order of discovery. Of the rules that did not fit there is the number: the message ends with it.
struct Violations : InlineVector<Violation, 16> {
  int omitted = 0;
};

constexpr void add(Violations& list, const Violation& violation) {
  if (list.full()) {
    ++list.omitted;
  } else {
    list.push_back(violation);
  }
}
/// Whether two violations say the same, wherever they were found.
[[nodiscard]] constexpr bool same_facts(const Violation& a, const Violation& b) {
  return a.fault == b.fault && a.dim == b.dim && a.other_dim == b.other_dim && a.axis == b.axis &&
         a.extent == b.extent && a.other_extent == b.other_extent;
}
/// First violation of this kind, or -1.
[[nodiscard]] constexpr int find(const Violations& list, Fault fault) {
  for (int i = 0; i < list.size(); ++i) {
    if (list[i].fault == fault) return i;
  }
  return -1;
}

/// The rule that a fault breaks and the way out, without names and numbers.
[[nodiscard]] constexpr std::string_view sentence(Fault fault) {
  switch (fault) {
    case Fault::axis_used_twice: return MTF_RULE_AXIS_USED_TWICE;
    case Fault::unknown_axis: return MTF_RULE_UNKNOWN_AXIS;
    case Fault::repeated_rule: return MTF_RULE_REPEATED_RULE;
    case Fault::repeated_axis: return MTF_RULE_REPEATED_AXIS;
    case Fault::indivisible_extent: return MTF_RULE_INDIVISIBLE_EXTENT;
    case Fault::empty_dim: return MTF_RULE_EMPTY_DIM;
    case Fault::repeated_dim: return MTF_RULE_REPEATED_DIM;
    case Fault::unequal_extents: return MTF_RULE_UNEQUAL_EXTENTS;
    case Fault::missing_dim: return MTF_RULE_MISSING_DIM;
    case Fault::too_many_dims: return MTF_RULE_TOO_MANY_DIMS;
    case Fault::too_many_elements: return MTF_RULE_TOO_MANY_ELEMENTS;
    case Fault::malformed_layout: return MTF_RULE_MALFORMED_LAYOUT;
    case Fault::repeated_mesh_axis: return MTF_RULE_REPEATED_MESH_AXIS;
    case Fault::empty_axis: return MTF_RULE_EMPTY_AXIS;
    case Fault::missing_axis_size: return MTF_RULE_MISSING_AXIS_SIZE;
    case Fault::other_axis_size: return MTF_RULE_OTHER_AXIS_SIZE;
    case Fault::extra_axis: return MTF_RULE_EXTRA_AXIS;
    case Fault::too_many_axes: return MTF_RULE_TOO_MANY_AXES;
    case Fault::too_many_processors: return MTF_RULE_TOO_MANY_PROCESSORS;
    case Fault::too_many_rules: return MTF_RULE_TOO_MANY_RULES;
  }
  return {};
}

}  // namespace v0
}  // namespace mtf
