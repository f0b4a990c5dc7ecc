#include <mtf/core/config.hpp>

int main() {}
