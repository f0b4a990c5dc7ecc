// What a check that failed throws when it is required to pass.
#pragma once

#include <string>

#include <mtf/tensor/error.hpp>

namespace mtf {
inline namespace v0 {

/// A check that did not pass. All ranks know it alike, so it unwinds like an error of a plan: the worlds end in order,
/// and it can be caught.
class check_failure : public plan_error {
 public:
  using plan_error::plan_error;
};

}  // namespace v0
}  // namespace mtf
