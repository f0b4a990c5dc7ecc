#include "define.hpp"

namespace mtf {
inline namespace v0 {

MTF_COMPILED_BFLOAT16(MTF_DEFINE_FORM, MTF_DEFINE_ELEMENTS)

}  // namespace v0
}  // namespace mtf
