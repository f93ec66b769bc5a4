"""The program: python -m gradus, and the console script gradus."""
import os
import sys


def program() -> str:
    """The path of the program that came with the package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_program")
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"the program gradus is not in this installation: {path} is missing")
    return path


def main() -> None:
    path = program()
    os.execv(path, ["gradus", *sys.argv[1:]])


if __name__ == "__main__":
    main()
