"""Starts a program on several ranks and checks how the job ends.

ends.py MPIEXEC PROGRAM CASE RANKS: exit status, and the lines on stderr that hold "mtf:". A job that does not end by
itself fails.
"""
import re
import subprocess
import sys
import time

PLACES = ["rank 0 (rows=0, cols=0)", "rank 1 (rows=0, cols=1)", "rank 2 (rows=1, cols=0)", "rank 3 (rows=1, cols=1)"]


def line(rank, message):
    return [re.escape(f"mtf: {PLACES[rank]}: ") + message]


def on_all(message):
    return [f"mtf: on all ranks: {message}"]


GIVEN = "from_global: 3 elements given for dims .*"
# Exit status (None: anything but 0) and the lines, as patterns (None: anything).
CASES = {
    "none": (0, []),
    "caught": (0, []),
    "started": (0, []),
    "adopted": (0, []),
    "late": (0, []),
    "status": (5, []),
    "throw": (None, line(3, "disk full")),
    "throw_prefixed": (None, line(2, "disk full")),
    "throw_zero": (None, line(0, "disk full")),
    "throw_unknown": (None, line(1, "unknown exception")),
    "throw_argument": (None, line(1, "bad argument")),
    "lost_sum": (None, line(2, "disk full")),
    "data": (None, line(2, "the user's data failed")),
    "callback": (None, line(2, "the user's function failed")),
    "callback_slope": (None, line(1, "the user's function failed")),
    "plan_error": (None, on_all(GIVEN)),
    "plan_error_alone": (None, line(3, GIVEN)),
    "size_mismatch": (None, on_all("World: the communicator has 4 ranks, the mesh .* has 3 processors; .*")),
    "no_boundary": (None, line(3, "a World is destroyed by an exception; .*")),
    "kill": (None, []),
    "exit": (None, []),
}

SLICE = r"no memory for 943718400 bytes of double, this rank's slice of \[a:\d+, b:117964800\]; the world's tensors use 109\d{6} bytes.*"
# Of the program "lifecycle", on any number of ranks: the status, and patterns of the lines; {all} is "on all ranks", or the one rank there is, {last} the
# last rank, both with and without the coordinates that only a world knows.
LIFECYCLE = {
    "no_kokkos": (None, ["mtf: {all}: World: Kokkos has not been initialized; make the world inside of mtf::run, .*"]),
    "no_kokkos_caught": (0, []),
    "before_mpi": (None, ["mtf: World: MPI has not been initialized; .*"]),
    "after_mpi": (None, ["mtf: World: MPI has been finalized; .*"]),
    "after_mpi_in_run": (None, ["mtf: rank 0: World: MPI has been finalized; .*"]),
    "null_communicator": (None, ["mtf: {all}: World: the communicator is MPI_COMM_NULL; .*"]),
    "run_twice": (None, ["mtf: rank 0: run: MPI has ended, .*"]),
    "run_twice_caught": (0, []),
    "run_twice_adopted": (0, []),
    "run_nested": (0, []),
    "run_nested_error": (None, ["mtf: {all}: disk full"]),
    "finalized_in_run": (0, []),
    "mpi_ends_first": (0, ["mtf: World: MPI was finalized before the world ended; .*"]),
    "kokkos_ends_first": (0, ["mtf: World: Kokkos was finalized before the world ended; .*"]),
    "static_world": (0, ["mtf: World: Kokkos was finalized before the world ended; .*"]),
    "other_thread": (0, []),
    "other_thread_uncaught": (None, ["mtf: rank 0: World: constant on another thread than the one that made the world; .*"]),
    "same_on_all": (None, ["mtf: {all}: disk full"]),
    "same_on_some": (None, ["mtf: {odd}: disk full"]),
    "different": (None, ["mtf: rank 0.*: no file", "mtf: rank.*1.*: no file", "mtf: rank 2.*: no file"]),
    "long_text": (None, ["mtf: {all}: x{{20000}}"]),
    "no_boundary_on_all": (None, ["mtf: {all}: a World is destroyed by an exception; .*"]),
    "others_are_done": (None, ["mtf: {last}: disk full"]),
    "lent_written": (None, ["mtf: rank 0: from_local: memory that was lent .*"]),
    "lent_kept": (0, []),
    "lent_unchecked": (0, []),
    "memory": (None, ["mtf: {all}: constant: " + SLICE.replace("{", "{{").replace("}", "}}")]),
    "memory_alone": (None, ["mtf: {last}: (constant|relu): no memory for 419430400 bytes .*"]),
    "memory_caught": (0, []),
    "memory_given_back": (0, []),
    "memory_overflow": (None, ["mtf: {all}: constant: no memory for {overflow} bytes of double, .*"]),
    "memory_on_host": (None, [r"mtf: {all}: to_host: no memory on the host for \d+ bytes of the array \[a:\d+, b:26214400\]"]),
    "memory_of_the_program": (None, ["mtf: {all}: no memory is left .*"]),
}

SUM = 'allreduce of 1 double in "to_host" over "rows", "cols"'
ENDS = r"mtf: rank \d: the job ends: ranks have waited longer than 0.4 s for each other \(abort_after\)"
LOST = r"mtf: rank \d: the job ends: a rank that is waited for has lost its World to an exception, and cannot come"


def wait(what, who, absent):
    return rf"mtf: waiting for \d+\.\d s: {what}: {who}; not there: {absent}"


# Of the program "waits", on four ranks, of which rank 3 does something else.
WAITS = {
    "wait_none": (0, []),
    "wait_late": (0, [wait(SUM, "ranks 0-2 wait", r"rank 3 \(at work since \d\.\d s, .* last\)")]),
    "wait_skipped": (None, [wait(SUM, "ranks 0-2 wait", r"rank 3 \(its World ended .* ago\)"), ENDS]),
    "wait_told_at_end": (None, [wait(SUM, "ranks 0-2 wait", r"rank 3 \(its World ended .* ago\)"), ENDS]),
    "wait_returned": (None, [wait(SUM, "ranks 0-2 wait", r"rank 3 \(its World ended .* ago\)"), ENDS]),
    "wait_group": (None, [wait(".*", "ranks? .* waits?", 'rank . .waiting since .* in all(reduce|gather) of . (float|double) in "to_host".*'), ENDS]),
    "wait_kinds": (None, [wait(".*", "rank.* waits?", r"rank.* \(waiting since .* in .*\)"), ENDS]),
    "wait_agree": (None, [wait('"agree" over "rows", "cols"', "ranks? 1.* waits?", "rank 0.*"), ENDS]),
    "wait_caught": (None, [wait(SUM, "ranks 0-2 wait", r"rank 3 \(its World ended by an exception .* ago\)"), LOST]),
    "wait_caught_plan_error": (None, [wait(SUM, "ranks 0-2 wait", r"rank 3 \(its World ended by an exception .* ago\)"), LOST]),
    "wait_layouts": (None, [r'mtf: on all ranks: World: the ranks differ, .*: ranks 0-2 mesh .*, layout "r:rows;c:cols", seed 0; rank 3 .*, layout "r:rows", seed 0']),
    "wait_seeds": (None, [r"mtf: on all ranks: World: the ranks differ, .*: ranks 0, 2 mesh .*, seed 0; ranks 1, 3 mesh .*, seed 1"]),
    "wait_never": (None, [r"mtf: on all ranks: World: WorldOptions::patience and abort_after are 0.0+ and 0.40+; .*"]),
    "wait_environment": (None, [r'mtf: on all ranks: World: MTF_PATIENCE is "soon"; it is a time in seconds, .*']),
}


def lifecycle(case, ranks):
    """The same as CASES has, for this number of ranks."""
    status, lines = LIFECYCLE[case]
    last = rf"rank {ranks - 1}( \(rows={ranks - 1}\))?"
    odd = {2: r"rank 1 \(rows=1\)", 4: "ranks 1, 3"}.get(ranks, "")
    names = {"all": "on all ranks" if ranks > 1 else last, "last": last, "odd": odd, "overflow": 2**62 // ranks}
    if case == "same_on_some" and ranks == 1:
        return 0, []
    if case == "different":
        lines = lines[:ranks]
    return status, [line.format(**names) for line in lines]


def main():
    mpiexec, program, case, ranks = sys.argv[1:]
    says_met = case in CASES
    wanted_status, wanted = lifecycle(case, int(ranks)) if case in LIFECYCLE else {**CASES, **WAITS}[case]
    begin = time.monotonic()
    try:
        job = subprocess.run([mpiexec, "-n", ranks, program, case], capture_output=True, text=True, timeout=100, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(f"{case}: the job did not end")
    print(f"{case}: {time.monotonic() - begin:.1f} s")
    lines = [text for text in job.stderr.splitlines() if "mtf:" in text]
    problems = []
    if job.returncode == 0 if wanted_status is None else job.returncode != wanted_status:
        problems.append(f"exit status {job.returncode}")
    if len(lines) != len(wanted) or not all(re.fullmatch(w, text) for w, text in zip(wanted, lines)):
        problems.append(f"lines {lines}, wanted {wanted}")
    if says_met and "met" not in job.stdout:
        problems.append("the ranks did not meet before")
    if "went on" in job.stdout:
        problems.append("the program went on")
    if problems:
        sys.exit(f"{case}: {'; '.join(problems)}\n{job.stdout}{job.stderr}")


main()
