"""The tests that need a GPU, on a machine that needs nothing but Python, numpy and pytest.

./build.sh test-gpu packs them into build/test-gpu: a wheel, the Go tests as programs, the Python tests, and this file.
Where the folder is copied to, "python3 gpu_suite.py run" runs them in pieces of at most nine minutes: called again, it
goes on with the jobs that have not passed. When all have, it writes record.json, which "./build.sh test-gpu record"
keeps in benchmarks/results. "check" warns if the sources have changed since.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent  # in the tree
PACKAGES = {"cuda": "backends/cuda", "driver": "backends/cuda/driver"}
PYTHON = (
    "arguments batches buffer buffer_numbers builder copies device_arrays dlpack empty_shapes events exchange executor "
    "futures kernel lost ops process products profile program reductions results safety signals tensor_calls_by_c "
    "threads torch_operands"
).split()
_HALVES = ("float16", "bfloat16")
_INTEGERS = "(torch.int or torch.uint or torch.bool)"
_PAIRS = "(add or sub or mul or div or pow or maximum or minimum)"


class Torch(NamedTuple):
    """Tests of hologram_torch, where there is torch: which files, which of their cases, and with what to set."""

    name: str
    files: str
    chosen: str = ""
    environment: str = ""


TORCH = [
    # The bits of the CPU.
    *[Torch(f"bits {d}", "devices", f"(bits or layers) and not layouts and torch.{d}") for d in ("float32", "float64")],
    *[Torch(f"bits {d}", "devices", f"(bits or layers) and not layouts and torch.{d}") for d in _HALVES],
    *[Torch(f"layouts {d}", "devices", f"layouts and torch.{d}") for d in ("float32", "float64", *_HALVES)],
    Torch("bits of integers", "devices", f"bits and {_INTEGERS}"),
    Torch("devices", "devices", f"numbers or not (torch.float or torch.bfloat or bits and {_INTEGERS})"),
    # Errors beside torch's own on the device, gradients and theirs, opcheck.
    *[Torch(f"samples {d}", "opinfo", f"cuda and errors and not layers and torch.{d}") for d in ("float32", *_HALVES)],
    *[Torch(f"samples of layers {d}", "opinfo", f"cuda and layers and torch.{d}") for d in ("float32", *_HALVES)],
    Torch("samples, gradients", "opinfo", "cuda and gradients"),
    Torch("samples, doubles", "opinfo", "cuda and doubles"),
    Torch("samples, integers", "opinfo", "cuda and integers"),
    *[Torch(f"shapes {d}", "shapes", f"cuda and errors and torch.{d}") for d in ("float32", *_HALVES)],
    Torch("shapes, doubles", "shapes", "cuda and doubles"),
    Torch("opcheck", "operations", "cuda and test_operator"),
    Torch("operators", "operations", "cuda and not test_operator"),
    Torch("as torch, pairs", "as_torch", f"cuda and element_by and {_PAIRS}"),
    Torch("as torch", "as_torch", f"cuda and not (element_by and {_PAIRS})"),
    Torch("kernel", "kernel", "cuda"),
    # What torch puts around.
    Torch("dispatch", "dispatch", "cuda"),
    Torch("autocast", "autocast", "cuda"),
    Torch("nn", "nn", "cuda or gpus"),
    Torch("fused", "fused", "cuda"),
    Torch("optim", "optim", "cuda"),
    Torch("optim, many", "optim_many", "cuda or one_launch or batch"),
    Torch("others", "dropout embedding functional memory quick utils", "cuda or gpus"),
    Torch("captures", "captures", "not cpu"),
    Torch("training", "training training_resumed training_steps", "not flat"),
    Torch("training, flat", "training_steps", "flat and cuda", "HOLOGRAM_TRAINING_STEPS=100000"),
    Torch("training, flat on the CPU", "training_steps", "flat and cpu", "HOLOGRAM_TRAINING_STEPS=100000"),
    # What a call takes beside its work, and the examples.
    Torch("waits", "costs", "nothing"),
    Torch("memory", "costs", "not nothing"),
    Torch("examples", "examples", "not gpt and not processes"),
    Torch("gpt", "examples", "gpt", "HOLOGRAM_GPT_STEPS=200"),
    Torch("gloo", "examples", "processes and cpu"),
    Torch("nccl", "examples", "processes and cuda"),  # skipped with one GPU
]

# What compute-sanitizer looks at: programs that reach every lowering rule, each once, in parts; then, in tests of
# cuda.test, what vectors, fuel, misaligned and proved accesses, collectives and products are written as besides.
PARTS = 8
SANITIZED = (
    "TestCollectivesWithout|TestMisaligned|TestHandles|TestShapesOf|TestFuel|TestProvedAccesses|TestNeighbours|"
    "TestMostShared|TestVectors(OfUsers|Misaligned|TellTheLane)"
)
PRODUCTS = r"TestProducts/\[(33_40_17|65_130_513|40_36_1600)\]"
# Each tool, what it says where there is nothing to tell, and what of a planted error.
SANITIZERS = {
    "memcheck": (r"ERROR SUMMARY: 0 errors", r"Invalid __global__ read"),
    "racecheck": (r"RACECHECK SUMMARY: 0 hazards displayed", r"RACECHECK SUMMARY: [1-9]\d* hazards? displayed"),
    "synccheck": (r"ERROR SUMMARY: 0 errors", r"Barrier error detected"),
    "initcheck": (r"ERROR SUMMARY: 0 errors", r"Uninitialized __global__ memory read"),
}

# What the tests are of: code, not tests, of what runs on a GPU.
COVERED = re.compile(
    r"(isa|kernels|core|capi|backends/(cuda|hostmem|conformance)|python/hologram)/.*|backends/[^/]*|go\.(mod|sum)"
)
NOT_COVERED = re.compile(r".*_test\.go|.*\.(md|so|h)|backends/cuda/ptxas/.*|capi/ctest/.*|.*/(testdata|isatest)/.*")


EACH = 500  # random programs of one process


class Job(NamedTuple):
    """One process, and how many seconds it may take."""

    name: str
    command: list[str]
    limit: int


def sanitized() -> list[Job]:
    """What compute-sanitizer is to look at, and the errors that it is to find."""
    go = ["./cuda.test", "-test.v", "-test.parallel", "1"]
    python = [sys.executable, "python/tests/sanitized.py"]
    found = []
    for tool in SANITIZERS:

        def job(name: str, command: list[str], tool: str = tool, planted: bool = False) -> Job:
            how = ["--planted"] if planted else []
            return Job(f"sanitizer {tool} {name}", [sys.executable, __file__, "sanitize", *how, tool, *command], 500)

        found.append(job("planted", [*go, "-test.run", f"TestPlanted/{tool}$", "-planted"], planted=True))
        found.append(job("clean", [*go, "-test.run", "TestPlanted/clean$", "-planted"]))
        found += [job(f"corpus {i}", [*go, "-test.run", f"TestOnce/{i}$"]) for i in range(PARTS)]
        # Of lanes' order racecheck knows barriers alone, not locks, which misaligned atomics take.
        without = ["-test.skip", "TestMisaligned"] if tool == "racecheck" else []
        found.append(job("forms", [*go, "-test.run", SANITIZED, *without]))
        found.append(job("products", [*go, "-test.run", PRODUCTS]))
        found += [job(f"library, {rows} rows", [*python, rows]) for rows in ("short", "long")]
    return found


def sanitize(tool: str, command: list[str], planted: bool) -> int:
    """Run a command under compute-sanitizer; return 0 if it ends well and the tool says in words that there is nothing.

    Of a planted error: 0 if the tool finds that, whatever becomes of the command.
    """
    clean, found = SANITIZERS[tool]
    ran = subprocess.run(
        ["compute-sanitizer", "--tool", tool, "--print-limit", "20", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        errors="replace",
    )
    said = ran.stdout
    if not planted:
        print(said, flush=True)
        return ran.returncode or (0 if re.search(clean, said) else 1)
    if re.search(found, said):
        print("\n".join(x for x in said.splitlines() if x.startswith("=")), "\n1 passed", flush=True)
        return 0
    print(said, flush=True)
    return 1


def jobs(seed: int, programs: int, unoptimised: int) -> list[Job]:
    """All jobs, those that take long first."""

    def conformance(name: str, rows: str, level: int, limit: int, *more: str) -> Job:
        run = ["./cuda.test", "-test.v", "-test.run", f"TestConformance/({rows})", "-level", str(level), *more]
        return Job(name, run, limit)

    all_jobs = [
        conformance("corpus", "corpus|edges|cancellation|timings|caller", 4, 500),
        conformance("corpus, not optimised", "corpus|edges", 0, 500),
        conformance("affine", "affine", 4, 240),
        Job("vectors of the library", ["./cuda.test", "-test.v", "-test.run", "VectorsOfTheLibrary"], 500),
        Job("vectors", ["./cuda.test", "-test.v", "-test.run", "Vectors", "-test.skip", "VectorsOfTheLibrary"], 500),
        Job("products", ["./cuda.test", "-test.v", "-test.run", "Products"], 500),
        Job("device", ["./cuda.test", "-test.v", "-test.skip", "Conformance|Vectors|Products"], 500),
        Job("driver", ["./driver.test", "-test.v"], 60),
        Job("crosscheck", ["./crosscheck.test", "-test.v"], 60),
    ]
    pytest = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider"]
    for name in PYTHON:
        all_jobs.append(Job(f"python {name}", [*pytest, f"python/tests/test_{name}.py"], 240))
    if importlib.util.find_spec("torch"):
        for name, files, chosen, environment in TORCH:
            which = [
                *(f"python/tests_torch/test_{file}.py" for file in files.split()),
                *(["-k", chosen] if chosen else []),
            ]
            before = ["env", environment] if environment else []
            all_jobs.append(Job(f"torch {name}", [*before, *pytest, *which], 280))
    for name in ("threads", "killed", "flat"):
        all_jobs.append(Job(f"endurance {name}", [sys.executable, "python/tests/endurance.py", name], 400))
    if shutil.which("compute-sanitizer"):
        all_jobs += sanitized()
    else:
        all_jobs.append(
            Job("sanitizer", [sys.executable, "-c", "print('no compute-sanitizer is here: 1 skipped')"], 60)
        )
    # The same programs, the first of them, without the driver's optimiser too: all as the interpreter has them.
    for level, count, name in ((4, programs, "random"), (0, unoptimised, "random, not optimised")):
        for i, first in enumerate(range(0, count, EACH)):
            more = ("-programs", str(min(EACH, count - first)), "-seed", str(seed + first))
            all_jobs.append(conformance(f"{name} {i}", "random", level, 240, *more))
    return all_jobs


# ---- the tree ----------------------------------------------------------------------------------------------------


def sources() -> str:
    """A hash of the files that the tests cover."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    total = hashlib.sha256()
    for name in sorted(listed.stdout.decode().split("\0")):
        if COVERED.fullmatch(name) and not NOT_COVERED.fullmatch(name) and (ROOT / name).is_file():
            total.update(f"{name}\0{hashlib.sha256((ROOT / name).read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def commit() -> str:
    """The commit of the tree, and whether files differ from it."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return head.stdout.strip() + (" with changes" if changed.stdout else "")


def pack(to: Path, wheel: Path) -> None:
    """Put all that the tests need into a folder."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    shutil.copy(wheel, to)
    for name, package in PACKAGES.items():
        command = ["go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", str(to / f"{name}.test"), f"./{package}"]
        subprocess.run(command, cwd=ROOT, check=True)
    crosscheck(to)
    for folder in ("python/tests", "python/tests_torch", "examples", "benchmarks", "docs"):
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__", "results"))
    shutil.copy(ROOT / "python" / "stubs.py", to / "python")
    shutil.copy(ROOT / "README.md", to)
    # What torch.testing wants beside torch.
    more = ["install", "--quiet", "--no-deps", "--target", str(to / "more"), "expecttest"]
    subprocess.run([sys.executable, "-m", "pip", *more], check=True)
    shutil.copy(__file__, to)
    about = {"commit": commit(), "sources": sources(), "packed": time.strftime("%Y-%m-%d")}
    (to / "pack.json").write_text(json.dumps(about, indent=1) + "\n")
    size = sum(f.stat().st_size for f in to.rglob("*") if f.is_file())
    print(f"packed {to}: {size / 1e6:.0f} MB; on a machine with a GPU: python3 {to.name}/gpu_suite.py run")


def crosscheck(to: Path) -> None:
    """Build the test of our driver's entry points beside gorgonia.org/cu's.

    Those want NVIDIA's header, and a driver to link with: a library of the real one's name, whose functions do nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        wheel = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
        subprocess.run([*wheel, "nvidia-cuda-runtime-cu12==12.8.*"], check=True)
        include = Path(folder) / "nvidia" / "cuda_runtime" / "include"
        functions = set(re.findall(r"\bcu[A-Z]\w*", (include / "cuda.h").read_text()))
        stub = "".join(f"void {name}(void) {{}}\n" for name in sorted(functions))
        shared = ["-shared", "-Wl,-soname,libcuda.so.1", "-o", f"{folder}/libcuda.so"]
        subprocess.run([os.environ.get("CC", "cc"), *shared, "-x", "c", "-"], input=stub, text=True, check=True)
        flags = {
            "CGO_CFLAGS": f"-I{include}",
            "CGO_LDFLAGS": f"-L{folder}",
        }
        command = ["go", "test", "-tags", "gorgonia", "-c", "-trimpath", "-ldflags", "-s -w", "-o"]
        command += [str(to.resolve() / "crosscheck.test"), "."]
        subprocess.run(command, cwd=ROOT / "backends/cuda/crosscheck", env=os.environ | flags, check=True)


COLUMNS = ("passed", "skipped", "failed", "random", "seconds")
RECORD = ROOT / "benchmarks" / "results" / "gpu.json"


def keep(record: Path) -> None:
    """Keep a record in the tree, and write its page, where jobs that counted nothing are said to have run."""
    about = json.loads(record.read_text())
    RECORD.write_text(json.dumps(about, indent=1) + "\n")
    lines = [
        "# The last run of the tests on a GPU",
        "",
        f"{about['device']}, driver {about['driver']}, {about['date']}, commit {about['commit'][:12]}"
        f"{about['commit'][40:]}, sources {about['sources'][:12]}. Written by `./build.sh test-gpu record`.",
        "",
        "| tests | passed | skipped | failed | random programs without difference | seconds |",
        "|---|---|---|---|---|---|",
    ]
    rows: dict[str, dict[str, int]] = {}
    bad: set[str] = set()
    for name, job in about["jobs"].items():
        kind = re.sub(r" \d+$", "", name)
        row = rows.setdefault(kind, dict.fromkeys(COLUMNS, 0))
        for column in row:
            row[column] += job[column]
        if job["rc"]:
            bad.add(kind)
    for name, row in rows.items():
        cells = [str(v) for v in row.values()]
        if not any(v for column, v in row.items() if column != "seconds"):
            cells[0] = "ended in an error" if name in bad else "ran, with status 0"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    RECORD.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print(f"wrote {RECORD} and gpu.md")


def check() -> None:
    """Say if the sources are not those that ran on a GPU last."""
    if not RECORD.exists():
        print("WARNING: the tests have not run on a GPU: ./build.sh test-gpu")
        return
    about = json.loads(RECORD.read_text())
    last = f"{about['date']} on {about['device']}, commit {about['commit'][:12]}"
    if about["sources"] == sources():
        print(f"the tests of these sources ran on a GPU: {last}")
    else:
        print(f"WARNING: sources have changed since the tests last ran on a GPU ({last}): ./build.sh test-gpu")


# ---- the machine with the GPU ------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """What processes see: the package of the wheel, and no cache of the driver's."""
    site = HERE / "site"
    if not site.exists():
        with zipfile.ZipFile(next(HERE.glob("*.whl"))) as wheel:
            wheel.extractall(site)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE / x) for x in ("site", "more", "python/tests", "python/tests_torch")]),
        "HOLOGRAM_TEST_BACKEND": "cuda",
        "HOLOGRAM_CACHE_DIR": str(HERE / "cache"),  # not the user's
        "CUDA_CACHE_DISABLE": "1",
    }


def device(env: dict[str, str]) -> tuple[str, str]:
    """The device's name and the driver's version; where there is none, "" and why."""
    probe = "import hologram as hg\nex = hg.Executor('cuda')\nprint('device', ex.device)"
    ran = subprocess.run([sys.executable, "-c", probe], cwd=HERE, env=env, capture_output=True, text=True)
    found = re.search(r"^device (.*)$", ran.stdout, re.MULTILINE)
    if ran.returncode or not found:
        return "", re.sub(r"^[\w.]+Error: ", "", (ran.stderr.strip().splitlines() or ["no device"])[-1])
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        driver = "unknown"
    return found[1], driver


def orders() -> list[dict[str, str]]:
    """What makes each of the devices the first one that a process sees: the jobs take them in turn."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
        n = len(re.findall("^GPU ", listed, re.MULTILINE))  # without the parts of one
    except (OSError, subprocess.CalledProcessError):
        n = 1
    if n < 2 or "CUDA_VISIBLE_DEVICES" in os.environ:
        return [{}]
    return [{"CUDA_VISIBLE_DEVICES": ",".join(str((first + k) % n) for k in range(n))} for first in range(n)]


WORDS = (("passed", "PASS", "passed"), ("skipped", "SKIP", "skipped"), ("failed", "FAIL", "failed|errors?"))


def log_of(job: Job) -> Path:
    """Where a job's output goes."""
    return HERE / "logs" / f"{re.sub('[^a-z0-9]+', '_', job.name)}.log"


def perform(job: Job, env: dict[str, str], limit: float) -> dict[str, Any]:
    """Run a job, and count what its log says."""
    start = time.monotonic()
    log = log_of(job)
    with log.open("w") as out:
        try:
            rc = subprocess.run(job.command, cwd=HERE, env=env, stdout=out, stderr=out, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            rc = 124
    text = log.read_text(errors="replace")
    # What compute-sanitizer sums up comes after the last line of a command.
    last = next((x for x in reversed(text.splitlines()) if x and not x.startswith("========= ")), "")
    result: dict[str, Any] = {"rc": rc, "seconds": round(time.monotonic() - start), "random": 0}
    for column, verb, word in WORDS:
        result[column] = len(re.findall(rf"^ *--- {verb}", text, re.MULTILINE))
        result[column] += sum(int(n) for n in re.findall(rf"(\d+) (?:{word})\b", last))
    for n in re.findall(r"(\d+) random programs from seed \d+, no difference", text):
        result["random"] += int(n)
    return result


def tell(job: Job, result: dict[str, Any]) -> None:
    """Print what became of a job, and of one that failed what it says."""
    said = ", ".join(f"{v} {k}" for k, v in result.items() if v and k not in ("rc", "seconds")) or "nothing"
    print(f"{'FAIL' if result['rc'] else 'ok  '} {job.name}: {said} ({result['seconds']} s)", flush=True)
    if result["rc"]:
        lines = log_of(job).read_text(errors="replace").splitlines()
        bad = [
            x
            for x in lines
            if re.search(r"--- FAIL|^FAILED|SUMMARY: [1-9]|^ERROR|^E  +\S|^panic|^fatal|differs|lost", x)
        ]
        print("\n".join(f"     {x[:200]}" for x in bad[:10] or lines[-5:]), flush=True)


def run(args: argparse.Namespace) -> int:
    """Run the jobs that have not passed, as far as the time goes."""
    end = time.monotonic() + args.seconds
    env = environment()
    name, driver = device(env)
    if not name:
        print(f"SKIPPED: the tests that need a GPU: {driver}")
        return 0
    (HERE / "logs").mkdir(exist_ok=True)
    state = HERE / "state.json"
    results: dict[str, dict[str, Any]] = json.loads(state.read_text()) if state.exists() else {}
    every = jobs(args.seed, args.programs, args.unoptimised)
    todo = [j for j in every if results.get(j.name, {}).get("rc") != 0]
    if args.only:
        todo = [j for j in todo if re.search(args.only, j.name)]

    turns = itertools.cycle(orders())

    def one(job: Job) -> dict[str, Any] | None:
        left = end - time.monotonic()
        return perform(job, env | next(turns), min(job.limit, left)) if left > min(job.limit, 30) else None

    pool = ThreadPoolExecutor(args.processes or os.cpu_count() or 1)
    under_way: dict[Future[dict[str, Any] | None], Job] = {pool.submit(one, job): job for job in todo}
    for done in as_completed(under_way):
        job, result = under_way[done], done.result()
        if result is None:
            continue
        if result["rc"] == 124 and end - time.monotonic() < 1 and result["seconds"] < job.limit:
            continue  # it had not its own time: the next run does it
        results[job.name] = result
        state.write_text(json.dumps(results, indent=1))
        tell(job, result)
        if args.keep:  # as jobs end: a machine may be taken away
            args.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(state, args.keep)
            if result["rc"]:
                shutil.copy(log_of(job), args.keep)
    failed = [n for n, r in results.items() if r["rc"]]
    missing = [j.name for j in every if j.name not in results]
    about = json.loads((HERE / "pack.json").read_text())
    record = {"device": name, "driver": driver, "date": time.strftime("%Y-%m-%d"), **about, "jobs": results}
    to = HERE / ("partial.json" if failed or missing else "record.json")
    to.write_text(json.dumps(record, indent=1) + "\n")
    if args.keep:
        shutil.copy(to, args.keep)
    again = ": run again" if missing else ""
    print(f"{len(results) - len(failed)} jobs passed on {name}, {len(failed)} failed, {len(missing)} to do{again}")
    return 1 if failed else 3 if missing else 0


def main() -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description="The tests that need a GPU.")
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="put all that they need into a folder")
    packing.add_argument("to", type=Path)
    packing.add_argument("wheel", type=Path)
    running = commands.add_parser("run", help="run them, in pieces")
    running.add_argument("--seconds", type=int, default=530, help="of this piece (530)")
    running.add_argument("--programs", type=int, default=100_000, help="how many random programs (100,000)")
    running.add_argument(
        "--unoptimised", type=int, default=10_000, help="how many of these at the driver's level 0, too (10,000)"
    )
    running.add_argument("--seed", type=int, default=1, help="the first one's seed")
    running.add_argument("--processes", type=int, help="at one time (as many as there are processors)")
    running.add_argument("--only", help="jobs whose names this expression matches")
    running.add_argument("--keep", type=Path, help="a folder for the results so far, and for the logs of what failed")
    keeping = commands.add_parser("record", help="keep a run's record in the tree")
    keeping.add_argument("record", type=Path)
    checking = commands.add_parser("sanitize", help="run a command under a tool of compute-sanitizer")
    checking.add_argument("--planted", action="store_true", help="it has an error, which the tool is to find")
    checking.add_argument("tool", choices=SANITIZERS)
    checking.add_argument("rest", nargs=argparse.REMAINDER)
    commands.add_parser("check", help="warn if the sources have changed since the last record")
    commands.add_parser("sources", help="print the hash of the sources")
    args = parser.parse_args()
    if args.command == "pack":
        pack(args.to, args.wheel)
    elif args.command == "run":
        return run(args)
    elif args.command == "sanitize":
        return sanitize(args.tool, args.rest, args.planted)
    elif args.command == "record":
        keep(args.record)
    elif args.command == "check":
        check()
    else:
        print(sources())
    return 0


if __name__ == "__main__":
    sys.exit(main())
