// Worlds, gradients, and what is no template at all.
#define MTF_DEFINES_RUN_TIME
#include "define.hpp"

namespace mtf {
inline namespace v0 {

template class detail::WorldCore<Kokkos::DefaultExecutionSpace>;
MTF_FORMS_OF_NO_ELEMENT(MTF_DEFINE_FORM)

}  // namespace v0
}  // namespace mtf
