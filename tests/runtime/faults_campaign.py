"""Four ranks on two hosts, and what happens to one of them at collectives all over a step: all others must end in time and say why.

sudo python -m tests.runtime.faults_campaign --count 50 --fault kill,stop,link

The hosts are two network namespaces with a link between them. What happens: the rank is killed (SIGKILL), or stopped (SIGSTOP), or
the link goes down. Then every other rank, or after the link all, must end with exit code 4 and MG0609, name the collective and
ranks that it waits for, and that within the time-out and a few seconds for what a process needs to end.
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

TIME_OUT, MORE_SECONDS = 2.0, 8.0  # of a rank, and what its process may take to end and to be seen by who waits longest
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
# A rank that has no more collectives is in `the gathering of results`, or has them and is at its end
SAID = re.compile(
    r"error MG0609: rank \d+ (?:waits for ranks? [\d, ]+|is) in (the gathering of results|the end of the program|\w+ over [xy, ]+ \(program\.mlir:\d+\))"
)


def modules(folder: Path) -> dict[str, Path]:
    """The program, by the device that it is for."""
    (folder / "program.mlir").write_text(PROGRAM)
    found: dict[str, Path] = {}
    for device, target in (("reference", "cpu"), ("emulate", "cuda:sm_80")):
        found[device] = folder / f"{device}.mgx"
        mg.compile(folder / "program.mlir", target=target).save(found[device])
    return found


def words_of(module: Path, device: str, time_out: float = TIME_OUT) -> tuple[str, ...]:
    return ("run", str(module), "--device", device, "--time-out", f"{time_out:g}")


def victim_words(what: str, when: int, module: Path, device: str, time_out: float = TIME_OUT) -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.runtime.victim", what, str(when), *words_of(module, device, time_out))


def messages(fault: str, module: Path, device: str, time_out: float) -> list[int]:
    """How many messages of collectives each rank sends in a step; to the other host, if it is the link that goes down."""
    own = {rank: victim_words(fault, 0, module, device, time_out) for rank in range(RANKS)}
    found = ended(started(RANKS, own=own), 120)
    return [int(each.err.rpartition("messages: ")[2]) for each in found]


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
    """How all ranks end, and how long after it has happened the last one did that must. The victim is last in line."""
    sign = folder / "sign"
    sign.unlink(missing_ok=True)
    own = {victim: victim_words(str(sign) if fault == "link" else fault, when, module, device, time_out)}
    words = words_of(module, device, time_out)
    processes = started(RANKS, *MESHGEN, *words, own=own, prefix=hosts.prefix, host=hosts.address)
    begin = happened(fault, processes[victim], sign)
    if fault == "link":
        hosts.set_link("down")
        sign.unlink()
    others = [process for rank, process in enumerate(processes) if rank != victim or fault == "link"]
    try:
        for process in others:
            process.wait(max(begin + time_out + MORE_SECONDS - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        pass
    seconds = time.monotonic() - begin
    for process in processes:
        process.kill()
    if fault == "link":
        hosts.set_link("up")
    found = ended(processes, 20)
    return [each for rank, each in enumerate(found) if rank != victim or fault == "link"], seconds


def happened(fault: str, victim: subprocess.Popen[str], sign: Path) -> float:
    """When it has: a reading of `time.monotonic`. Raises TimeoutError if it does not."""
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


def faults_of(found: Sequence[Ended]) -> list[str]:
    """What is wrong with how ranks end; empty: nothing."""
    said = [SAID.search(each.err) for each in found]
    wrong = [each for each, place in zip(found, said, strict=True) if each.code != 4 or not place]
    if not wrong and not any(place and " over " in place[1] for place in said):
        wrong = list(found)  # nobody names the collective
    return [f"exit code {each.code}: {each.err[-500:]}" for each in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="trials of each fault")
    parser.add_argument("--fault", default="kill,stop,link")
    parser.add_argument("--device", default="reference,emulate", help="in turn")
    parser.add_argument(
        "--time-out", type=float, default=TIME_OUT, help="seconds; more than what all ranks take to start"
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
                found, seconds = trial(fault, victim, when, paths[device], device, hosts, folder, options.time_out)
                wrong = faults_of(found)
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
