// What the compiled part holds, as lists for preprocessor macros: one list declares and defines, see compiled.hpp.
//
// An entry is FORM(result, name, (types after the engine), (parameters after the engine), (their names)).
#pragma once

// clang-format off: it takes the lists for code

#define MTF_FORMS_OF_NO_ELEMENT(FORM)                                                                                                           \
  FORM(RecycledVector<Array>, untyped::gradients, (),                                                                                           \
       (const GradientOptions& options, const Array& loss, std::span<const untyped::Differentiable> xs), (options, loss, xs))                   \
  FORM(VariableGradients, untyped::gradients_of_variables, (), (const Registry& registry, const Array& loss), (registry, loss))                 \
  FORM(Array, untyped::reshape, (), (const Array& x, const ShapeValue& shape, const char* name), (x, shape, name))

#define MTF_FORMS_OF_ELEMENTS(FORM, T)                                                                                                          \
  FORM(std::vector<detail::host_element<T>>, detail::to_host_of, (T), (const Value& value), (value))                                            \
  FORM(Array, untyped::placeholder, (T), (const ShapeValue& shape), (shape))                                                                    \
  FORM(Array, untyped::constant, (T), (const ShapeValue& shape, T value), (shape, value))                                                       \
  FORM(Array, untyped::broadcast, (T), (const Array& x, const ShapeValue& shape), (x, shape))                                                   \
  FORM(Array, untyped::where, (T), (const Array& condition, const Array& x, const Array& y), (condition, x, y))                                 \
  FORM(Array, untyped::concat, (T),                                                                                                             \
       (const char* name, std::span<const Array> inputs, std::span<const Name> from, const DimValue& to, const ShapeValue& shape),              \
       (name, inputs, from, to, shape))                                                                                                         \
  FORM(RecycledVector<Array>, untyped::unstack, (T), (const Array& x, const Name& from), (x, from))                                             \
  FORM(Array, untyped::shift, (T), (const Array& x, const Name& dim, std::int64_t offset, WrapOptions options), (x, dim, offset, options))      \
  FORM(Array, untyped::reverse, (T), (const Array& x, const Name& dim), (x, dim))                                                               \
  FORM(Array, untyped::slice, (T), (const Array& x, const Name& from, std::int64_t begin, std::int64_t stride, const DimValue& to),             \
       (x, from, begin, stride, to))                                                                                                            \
  FORM(Array, untyped::pad, (T), (const Array& x, const Name& from, std::int64_t before, std::int64_t after, const DimValue& to),               \
       (x, from, before, after, to))                                                                                                            \
  FORM(RecycledVector<Array>, untyped::split, (T), (const Array& x, const Name& from, std::span<const DimValue> parts), (x, from, parts))       \
  FORM(Array, untyped::gather, (T, std::int32_t), (const Array& table, const Array& ids, const Name& dim), (table, ids, dim))

// MTF_COMMA stands for a comma inside an argument.
#define MTF_FUNCTION_OF_ONE(FORM, R, T, F) \
  FORM(Array, untyped::map, (R, T, F, 1), (const char* name, const F& f, const std::array<Array MTF_COMMA 1>& xs), (name, f, xs))
#define MTF_FUNCTION_OF_TWO(FORM, R, T, F) \
  FORM(Array, untyped::map, (R, T, F, 2), (const char* name, const F& f, const std::array<Array MTF_COMMA 2>& xs), (name, f, xs))
#define MTF_COMMA ,

#define MTF_FORMS_OF_NUMBERS(FORM, T)                                                                                                           \
  FORM(Array, untyped::range, (T), (const ShapeValue& shape), (shape))                                                                          \
  FORM(Array, untyped::einsum, (T), (std::span<const Array> xs, const ShapeValue& shape, einsum_order order), (xs, shape, order))               \
  FORM(Ref<Value>, untyped::sum_to, (T), (const Ref<Value>& x, const KeptPlacement& to), (x, to))                                                   \
  FORM(Array, untyped::reduce_sum, (T), (const Array& x, const ShapeValue& shape, double factor, const char* name), (x, shape, factor, name))   \
  FORM(Array, untyped::reduce_extreme, (T), (const Array& x, const ShapeValue& shape, Combine combine, const char* name),                       \
       (x, shape, combine, name))                                                                                                               \
  FORM(Array, untyped::arg_extreme, (T), (const Array& x, const Name& dim, Combine combine, const char* name), (x, dim, combine, name))         \
  FORM(untyped::SelectionArrays, untyped::top_k, (T), (const Array& x, const Name& dim, const DimValue& k), (x, dim, k))                        \
  FORM(untyped::SelectionArrays, untyped::sort, (T), (const Array& x, const Name& dim, order direction), (x, dim, direction))                   \
  FORM(Array, untyped::one_hot, (T, std::int32_t), (const Array& ids, const DimValue& dim, T on, T off), (ids, dim, on, off))                   \
  MTF_FUNCTION_OF_ONE(FORM, T, T, mtf::detail::Scale<mtf::detail::number_for<T>>)                                                               \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Abs)                                                                                               \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Sign)                                                                                              \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Square)                                                                                            \
  MTF_FUNCTION_OF_TWO(FORM, T, T, functions::Add)                                                                                               \
  MTF_FUNCTION_OF_TWO(FORM, T, T, functions::Subtract)                                                                                          \
  MTF_FUNCTION_OF_TWO(FORM, T, T, functions::Multiply)                                                                                          \
  MTF_FUNCTION_OF_TWO(FORM, T, T, functions::Maximum)                                                                                           \
  MTF_FUNCTION_OF_TWO(FORM, T, T, functions::Minimum)                                                                                           \
  MTF_FUNCTION_OF_TWO(FORM, bool, T, functions::Less)                                                                                           \
  MTF_FUNCTION_OF_TWO(FORM, bool, T, functions::LessEqual)                                                                                      \
  MTF_FUNCTION_OF_TWO(FORM, bool, T, functions::Greater)                                                                                        \
  MTF_FUNCTION_OF_TWO(FORM, bool, T, functions::GreaterEqual)                                                                                   \
  MTF_FUNCTION_OF_TWO(FORM, bool, T, functions::Equal)                                                                                          \
  MTF_FUNCTION_OF_TWO(FORM, bool, T, functions::NotEqual)

#define MTF_FORMS_OF_FLOATS(FORM, T)                                                                                                            \
  FORM(Array, untyped::random_tensor, (T),                                                                                                      \
       (const char* name, const ShapeValue& shape, const Key& key, Distribution distribution, double a, double b),                              \
       (name, shape, key, distribution, a, b))                                                                                                  \
  FORM(VariableState&, untyped::variable, (T),                                                                                                  \
       (Registry & registry, const Scope& path, const init::Initializer& initializer, const ShapeValue& shape, std::uint64_t seed),             \
       (registry, path, initializer, shape, seed))                                                                                              \
  FORM(Array, untyped::dropout, (T), (const Array& x, double rate, const Key& key, const ShapeValue& noise), (x, rate, key, noise))             \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::AddScalar)                                                                                         \
  MTF_FUNCTION_OF_ONE(FORM, T, T, mtf::detail::Quotient)                                                                                        \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Reciprocal)                                                                                        \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Sqrt)                                                                                              \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Rsqrt)                                                                                             \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Exp)                                                                                               \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Log)                                                                                               \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Tanh)                                                                                              \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Sigmoid)                                                                                           \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Relu)                                                                                              \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Gelu)                                                                                              \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Swish)                                                                                             \
  MTF_FUNCTION_OF_ONE(FORM, T, T, functions::Softplus)                                                                                          \
  MTF_FUNCTION_OF_TWO(FORM, T, T, functions::Divide)                                                                                            \
  MTF_FUNCTION_OF_TWO(FORM, T, T, functions::SquaredDifference)

// Not of bfloat16, which these operations take through float.
#define MTF_FORMS_OF_WIDE_NUMBERS(FORM, T)                                                                                                      \
  FORM(Array, untyped::cumsum, (T), (const Array& x, const Name& dim, const CumsumOptions& options), (x, dim, options))

// Of float and double; softmax and the like take bfloat16 through float, and optimizers refuse it.
#define MTF_FORMS_OF_REALS(FORM, T)                                                                                                             \
  FORM(Array, untyped::softmax, (T),                                                                                                            \
       (const Array& x, const Name& dim, untyped::SoftmaxKind kind, const char* name, const Ref<Value>& extra), (x, dim, kind, name, extra))    \
  FORM(Array, untyped::pool, (T), (const Array& x, const SpatialList& spatial, const PoolOptions& options, bool average),                       \
       (x, spatial, options, average))                                                                                                          \
  FORM(Array, untyped::cross_entropy, (T, std::int32_t),                                                                                        \
       (const Array& logits, const Array& targets, const Name& dim, const CrossEntropyOptions& options), (logits, targets, dim, options))       \
  FORM(Array, untyped::convolution, (T),                                                                                                        \
       (const Array& x, const Array& filter, const SpatialList& spatial, const ConvolutionOptions& options, bool transposed),                   \
       (x, filter, spatial, options, transposed))                                                                                               \
  FORM(Array, untyped::sample_with_temperature, (T), (const Array& x, const Name& dim, double temperature, const Key& key),                     \
       (x, dim, temperature, key))                                                                                                              \
  MTF_FUNCTION_OF_TWO(FORM, T, std::int32_t, mtf::detail::CausalMask<T>)                                                                        \
  MTF_FUNCTION_OF_TWO(FORM, T, T, mtf::detail::ScaleAndMask)                                                                                    \
  MTF_FUNCTION_OF_ONE(FORM, T, std::int32_t, mtf::detail::IsToken<T>)                                                                           \
  FORM(void, untyped::sgd, (T), (Registry & registry, const VariableGradients& gradients, double momentum, double rate),                        \
       (registry, gradients, momentum, rate))                                                                                                   \
  FORM(void, untyped::adam, (T), (Registry & registry, const VariableGradients& gradients, const AdamOptions& options, double rate),            \
       (registry, gradients, options, rate))

// What is compiled for each element type; ELEMENTS(T) stands for the members of detail::Elements<CompiledEngine, T>.
#define MTF_COMPILED_BOOL(FORM, ELEMENTS) MTF_FORMS_OF_ELEMENTS(FORM, bool)
#define MTF_COMPILED_NUMBER(FORM, ELEMENTS, T) \
  MTF_FORMS_OF_ELEMENTS(FORM, T)               \
  MTF_FORMS_OF_NUMBERS(FORM, T)                \
  ELEMENTS(T)
#define MTF_COMPILED_INTEGER(FORM, ELEMENTS, T) \
  MTF_COMPILED_NUMBER(FORM, ELEMENTS, T)        \
  MTF_FORMS_OF_WIDE_NUMBERS(FORM, T)
#define MTF_COMPILED_BFLOAT16(FORM, ELEMENTS)   \
  MTF_COMPILED_NUMBER(FORM, ELEMENTS, bfloat16) \
  MTF_FORMS_OF_FLOATS(FORM, bfloat16)
#define MTF_COMPILED_REAL(FORM, ELEMENTS, T) \
  MTF_COMPILED_INTEGER(FORM, ELEMENTS, T)    \
  MTF_FORMS_OF_FLOATS(FORM, T)               \
  MTF_FORMS_OF_REALS(FORM, T)
#define MTF_COMPILED_ELEMENTS(FORM, ELEMENTS)        \
  MTF_COMPILED_BOOL(FORM, ELEMENTS)                  \
  MTF_COMPILED_INTEGER(FORM, ELEMENTS, std::int32_t) \
  MTF_COMPILED_INTEGER(FORM, ELEMENTS, std::int64_t) \
  MTF_COMPILED_BFLOAT16(FORM, ELEMENTS)              \
  MTF_COMPILED_REAL(FORM, ELEMENTS, float)           \
  MTF_COMPILED_REAL(FORM, ELEMENTS, double)
