#!/bin/sh
# Installs the runtime, moves the tree, builds the examples against it with find_package, and runs
# them over the toy plan: install_test.sh BUILD SOURCE WORK MAKE_TOY_PLAN C_COMPILER CXX_COMPILER
set -eu
build=$1 source=$2 work=$3 make_toy=$4
export CC="$5" CXX="$6"
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --component runtime --prefix "$work/first" > "$work/install.log"
mv "$work/first" "$work/moved"
cmake -G Ninja -S "$source/examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$work/moved" > "$work/configure.log"
cmake --build "$work/examples" > "$work/build.log"
"$work/moved/bin/m3-run" --version
"$make_toy" "$work/toy.m3plan" 512
for example in generate generate_cpp; do
  "$work/examples/$example" "$work/toy.m3plan" synthetic:1 "$source/tests/data/m3-tiny" "Hello" 5 \
    > "$work/$example.out"
  test -s "$work/$example.out"
done
# Both print the most probable continuation.
cmp "$work/generate.out" "$work/generate_cpp.out"
# A failure is a message and an exit code.
if "$work/examples/generate" /no/such.m3plan x y z 2> "$work/err"; then exit 1; fi
grep -q /no/such.m3plan "$work/err"
