#!/usr/bin/env bash
# Fetches what the build needs, once. Safe to run again: when all is there it does nothing,
# touches no network and ends in a fraction of a second.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--test] [--dev] [--help]

  --test   also TensorBoard and safetensors for Python, which the tests read our files with, what the
           Python package is tested, checked and packed with, and Chromium, which they look at reports with
  --dev    also clang-format-14, clang-tidy-14, and clang-14 with its sanitizers (for make format,
           make tidy, make fuzz)

What it does:
  1. system packages: a C++20 compiler, CMake, Ninja, Python's venv and a few -dev packages,
     by apt-get as root or through sudo without a password; otherwise it names them and stops
  2. libtorch 2.11 out of the `torch` wheel, in a private environment: .deps/venv
  3. plotly.min.js out of the `plotly` wheel (for the HTML reports): .deps/plotly
  4. where apt-get has no toml++ (Ubuntu 22.04), its headers out of the sources of
     `pytomlpp`: .deps/tomlplusplus
  5. with --test, the Python packages of the tests, in an environment of their own (90 MB to
     download): .deps/testenv. It imports the torch of step 2; for the GPU's libraries that this
     torch names and a machine without a GPU has not, it gets stand-ins
  6. .deps/env.cmake, which tells CMake where these are

Environment:
  DEQ_LIBTORCH=DIR    use this libtorch, 2.8 or newer (a folder with include/ and lib/: an unpacked
                      libtorch, or site-packages/torch) instead of the wheel. Remembered for
                      later runs; DEQ_LIBTORCH=wheel forgets it.
  DEQ_TORCH=cpu|cuda  which set of wheels: cpu is torch without its GPU libraries (520 MB to
                      download), cuda is all of it (3 GB). Default: cuda where an NVIDIA
                      driver is found, else cpu.
  DEQ_PLOTLY_JS=FILE  use this plotly.min.js
  DEQ_PYTHON=FILE     the Python (3.10 to 3.14) the environments are made from
  DEQ_NO_APT=1        never call apt-get
  CXX=FILE            the compiler to build with
TEXT
}

readonly TORCH_VERSION=2.11.0
readonly MIN_TORCH=2.8
readonly TORCH_CPU_SET=("torch==$TORCH_VERSION" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
readonly PLOTLY_VERSION=7.1.0
readonly PYTOMLPP_VERSION=1.1.0  # holds toml++ 3.4.0
# The last two lines are what torch itself needs of Python.
readonly TEST_SET=(tensorboard==2.21.0 safetensors==0.8.0 protobuf==7.36.2
  'numpy==2.2.6; python_version < "3.11"' 'numpy==2.4.6; python_version >= "3.11"'
  pytest==9.2.0 mypy==2.4.1 scikit-build-core==1.1.1 'matplotlib>=3.9' 'tomli>=2; python_version < "3.11"'
  filelock 'typing-extensions>=4.10' 'setuptools<82' 'sympy>=1.13.3' 'networkx>=2.5.1' jinja2
  'fsspec>=0.8.5')
readonly MIN_GXX=12
readonly MIN_CMAKE=3.22

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly ROOT=$PWD
readonly DEPS=$ROOT/.deps

dev=0
with_tests=0
for arg in "$@"; do
  case $arg in
    --test) with_tests=1 ;;
    --dev) dev=1 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "setup: unknown option: $arg" >&2; usage >&2; exit 2 ;;
  esac
done

did_something=0
say() { did_something=1; echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# at_least VERSION MINIMUM: compares dotted numbers
at_least() {
  local -a a b
  IFS=. read -ra a <<<"${1%%[!0-9.]*}"
  IFS=. read -ra b <<<"$2"
  local i
  for i in "${!b[@]}"; do
    ((10#${a[i]:-0} > 10#${b[i]})) && return 0
    ((10#${a[i]:-0} < 10#${b[i]})) && return 1
  done
  return 0
}

case $(uname -s)-$(uname -m) in
  Linux-x86_64 | Linux-aarch64) ;;
  *) fail "libdeq builds on Linux on 64-bit x86 or ARM; this is $(uname -s) on $(uname -m)." ;;
esac

case ${DEQ_TORCH:-} in '' | cpu | cuda) ;; *) fail "DEQ_TORCH=$DEQ_TORCH: must be cpu or cuda." ;; esac

mkdir -p "$DEPS"
exec 9>"$DEPS/.lock"
flock 9 2>/dev/null || true

# ---- 1. system packages -------------------------------------------------------------------

find_gxx() {
  local c v
  if [[ -n ${CXX:-} ]]; then echo "$CXX"; return; fi
  for c in g++ g++-12 g++-13 g++-14 g++-15; do
    have "$c" || continue
    v=$("$c" -dumpversion)
    if at_least "$v" $MIN_GXX; then command -v "$c"; return; fi
  done
}

have_header() {
  local dir
  local -a dirs=(/usr/include /usr/local/include)
  local p
  IFS=: read -ra p <<<"${CMAKE_PREFIX_PATH:-}:${CPATH:-}"
  for dir in "${p[@]}"; do [[ -n $dir ]] && dirs+=("$dir/include" "$dir"); done
  for dir in "${dirs[@]}"; do [[ -f $dir/$1 ]] && return 0; done
  return 1
}

find_python() {
  local c v
  for c in ${DEQ_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.10}; do
    have "$c" || continue
    v=$("$c" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    case $v in 3.1[0-4]) command -v "$c"; return ;; esac
  done
}

cmake_ok() {
  local v
  have cmake || return 1
  v=$(cmake --version) || return 1
  v=${v#cmake version }
  at_least "${v%%$'\n'*}" $MIN_CMAKE
}

# Nothing is taken from wheels where the user brings both libtorch and plotly.min.js.
wants_venv() {
  ((toml_from_sources)) && ! has_toml_sources && return 0
  [[ -n ${DEQ_PLOTLY_JS:-} || -f $DEPS/plotly/plotly.min.js ]] || return 0
  [[ ${DEQ_LIBTORCH:-} == wheel ]] && return 0
  [[ -z ${DEQ_LIBTORCH:-} && ! -s $DEPS/libtorch.path ]]
}

has_toml_sources() { [[ $(cat "$DEPS/tomlplusplus/version" 2>/dev/null) == "$PYTOMLPP_VERSION" ]]; }

has_testenv() {
  [[ -x $DEPS/testenv/bin/python && $(cat "$DEPS/testenv.stamp" 2>/dev/null) == "${TEST_SET[*]}" ]]
}

has_python_headers() {
  "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}

needs_python() {
  [[ ! -x $DEPS/venv/bin/python ]] && wants_venv && return 0
  ((with_tests)) && ! has_testenv
}

missing=()
need() { missing+=("$1"); }

list_missing() {
  missing=()
  gxx=$(find_gxx)
  if [[ -z $gxx ]]; then
    # Where the distribution's own g++ is older than 12, a newer one is in g++-12.
    if have g++ || grep -qs 'VERSION_ID="22.04"' /etc/os-release; then need g++-12; else need g++; fi
  fi
  cmake_ok || need cmake
  have ninja || need ninja-build
  have_header gtest/gtest.h || need libgtest-dev
  have_header benchmark/benchmark.h || need libbenchmark-dev
  have_header CLI/CLI.hpp || need libcli11-dev
  toml_from_sources=0
  if ! have_header toml++/toml.h; then
    if ! has_toml_sources && apt_has libtomlplusplus-dev; then need libtomlplusplus-dev; else toml_from_sources=1; fi
  fi
  have_header nlohmann/json.hpp || need nlohmann-json3-dev
  have_header gloo/algorithm.h || need libgloo-dev
  have_header jpeglib.h || need libjpeg-dev
  have_header png.h || need libpng-dev
  if needs_python; then
    python=$(find_python)
    if [[ -z $python ]]; then
      if [[ -n ${DEQ_PYTHON:-} ]] || have python3; then
        fail "the wheels need Python 3.10 to 3.14, and ${DEQ_PYTHON:-python3} is not one; name one with DEQ_PYTHON=/path/to/python3."
      fi
      need python3; need python3-venv
    elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
      need python3-venv
    fi
    if ((with_tests)) && [[ -n $python ]] && ! has_python_headers "$python"; then need python3-dev; fi
  fi
  if ((dev)); then
    have clang-format-14 || need clang-format-14
    have clang-tidy-14 || need clang-tidy-14
    have clang++-14 || need clang-14
    compgen -G '/usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a' >/dev/null || need libclang-rt-14-dev
  fi
}

has_browser() { have chromium || have chromium-browser || have google-chrome; }

# The command that installs packages, as words: empty when there is none.
root_prefix() {
  [[ -z ${DEQ_NO_APT:-} ]] || return 1
  have apt-get || return 1
  if ((EUID == 0)); then echo env; return; fi
  have sudo && sudo -n true 2>/dev/null && { echo sudo -n env; return; }
  return 1
}

apt_get() {
  local -a as_root
  read -ra as_root <<<"$(root_prefix)"
  [[ ${#as_root[@]} -gt 0 ]] || return 1
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get "$@" >>"$DEPS/apt.log" 2>&1
}

apt_update() {
  say "apt-get update"
  apt_get update -qq || true
}

apt_has_lists() { compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null; }

# apt_has PACKAGE: whether it could be installed
apt_has() {
  root_prefix >/dev/null || return 1
  apt_has_lists || apt_update
  [[ -n $(apt-cache show "$1" 2>/dev/null) ]]
}

apt_install() {
  local -a install=(install -y -qq --no-install-recommends "$@")
  rm -f "$DEPS/apt.log"
  if apt_has_lists && apt_get "${install[@]}"; then return 0; fi
  apt_update
  apt_get "${install[@]}"
}

list_missing
if ((${#missing[@]})); then
  if root_prefix >/dev/null; then
    say "installing ${missing[*]}"
    wanted=("${missing[@]}")
    apt_install "${wanted[@]}" || { tail -n 5 "$DEPS/apt.log" >&2; fail "apt-get could not install: ${wanted[*]} (its messages are in .deps/apt.log)"; }
    hash -r
    list_missing
    ((${#missing[@]} == 0)) || fail "still missing after the installation: ${missing[*]}"
  else
    fail "these packages are missing: ${missing[*]}
       Install them, then run this again:
         sudo apt-get update && sudo apt-get install -y ${missing[*]}"
  fi
fi

# ccache makes rebuilds quick; the build does without it. Tried once.
if ! have ccache && [[ ! -f $DEPS/ccache.tried ]] && root_prefix >/dev/null; then
  say "installing ccache (optional)"
  apt_install ccache || say "no ccache: going on without"
  touch "$DEPS/ccache.tried"
fi

# The tests of reports in a browser are skipped where there is none. Ubuntu's package is a snap, which does
# not start everywhere. Tried once.
if ((with_tests)) && ! has_browser && [[ ! -f $DEPS/chromium.tried ]]; then
  if grep -qs '^ID=debian' /etc/os-release && apt_has chromium; then
    say "installing chromium (for the tests of reports; 100 MB to download, once)"
    apt_install chromium || say "no chromium: the tests of reports in a browser will be skipped"
  else
    say "no Chromium: the tests of reports in a browser will be skipped; install the package chromium to run them"
  fi
  touch "$DEPS/chromium.tried"
fi

# ---- 2. libtorch ----------------------------------------------------------------------------

# torch_version DIR: the version of the libtorch in DIR, or nothing
torch_version() {
  local f
  for f in include/torch/headeronly/version.h include/torch/csrc/api/include/torch/version.h; do
    [[ -f $1/$f ]] || continue
    local major minor patch
    major=$(sed -n 's/^#define TORCH_VERSION_MAJOR *\([0-9]*\).*/\1/p' "$1/$f")
    minor=$(sed -n 's/^#define TORCH_VERSION_MINOR *\([0-9]*\).*/\1/p' "$1/$f")
    patch=$(sed -n 's/^#define TORCH_VERSION_PATCH *\([0-9]*\).*/\1/p' "$1/$f")
    [[ -n $major ]] && { echo "$major.$minor.$patch"; return; }
  done
  if [[ -f $1/build-version ]]; then head -n 1 "$1/build-version"; fi
}

check_libtorch() {
  [[ -f $1/include/torch/csrc/api/include/torch/torch.h && -f $1/lib/libtorch_cpu.so && -f $1/lib/libc10.so ]] ||
    fail "DEQ_LIBTORCH=$1: no libtorch there (it must hold include/torch/csrc/api/include/torch/torch.h, lib/libtorch_cpu.so and lib/libc10.so)."
  local v
  v=$(torch_version "$1")
  [[ -n $v ]] && at_least "$v" $MIN_TORCH ||
    fail "DEQ_LIBTORCH=$1: this is libtorch ${v:-of an unknown version}; libdeq needs $MIN_TORCH or newer."
}

has_driver() {
  [[ -e /proc/driver/nvidia/version ]] && return 0
  have nvidia-smi && timeout 10 nvidia-smi -L >/dev/null 2>&1
}

make_venv() {
  # A folder without pip is what an interrupted creation leaves.
  if [[ ! -f $DEPS/venv.stamp || ! -x $DEPS/venv/bin/python ]]; then
    rm -rf "$DEPS/venv" "$DEPS/torch.stamp" "$DEPS/venv.stamp"
    python=${python:-$(find_python)}
    [[ -n $python ]] || fail "no Python 3.10 to 3.14 found; name one with DEQ_PYTHON=/path/to/python3."
    say "making a private Python environment in .deps/venv ($("$python" --version))"
    "$python" -m venv "$DEPS/venv" || fail "$python -m venv failed."
    touch "$DEPS/venv.stamp"
  fi
}

pip() { "$DEPS/venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }

wheel_dir() { compgen -G "$DEPS/venv/lib/python3*/site-packages/torch" | head -n 1; }

install_wheels() {
  local set=${DEQ_TORCH:-} stamp='' dir
  [[ -f $DEPS/torch.stamp ]] && stamp=$(<"$DEPS/torch.stamp")
  if [[ -z $set ]]; then if has_driver; then set=cuda; else set=cpu; fi; fi
  dir=$(wheel_dir || true)
  if [[ -n $dir && -f $dir/lib/libtorch_cpu.so ]]; then
    # The cuda set holds the cpu set.
    [[ $stamp == "$set $TORCH_VERSION" || $stamp == "cuda $TORCH_VERSION" ]] && return
  fi
  # Without a stamp, what lies there is an interrupted installation.
  [[ -n $stamp ]] || rm -f "$DEPS/venv.stamp"
  make_venv
  rm -f "$DEPS/torch.stamp"
  if [[ $set == cpu ]]; then
    say "installing ${TORCH_CPU_SET[*]} into .deps/venv (520 MB, once)"
    pip install --no-deps --no-compile "${TORCH_CPU_SET[@]}" || fail "pip could not install torch $TORCH_VERSION; run this again to retry."
  else
    say "installing torch==$TORCH_VERSION with its CUDA libraries into .deps/venv (3 GB, once; DEQ_TORCH=cpu takes 520 MB)"
    pip install --no-compile "torch==$TORCH_VERSION" || fail "pip could not install torch $TORCH_VERSION; run this again to retry."
  fi
  dir=$(wheel_dir) || fail "pip reported success, but there is no torch in .deps/venv."
  "$DEPS/venv/bin/python" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$dir/lib/libtorch_cpu.so" ||
    fail "the libtorch just installed does not load (see above)."
  echo "$set $TORCH_VERSION" >"$DEPS/torch.stamp"
}

if [[ ${DEQ_LIBTORCH:-} == wheel ]]; then
  rm -f "$DEPS/libtorch.path"
elif [[ -n ${DEQ_LIBTORCH:-} ]]; then
  check_libtorch "${DEQ_LIBTORCH%/}"
  (cd "$DEQ_LIBTORCH" && pwd) >"$DEPS/libtorch.path"
fi

if [[ -s $DEPS/libtorch.path ]]; then
  libtorch=$(<"$DEPS/libtorch.path")
  [[ -n ${DEQ_LIBTORCH:-} || -d $libtorch ]] ||
    fail "the libtorch chosen before is gone: $libtorch. Name another with DEQ_LIBTORCH, or DEQ_LIBTORCH=wheel for the wheel."
  libtorch_cmake=$libtorch
else
  install_wheels
  libtorch=$(wheel_dir)
  # Relative, so that a checkout may be moved.
  libtorch_cmake="\${CMAKE_CURRENT_LIST_DIR}/${libtorch#"$DEPS/"}"
fi

# libtorch brings its own fmt headers, which libdeq uses; only one without them needs the package.
if [[ ! -f $libtorch/include/fmt/format.h ]] && ! have_header fmt/format.h; then
  say "installing libfmt-dev (this libtorch has no fmt headers)"
  apt_install libfmt-dev || fail "this package is missing: libfmt-dev
       Install it, then run this again:
         sudo apt-get update && sudo apt-get install -y libfmt-dev"
fi

# ---- 3. plotly.min.js -------------------------------------------------------------------------

if [[ -n ${DEQ_PLOTLY_JS:-} ]]; then
  [[ -f $DEQ_PLOTLY_JS ]] || fail "DEQ_PLOTLY_JS=$DEQ_PLOTLY_JS: no such file."
  plotly_cmake=$(realpath "$DEQ_PLOTLY_JS")
else
  if [[ ! -f $DEPS/plotly/plotly.min.js || $(cat "$DEPS/plotly/version" 2>/dev/null) != "$PLOTLY_VERSION" ]]; then
    make_venv
    say "fetching plotly.min.js (plotly $PLOTLY_VERSION, 10 MB, once)"
    rm -rf "$DEPS/plotly"
    mkdir -p "$DEPS/plotly/wheel"
    pip download --quiet --no-deps --only-binary=:all: -d "$DEPS/plotly/wheel" "plotly==$PLOTLY_VERSION" ||
      fail "pip could not fetch plotly $PLOTLY_VERSION; run this again to retry, or name a plotly.min.js with DEQ_PLOTLY_JS."
    "$DEPS/venv/bin/python" - "$DEPS/plotly" <<'PY'
import glob, os, shutil, sys, zipfile
folder = sys.argv[1]
with zipfile.ZipFile(glob.glob(folder + "/wheel/plotly-*.whl")[0]) as wheel:
    with wheel.open("plotly/package_data/plotly.min.js") as src, open(folder + "/part", "wb") as dst:
        shutil.copyfileobj(src, dst)
os.replace(folder + "/part", folder + "/plotly.min.js")
PY
    rm -rf "$DEPS/plotly/wheel"
    echo "$PLOTLY_VERSION" >"$DEPS/plotly/version"
  fi
  plotly_cmake="\${CMAKE_CURRENT_LIST_DIR}/plotly/plotly.min.js"
fi

# ---- 4. toml++, where there is no package of it -------------------------------------------------

toml_cmake=''
if ((toml_from_sources)); then
  if ! has_toml_sources; then
    make_venv
    say "fetching the headers of toml++ (the sources of pytomlpp $PYTOMLPP_VERSION, 1 MB, once)"
    rm -rf "$DEPS/tomlplusplus"
    mkdir -p "$DEPS/tomlplusplus/sources"
    pip download --quiet --no-deps --no-binary=pytomlpp -d "$DEPS/tomlplusplus/sources" "pytomlpp==$PYTOMLPP_VERSION" ||
      fail "pip could not fetch pytomlpp $PYTOMLPP_VERSION; run this again to retry, or install toml++ 3 yourself."
    tar -xzf "$DEPS/tomlplusplus/sources/pytomlpp-$PYTOMLPP_VERSION.tar.gz" -C "$DEPS/tomlplusplus" --strip-components=3 \
      "pytomlpp-$PYTOMLPP_VERSION/third_party/tomlplusplus/include" "pytomlpp-$PYTOMLPP_VERSION/third_party/tomlplusplus/LICENSE" ||
      fail "pytomlpp $PYTOMLPP_VERSION does not hold the headers of toml++."
    rm -rf "$DEPS/tomlplusplus/sources"
    echo "$PYTOMLPP_VERSION" >"$DEPS/tomlplusplus/version"
  fi
  toml_cmake="\${CMAKE_CURRENT_LIST_DIR}/tomlplusplus/include"
fi

# ---- 5. the Python packages of the tests --------------------------------------------------------

if ((with_tests)) && ! has_testenv; then
  # Without its stamp, what lies there is an interrupted or an older installation.
  rm -rf "$DEPS/testenv" "$DEPS/testenv.stamp"
  # The Python that torch was installed for, if there is one.
  if [[ -x $DEPS/venv/bin/python ]]; then python=$DEPS/venv/bin/python; fi
  python=${python:-$(find_python)}
  [[ -n $python ]] || fail "no Python 3.10 to 3.14 found; name one with DEQ_PYTHON=/path/to/python3."
  say "installing the Python packages of the tests into .deps/testenv (90 MB, once)"
  "$python" -m venv "$DEPS/testenv" || fail "$python -m venv failed."
  "$DEPS/testenv/bin/python" -m pip --disable-pip-version-check --no-input install --quiet --no-compile "${TEST_SET[@]}" ||
    fail "pip could not install the packages of the tests; run this again to retry."
  "$DEPS/testenv/bin/python" -c 'import numpy, safetensors, tensorboard' || fail "the packages of the tests do not load (see above)."
  echo "${TEST_SET[*]}" >"$DEPS/testenv.stamp"
fi

# A libtorch that is no wheel cannot be imported: then there are no tests of the Python package.
if ((with_tests)) && [[ -f $libtorch/lib/libtorch_python.so ]]; then
  stamp="$libtorch $(torch_version "$libtorch") $(cat "$DEPS/torch.stamp" 2>/dev/null || true)"
  if [[ $(cat "$DEPS/testenv/torch.stamp" 2>/dev/null) != "$stamp" ]]; then
    say "letting .deps/testenv import torch"
    packages=$("$DEPS/testenv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
    rm -rf "$packages/nvidia_stand_ins"
    "$DEPS/testenv/bin/python" scripts/lib/stand_ins.py "$libtorch" "$packages" >/dev/null ||
      fail "no stand-ins for the GPU's libraries could be made."
    "$DEPS/testenv/bin/python" -c 'import torch' ||
      fail "the Python of .deps/testenv cannot import torch (see above)."
    echo "$stamp" >"$DEPS/testenv/torch.stamp"
  fi
fi

# ---- 6. what CMake reads ------------------------------------------------------------------------

env_cmake="# Written by scripts/setup.sh; read by CMakeLists.txt.
set(DEQ_SETUP_LIBTORCH \"$libtorch_cmake\")
set(DEQ_SETUP_PLOTLY_JS \"$plotly_cmake\")
set(DEQ_SETUP_TOML_INCLUDE \"$toml_cmake\")
set(DEQ_SETUP_CXX \"$gxx\")"
if [[ ! -f $DEPS/env.cmake || $(<"$DEPS/env.cmake") != "$env_cmake" ]]; then
  say "writing .deps/env.cmake"
  printf '%s\n' "$env_cmake" >"$DEPS/env.cmake"
fi

((did_something)) || echo "setup: all there (libtorch in ${libtorch#"$ROOT/"})"
