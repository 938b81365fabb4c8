// Writes the toy plan for tests that run programs: make_toy_plan FILE VOCAB.
#include "tests/unit/runtime/ToyPlan.h"

#include <cstdlib>

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  m3c::test::toyPlan({.vocab = uint32_t(std::strtoul(argv[2], nullptr, 10))}).publish(argv[1]);
  return 0;
}
