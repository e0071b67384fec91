"""Where and with what a comparison was measured."""

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent
PACKAGES = ("torch", "transformers", "gguf", "numpy")


def describe(verifier):
    with urlopen(f"http://{verifier[0]}:{verifier[1]}/version", timeout=10) as answer:
        ours = answer.read().decode().strip()
    flags = field("/proc/cpuinfo", "flags").split()
    return {
        "processor": field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "instructions": [name for name in ("avx512_bf16", "avx512_vnni") if name in flags],
        "memory_gib": round(int(field("/proc/meminfo", "MemTotal").split()[0]) / 2**20),
        "system": f"{platform.system()} {platform.release()}",
        "compiler": first_line("c++", "--version"),
        "specfleet": ours,
        "revision": first_line("git", "-C", str(HERE), "describe", "--always", "--dirty"),
        "llama.cpp": pinned("llama-cpp.txt"),
        "python": sys.version.split()[0],
        "packages": {name: version(name) for name in PACKAGES},
    }


def pinned(requirements):
    """The package that a list of one pins."""
    lines = (HERE / "requirements" / requirements).read_text().splitlines()
    return next(line.split()[0] for line in lines if line and not line.startswith("#")).replace("==", " ")


def field(file, name):
    lines = Path(file).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "unknown")


def first_line(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout.splitlines()[0] if result.returncode == 0 and result.stdout else "unknown"
