# The two commands: `make demo` and `make test`. Both need Python 3.11 or newer, and install into .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin/python
WORKERS ?= 2
# Tests of reading run again here, on a newer Python and zarr and without torch: the first of these that is there.
SECOND = $(shell for python in python3.13 python3.12 $(HOME)/.pyenv/versions/3.13*/bin/python $(HOME)/.pyenv/versions/3.12*/bin/python; \
	do $$python -c 'import ensurepip, sys; print(sys.executable)' 2>/dev/null && break; done)
SECOND_VENV := .venv-second
SECOND_RUN := $(SECOND_VENV)/bin/python

.PHONY: demo test second second-tests soak bench check browser screenshot clean

demo: $(VENV)/.demo
	$(RUN) -m depthscope demo $(ARGS) || [ $$? -eq 130 ]  # Ctrl-C is how one leaves

test: $(VENV)/.dev browser check
	$(RUN) -m pytest -n $(WORKERS) --dist loadfile $(ARGS)
	@$(MAKE) --no-print-directory second

second: browser
	@if [ -n "$(SECOND)" ]; then $(MAKE) --no-print-directory second-tests; \
	else echo "tests/store and tests/app ran once: there is no Python 3.12 or 3.13 to run them again"; fi

# Of the browser tests one file: the pages run the same scripts whatever Python serves them.
second-tests: $(SECOND_VENV)/.test
	$(SECOND_RUN) -m pytest -n $(WORKERS) --dist loadfile -m "not soak and not browser" tests/store tests/app
	$(SECOND_RUN) -m pytest tests/app/test_shell.py

soak: $(VENV)/.dev browser
	$(RUN) -m pytest -m soak $(ARGS)

bench: $(VENV)/.dev browser
	$(RUN) -m benchmarks.overhead
	$(RUN) benchmarks/store.py
	$(RUN) -m benchmarks.dashboard

check: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy -p depthscope
	$(VENV)/bin/mypy --follow-imports=silent -m benchmarks.gpu -m benchmarks.overhead -p benchmarks.device
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

$(SECOND_VENV)/.test: pyproject.toml constraints.txt
	$(SECOND) -m venv $(SECOND_VENV)
	$(SECOND_RUN) -m pip install --quiet --upgrade pip
	$(SECOND_RUN) -m pip install --quiet -c constraints.txt -e ".[test]"
	touch $@

browser: $(VENV)/.dev
	$(RUN) tests/install_browser.py

clean:
	rm -rf $(VENV) $(SECOND_VENV) build *.egg-info
