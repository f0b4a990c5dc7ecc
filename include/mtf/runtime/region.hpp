// A named profiling region.
#pragma once

#include <string>

#include <Kokkos_Core.hpp>

#include <mtf/core/config.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// A named profiling region, when a Kokkos tool listens.
class Region {
 public:
  explicit Region(const char* name) : active_(Kokkos::Profiling::profileLibraryLoaded()) {
    if (active_) Kokkos::Profiling::pushRegion(std::string("mtf::").append(name));
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() {
    if (active_) Kokkos::Profiling::popRegion();
  }

 private:
  bool active_;
};

}  // namespace detail

}  // namespace v0
}  // namespace mtf
