// Defines what compiled.hpp declares, through the operations of the base engine.
#pragma once

#include <mtf/mtf.hpp>

#if !defined(MTF_COMPILED)
#error "mtf: the compiled part is built with MTF_COMPILED defined"
#endif

#define MTF_DEFINE_FORM(result, name, types, parameters, arguments)                       \
  template <>                                                                             \
  result name<CompiledEngine MTF_AND types>(CompiledEngine & engine MTF_AND parameters) { \
    return name<CompiledEngine::base MTF_AND types>(engine MTF_AND arguments);            \
  }
#define MTF_DEFINE_ELEMENTS(T)                                                                           \
  Ref<Value> detail::Elements<CompiledEngine, T>::add(Ref<Value>&& a, const Value& b) {                  \
    return Elements<CompiledEngine::base, T>::add(std::move(a), b);                                      \
  }                                                                                                      \
  Ref<Value> detail::Elements<CompiledEngine, T>::fill(Backend& backend, const KeptPlacement& placement, \
                                                       double with) {                                    \
    return Elements<CompiledEngine::base, T>::fill(backend, placement, with);                            \
  }
