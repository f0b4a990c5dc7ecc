// operator new and delete of the whole test program; their other forms call these. In a file of its own, because
// compilers warn of malloc and free where they see both ends.
#include "world_news.hpp"

#include <cstdlib>
#include <new>

namespace {

std::int64_t calls = 0;

}  // namespace

std::int64_t news() { return calls; }

void* operator new(std::size_t bytes) {
  ++calls;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
