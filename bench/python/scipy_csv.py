"""scipy_csv.py THREADS: seconds in which pandas' C parser reads the table that $GRADUS_TABLE names, the best of three."""
import os
import time

import pandas as pd

times = []
for _ in range(3):
    begin = time.perf_counter()
    pd.read_csv(os.environ["GRADUS_TABLE"], engine="c")
    times.append(time.perf_counter() - begin)
print(f"{min(times):.6f}  pandas {pd.__version__}")
