#include "tools/common/Program.h"
#include "tools/m3-run/Options.h"

static constexpr m3c::Command commands[] = {
    {"generate", "continue a prompt", m3c::setUpGenerate},
    {"replay", "run capsules of kernels and judge their results", m3c::setUpReplay},
    {"score", "log-probabilities, choices and greedy continuations of token ids", m3c::setUpScore},
};

int main(int argc, char **argv) {
  return m3c::runProgram("m3-run", "m3-run runs a plan that `m3c compile` wrote.", commands, argc,
                         argv);
}
