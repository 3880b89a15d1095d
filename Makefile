# Everything a newcomer types. `make setup` is quick when nothing changed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
RUN = .venv/bin/python

.PHONY: setup demo test speed soak lint docs clients matrix
setup: .venv/ready

.venv/ready: pyproject.toml .ci/system-packages
	@echo "Set-up, step 1 of 3: system packages for Blender and the browser tests"
	@bash .ci/system-packages
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "Blender's Python module needs Python 3.11: make setup PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Set-up, step 2 of 3: a virtual environment in .venv"
	@$(PYTHON) -m venv .venv
	@$(RUN) -m pip install --quiet --upgrade 'pip>=25.1'
	@echo "Set-up, step 3 of 3: Blender, torch and the rest, some gigabytes the first time"
	@$(RUN) -m pip install --editable '.[all]' --group test --group docs
	@touch $@

demo: setup
	.venv/bin/ident3d demo demo

test: setup lint
	@rm -f .coverage .coverage.*
	$(RUN) -m coverage run -m pytest -q
	@$(RUN) -m coverage combine --quiet
	@echo "Line coverage of ident3d/, render/ and benchmark/, in percent (92 or more):"
	@$(RUN) -m coverage report --format=total

# The manual as a site, in site-docs/; `.venv/bin/mkdocs serve` shows it while you write.
docs: setup
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

# Bridges to other libraries, and the manual's pages on them, with those libraries themselves.
clients: setup
	$(RUN) -m pip install --group clients
	IDENT3D_CLIENTS=1 $(RUN) -m pytest -q -W default tests/clients tests/docs/test_pages.py

# The core install and the quick start on other Pythons, from a built wheel.
matrix: setup
	$(RUN) -m tests.matrix 3.10 3.12 3.13

# Random faults for an hour, with a seed that is printed; SECONDS=600 for less.
soak: setup
	$(RUN) -m tests.faults.soak --seconds $(or $(SECONDS),3600)

speed: setup
	$(RUN) -m tests.speed

lint: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy ident3d render benchmark
