# Everything is installed into .venv; uv itself lives in .uv.  `make help` lists the targets.
PYTHON ?= python3
UV_VERSION := 0.13.9
OUT ?= out

UV := .uv/bin/uv
BIN := .venv/bin
READY := .venv/.ready
PYCUDA := .venv/.pycuda
NOTEBOOKS := $(wildcard notebooks/*.ipynb)
# The browser's tests need playwright, and are skipped where there is no browser.
FOLDERS := $(subst :, ,$(PATH))
CHROMIUM := $(firstword $(wildcard $(FOLDERS:=/chromium) $(FOLDERS:=/google-chrome)))
EXTRAS := --extra lab --group test $(if $(CHROMIUM),--group browser)
# Without this, uv would fetch an interpreter of its own where the machine's is unsuitable.
export UV_PYTHON_DOWNLOADS := never
# A network may have certificates of its own, known to the system and not to uv.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
export UV_SYSTEM_CERTS := 1
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup report test check pycuda lab lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## install everything into .venv
	@echo "ready: .venv ($$($(BIN)/python --version))"

report: $(READY)  ## a quick sweep of the sample model, and its report in out/report.html
	$(BIN)/colibri-lab sweep --preset quick --model data/tiny-moe --out $(OUT)/run
	$(BIN)/colibri-lab report $(OUT)/run -o $(OUT)/report.html

check: $(READY)  ## style, types, import layers, notebooks without outputs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(if $(NOTEBOOKS),$(BIN)/nbstripout --verify $(NOTEBOOKS))

test: check pycuda  ## the checks, then the tests (PYTEST_ARGS="-k engine" for some of them)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

pycuda: $(PYCUDA)  ## PyCUDA, built without a GPU or CUDA (a minute or two, once a user), into .venv

lab: $(READY)  ## JupyterLab in notebooks/ (LAB_ARGS=--allow-root in a container)
	$(BIN)/colibri-lab lab $(LAB_ARGS)

lock: $(UV)  ## resolve the dependencies anew (UPGRADE=1: to the newest releases)
	$(UV) lock $(if $(UPGRADE),--upgrade)
	$(UV) export --quiet --frozen --extra lab --group test --no-emit-project -o requirements.lock

clean:  ## remove the environment and whatever the tools and commands wrote
	rm -rf .venv .uv $(OUT) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache \
	  .import_linter_cache
	find colibri_lab tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(UV) uv.lock pyproject.toml
	$(UV) sync --frozen --python .uv/bin/python $(EXTRAS)
	@touch $@

# Where it cannot be built, the tests that need it are skipped; not in continuous integration.
$(PYCUDA): $(READY) colibri_lab/simt/pycuda_build.py
	@{ UV=$(abspath $(UV)) $(BIN)/python -m colibri_lab.simt build-pycuda && touch $@; } || \
	  test -z "$(CI)"

$(UV): Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "colibri_lab needs Python 3.11 or later, and '$(PYTHON)' is not:" \
	    "$$($(PYTHON) --version 2>&1). Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make environments: its venv module is missing." \
	    "On Debian or Ubuntu: apt install python3-venv" >&2; \
	  exit 1; }
	$(PYTHON) -m venv --clear .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@
