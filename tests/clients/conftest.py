"""Other libraries, which `make clients` installs; without them nothing here is collected."""

import os

collect_ignore_glob = [] if os.environ.get("IDENT3D_CLIENTS") else ["test_*.py"]
