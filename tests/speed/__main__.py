"""`make speed`: every side-by-side measurement of this folder, in one run."""

import importlib
import pkgutil

import tests.speed

for module in sorted(m.name for m in pkgutil.iter_modules(tests.speed.__path__)):
    if module != "__main__":
        print(f"\n## {module}\n", flush=True)
        importlib.import_module(f"tests.speed.{module}").main()
