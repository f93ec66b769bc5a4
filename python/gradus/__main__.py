"""The program: python -m gradus, and the console script gradus."""
import os
import sys


FOLDER = os.path.dirname(os.path.abspath(__file__))


def program() -> str:
    """The path of the program that came with the package."""
    path = os.path.join(FOLDER, "bin", "gradus")
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"the program gradus is not in this installation: {path} is missing")
    return path


def environment() -> dict[str, str]:
    """What the program is run with: it finds the package's plugin for GPUs."""
    plugin = os.path.join(FOLDER, "libgradus_cuda.so")
    return {**({"GRADUS_CUDA": plugin} if os.path.exists(plugin) else {}), **os.environ}


def main() -> None:
    os.execve(program(), ["gradus", *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
