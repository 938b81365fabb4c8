#include "tools/m3c/Commands.h"

int main(int argc, char **argv) {
  return m3c::runProgram(
      "m3c", "m3c compiles a MiniMax-M3 or M3.1 checkpoint into a plan that m3-run executes.",
      m3c::commandTable(), argc, argv);
}
