// The model wing: language, plans, tensors, operations, layers, optimizers. Needs neither Kokkos nor MPI.
#pragma once

#include <mtf/core.hpp>
#include <mtf/nn/language_model.hpp>
#include <mtf/ops/arithmetic.hpp>
#include <mtf/ops/cast.hpp>
#include <mtf/ops/convolution.hpp>
#include <mtf/ops/create.hpp>
#include <mtf/ops/cross_entropy.hpp>
#include <mtf/ops/einsum.hpp>
#include <mtf/ops/gather.hpp>
#include <mtf/ops/gradients.hpp>
#include <mtf/ops/map.hpp>
#include <mtf/ops/pool.hpp>
#include <mtf/ops/random.hpp>
#include <mtf/ops/reduce.hpp>
#include <mtf/ops/reshape.hpp>
#include <mtf/ops/softmax.hpp>
#include <mtf/optim/adam.hpp>
#include <mtf/optim/schedule.hpp>
#include <mtf/optim/sgd.hpp>
