// Learning-rate schedules: host functions of the step.
#pragma once

#include <cstdint>

#include <mtf/tensor/error.hpp>

namespace mtf {
inline namespace v0 {

/// How far a training run is, for a schedule.
struct TrainingProgress {
  std::int64_t step = 0;     ///< steps that are done
  double time_fraction = 0;  ///< of a time limit, in [0, 1]; 0 if there is none. The same on all ranks: world.agree
};

/// A linear rise to `peak` during the first steps, times a linear fall to 0 at the end of the run:
///
///   rate = peak * min(1, (step + 1) / warmup_steps) * (1 - max(step / total_steps, time_fraction)), and not below 0.
///
/// The rise counts from step + 1 so that the first step moves. Of steps and time the fall follows what ends first.
struct LinearSchedule {
  double peak = 0;                ///< learning rate, as the optimizer's `apply` takes it
  std::int64_t warmup_steps = 0;  ///< 0: no rise
  std::int64_t total_steps = 0;   ///< 0: no fall by steps

  /// Throws for a peak that is negative or no finite number, negative steps, and a time that is negative or NaN.
  [[nodiscard]] constexpr double rate(const TrainingProgress& progress) const {
    const auto require = [](const char* name, double value, bool holds) {
      detail::require_parameter("LinearSchedule", name, value, holds, "a finite number, at least 0");
    };
    require("peak", peak, detail::is_finite_and_not_negative(peak));
    require("warmup_steps", static_cast<double>(warmup_steps), warmup_steps >= 0);
    require("total_steps", static_cast<double>(total_steps), total_steps >= 0);
    require("step", static_cast<double>(progress.step), progress.step >= 0);
    require("time_fraction", progress.time_fraction, detail::is_finite_and_not_negative(progress.time_fraction));
    const double rise = progress.step + 1 < warmup_steps
                            ? static_cast<double>(progress.step + 1) / static_cast<double>(warmup_steps)
                            : 1.0;
    double done = progress.time_fraction;
    if (total_steps > 0) {
      const double by_steps = static_cast<double>(progress.step) / static_cast<double>(total_steps);
      if (by_steps > done) done = by_steps;
    }
    return done < 1 ? peak * rise * (1 - done) : 0.0;
  }
};

}  // namespace v0
}  // namespace mtf
