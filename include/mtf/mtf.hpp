// Everything: the model wing, and worlds that run on Kokkos and MPI.
#pragma once

#include <mtf/model.hpp>
#include <mtf/runtime/session.hpp>
#include <mtf/world/print.hpp>
#include <mtf/world/transfer.hpp>
#include <mtf/world/world.hpp>
