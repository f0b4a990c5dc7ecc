// Everything: the model wing, and worlds that run on Kokkos and MPI.
#pragma once

// Headers with compile-time messages come first and in the order of their dependencies: a compiler prefixes a message
// with the chain of files through which its header was first included, so here it has two lines instead of up to nine.
// clang-format off
#include <mtf/tensor/check.hpp>
#include <mtf/tensor/tensor.hpp>
#include <mtf/ops/map.hpp>
#include <mtf/ops/number.hpp>
#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/elementary.hpp>
#include <mtf/ops/activation.hpp>
#include <mtf/ops/comparison.hpp>
#include <mtf/ops/integer.hpp>
#include <mtf/ops/where.hpp>
#include <mtf/ops/reduce.hpp>
#include <mtf/ops/transpose.hpp>
#include <mtf/ops/random.hpp>
#include <mtf/ops/dropout.hpp>
#include <mtf/ops/create.hpp>
#include <mtf/ops/einsum.hpp>
#include <mtf/ops/window.hpp>
#include <mtf/ops/convolution.hpp>
#include <mtf/ops/pool.hpp>
#include <mtf/ops/gather.hpp>
#include <mtf/ops/one_hot.hpp>
#include <mtf/ops/along.hpp>
#include <mtf/ops/argmax.hpp>
#include <mtf/ops/sample.hpp>
#include <mtf/ops/top_k.hpp>
#include <mtf/ops/nth_element.hpp>
#include <mtf/ops/sort.hpp>
#include <mtf/ops/cumsum.hpp>
#include <mtf/ops/softmax.hpp>
#include <mtf/ops/cross_entropy.hpp>
#include <mtf/ops/reshape.hpp>
#include <mtf/ops/segments.hpp>
#include <mtf/ops/shift.hpp>
#include <mtf/ops/slice.hpp>
#include <mtf/ops/concat.hpp>
#include <mtf/ops/halo_exchange.hpp>
#include <mtf/ops/reduce_first.hpp>
#include <mtf/ops/gradients.hpp>
#include <mtf/tensor/custom_gradient.hpp>
#include <mtf/ops/custom_gradient.hpp>
#include <mtf/ops/recompute.hpp>
#include <mtf/ops/microbatch.hpp>
#include <mtf/world/world.hpp>
#include <mtf/world/transfer.hpp>
#include <mtf/world/local_view.hpp>
#include <mtf/world/local_map.hpp>
// clang-format on

#include <mtf/model.hpp>
#include <mtf/runtime/session.hpp>
#include <mtf/world/print.hpp>
#ifdef MTF_COMPILED
#include <mtf/compiled.hpp>
#endif
