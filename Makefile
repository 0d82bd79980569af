# One command a goal. Every goal makes the virtual environment it needs.
PYTHON ?= python3
VENV   ?= .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PY := $(BIN)/python
DATA ?= $(or $(DOSIMETER_DATA),../shared/data)
PYTEST_ARGS ?=
BENCH_ARGS ?=
# A version whose build for processors alone is small; another one may bring gigabytes of libraries for accelerators.
TORCH ?= torch==2.13.0
# Three workers with one BLAS thread each: on two cores a worker that waits for a process of its test leaves a core free.
# More BLAS threads than cores make every test slower. Bytecode is kept whatever the environment says: without it every
# worker and every process that a test starts compiles all modules again.
WORKERS ?= 3
RUN := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help install demo test slow lifelines mlflow flower torch kernels matrix check lint format types layers bench picture reproduce wheel docs clean

help:  ## list the goals
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

$(VENV)/.core: pyproject.toml
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: pyproject.toml
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

install: $(VENV)/.test  ## the virtual environment with everything that the tests need

demo: $(VENV)/.core  ## what the weights of a model of diabetes patients leak, in ten seconds
	@$(BIN)/dosimeter demo

test: $(VENV)/.test  ## the tests (about nine minutes on two cores)
	$(RUN) $(PYTEST_ARGS)

slow: $(VENV)/.test  ## the tests that take longer
	$(RUN) -m slow $(PYTEST_ARGS)

lifelines: $(VENV)/.test  ## the Cox models of lifelines, which needs an older pandas than the other tests use
	$(PYTHON) -m venv build/lifelines
	build/lifelines/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]' lifelines
	OPENBLAS_NUM_THREADS=1 build/lifelines/bin/python -m pytest -q tests/adapters/test_cox_models.py tests/adapters/test_coverage.py tests/glm/test_cox.py -k "Cox or cox or formula or PHReg"

mlflow: $(VENV)/.test  ## the evaluator for MLflow with a real tracking store, in an environment of its own
	$(PYTHON) -m venv build/mlflow
	build/mlflow/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test,mlflow]'
	OPENBLAS_NUM_THREADS=1 build/mlflow/bin/python -m pytest -q tests/workflows/test_mlflow_evaluator.py tests/scanner/test_model_formats.py -k "mlflow or evaluator"

flower: $(VENV)/.test  ## Flower as a transport, in an environment of its own: it needs older versions of other packages
	$(PYTHON) -m venv build/flower
	build/flower/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test,flower]'
	build/flower/bin/python -m pip check
	OPENBLAS_NUM_THREADS=1 timeout 2700 build/flower/bin/python -m pytest -q tests/engines/test_flower.py tests/engines/test_client_faults.py -k "flower or Flower"

torch: $(VENV)/.test  ## the tests that need PyTorch, in an environment of its own
	$(PYTHON) -m venv build/torch
	build/torch/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	build/torch/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test,torch]'
	OPENBLAS_NUM_THREADS=1 build/torch/bin/python -m pytest -q tests/federated/test_torch_learner.py tests/noise_addition/test_bits.py tests/files/test_federated_checkpoint.py -k torch

kernels: $(VENV)/.test  ## the numerical packages under other kernels of the BLAS, as other processors have them
	$(PY) tests/matrix.py kernels

matrix: $(VENV)/.test  ## everything under each kernel, one and two threads, the lowest versions, and newer Pythons (hours)
	$(PY) tests/matrix.py all

check: lint types layers test docs  ## all that must hold before a commit: lint, types, layers, tests, documentation

lint: $(VENV)/.test
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

format: $(VENV)/.test  ## put the code into its one form
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

types: $(VENV)/.test
	$(PY) -m mypy

layers: $(VENV)/.test
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.test  ## one table of ratios against peers and limits; BENCH_ARGS="--quick", "--peers", "--store"
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(PY) benchmarks/bench.py --data $(DATA) $(BENCH_ARGS)

docs: $(VENV)/.docs  ## build the site into build/docs; it runs the tutorials, and a warning is an error
	OPENBLAS_NUM_THREADS=1 $(PY) -m sphinx -b html -E -W --keep-going -q -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

picture: $(VENV)/.test  ## draw the pictures of docs anew (one of them needs chromium)
	$(PY) docs/picture.py

reproduce: $(VENV)/.test  ## each printed number of the papers beside ours
	$(BIN)/dosimeter reproduce hannun21 --data $(DATA)
	$(BIN)/dosimeter reproduce saeidian21 --data $(DATA)
	$(BIN)/dosimeter reproduce zari22 --data $(DATA)
	$(BIN)/dosimeter reproduce geyer19 --data $(DATA)

wheel: $(VENV)/.test  ## build the wheel, install it alone in a fresh environment, run the demo there
	rm -rf dist build/fresh
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv build/fresh
	build/fresh/bin/python -m pip install --quiet --disable-pip-version-check dist/dosimeter-*.whl
	cd build && fresh/bin/dosimeter demo --json demo.json && fresh/bin/python -m pip check
	printf "age,sex,dose\n31,f,4.1\n54,m,6.0\n47,f,5.2\n62,m,7.1\n39,m,4.4\n58,f,6.6\n" > build/tiny.csv
	cd build && fresh/bin/dosimeter fix tiny.csv --target dose --max-dose 1 --out tiny.skops

clean:  ## remove what the other goals made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
