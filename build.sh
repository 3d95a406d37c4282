#!/usr/bin/env bash
# Everything one does with a checkout: ./build.sh help lists it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

VENV=.venv
PY=$VENV/bin/python
FUZZTIME=${FUZZTIME:-5s}

usage() {
  cat <<'TEXT'
usage: ./build.sh COMMAND

  setup            make .venv with all that the other commands need (they call it themselves)
  build            build the Go library into python/hologram
  run              classify handwritten digits with Hologram's kernels (examples/digits.py)
  test             all checks and tests; "test quick" leaves out the long ones,
                   "test NAME..." runs those steps alone ("test list" names them)
  test-gpu         pack the tests that need a GPU into build/test-gpu, and run them where there is one;
                   "test-gpu pack" packs alone: "python3 gpu_suite.py run" in a copy of the folder runs them on a
                   machine without Go; "test-gpu record [record.json]" keeps the run's record in benchmarks/results
  wheel            build the manylinux wheel into dist/
  sdist            build the source distribution into dist/
  bench cpu        compare with numpy, torch and numexpr (benchmarks/cpu.py)
  bench operations operations other than losses, norms, gradients and most products, over types, sizes and axes,
                   against the best of numpy and torch; --quick in under two minutes (benchmarks/operations.py)
  bench kernels    kernels of Python functions against the best of torch.compile, torch and numexpr
                   (benchmarks/kernels_cpu.py)
  bench products   compare the CPU's matrix products with torch's and numpy's (benchmarks/products.py)
  bench cuda       compare an NVIDIA GPU with the CPU's bits, and with torch (benchmarks/cuda_all.py)
  bench creation   what the first executor of a process costs (benchmarks/creation.py); of the CPU: creation cpu
  bench making     what making a program costs, large ones and those of a hundred instructions (benchmarks/making.py)
  bench torch      what hologram_torch's calls and steps cost beside torch's (benchmarks/torch_calls.py)
  bench torch-cuda what hologram_torch's calls and steps cost on an NVIDIA GPU (benchmarks/torch_cuda.py)
  bench report     one page of the records: operations against the machine's limits, and the records' history
                   (benchmarks/report.py writes build/report.html)
  bench --against REV
                   compare the CPU's speed with that of another revision; fails if an operation has become
                   slower (benchmarks/against.py); its short form, against the last record, is "test speed"
  pgo              profile the core's calls anew, for the compiler to know what in them is hot (capi/calls.pgo)
  cover            test coverage of isa, kernels, core and backends; fails below 85 % of one, or 75 % of a package
  fuzz             run each fuzz target for FUZZTIME (5s)
  clean            remove what was built; "clean all" removes .venv and .venv-torch too

Environment: PYTHON, the Python to make .venv with (python3); HOLOGRAM_TOOLCHAIN=auto|host|zig, see
docs/BUILDING.md; FUZZTIME, the time for each fuzz target.
TEXT
}

# The steps of ./build.sh test, one a line: its name, then the command. Those that take long stand first, so that what
# is left at the end are short ones for both processors; two run at a time, those of
# WAITING_STEPS beside them from the start, as they leave the processors idle for most of their time, and those of
# ALONE_STEPS, which measure time, by themselves at the end. To add a check, add a line.
TEST_STEPS='
go-test        cover
race           HOLOGRAM_PTXAS= go test -race -vet=off -timeout 30m ./...
pytest-torch   test_torch
pytest         '$PY' -m pytest --ignore python/tests/test_asynctest.py
pytest-async   '$PY' -m pytest python/tests/test_asynctest.py
random         random_programs
fuzz           fuzz_each
lock-order     go test -short -vet=off -tags lockorder ./core/... ./capi
staticcheck    go tool staticcheck ./...
mypy           '$PY' -m mypy
go-vet         go vet ./...
generated      check_generated
c-header       check_c_header
distributions  check_distributions
gpu-record     '$PY' python/gpu_suite.py check
gofmt          check_gofmt
ruff           '$PY' -m ruff check .
ruff-format    '$PY' -m ruff format --check .
speed          '$PY' benchmarks/gate.py
'
WAITING_STEPS='pytest-async'
ALONE_STEPS='speed'
QUICK_STEPS='gofmt go-vet staticcheck ruff ruff-format mypy go-test pytest pytest-async'

heading() { printf '\n==> %s\n' "$*"; }
fail() {
  printf 'build.sh: %s\n' "$*" >&2
  exit 1
}

# go ARGUMENT...: Go, collecting its garbage a quarter as often as usual. Its compiler, its checks and its tests leave so
# much that they take a tenth to a third less of the processors for some 0.2 GB more of memory each. Those tests
# that measure memory collect by themselves, or count what is allocated; Python's processes get no such variable.
go() { GOGC=${GOGC:-400} command go "$@"; }

# ---- setup and build -------------------------------------------------------------------------------------------

# install_packages NAME PIP-ARGUMENT...: install into .venv, once for each state of the arguments, of pyproject.toml
# and of the version.
install_packages() {
  local stamp=$VENV/hologram-$1 state
  shift
  state=$({ printf '%s\n' "$@"; cat pyproject.toml python/hologram/_version.py; } | cksum)
  [ "$(cat "$stamp" 2>/dev/null)" = "$state" ] && return
  heading "installing into $VENV: $*"
  # Python compiles what is imported when it is first; of torch and of what it needs that is less than half.
  "$PY" -m pip install --quiet --no-compile "$@" || fail "pip could not install: $*"
  printf '%s\n' "$state" >"$stamp"
}

# use_toolchain [host|zig]: install what the machine lacks of Go and a C compiler, and put both on PATH and in CC.
use_toolchain() {
  local missing variables
  export HOLOGRAM_TOOLCHAIN=${1:-${HOLOGRAM_TOOLCHAIN:-auto}}
  missing=$("$PY" hatch_build.py requirements)
  # shellcheck disable=SC2086 # one requirement a word
  [ -z "$missing" ] || install_packages toolchain $missing
  variables=$("$PY" hatch_build.py env)
  eval "$variables"
}

# setup_tools: make .venv, with what building the library needs alone.
setup_tools() {
  local python=${PYTHON:-python3}
  command -v "$python" >/dev/null || fail "$python is not on PATH; install Python 3.9 or later, or set PYTHON"
  if [ ! -x "$PY" ]; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
      fail "$("$python" --version) is too old; set PYTHON to a Python 3.9 or later"
    heading "making $VENV with $("$python" --version)"
    "$python" -m venv "$VENV" || fail "python -m venv failed; Debian and Ubuntu have it in the package python3-venv"
  fi
  install_packages pip 'pip>=25.1' # the first that knows dependency groups
  install_packages build 'hatchling>=1.27'
  use_toolchain
}

install_dev() { install_packages dev --group dev; }

find_ptxas() { # in the package nvidia-cuda-nvcc, where there is one for this machine
  [ -z "${HOLOGRAM_PTXAS:-}" ] || return 0
  HOLOGRAM_PTXAS=$(find "$PWD/$VENV" -path '*/nvidia/*/bin/ptxas' -type f -print -quit)
  export HOLOGRAM_PTXAS
}

setup() {
  setup_tools
  install_dev
  find_ptxas
}

build_library() {
  heading "building the library"
  GOGC=${GOGC:-400} "$PY" hatch_build.py build
}

# The .venv runs the package from python/, with its metadata and its command.
install_editable() { install_packages editable --no-build-isolation --no-deps --editable .; }

build() {
  build_library
  install_editable
}

# setup_tests NAME...: setup and build for those steps, fetching packages while Go compiles: the first takes the network
# and the disk, the second the processors. Those of torch, some minutes, come while the first steps run.
setup_tests() {
  local dev
  setup_tools
  install_dev >"$LOGS/dev.log" 2>&1 </dev/null &
  dev=$!
  if [[ " $* " == *" pytest-torch "* ]]; then
    (
      set +e
      (
        set -e
        install_torch
      ) >"$LOGS/torch.log" 2>&1 </dev/null
      echo $? >"$LOGS/torch.rc"
    ) &
  fi
  build_library
  wait "$dev" || fail "setting up $VENV failed: $(cat "$LOGS/dev.log")"
  cat "$LOGS/dev.log"
  install_editable
  find_ptxas
}

# ---- the checks of ./build.sh test -----------------------------------------------------------------------------

# work_files: the files of the work tree that git tracks or would, each ended by a NUL.
work_files() {
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    if [ -e "$file" ]; then printf '%s\0' "$file"; fi
  done
}

check_gofmt() {
  local files
  files=$(work_files | grep -z '\.go$' | xargs -0 gofmt -l)
  [ -z "$files" ] || fail "not formatted, run gofmt -w on: $files"
}

# Generates everything anew in a copy of the work tree, which must not change by it.
check_generated() {
  local copy=$STEP_TMP/copy
  mkdir "$copy"
  work_files | tar -cf - --null -T - | tar -xf - -C "$copy"
  git -C "$copy" -c init.defaultBranch=main init -q
  git -C "$copy" add -A
  (cd "$copy" && go generate ./...)
  "$PY" "$copy/backends/conformance/corpus/gen.py"
  git -C "$copy" diff --exit-code || fail "generated files are out of date; run go generate ./... and backends/conformance/corpus/gen.py, and commit them"
  [ -z "$(git -C "$copy" ls-files --others --exclude-standard)" ] ||
    fail "generated files are not committed: $(git -C "$copy" ls-files --others --exclude-standard)"
}

# Compiles the C programs of capi/ctest against hologram.h, links them to the built library, and runs them.
check_c_header() {
  local source cc=${CC:-cc} cxx=${CXX:-c++}
  printf '#include "hologram.h"\n' >"$STEP_TMP/header.cc"
  eval "$cxx -std=c++11 -Wall -Wextra -Werror -pedantic -Icapi -c '$STEP_TMP/header.cc' -o '$STEP_TMP/header.o'"
  for source in capi/ctest/*.c; do
    echo "$source"
    eval "$cc -std=c11 -Wall -Wextra -Werror -pedantic -pthread -Icapi '$source' -o '$STEP_TMP/program' \
      -Lpython/hologram -lhologram -Wl,-rpath,'$PWD/python/hologram'"
    "$STEP_TMP/program"
  done
}

# Makes the wheel from the work tree and from the source distribution: the same bytes, and a package that works.
check_distributions() {
  local wheel site=$STEP_TMP/site
  "$PY" -m hatchling build -t wheel -d "$STEP_TMP/tree"
  "$PY" -m hatchling build -t sdist -d "$STEP_TMP"
  mkdir "$STEP_TMP/source"
  tar -xzf "$STEP_TMP"/hologram-*.tar.gz -C "$STEP_TMP/source" --strip-components=1
  (cd "$STEP_TMP/source" && "$OLDPWD/$PY" -m hatchling build -t wheel -d "$STEP_TMP/sdist")
  wheel=$(ls "$STEP_TMP"/tree/*.whl)
  cmp "$wheel" "$STEP_TMP/sdist/${wheel##*/}" || fail "the source distribution builds another wheel than the work tree"
  "$PY" -m pip install --quiet --no-deps --target "$site" "$wheel"
  (cd "$STEP_TMP" && PYTHONPATH=$site "$OLDPWD/$PY" -W error -c "
import importlib.util, hologram
assert hologram.__file__.startswith('$site'), hologram.__file__
found = importlib.util.find_spec('hologram_torch').origin  # importing it needs torch
assert found.startswith('$site'), found
print('imported', hologram.__version__, 'from the wheel')")
}

# A .venv-torch for the tests of hologram_torch: torch takes gigabytes, and nothing else needs it.
install_torch() (
  python=$PY VENV=$VENV-torch PY=$VENV/bin/python
  [ -x "$PY" ] || "$python" -m venv "$VENV"
  install_packages pip 'pip>=25.1'
  (install_packages torch --group torch) || exit 3 # for which test_torch has a word
)

# The tests of hologram_torch, when the install that setup_tests has begun has ended.
test_torch() (
  until [ -s "$LOGS/torch.rc" ]; do sleep 1; done
  cat "$LOGS/torch.log"
  case $(cat "$LOGS/torch.rc") in
    0) ;;
    3)
      df -h .
      echo "SKIPPED: torch could not be installed (it takes some 6 GB), so hologram_torch is not tested here"
      exit 0
      ;;
    *) fail "setting up $VENV-torch failed" ;;
  esac
  PY=$VENV-torch/bin/python
  PYTHONPATH=$PWD/python "$PY" -m mypy -p hologram_torch
  # Those of hologram that want torch too are skipped by the step pytest, which has none.
  PYTHONPATH=$PWD/python "$PY" -m pytest python/tests_torch python/tests/test_torch_operands.py python/tests/test_kernel_arrays.py \
    python/tests/test_tensor_calls_by_c.py
)

# The tests that need a GPU: packed where there is Go, run where there is a GPU.
test_gpu() {
  local to=build/test-gpu wheels=build/test-gpu-wheel
  case "${1:-all}" in
    all | pack)
      setup
      heading "packing the tests that need a GPU"
      rm -rf "$wheels"
      "$PY" -m hatchling build -t wheel -d "$wheels"
      "$PY" python/gpu_suite.py pack "$to" "$(ls "$wheels"/*.whl)"
      rm -rf "$wheels"
      [ "${1:-all}" = pack ] || "$PY" "$to/gpu_suite.py" run
      ;;
    record) python3 python/gpu_suite.py record "${2:-$to/record.json}" ;;
    *) fail "test-gpu takes pack, record or nothing" ;;
  esac
}

# Compares random programs with the interpreter: 16,000, by all engines of the CPU that this machine has together.
random_programs() {
  go test -vet=off ./backends/cpu -run 'TestTogether/(random|limits)' -v -timeout 30m -args -programs 16000 | tee "$STEP_TMP/log"
  grep -q 'no difference' "$STEP_TMP/log" || fail "no random program ran"
}

# Each package's tests are compiled once for all its targets, and of what they use only this module's packages for the
# guidance that fuzzing is given: go test -fuzz would compile all of Go's library anew for that too, which takes minutes.
# An interrupt ends a target's time: at the end of -test.fuzztime Go before 1.27 may report its own deadline as a
# failure (go.dev/issue/75804).
fuzz_each() {
  local folder target cache program=${STEP_TMP:-$PWD/build}/fuzz.test
  mkdir -p "${program%/*}"
  # By the text: go test -list would link every package's tests.
  grep -rlE --include='*_test.go' --exclude-dir=build '^func Fuzz' . | xargs dirname | sort -u | while IFS= read -r folder; do
    go test -c -vet=off -gcflags="$(go list -m)/...=-d=libfuzzer" -o "$program" "$folder"
    cache=$(go env GOCACHE)/fuzz/$(go list "$folder")
    grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$folder"/*_test.go | while read -r _ target; do
      echo "$folder $target"
      (cd "$folder" && GOGC=${GOGC:-400} timeout --preserve-status --signal INT --kill-after 60 "$FUZZTIME" \
        "$program" -test.run '^$' -test.fuzz "^$target\$" -test.fuzzminimizetime 1s -test.fuzzcachedir "$cache" </dev/null)
    done
  done
}

# ---- running steps ---------------------------------------------------------------------------------------------

stop_steps() {
  local pid
  for pid in $(jobs -p); do kill -- "-$pid" || true; done 2>/dev/null
  wait 2>/dev/null || true
  rm -rf "${LOGS:-}"
}

# alone NAME: whether a step runs by itself. waits NAME: whether it mostly waits, and so runs beside two others.
alone() { [[ " $ALONE_STEPS " == *" $1 "* ]]; }
waits() { [[ " $WAITING_STEPS " == *" $1 "* ]]; }

# run_steps NAME...: run those steps, those that wait from the start, of the others two at a time, then those that run
# alone; print what each says when it ends; stop at the first that fails.
run_steps() {
  local name command started=0 finished=0 total=$# now took first=() beside=() last=()
  for name in "$@"; do
    if alone "$name"; then last+=("$name"); elif waits "$name"; then first+=("$name"); else beside+=("$name"); fi
  done
  local waiting=("${first[@]}" "${beside[@]}" "${last[@]}") running=() most=$((2 + ${#first[@]}))
  while [ $finished -lt "$total" ]; do
    while [ ${#running[@]} -lt $most ] && [ ${#waiting[@]} -gt 0 ]; do
      name=${waiting[0]}
      if [ ${#running[@]} -gt 0 ] && alone "$name"; then break; fi # nor does one begin beside it: none but such follow
      waiting=("${waiting[@]:1}")
      command=$(step_command "$name")
      started=$((started + 1))
      printf '    [%d/%d] started: %s\n' "$started" "$total" "$name"
      date +%s >"$LOGS/$name.start"
      mkdir "$LOGS/$name.tmp"
      (
        set +e
        TIMEFORMAT='%0U %0S'
        {
          time {
            (
              set -e
              STEP_TMP=$LOGS/$name.tmp # for the step's own files
              eval "$command"
            ) >"$LOGS/$name.log" 2>&1 </dev/null
          }
        } 2>"$LOGS/$name.processor"
        echo $? >"$LOGS/$name.rc.new"
        mv "$LOGS/$name.rc.new" "$LOGS/$name.rc"
      ) &
      running+=("$name")
    done
    wait -n || true
    local still=()
    for name in "${running[@]}"; do
      if [ ! -f "$LOGS/$name.rc" ]; then
        still+=("$name")
        continue
      fi
      finished=$((finished + 1))
      if waits "$name"; then most=$((most - 1)); fi
      now=$(date +%s)
      took="$((now - $(cat "$LOGS/$name.start"))) s, $(awk '{ print $1 + $2 }' "$LOGS/$name.processor") s of processors"
      heading "$name: $(step_command "$name") ($took)"
      cat "$LOGS/$name.log"
      [ "$(cat "$LOGS/$name.rc")" = 0 ] || fail "step $name failed; run it alone with: ./build.sh test $name"
    done
    running=("${still[@]}")
  done
  heading "passed: $*"
}

step_names() { awk 'NF { print $1 }' <<<"$TEST_STEPS"; }
step_command() { awk -v name="$1" '$1 == name { sub(/^[^ ]+ +/, ""); print }' <<<"$TEST_STEPS"; }

run_tests() {
  local name names
  case "${1:-all}" in
    list) echo "$TEST_STEPS" && return ;;
    all) names=$(step_names) ;;
    quick) names=$QUICK_STEPS ;;
    *) names=$* ;;
  esac
  for name in $names; do
    [ -n "$(step_command "$name")" ] || fail "no step is called $name; there are: $(step_names | tr '\n' ' ')"
  done
  LOGS=$(mktemp -d)
  trap stop_steps EXIT
  trap 'exit 130' INT TERM
  set -m # each step, and each install beside it, in a process group of its own, which can be stopped as a whole
  # shellcheck disable=SC2086 # one step a word
  setup_tests $names
  # shellcheck disable=SC2086
  run_steps $names
}

# ---- distributions, figures ------------------------------------------------------------------------------------

wheel() {
  local file size
  use_toolchain zig
  heading "building the wheel"
  rm -f dist/hologram-*.whl
  "$PY" -m hatchling build -t wheel -d dist
  file=$(ls dist/hologram-*-py3-none-manylinux_2_28_*.whl)
  size=$(wc -c <"$file")
  [ "$size" -lt 10000000 ] || fail "$file has $size bytes, and 10 MB is the limit"
  echo "$file: $size bytes"
}

sdist() {
  heading "building the source distribution"
  rm -f dist/hologram-*.tar.gz
  "$PY" -m hatchling build -t sdist -d dist
}

run() {
  heading "examples/digits.py"
  "$PY" examples/digits.py "$@"
}

# What the library's calls spend their time in, which its build gives to Go's compiler. It tells the compiler what is hot,
# not what is right, so that it need not be as new as the code.
pgo() {
  heading "profile of calls"
  mkdir -p build
  command go test ./core -run '^$' -bench Calls -benchtime 2s -cpuprofile capi/calls.pgo -o build/core.test
}

# Coverage of isa, kernels, core and backends by the tests of all packages, statement by statement. capi and Python are
# run by pytest, whose coverage is not counted: what it costs on every line would double the longest step.
cover() {
  heading "coverage"
  # -v for the tests that are skipped and why, which go test else keeps to itself; go-vet is a step of its own.
  go test -v -vet=off -timeout 30m -coverpkg=./isa/...,./kernels/...,./core/...,./backends/... -coverprofile=cover.out ./... 2>&1 |
    grep -avE '^=== |^ *--- PASS|^PASS$'
  awk -v module="$(go list -m)" '
    NR > 1 {
      size[$1] = $2
      if ($3 > 0) hit[$1] = 1
    }
    END {
      for (block in size) {
        package = substr(block, length(module) + 2)
        sub(/\/[^\/]*$/, "", package)
        folder = package
        sub(/\/.*/, "", folder)
        all[folder] += size[block]
        each[package] += size[block]
        if (block in hit) { covered[folder] += size[block]; within[package] += size[block] }
      }
      for (folder in all) {
        percent = 100 * covered[folder] / all[folder]
        printf "%-10s %5.1f %% of %d statements\n", folder, percent, all[folder]
        if (percent < 85) low = low " " folder
      }
      for (package in each) {
        percent = each[package] ? 100 * within[package] / each[package] : 100
        if (percent < 85) printf "  %s %.1f %% of %d statements\n", package, percent, each[package]
        if (percent < 75) low = low " " package
      }
      if (low != "") { print "below 85 % of a folder, or 75 % of a package:" low; exit 1 }
    }' cover.out
}

bench() {
  local name=${1:-}
  case "$name" in
    cpu | creation | making | operations | products) install_packages bench --group bench ;;
    cuda) name=cuda_all && install_packages bench --group bench ;; # "cuda" is a package that CuPy imports
    kernels) name=kernels_cpu && install_packages bench --group bench ;; # there are other modules of that name
    torch) name=torch_calls && install_packages bench --group bench ;;
    torch-cuda) name=torch_cuda && install_packages bench --group bench ;;
    --against) name=against ;;
    report) ;;
    *) fail "bench takes the name of a benchmark, cpu, creation, cuda, kernels, making, operations, products, report, torch or torch-cuda, or --against and a revision" ;;
  esac
  shift
  "$PY" "benchmarks/$name.py" "$@"
}

clean() {
  rm -rf build dist cover.out python/hologram/libhologram.* python/hologram/hologram.dll python/hologram/include
  rm -rf .mypy_cache .pytest_cache .ruff_cache ./-.o
  if [ "${1:-}" = all ]; then rm -rf "$VENV" "$VENV-torch"; fi
}

command=${1:-help}
[ $# -eq 0 ] || shift
case "$command" in
  help | -h | --help) usage ;;
  clean) clean "$@" ;;
  test) run_tests "$@" ;;
  test-gpu) test_gpu "$@" ;;
  setup | build | run | wheel | sdist | bench | cover | fuzz | pgo)
    setup
    case "$command" in build | run | bench) build ;; esac
    case "$command" in
      run) run "$@" ;;
      wheel) wheel ;;
      sdist) sdist ;;
      bench) bench "$@" ;;
      cover) cover ;;
      fuzz) fuzz_each ;;
      pgo) pgo ;;
    esac
    ;;
  *)
    usage >&2
    fail "no command is called $command"
    ;;
esac
