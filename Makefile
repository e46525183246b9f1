# Every target works as the first command after a clone: it makes the environment that it needs.
#
#   make demo ALL=1                     every row of the segmentation table instead of five
#   make test ARGS="-k router"          arguments for pytest (or, with `make demo`, for the demo)
#   make install PYTHON=python3.12      another interpreter
#   make install TORCH="torch==2.4.1"   another torch; may hold options of pip, e.g. for its index
#   make install VENV=path              an environment that you have, with its torch and mmcv
#
# An environment made here gets the exact versions of constraints.txt. Where a torch is there
# already, in VENV or in a PYTHON that is not itself a virtual environment (system, conda), it is
# used, and everything else that is installed beside it stays as it is too.

PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
ARGS ?=

RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install -qq --disable-pip-version-check
STAMP := $(VENV)/.installed
# Present if this Makefile decides on the versions in the environment.
PINNED := $(VENV)/.pinned

.DEFAULT_GOAL := help
.PHONY: help install demo demo-cls bench test lint format docs clean
.DELETE_ON_ERROR:

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | \
	    while IFS='|' read -r target text; do printf '%-14s %s\n' "$$target" "$$text"; done

install: $(STAMP)  ## Make the environment .venv

demo: $(STAMP)  ## Run the demonstration in five minutes: no data, no downloads, CPU only
	@$(RUN) tools/demo.py $(if $(ALL),--all) $(ARGS)

demo-cls: $(STAMP)  ## The same for classifiers: error by visit of every method
	@$(RUN) tools/demo_cls.py $(ARGS)

bench: $(STAMP)  ## Measure what the reservoir costs (FULL=1: all of it, up to half an hour)
	@$(RUN) -m benchmarks.speed $(if $(FULL),--full) $(ARGS)

test: $(STAMP)  ## Run the fast tests
	@# One process per core, each with one thread: threads of several would wait for each other.
	@# Files in the order of tests/conftest.py, the longest first, not by their number of tests.
	@OMP_NUM_THREADS=1 $(RUN) -m pytest --numprocesses auto --dist loadfile \
	    --no-loadscope-reorder $(ARGS)

lint: $(STAMP)  ## Report errors of style, of imports between rooms, and of types
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -c 'from importlinter.cli import lint_imports_command as lint; lint()' --no-logo
	@$(RUN) -m mypy

format: $(STAMP)  ## Fix what ruff can fix by itself
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

docs: $(STAMP)  ## Make the API reference in build/docs
	@$(RUN) -c 'import pdoc' 2>/dev/null || $(PIP) "pdoc>=15"
	@$(RUN) -m pdoc --docformat google --output-directory build/docs mmseg_reservoir \
	    $(addprefix mmseg_reservoir.,core style routing params methods becotta config registry) \
	    $(addprefix mmseg_reservoir.,snapshot runs seg footage cls datasets report live fleet)
	@echo "API reference: build/docs/index.html"

clean:  ## Remove the environment .venv and all caches
	@rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN):
	@command -v "$(PYTHON)" >/dev/null || \
	    { echo "Error: no $(PYTHON) found. Try: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "Error: Python >= 3.10 needed, but $(PYTHON) is $$("$(PYTHON)" -V 2>&1)." \
	           "Try: make PYTHON=python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "Error: $(PYTHON) has no venv module. On Debian or Ubuntu:" \
	           "apt install python3-venv" >&2; exit 1; }
	@# A venv shares the packages of a whole Python, but not those of another venv.
	@case "$$("$(PYTHON)" -c 'import sys, torch; print(sys.prefix == sys.base_prefix)' 2>/dev/null)" in \
	True) \
	    echo "Making $(VENV) on top of $(PYTHON), which has torch ..."; \
	    "$(PYTHON)" -m venv --system-site-packages "$(VENV)" ;; \
	False) \
	    echo "Making $(VENV) with a separate torch (to use that of $(PYTHON) instead:" \
	         "make install VENV=path of its environment) ..."; \
	    "$(PYTHON)" -m venv "$(VENV)" && touch "$(PINNED)" ;; \
	*) \
	    echo "Making $(VENV) ..."; \
	    "$(PYTHON)" -m venv "$(VENV)" && touch "$(PINNED)" ;; \
	esac

$(STAMP): setup.py pyproject.toml constraints.txt $(wildcard requirements/*.txt) | $(RUN)
	@$(RUN) -c 'import torch' 2>/dev/null || \
	    { echo "Installing $(TORCH) into $(VENV): some minutes, this once ..."; $(PIP) $(TORCH); }
	@echo "Installing mmseg_reservoir into $(VENV) ..."
	@# Full mmcv and mmcv-lite overwrite each other: take the latter only if there is no former.
	@extras=tests; constraints=; \
	$(RUN) -c 'from importlib.metadata import version; version("mmcv")' 2>/dev/null || \
	    extras=lite,tests; \
	if [ -e "$(PINNED)" ]; then constraints="-c constraints.txt"; fi; \
	$(PIP) $$constraints --editable ".[$$extras]"
	@# opencv-python needs libGL, which servers and containers may not have.
	@if [ -e "$(PINNED)" ] && ! $(RUN) -c 'import cv2' 2>/dev/null; then \
	    echo "opencv-python does not load here: taking opencv-python-headless instead ..."; \
	    $(RUN) -m pip uninstall -qq --yes opencv-python && \
	    $(PIP) --force-reinstall --no-deps -c constraints.txt opencv-python-headless && \
	    $(RUN) -c 'import cv2'; \
	fi
	@# yapf, which mmengine imports, writes a cache at its first import: two processes at once break it.
	@$(RUN) -c 'import yapf'
	@touch $@
