#include "define.hpp"

namespace mtf {
inline namespace v0 {

MTF_COMPILED_BFLOAT16(MTF_DEFINE_FORM, MTF_DEFINE_MEMBER)

}  // namespace v0
}  // namespace mtf
