#include "define.hpp"

namespace mtf {
inline namespace v0 {

MTF_COMPILED_REAL(MTF_DEFINE_FORM, MTF_DEFINE_ELEMENTS, float)

}  // namespace v0
}  // namespace mtf
