# shellcheck shell=bash disable=SC2034
# Sourced by tools/quickstart and tools/run-tests: what m3c needs on a Debian 12 machine, and its
# installation. Nothing is installed without being named first.

m3c_packages=(
  # compiler framework: all of LLVM 22 is in Debian's security archive
  llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  clang-22 libclang-22-dev libclang-cpp22-dev libclang-rt-22-dev lld-22 liblld-22-dev
  # what LLVM's CMake files look for
  zlib1g-dev libzstd-dev libcurl4-openssl-dev libedit-dev libxml2-dev libffi-dev
  # libraries of m3c
  libfmt-dev libcli11-dev libspdlog-dev nlohmann-json3-dev libflatbuffers-dev flatbuffers-compiler
  libxxhash-dev libpcre2-dev libboost-context-dev libgtest-dev libgmock-dev libbenchmark-dev
  # build
  cmake ninja-build ccache git ca-certificates python3 python3-venv
)
m3c_test_packages=(clang-format-22 clang-tidy-22 libfuzzer-22-dev binutils)

# m3c_install PACKAGE…: installs those that are missing, as root or with sudo.
m3c_install() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  echo "Installing ${#missing[@]} Debian packages that are missing:"
  printf '%s\n' "${missing[*]}" | fold -s -w 96 | sed 's/^/  /'
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || {
      echo "error: installing packages needs root; run as root or install sudo" >&2
      return 1
    }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# m3c_python FILE…: a virtual environment in .venv with the packages of requirements files:
# tools/requirements.txt has the compilers that come as wheels (m3c looks for them in .venv),
# tests/requirements.txt what the tests need. What was installed stands in .venv/requirements.txt,
# written last: an installation that was interrupted is made again. Files that are the beginning of
# what was installed have nothing to do.
m3c_python() {
  local stamp=.venv/requirements.txt file arguments=()
  if [[ ! -f $stamp ]] || ! cat "$@" | cmp -s -n "$(cat "$@" | wc -c)" - "$stamp"; then
    echo "Installing Python packages into .venv:"
    cat "$@" | sed 's/^/  /'
    for file in "$@"; do arguments+=(-r "$file"); done
    python3 -m venv .venv || return
    .venv/bin/pip install --quiet --disable-pip-version-check "${arguments[@]}" ||
      return
    cat "$@" >"$stamp"
  fi
}
