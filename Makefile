# All that is done to this project by command. Every target sets up what it needs by itself.

PYTHON_CODE := conftest.py src plugins tests tools examples benchmarks
IN_VENV := .venv/bin
PYTEST := $(IN_VENV)/python -m pytest
WORKERS := 2
IN_PARALLEL := -n $(WORKERS) --dist worksteal
# In many folders, for each worker begins to collect at another one (conftest.py).
UNIT := $(filter-out %__pycache__,$(patsubst %/,%,$(wildcard tests/unit/*/ tests/property/*/))) plugins/malleable/tests/unit
SIMULATION := tests/simulation tests/shells tests/fuzz
ATTACKS := tests/attacks
LANGUAGE := tests/unit/agents tests/property/agents $(patsubst %,tests/attacks/test_attacks_%.py,language corpus sandbox pythons)
PROCESSES := tests/processes tests/postgres tests/examples tests/backends tests/psij plugins/gridengine/tests plugins/malleable/tests/processes
SECONDS := 600
EFFORT := 20
PAIRS := 1000000
PLACES := 1000000
SCHEDULES := 100000
KILLS := 1000
ROUNDS := 700

# The tests start hundreds of processes: none shall have to compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

# ARGS is handed on: make demo ARGS=--help, make unit ARGS='-k calendar'.
ARGS :=

.DEFAULT_GOAL := help
.PHONY: help setup setup-server setup-test demo test test-backends test-gridengine test-oar lint types layers unit side-by-side simulation processes attacks test-pythons test-psij \
	soak soak-faults soak-shells soak-calendars soak-places soak-starts soak-jobs soak-failovers soak-backends bench bench-calendar bench-agents \
	bench-contention bench-malleable bench-size-policies bench-n-of-k bench-planner bench-placement bench-startup bench-simulate bench-shepherds bench-commands bench-jobs bench-bids bench-owners bench-stores bench-backends bench-denial published papers lock audit release clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)$$/\1|\2/p' $(MAKEFILE_LIST) | \
		awk -F'|' '{ printf "make %-15s %s\n", $$1, $$2 }'

setup: setup-test ## Make .venv with everything that serving, testing and measuring need

setup-server:
	@tools/setup server

setup-test:
	@tools/setup server test

demo: setup-server ## Three sites, a broker, sample bookings and one co-allocation, on this machine
	@$(IN_VENV)/kalends demo $(ARGS)

# Cheapest first: a slip in style is known within seconds, a lost promise within minutes. Types are looked at by one
# process, beside which tests use the other processors.
test: setup-test ## Everything CI checks
	@tools/setup-root-tests
	@tools/setup-postgres
	@$(MAKE) --no-print-directory --jobs $(WORKERS) --output-sync=target lint layers
	@$(MAKE) --no-print-directory --jobs $(WORKERS) types unit
	@$(MAKE) --no-print-directory published
	@$(MAKE) --no-print-directory side-by-side

lint: setup-test ## Format and style, of code and of English
	$(IN_VENV)/ruff format --check $(PYTHON_CODE)
	$(IN_VENV)/ruff check $(PYTHON_CODE)
	$(IN_VENV)/python tools/prose.py

types: setup-test ## Strict types
	$(IN_VENV)/mypy

layers: setup-test ## Lower floors import nothing of the higher; pure modules do no I/O
	$(IN_VENV)/lint-imports

unit: setup-test ## Unit and property tests
	$(PYTEST) $(IN_PARALLEL) $(UNIT) $(ARGS)

published: setup-test ## Published figures of policies on real logs, to the last digit
	$(PYTEST) $(IN_PARALLEL) tests/published $(ARGS)

# Real processes wait most of the time, above all for batch systems. They begin first, so that simulations fill the
# processors beside them and until the end.
side-by-side: setup-test ## Simulation, attacks and processes, as below, in one run
	$(PYTEST) -n 6 --dist loadgroup $(PROCESSES) $(ATTACKS) $(SIMULATION) $(ARGS)

simulation: setup-test ## Simulated networks with faults, and fuzzing of everything that takes input
	$(PYTEST) $(IN_PARALLEL) $(SIMULATION) $(ARGS)

attacks: setup-test ## Hostile scripts, each followed by an honest one that must not notice
	$(PYTEST) $(IN_PARALLEL) $(ATTACKS) $(ARGS)

test-pythons: setup-test ## The language of agents and its sandbox on each Python here: 3.11, 3.12, 3.13
	@tools/test-pythons $(IN_PARALLEL) $(LANGUAGE) $(ARGS)

# Those that kill, starve and cut off whole facilities are a group, and run one at a time.
processes: setup-test ## Real processes and the examples, and sites before a real Slurm where there is one
	$(PYTEST) -n $(WORKERS) --dist loadgroup $(PROCESSES) $(ARGS)

test-backends: setup-test ## Sites before a real Slurm, which is installed for root
	@tools/setup-slurm
	$(PYTEST) -n 0 -m needs_slurm tests/backends $(ARGS)

test-gridengine: setup-test ## Sites before a real Grid Engine, which is installed for root
	@tools/setup-gridengine
	$(PYTEST) -n 0 -m needs_gridengine plugins/gridengine/tests $(ARGS)

test-oar: setup-test ## Sites before a real OAR, which is installed for root
	@tools/setup-oar
	$(PYTEST) -n 0 -m needs_oar tests/backends $(ARGS)

test-psij: setup-test ## PSI/J's own tests, from its source distribution, on a site of ours
	$(IN_VENV)/python -m tests.psij.suite $(ARGS)

soak: soak-faults soak-shells soak-calendars soak-places soak-starts soak-jobs soak-failovers ## All soaks: more than two hours

soak-faults: setup-test ## Simulated faults with fresh seeds: SECONDS=600, and 500 of every climate
	$(IN_VENV)/python -m tests.simulation.soak --seconds $(SECONDS) $(ARGS)

soak-shells: setup-test ## The shipped servers under fresh seeds for SECONDS=600
	$(IN_VENV)/python -m tests.shells.soak --seconds $(SECONDS) $(ARGS)

soak-calendars: setup-test ## Calendars against their slow twins, EFFORT=20 times as hard; PAIRS=1000000 of rules
	KALENDS_EFFORT=$(EFFORT) $(PYTEST) $(IN_PARALLEL) -o timeout=0 tests/property/calendars
	$(IN_VENV)/python -m tests.property.calendars.clash_soak --pairs $(PAIRS)

soak-places: setup-test ## PLACES=1000000 promised places in queues, among bursts of others: none begins late
	$(IN_VENV)/python -m tests.property.batch.place_soak --places $(PLACES) $(ARGS)

soak-starts: setup-test ## SCHEDULES=100000 of jobs that start at most once: none starts twice
	$(IN_VENV)/python -m tests.simulation.start_world --schedules $(SCHEDULES) $(ARGS)

soak-jobs: setup-test ## A site that runs jobs, its zygotes and shepherds, killed KILLS=1000 times and audited
	$(IN_VENV)/python -m tests.processes.job_soak --kills $(KILLS) $(ARGS)

soak-failovers: setup-test ## Brokers, sites and their PostgreSQL struck ROUNDS=700 times under load, and audited
	@tools/setup-postgres
	$(IN_VENV)/python -m tests.postgres.failover_soak --rounds $(ROUNDS) $(ARGS)

soak-backends: setup-test ## A Slurm controller and the site before it killed KILLS=1000 times under load
	@tools/setup-slurm
	$(IN_VENV)/python -m tests.backends.death_soak --kills $(KILLS) $(ARGS)

bench: setup-test ## Bookings a second, beside what the line and the stores could do
	@$(IN_VENV)/python benchmarks/booking.py $(ARGS)

bench-calendar: setup-test ## How fast calendars answer, beside what else pip installs
	@$(IN_VENV)/python benchmarks/calendar.py $(ARGS)

bench-agents: setup-test ## Visits of agents: how long, how many, how much memory, what they save on the line
	@$(IN_VENV)/python benchmarks/agents.py $(ARGS)

bench-contention: setup-test ## Many for little: beside local clocks, a central scheduler and naive holding
	@$(IN_VENV)/python benchmarks/contention.py $(ARGS)

bench-n-of-k: setup-test ## The delay of polling p of k, predicted and measured
	@$(IN_VENV)/python benchmarks/n_of_k.py $(ARGS)

bench-planner: setup-test ## The best of 20 alternatives over 1,000 resources
	@$(IN_VENV)/python benchmarks/planner.py $(ARGS)

bench-placement: setup-test ## Best fit and first fit of partitions, on random streams
	@$(IN_VENV)/python benchmarks/placement.py $(ARGS)

bench-startup: setup-test ## A site with a million claims: its start, its memory, the pauses of its bookings
	@$(IN_VENV)/python benchmarks/startup.py $(ARGS)

bench-malleable: setup-test ## What a change of size costs a program, on one host and over MPI
	@$(IN_VENV)/python benchmarks/malleable.py $(ARGS)

bench-size-policies: setup-test ## Policies that choose and change sizes, live beside simulated
	@$(IN_VENV)/python benchmarks/size_policies.py $(ARGS)

bench-simulate: setup-test ## What replays cost: CPU, memory, layers, long queues, beside AccaSim
	@$(IN_VENV)/python benchmarks/simulate.py $(ARGS)

bench-shepherds: setup-test ## Running jobs: starts a second, memory of a shepherd, 1,000 adopted after a restart
	@$(IN_VENV)/python benchmarks/shepherds.py $(ARGS)

bench-commands: setup-test ## CPU of everyday commands, each as a process
	@$(IN_VENV)/python -m benchmarks.commands $(ARGS)

bench-jobs: setup-test ## Jobs on a live site, beside Slurm on loopback: rates, restarts, long queues
	@$(IN_VENV)/python -m benchmarks.jobs $(ARGS)

bench-stores: setup-test ## Registers and whole servers on SQLite and on PostgreSQL, by replicas; failover and take-over
	@tools/setup-postgres
	@$(IN_VENV)/python benchmarks/stores.py $(ARGS)

bench-owners: setup-test ## What an owner's prices and scripts cost each booking
	@$(IN_VENV)/python -m benchmarks.owners $(ARGS)

bench-bids: setup-test ## Jobs that are left to a broker, a second, over five sites on loopback
	@$(IN_VENV)/python -m benchmarks.bids $(ARGS)

bench-denial: setup-test ## What an honest user has of a broker during each denial of service
	@$(IN_VENV)/python -m benchmarks.denial $(ARGS)

bench-backends: setup-test ## What a slot costs where a Slurm stands behind it, beside scontrol used by hand
	@$(IN_VENV)/python -m benchmarks.backends $(ARGS)

papers: setup-test ## The papers' figures at full length: hours
	$(IN_VENV)/python examples/papers/ccs_packing.py
	$(IN_VENV)/python examples/papers/ccs_waiting_times.py
	$(IN_VENV)/python examples/papers/ccs_steps.py
	$(IN_VENV)/python examples/papers/ccs_readings.py --windows 1 --jobs 400
	$(IN_VENV)/python examples/papers/ccs_readings.py --ivs
	$(IN_VENV)/python examples/papers/beosim_mmm.py --jobs 1000000
	$(IN_VENV)/python examples/papers/beosim_policies.py
	$(IN_VENV)/python examples/papers/beosim_readings.py --jobs 1500 --seeds 1
	$(IN_VENV)/python examples/papers/drms_policies.py
	$(IN_VENV)/python examples/papers/drms_readings.py --jobs 20000 --seeds 3
	$(IN_VENV)/python examples/papers/reservation_n_of_k.py
	$(IN_VENV)/python examples/papers/legion_bids.py

lock: ## Versions and hashes of all packages anew, in locks/; ARGS=--upgrade takes the newest
	@tools/lock $(ARGS)

audit: ## Known vulnerabilities of the locked packages; needs the network, and fails where it gets no answer
	@tools/setup-release
	@for lock in locks/*.txt; do .venv-release/bin/pip-audit --strict --disable-pip --require-hashes --requirement $$lock || exit 1; done

release: ## The distributions in dist/, with a list of all packages that a server installs
	@tools/release

clean: ## Remove all that the other targets made, .venv too
	rm -rf .venv .venv-* build dist src/kalends.egg-info plugins/*/build plugins/*/src/*.egg-info .mypy_cache .ruff_cache .pytest_cache \
		.hypothesis .import_linter_cache
	find $(PYTHON_CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
