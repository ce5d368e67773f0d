# Every target makes .venv and installs what is missing by itself, and shows what it runs.

ifeq ($(OS),Windows_NT)
  BIN := .venv/Scripts
else
  BIN := .venv/bin
endif
INSTALLED := .venv/.installed

.PHONY: demo test check format dashboard bench clean

demo: $(INSTALLED)
	$(BIN)/honed demo

test: $(INSTALLED)
	$(BIN)/pytest

# Exactly what CI runs.
check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Node.js 20 or later; what it writes, api/static, is committed.
dashboard:
	cd dashboard && npm ci && npm run build && npm test

bench: $(INSTALLED)
	$(BIN)/python -m bench --json bench/results.json

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installed anew only when pyproject.toml is newer than the stamp.
$(INSTALLED): pyproject.toml
	@test -x $(BIN)/python || { \
	  for python in $(PYTHON) python3.12 python3.11 python3.10 python3 python; do \
	    $$python -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' \
	      2>/dev/null || continue; \
	    echo "$$python -m venv .venv"; \
	    $$python -m venv .venv && exit 0; \
	    exit 1; \
	  done; \
	  echo "honed needs CPython 3.10, 3.11 or 3.12 with venv: the engine has no wheel for others." >&2; \
	  echo "Install one (Debian, Ubuntu: apt install python3.11-venv; macOS: brew install python@3.12;" >&2; \
	  echo "any: uv python install 3.12), or name it: make PYTHON=/path/to/python3.12" >&2; \
	  exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m compileall -q api cli service storage
	@touch $@
