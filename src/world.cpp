// Worlds, gradients, and what is no template at all.
#define MTF_DEFINES_RUN_TIME
#include "define.hpp"

// See core/config.hpp: the first is what every file that uses the compiled part wants, the second what no file defines that
// is compiled like it.
extern "C" {
void mtf_files_with_and_without_MTF_COMPILED_are_mixed() noexcept;
void mtf_files_with_and_without_MTF_COMPILED_are_mixed() noexcept {}
void mtf_compiled_part() noexcept {}
}

namespace mtf {
inline namespace v0 {

template class detail::WorldCore<Kokkos::DefaultExecutionSpace>;
MTF_FORMS_OF_NO_ELEMENT(MTF_DEFINE_FORM)

}  // namespace v0
}  // namespace mtf
