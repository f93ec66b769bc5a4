"""CUDA's libraries from NVIDIA's packages in site-packages, if the system has none: loaded before the plugin needs them."""
from __future__ import annotations

LIBRARIES = ("nvJitLink", "nvrtc", "cublasLt", "cublas", "cusparse", "cusolver")  # each after those that it needs


def preload() -> list[str]:
    """Loads what is found, so that the plugin finds it by name; gives the paths."""
    import ctypes
    import glob
    import os
    import sys

    loaded = []
    for name in LIBRARIES:
        paths = [path for folder in sys.path if folder
                 for path in sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", f"lib{name}.so.*")), reverse=True)]
        for path in paths:
            try:
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue
            loaded.append(path)
            break
    return loaded
