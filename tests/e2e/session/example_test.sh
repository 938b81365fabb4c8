#!/bin/sh
# The examples give the text that m3-run gives: example_test.sh M3_RUN C_EXAMPLE CPP_EXAMPLE PLAN CKPT
set -eu
m3_run=$1 c=$2 cpp=$3 plan=$4 checkpoint=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prompt="Once upon a time"
"$m3_run" generate "$plan" --weights "$checkpoint" --prompt "$prompt" --max-tokens 24 \
  --temperature 0 --progress none > "$work/m3-run"
"$c" "$plan" "$checkpoint" "$checkpoint" "$prompt" 24 > "$work/c"
"$cpp" "$plan" "$checkpoint" "$checkpoint" "$prompt" 24 > "$work/cpp"
test "$(wc -c < "$work/m3-run")" -gt 24
cmp "$work/m3-run" "$work/c"
cmp "$work/m3-run" "$work/cpp"
