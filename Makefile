# Every target creates .venv and installs what is missing, and prints the commands that it runs.

ifeq ($(OS),Windows_NT)
  BIN := .venv/Scripts
else
  BIN := .venv/bin
endif
INSTALLED := .venv/.installed
# How many processes run tests, and which tests: make test TESTS=tests/api WORKERS=4
WORKERS ?= auto
TESTS ?=
# The extras to install with the program; browser: the driver of Chromium.
EXTRAS ?= dev
PYTEST := pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)
# What `make check` tests besides: the console in a browser, the examples, the benchmarks, clients of
# several languages, the built wheel, and what schemathesis makes of OpenAPI; half of the rest's time.
BESIDES := tests/dashboard tests/examples tests/bench tests/clients tests/installation tests/openapi
# Keep compiled files: the tests start hundreds of processes, which would each compile every module.
export PYTHONDONTWRITEBYTECODE :=
# Defined only in pyproject.toml.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
WINDOWS_ZIP := dist/honed-$(VERSION)-windows-x64.zip
# The folder of the zoo's models; 1 GB.
ZOO ?= /tmp/hone-zoo

# The environment of Flower, which needs an older FastAPI than ours; 300 MB.
FLOWER ?= .venv-flower

.PHONY: demo test test-arm64 test-python3.13 test-openvino test-windows test-flower test-openapi test-bench check types \
  compiled-tests \
  check-release format dashboard screenshots bench zoo fuzz soak audit sbom release client-packages \
  deb test-deb test-container test-systemd build/deb/honed clean

demo: $(INSTALLED)
	$(BIN)/honed demo

# Test files are distributed over the processes, in the order of tests/conftest.py.
test: $(INSTALLED)
	$(BIN)/$(PYTEST) $(if $(TESTS),,$(addprefix --ignore=,$(BESIDES)))

# The same on another installed Python: make test-python3.12
test-python%: .venv-python%/.installed
	.venv-python$*/bin/$(PYTEST)

# A Debian root of another kind in $(ROOTS), with our wheel in it: its demo and the engine's tests.
# Needs root, debootstrap and, for arm64, qemu-user-static with binfmt-support.
ROOTS ?= .roots
IN_ROOT := tests/service/training/engines tests/service/training/preparation \
  tests/service/training/graph/rules/test_pytorch_gradients.py
ARCHITECTURE = $(shell dpkg --print-architecture)

test-arm64: dist/.built
	tests/platforms/run.sh $(ROOTS)/arm64 arm64 bookworm dist/honed-*.whl $(IN_ROOT)

test-python3.13: dist/.built
	tests/platforms/run.sh $(ROOTS)/python3.13 $(ARCHITECTURE) trixie dist/honed-*.whl $(IN_ROOT)

# Jobs and the engine's tests where OpenVINO's build of the runtime is installed; 1 GB.
test-openvino: .venv-openvino/.installed
	.venv-openvino/bin/pytest $(IN_ROOT) tests/service/training/test_provider_selection.py

.venv-openvino/.installed: pyproject.toml | $(INSTALLED)
	$(BIN)/python -m venv .venv-openvino
	.venv-openvino/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	.venv-openvino/bin/python -m pip uninstall --quiet --yes onnxruntime-training-cpu onnxruntime
	.venv-openvino/bin/python -m pip install --quiet --disable-pip-version-check onnxruntime-openvino==1.24.1
	@touch $@

# The same program on a Windows CPython under Wine: tests/platforms/windows. Needs root and debootstrap.
test-windows: $(WINDOWS_ZIP)
	tests/platforms/windows/run.sh $(ROOTS)/windows $(BIN)/python dist/honed-*.whl $(WINDOWS_ZIP)

# The program for a Windows without Python. WINDOWS_PYTHON names python.org's own
# python-3.11.9-embed-amd64.zip, to take it instead of the copy that the package index has.
WINDOWS_PYTHON ?=
$(WINDOWS_ZIP): dist/.built release/windows_zip.sh $(wildcard release/windows/*) tests/platforms/windows/requirements.txt
	release/windows_zip.sh $@ dist/honed-*.whl "$(WINDOWS_PYTHON)" $(BIN)/python -m pip

dist/.built: $(INSTALLED) pyproject.toml honed.py docs/honed.1 $(shell find api cli service storage examples systemd -type f \
  -not -path '*/__pycache__/*')
	rm -rf dist
	$(BIN)/python -m hatchling build -t wheel -d dist
	@touch $@

.PRECIOUS: .venv-python%/.installed
.venv-python%/.installed: pyproject.toml
	python$* -m venv .venv-python$*
	.venv-python$*/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,browser]'
	@touch $@

# Exactly what CI runs.
check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --jobs=2 types compiled-tests
	$(BIN)/$(PYTEST)

types: $(INSTALLED)
	$(BIN)/mypy

# In a clean clone each test process would compile all tests. A failure here recurs there.
compiled-tests: $(INSTALLED)
	-@$(BIN)/pytest --collect-only -qq $(TESTS) > /dev/null

# Before a release: beside what CI runs, what takes hours, or packages and systems of its own.
check-release: check test-bench zoo fuzz test-openapi soak audit test-flower release test-deb test-container \
  test-systemd test-arm64 test-python3.13 test-openvino test-windows test-deb-arm64 test-container-arm64

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Needs Node.js 20 or later; its output, api/static, is committed.
dashboard:
	cd dashboard && npm ci && npm run build && npm test

# The README's pictures of the console, from the demo's data; needs Chromium and EXTRAS=dev,browser.
screenshots: $(INSTALLED)
	PYTHONPATH=.:tests/helpers $(BIN)/python tests/helpers/dashboard/screenshots.py docs/pictures

bench: $(INSTALLED)
	$(BIN)/python -m bench --json bench/results.json

# Whether each benchmark runs, also those that need PyTorch and Flower, which it installs.
test-bench: $(INSTALLED)
	$(BIN)/python -m bench --smallest

# Real architectures as PyTorch exports and trains them; tests/zoo/README.md.
zoo: $(INSTALLED) $(ZOO)/.made
	$(BIN)/python -m tests.zoo.run $(ZOO)

$(ZOO)/.made: .venv-zoo/.installed tests/zoo/make.py tests/zoo/fold.py tests/zoo/reference.py \
  $(wildcard tests/zoo/architectures/*.py)
	.venv-zoo/bin/python -W ignore -m tests.zoo.make $(ZOO)
	@touch $@

# torchvision without its dependencies, which would include PyTorch's CUDA build.
.venv-zoo/.installed: tests/zoo/requirements.txt
	$(BIN)/python -m venv .venv-zoo
	.venv-zoo/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-zoo/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	.venv-zoo/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  timm==1.0.31 torchvision==0.28.0
	@touch $@

# Federations with Flower's real SuperLink and SuperNodes, and examples/federated; half an hour.
test-flower: $(INSTALLED) $(FLOWER)/.installed
	HONE_FLOWER=$(abspath $(FLOWER)) $(BIN)/pytest -s tests/clients/flower tests/examples/test_federated.py

$(FLOWER)/.installed: clients/flower/pyproject.toml clients/python/pyproject.toml | $(INSTALLED)
	$(BIN)/python -m venv $(FLOWER)
	$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable clients/python --editable clients/flower
	@touch $@

# Hostile inputs for every parser of what apps send; `make test` gives each a hundred.
fuzz: $(INSTALLED)
	HONE_FUZZ_INPUTS=100000 $(BIN)/pytest -n $(WORKERS) tests/fuzz

# What schemathesis makes of the OpenAPI description; `make check` asks a few requests of each operation.
OPENAPI_CASES ?= 100
test-openapi: $(INSTALLED)
	HONE_OPENAPI_CASES=$(OPENAPI_CASES) $(BIN)/pytest -s tests/openapi

# A store killed, refused calls and cut from power at moments that are aimed at; SOAK_SEED repeats a run.
SOAK_MINUTES ?= 60
soak: $(INSTALLED)
	SOAK_MINUTES=$(SOAK_MINUTES) $(BIN)/pytest -s tests/soak

# Known vulnerabilities of the wheel's dependencies; also fails if a package cannot be looked up.
# PIP_AUDIT_VULNERABILITY_SERVICE names another service than the package index.
audit: .venv-release/.installed build/bare/.installed
	$(BIN)/python -m pip --python build/bare freeze --all --exclude honed > build/bare/installed.txt
	.venv-release/bin/pip-audit --strict --disable-pip --no-deps -r build/bare/installed.txt \
	  $$(sed -nE 's/^([A-Za-z0-9-]+) .+/--ignore-vuln \1/p' release/accepted-findings.txt)

# The wheel's dependencies, as CycloneDX.
sbom: .venv-release/.installed build/bare/.installed
	.venv-release/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/honed-$(VERSION).cdx.json build/bare

# All of a release except the upload, in dist/, from a clean work tree. Needs what test-windows needs.
release:
	@test -z "$$(git status --porcelain)" || { git status --short; echo "commit or remove these" >&2; exit 1; }
	rm -rf dist build
	$(MAKE) sbom
	$(BIN)/python -m hatchling build -t sdist -d dist
	$(MAKE) $(WINDOWS_ZIP)
	release/try.sh $(BIN)/python $(VERSION) dist/*.whl dist/*.tar.gz
	tests/platforms/windows/run.sh $(ROOTS)/windows $(BIN)/python dist/honed-*.whl $(WINDOWS_ZIP) -k zip
	$(MAKE) client-packages
	.venv-release/bin/twine check --strict dist/*.whl dist/*.tar.gz
	awk '/^## / { sections++ } sections == 1' CHANGELOG.md > dist/NOTES.md
	cd dist && sha256sum honed* > SHA256SUMS && ls -l
	@grep -q '^## $(VERSION) ' dist/NOTES.md && \
	  echo 'To upload: git tag v$(VERSION) && twine upload dist/*.whl dist/*.tar.gz && npm publish dist/*.tgz' || \
	  echo 'A rehearsal: call the first section of CHANGELOG.md "## $(VERSION) - DATE" to release it.'

# Those of the clients for Python, Flower and JavaScript, in dist/; needs npm.
client-packages: $(INSTALLED)
	cd clients/python && $(abspath $(BIN))/python -m hatchling build -d $(CURDIR)/dist
	cd clients/flower && $(abspath $(BIN))/python -m hatchling build -d $(CURDIR)/dist
	cd clients/js && npm pack --pack-destination $(CURDIR)/dist

# dist/honed_VERSION_ARCHITECTURE.deb, for this Debian. Needs debhelper and python3-venv.
deb: build/deb/honed
	cd build/deb/honed && dpkg-buildpackage --build=binary --no-sign
	mv build/deb/*.deb dist

# The same for another architecture, in a Debian root of it: make deb-arm64
deb-%: build/deb/honed
	tests/platforms/build_deb.sh $(ROOTS)/build-$* $* build/deb/honed
	mv build/deb/*_$*.deb dist

build/deb/honed: dist/.built
	rm -rf build/deb
	mkdir -p build/deb/honed
	cp -r debian systemd CHANGELOG.md dist/honed-*.whl build/deb/honed
	printf 'honed (%s) unstable; urgency=medium\n\n  * CHANGELOG.md tells.\n\n -- %s  %s\n' $(VERSION) \
	  "$$(sed -n 's/^Maintainer: //p' debian/control)" "$$(git log -1 --format=%cD)" \
	  > build/deb/honed/debian/changelog

# The package in a Debian root: installed, started, upgraded, removed and purged there. Needs root.
test-deb: deb
	tests/platforms/deb.sh $(ROOTS) dist/*_$(ARCHITECTURE).deb

# The same on another architecture, emulated: make test-deb-arm64
test-deb-%: deb-%
	tests/platforms/deb.sh $(ROOTS) dist/*_$*.deb

# The package in a Debian root that systemd booted. Needs root, and a cgroup2 that is mounted.
test-systemd: deb
	tests/platforms/systemd.sh $(ROOTS)/systemd dist/*_$(ARCHITECTURE).deb

# The container that compose.yaml runs. Needs root and podman. make test-container-arm64: emulated.
test-container: .venv-release/.installed
	PATH="$(CURDIR)/.venv-release/bin:$$PATH" tests/platforms/container.sh $(ROOTS)/container $(ARCHITECTURE)

test-container-%: .venv-release/.installed
	PATH="$(CURDIR)/.venv-release/bin:$$PATH" tests/platforms/container.sh $(ROOTS)/container-$* $*

# An environment with only the wheel and its dependencies.
build/bare/.installed: dist/.built
	rm -rf build/bare
	$(BIN)/python -m venv --without-pip build/bare
	$(BIN)/python -m pip --python build/bare install --quiet --disable-pip-version-check dist/honed-*.whl
	@touch $@

.venv-release/.installed: release/requirements.txt | $(INSTALLED)
	$(BIN)/python -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

clean:
	rm -rf .venv .venv-zoo .venv-flower .venv-openvino .venv-release .venv-python* .roots build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Reinstalled only if pyproject.toml is newer than the stamp. To compile all modules of all packages,
# most of which nothing imports, took as long as everything else.
$(INSTALLED): pyproject.toml
	@test -x $(BIN)/python || { \
	  for python in $(PYTHON) python3.12 python3.11 python3.10 python3 python; do \
	    $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' \
	      2>/dev/null || continue; \
	    echo "$$python -m venv .venv"; \
	    $$python -m venv .venv && exit 0; \
	    exit 1; \
	  done; \
	  echo "honed needs CPython 3.10 or newer with venv." >&2; \
	  echo "Install one (Debian, Ubuntu: apt install python3.11-venv; macOS: brew install python@3.12;" >&2; \
	  echo "any: uv python install 3.12), or name it: make PYTHON=/path/to/python3.12" >&2; \
	  exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[$(EXTRAS)]'
	$(BIN)/python -m compileall -q honed.py api cli service storage
	@touch $@
