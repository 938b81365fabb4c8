#!/usr/bin/env bash
# What tools/quickstart says without building, and that an interrupted installation of Python packages
# is made again: quickstart_test.sh ROOT
set -euo pipefail
root=$1
fail() {
  echo "FAILED: $*"
  exit 1
}

help=$("$root/tools/quickstart" --help </dev/null) || fail "--help"
[[ $help == usage:* && $help != *Generating* ]] || fail "--help printed: $help"
for wrong in "--nonsense" "-x" "two words"; do
  # shellcheck disable=SC2086
  said=$("$root/tools/quickstart" $wrong 2>&1) && fail "$wrong was taken" || code=$?
  [[ $code == 2 && $said == error:*usage:* ]] || fail "$wrong ended with $code: $said"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin
# A python3 whose virtual environments have a pip that fails while the file "broken" is there.
cat >bin/python3 <<'END'
#!/bin/sh
mkdir -p .venv/bin
printf '#!/bin/sh\necho ran >>pip-runs\ntest ! -e broken\n' >.venv/bin/pip
chmod +x .venv/bin/pip
END
chmod +x bin/python3
PATH=$work/bin:$PATH
echo one >tools.txt
echo two >tests.txt
source "$root/tools/setup-debian.sh"
runs() { [[ $(wc -l <pip-runs) == "$1" ]] || fail "$2: pip ran $(wc -l <pip-runs) times, not $1"; }

touch broken
(m3c_python tools.txt) >/dev/null && fail "a failed installation went unnoticed"
[[ -d .venv ]] || fail "no .venv"
rm broken
m3c_python tools.txt >/dev/null
runs 2 "after an interrupted installation"
m3c_python tools.txt
runs 2 "with everything there"
m3c_python tools.txt tests.txt >/dev/null
runs 3 "with another file"
m3c_python tools.txt
runs 3 "with less than is there"
echo three >tools.txt
m3c_python tools.txt >/dev/null
runs 4 "with a changed file"
