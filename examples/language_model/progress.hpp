// What a person sees while the model trains: one line in place on a terminal, plain lines in a log.
#pragma once

#include <chrono>
#include <cstdint>

class Progress {
 public:
  /// `limit` in seconds, 0 if there is none.
  Progress(std::int64_t steps, double limit, bool speaks);

  [[nodiscard]] double elapsed() const;
  /// Whether it is time to show a line; the same on every rank if `elapsed` is the agreed one.
  [[nodiscard]] bool due(std::int64_t step, double agreed_elapsed);
  void show(std::int64_t step, double loss, std::int64_t tokens, double elapsed);
  void finish();

 private:
  std::int64_t steps_;
  double limit_;
  bool speaks_;
  bool terminal_;
  double next_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};
