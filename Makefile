# Everything a newcomer types. `make setup` is quick when nothing changed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
RUN = .venv/bin/python

.PHONY: setup demo test speed lint
setup: .venv/ready

.venv/ready: pyproject.toml .ci/system-packages
	bash .ci/system-packages
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "Blender's Python module needs Python 3.11: make setup PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(RUN) -m pip install --quiet --upgrade 'pip>=25.1'
	$(RUN) -m pip install --quiet --editable '.[all]' --group test
	touch $@

demo: setup
	.venv/bin/ident3d demo demo

test: setup lint
	$(RUN) -m pytest -q

speed: setup
	$(RUN) -m tests.speed

lint: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy ident3d render benchmark
