// The compile-time language: dims, shapes, meshes, layouts, placement. Needs the standard library only.
#pragma once

#include <mtf/core/element.hpp>
#include <mtf/core/placement.hpp>
