"""Run four ranks on two hosts and let one fail at a collective. The others must end in time and report why.

    sudo python -m tests.runtime.faults_campaign --count 50 --fault kill,stop,link

The hosts are two network namespaces with a link between them. A fault kills a rank (SIGKILL), stops it (SIGSTOP), or
takes the link down. Then every other rank (after a link fault, every rank) must end with exit code 4 and MG0609. Its
message must name the collective and the ranks for which it waits. It must end within the time-out plus MORE_SECONDS.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import meshgen as mg
from tests.runtime.launchers import MESHGEN, Ended, ended, started
from tests.runtime.two_hosts import RANKS, Hosts, two_hosts

# Seconds: a rank waits TIME_OUT for its peers, and the last process exits at most MORE_SECONDS later; chosen: generous.
TIME_OUT, MORE_SECONDS = 2.0, 8.0
PROGRAM = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %w: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) -> (tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<16x16xf32>
  %2 = stablehlo.tanh %1 : tensor<16x16xf32>
  %3 = sdy.sharding_constraint %2 <@mesh, [{"y"}, {"x"}]> : tensor<16x16xf32>
  %4 = stablehlo.dot_general %3, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %5 = stablehlo.add %4, %1 : tensor<16x16xf32>
  %6 = sdy.sharding_constraint %5 <@mesh, [{}, {"y"}]> : tensor<16x16xf32>
  %7 = stablehlo.multiply %6, %6 : tensor<16x16xf32>
  return %7 : tensor<16x16xf32>
}
"""
# The regex group is the collective, or a later phase: a rank gathers results, and then is at the end of the program.
SAID = re.compile(
    r"error MG0609: rank \d+ (?:waits for ranks? [\d, ]+|is) in (the gathering of results|the end of the program|\w+ over [xy, ]+ \(program\.mlir:\d+\))"
)


def modules(folder: Path) -> dict[str, Path]:
    """Compile the program for both devices and return the module paths by device."""
    (folder / "program.mlir").write_text(PROGRAM)
    paths: dict[str, Path] = {}
    for device, target in (("reference", "cpu"), ("emulate", "cuda:sm_80")):
        paths[device] = folder / f"{device}.mgx"
        mg.compile(folder / "program.mlir", target=target).save(paths[device])
    return paths


def words_of(module: Path, device: str, time_out: float = TIME_OUT) -> tuple[str, ...]:
    return ("run", str(module), "--device", device, "--time-out", f"{time_out:g}")


def victim_command_line(
    fault: str, when: int, module: Path, device: str, time_out: float = TIME_OUT
) -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.runtime.victim", fault, str(when), *words_of(module, device, time_out))


def messages(fault: str, module: Path, device: str, time_out: float) -> list[int]:
    """Return the number of messages that each rank sends in a step; for a link fault, only of those to the other host."""
    victims = {rank: victim_command_line(fault, 0, module, device, time_out) for rank in range(RANKS)}
    outcomes = ended(started(RANKS, own=victims), 120)
    return [int(process.err.rpartition("messages: ")[2]) for process in outcomes]


def trial(
    fault: str,
    victim: int,
    when: int,
    module: Path,
    device: str,
    hosts: Hosts,
    folder: Path,
    time_out: float = TIME_OUT,
) -> tuple[list[Ended], float]:
    """Run one trial. Return how each rank except the victim ends, and the seconds until the last of them has ended.

    The time starts at the fault. After a link fault, the result includes all ranks.
    """
    sign_file = folder / "sign"
    sign_file.unlink(missing_ok=True)
    victim_command = {
        victim: victim_command_line(str(sign_file) if fault == "link" else fault, when, module, device, time_out)
    }
    words = words_of(module, device, time_out)
    processes = started(RANKS, *MESHGEN, *words, own=victim_command, prefix=hosts.prefix, host=hosts.address)
    begin = happened(fault, processes[victim], sign_file)
    if fault == "link":
        hosts.set_link("down")
        sign_file.unlink()
    observed = [process for rank, process in enumerate(processes) if rank != victim or fault == "link"]
    try:
        for process in observed:
            process.wait(max(begin + time_out + MORE_SECONDS - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        pass
    seconds = time.monotonic() - begin
    for process in processes:
        process.kill()
    if fault == "link":
        hosts.set_link("up")
    outcomes = ended(processes, 20)
    return [outcome for rank, outcome in enumerate(outcomes) if rank != victim or fault == "link"], seconds


def happened(fault: str, victim: subprocess.Popen[str], sign: Path) -> float:
    """Wait for the fault, and return the time at which it happened, as given by `time.monotonic`.

    Raises:
        TimeoutError: the fault does not happen within a minute.
    """
    end = time.monotonic() + 60
    while time.monotonic() < end:
        state = Path(f"/proc/{victim.pid}/stat")
        if fault == "link" and sign.exists():
            return time.monotonic()
        if fault == "stop" and state.exists() and state.read_text().rpartition(")")[2].split()[0] == "T":
            return time.monotonic()
        if fault == "kill" and victim.poll() is not None:
            return time.monotonic()
        time.sleep(0.02)
    victim.kill()
    raise TimeoutError(f"nothing has happened to the victim: {ended([victim])}")


def faults_of(outcomes: Sequence[Ended]) -> list[str]:
    """Return a description of each rank that ends wrongly. The list is empty if all end correctly."""
    matches = [SAID.search(outcome.err) for outcome in outcomes]
    wrong = [outcome for outcome, match in zip(outcomes, matches, strict=True) if outcome.code != 4 or not match]
    if not wrong and not any(match and " over " in match[1] for match in matches):
        wrong = list(outcomes)  # no rank names a collective
    return [f"exit code {outcome.code}: {outcome.err[-500:]}" for outcome in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="trials of each fault")
    parser.add_argument("--fault", default="kill,stop,link")
    parser.add_argument("--device", default="reference,emulate", help="devices, used alternately")
    parser.add_argument(
        "--time-out", type=float, default=TIME_OUT, help="seconds; must exceed the start-up time of all ranks"
    )
    options = parser.parse_args()
    good, total, devices = 0, 0, options.device.split(",")
    with two_hosts() as hosts, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = modules(folder)
        for fault in options.fault.split(","):
            counts = {device: messages(fault, paths[device], device, options.time_out) for device in devices}
            longest, before = 0.0, good
            for number in range(options.count):
                device, victim = devices[number % len(devices)], number // len(devices) % RANKS
                when = 1 + number * counts[device][victim] // options.count
                outcomes, seconds = trial(fault, victim, when, paths[device], device, hosts, folder, options.time_out)
                wrong = faults_of(outcomes)
                good, total, longest = good + (not wrong), total + 1, max(longest, seconds)
                for text in wrong:
                    sys.stdout.write(f"{fault} of rank {victim} at message {when}, {device}: {text}\n")
            sys.stdout.write(
                f"{fault}: {good - before} of {options.count}, the last rank after {longest:.1f} s at most\n"
            )
            sys.stdout.flush()
    return 0 if good == total else 1


if __name__ == "__main__":
    sys.exit(main())
