# The two commands: `make demo` and `make test`. Both need Python 3.11 or newer, and install into .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin/python
WORKERS ?= 2

.PHONY: demo test soak bench check browser screenshot clean

demo: $(VENV)/.demo
	$(RUN) -m depthscope demo $(ARGS) || [ $$? -eq 130 ]  # Ctrl-C is how one leaves

test: $(VENV)/.dev browser check
	$(RUN) -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

soak: $(VENV)/.dev browser
	$(RUN) -m pytest -m soak $(ARGS)

bench: $(VENV)/.dev browser
	$(RUN) benchmarks/overhead.py
	$(RUN) benchmarks/store.py
	$(RUN) -m benchmarks.dashboard

check: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy -p depthscope
	$(VENV)/bin/lint-imports

screenshot: $(VENV)/.dev browser
	$(RUN) docs/screenshot.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "depthscope needs Python 3.11 or newer, found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade pip

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(RUN) -m pip install --quiet -c constraints.txt -e ".[record]"
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(RUN) -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@ $(VENV)/.demo

browser: $(VENV)/.dev
	$(RUN) tests/install_browser.py

clean:
	rm -rf $(VENV) build *.egg-info
