# Every target runs from a clean clone, without another one first. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
CACHE := $(or $(TASKYARD_CACHE),$(HOME)/.cache/taskyard)
# One virtual environment for all clones that have the same lock and the same Python.
VENV := $(CACHE)/venv-$(shell { cat requirements-dev.lock; $(PYTHON) -VV; } | cksum | cut -d' ' -f1)
RUN := PYTHONPATH=operator:. PYTHONDONTWRITEBYTECODE=1 $(VENV)/bin/python
READY := $(VENV)/complete

##@ Use it
demo: $(READY) ## bring up a cluster, install Taskyard, run the examples and watch them
	@$(RUN) -m cluster.demo
test: $(READY) ## lint, unit, machine, chart and cluster tests, as CI runs them; PARTS="unit chart" runs some
	@$(RUN) -m tests $(PARTS)
##@ The development cluster (CLUSTER=kind|native|current, NODES=1|2|3)
up: $(READY) ## bring it up; fast when it is up already
	@$(RUN) -m cluster up
down: $(READY) ## stop it, and leave the machine as it was
	@$(RUN) -m cluster down
status: $(READY) ## what runs
	@$(RUN) -m cluster status
kubeconfig: $(READY) ## print the path of its kubeconfig
	@$(RUN) -m cluster kubeconfig
env: $(READY) ## for your shell: eval "$$(make -s env)"
	@$(RUN) -m cluster env
install: $(READY) ## build the operator's image and install the chart into the cluster
	@$(RUN) -m cluster up
	@$(RUN) -m cluster install
up-kwok: $(READY) ## a second control plane with pretended nodes, for scale
	@$(RUN) -m cluster up-kwok
down-kwok: $(READY) ## stop that one
	@$(RUN) -m cluster down-kwok
##@ Work on it
unit: $(READY) ## the tests that need no cluster, in seconds
	@$(RUN) -m tests unit
simulate: $(READY) ## thousands more random histories, on all cores; SECONDS=300, SEED=the first of them
	@$(RUN) -m tests.simulate --seconds $(if $(filter command line,$(origin SECONDS)),$(SECONDS),300) $(if $(SEED),--first $(SEED))
bench-decisions: $(READY) ## what one event costs with many tasks or tenants waiting, against a cluster in memory
	@$(RUN) -m bench.decisions
bench: $(READY) ## how fast it is beside raw Jobs, and what it costs: half an hour; QUICK=1: three minutes
	@$(RUN) -m bench $(if $(QUICK),--quick)
soak: $(READY) ## ten tasks a second for twenty minutes: nothing may grow; SOAK_SECONDS=60 is shorter
	@$(RUN) -m bench.soak
lint: $(READY) ## ruff, mypy --strict, import-linter, generated files
	@$(RUN) -m tests lint
image: $(READY) ## build the images into the cache
	@$(RUN) -m cluster image
manifests: $(READY) ## write the CRDs, docs/api.md and docs/state-machine.md from the code
	@$(RUN) -m taskyard.api.generate crds
verify: $(READY) ## regenerate, and fail on a difference
	@$(RUN) -m tests verify
format: $(READY) ## lay the code out
	@$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .
lock: $(READY) ## pin all dependencies anew, with hashes and without naming an index
	@for group in "requirements.lock" "requirements-dev.lock --group dev"; do \
	  $(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	    pyproject.toml --output-file $$group; done

help: ## this list
	@sed 's/\$$\$$/$$/g' $(MAKEFILE_LIST) | awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}'

# Its name holds a hash of the lock, so it depends on no file's time: a fresh clone must not make it anew for all others.
$(READY):
	@$(PYTHON) cluster/environment.py $(VENV) requirements-dev.lock

.PHONY: demo test up down status kubeconfig env install up-kwok down-kwok unit simulate bench-decisions bench soak lint image manifests verify format lock help
