#include "progress.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fmt/core.h>
#include <unistd.h>

namespace {

/// Whether a person watches. Some launchers give every rank a terminal of its own, so a script that knows better says
/// so.
bool is_terminal() {
  if (const char* told = std::getenv("MTF_TERMINAL")) return std::string_view(told) == "1";
  return isatty(STDOUT_FILENO) != 0;
}

}  // namespace

Progress::Progress(std::int64_t steps, double limit, bool speaks)
    : steps_(steps), limit_(limit), speaks_(speaks), terminal_(is_terminal()) {}

double Progress::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

bool Progress::due(std::int64_t step, double agreed_elapsed) {
  // A log needs fewer lines than an eye. All ranks must agree, so a terminal's rhythm is not used to decide.
  const bool last = step == steps_;
  if (step != 1 && !last && agreed_elapsed < next_) return false;
  next_ = agreed_elapsed + (agreed_elapsed < 20 ? 2.0 : 10.0);
  return true;
}

void Progress::show(std::int64_t step, double loss, std::int64_t tokens, double elapsed) {
  if (!speaks_) return;
  const double fraction =
      std::max(static_cast<double>(step) / static_cast<double>(steps_), limit_ > 0 ? elapsed / limit_ : 0.0);
  const double remaining = fraction > 0 ? elapsed * (1 - std::min(fraction, 1.0)) / fraction : 0;
  fmt::print("{}step {:5d}/{}  loss {:.4f}  {:7.0f} tokens/s  elapsed {:3.0f} s  remaining {:3.0f} s{}",
             terminal_ ? "\r" : "", step, steps_, loss, static_cast<double>(tokens) / std::max(elapsed, 1e-9), elapsed,
             remaining, terminal_ ? "  " : "\n");
  std::fflush(stdout);
}

void Progress::finish() {
  if (speaks_ && terminal_) std::puts("");
}
