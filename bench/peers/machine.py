"""The machine that the figures are of, and whether anybody else used it meanwhile."""
import contextlib
import os
import platform
import re
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")
BUSY = 0.5  # processors: from here on others have changed the figures


def processor():
    with contextlib.suppress(OSError, StopIteration):
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    return platform.processor() or platform.machine()


def first_line(command):
    """What a program says of itself; empty where it cannot be asked."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0].strip()
    return ""


def compiler(built):
    """The C compiler of a build."""
    with contextlib.suppress(OSError):
        found = re.search(r"^CMAKE_C_COMPILER:\w+=(.+)$", (built / "CMakeCache.txt").read_text(encoding="utf-8"), re.M)
        if found:
            return first_line([found[1], "--version"])
    return ""


def machine(threads, built, root):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"processor": processor(), "processors": os.cpu_count(), "memory": f"{memory:.0f} GiB", "system": f"Linux {platform.release().split('-')[0]}",
            "threads": threads, "compiler": compiler(built), "python": platform.python_version(),
            "commit": first_line(["git", "-C", root, "rev-parse", "--short", "HEAD"])}


def busy_seconds():
    """Of all processors since the machine started, what another machine on the same ones took included; None: nobody tells."""
    with contextlib.suppress(OSError, ValueError), open("/proc/stat", encoding="utf-8") as f:
        user, nice, system, _, _, irq, soft, stolen = map(int, f.readline().split()[1:9])
        return (user + nice + system + irq + soft + stolen) / TICKS
    return None


def seconds_of(process):
    """Of a process and of its children that have ended."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{process}/stat", encoding="utf-8") as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:15])) / TICKS
    return 0.0


class Watch:
    """How busy others kept the machine: all that was used less what this run used.  The load average alone cannot tell, it has both."""

    def __init__(self, processes):
        self.processes = processes  # a function: ids of those that run
        self.first = os.getloadavg()[0]
        self.most = self.first
        self.mark = None

    def used(self):
        return seconds_of("self") + sum(map(seconds_of, self.processes()))

    def begin(self):
        self.mark = time.monotonic(), busy_seconds(), self.used()

    def others(self):
        """Processors that others kept busy since the beginning; a mean.  Short works have none: ticks are too coarse."""
        begun, busy, used = self.mark
        self.most = max(self.most, os.getloadavg()[0])
        took = time.monotonic() - begun
        if busy is None or took < 1:
            return None
        return round(max(0.0, (busy_seconds() - busy - (self.used() - used)) / took), 2)

    def load(self):
        return {"start": self.first, "end": os.getloadavg()[0], "most": max(self.most, os.getloadavg()[0])}
