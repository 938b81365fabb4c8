#include "tools/common/Program.h"
#include "tools/m3-bench/Options.h"

static constexpr m3c::Command commands[] = {
    {"limits", "read bandwidth and FP32 peak of this machine", m3c::bench::setUpLimits},
    {"kernel", "time of every kernel inside a step, with its share of the limit",
     m3c::bench::setUpKernel},
    {"step", "decode and prefill speed, with the share of the limit", m3c::bench::setUpStep},
    {"compare", "two reports side by side, with confidence intervals", m3c::bench::setUpCompare},
};

int main(int argc, char **argv) {
  return m3c::runProgram("m3-bench", "m3-bench measures plans, kernels and this machine.", commands,
                         argc, argv);
}
