#include "define.hpp"

namespace mtf {
inline namespace v0 {

MTF_COMPILED_BOOL(MTF_DEFINE_FORM, MTF_DEFINE_ELEMENTS)
MTF_COMPILED_INTEGER(MTF_DEFINE_FORM, MTF_DEFINE_ELEMENTS, std::int32_t)
MTF_COMPILED_INTEGER(MTF_DEFINE_FORM, MTF_DEFINE_ELEMENTS, std::int64_t)

}  // namespace v0
}  // namespace mtf
