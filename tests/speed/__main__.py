"""`make speed`: every side-by-side measurement of this folder, each in its own process.

What one leaves in memory would otherwise count as another's.
"""

import pkgutil
import subprocess
import sys

import tests.speed

for module in sorted(m.name for m in pkgutil.iter_modules(tests.speed.__path__)):
    if module != "__main__":
        print(f"\n## {module}\n", flush=True)
        subprocess.run([sys.executable, "-m", f"tests.speed.{module}"], check=True)
