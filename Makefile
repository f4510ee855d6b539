# The front door: each target is a few lines that call CMake or a script, which can be called by hand as well.
#   make build      the library and the tool, with an ONNX Runtime to run on, in dist/
#   make demo       a real model on the processor and on a virtual GPU: a table and a picture
#   make install    library, tool and virtual accelerator to PREFIX (/usr/local), under DESTDIR if that is given
#   make uninstall  remove them from there
#   make package    an archive, and Debian's packages, in build/packages/
#   make test       whether iobind works here: each suite, the same result on every machine; at most 6 minutes
#   make test-ci    what else must hold before a change is taken: some 50 minutes, and 300 MB more to fetch
#   make test-all   both, with the tests that take hours, other ONNX Runtimes, other platforms and valgrind
#   make bench      part of test-ci: instructions, memory, and the load of a state beside its computation, each against its limit
#   make vcuda      NVIDIA's runtime libraries in software, and the ONNX Runtime with CUDA's provider to run on them (255 MB)
#   make python     the Python package: a wheel, vcuda's wheel and a source distribution, in dist/
#   make java       the Java package: jars with sources and javadoc, in dist/
#   make site       the documentation as a site of static files, in build/site/ (40 MB to fetch, unless it is here)
#   make test-spark part of test-all: the Python and Java packages on a cluster of Spark's (520 MB to fetch)
#   make coverage   which lines of src/ the tests run
#   make format     lay the sources out as .clang-format says
#   make clean      remove what was built (what was fetched stays)
#   make distclean  remove what was fetched, too
#
# `make test` runs all tests of the debug build, under the address and undefined-behaviour sanitizers, and those with the label "product",
# which start many processes, in an optimised build instead. Left out are tests with one of these labels, and all that depends on the
# heap's layout, on time or on load has one:
#   ci        make test-ci, in the debug build: it takes long and what it tests has a shorter test, or it needs another ONNX Runtime or a
#             fuzzer; or it is one case in a process of its own, which `make test` runs in one process with the program's other cases on that
#             device; a test of many processes also has "release", and runs in both builds there
#   vcuda     make test-ci, in each build: it needs vcuda, and most need the ONNX Runtime with CUDA's provider
#   bench     make bench, in an optimised build: figures with a limit
#   long      make test-all
# Where else a test runs: "product" in the debug build, "release" in an optimised one, "tsan" in the one that checks for data races and
# "versions" on the oldest and the newest ONNX Runtime, all in make test-ci; "valgrind" under valgrind, in make test-all.

export ORT_DISABLE_TELEMETRY := 1
jobs := $(shell nproc)
oldest_ort := 1.24.4
newest_ort := 1.32.0
too_old_ort := 1.23.2
control_flow_ort := 1.27.0
older_gpu_orts := 1.24.4 1.25.1 1.26.0 1.27.0 1.28.0 1.29.0 1.30.0
on_ort = ORT_NATIVE_LIB_PATH=$(CURDIR)/.runtime/packages/onnxruntime-$(1)-linux-x64
on_gpu_ort = $(call on_ort,gpu-$(1))
# ctest as the presets have it, with its results kept for scripts/summary: $(call run_tests,PRESET,NAME OF THE RUN)
results := $(CURDIR)/build/results
run_tests = ctest --preset $(1) --output-junit $(results)/$(2).xml

.NOTPARALLEL:
.PHONY: build demo vcuda python java site install uninstall package test test-ci test-all bench coverage format check-format analyze analyze-whole clean
.PHONY: distclean needs dist fetched fetched-ci no-results ports-needs site-needs build-dev build-dev-vcuda build-product build-release-tests
.PHONY: test-dev test-product test-dev-ci test-versions test-tsan test-release test-wheel test-spark test-valgrind
.PHONY: test-oldest-ort test-newest-ort test-control-flow-ort test-dev-all test-release-all

build: needs dist

needs:
	@scripts/install-packages build
	@scripts/get-onnxruntime

dist:
	@cmake --preset release >/dev/null
	@cmake --build --preset release
	@cmake --install build/release --prefix dist >/dev/null
	@ln -sfn ../../.runtime dist/lib/iobind
	@echo "built: dist/bin/iobind, dist/lib/libiobind.so"

PREFIX ?= /usr/local
install:
	@cmake --preset release >/dev/null
	@cmake --build --preset release
	@cmake --install build/release --prefix "$(PREFIX)"

uninstall:
	@cmake -D BUILD=build/release -D PREFIX="$(PREFIX)" -P cmake/uninstall.cmake

package:
	@scripts/package

demo: build
	@scripts/install-packages demo
	@scripts/get-onnxruntime --ep webgpu
	@scripts/get-vulkan-driver
	@scripts/get-models
	@cmake --build --preset release --target demo
	@scripts/demo

vcuda: build
	@echo "ONNX Runtime with its CUDA provider: 255 MB to fetch, unless it is here"
	@scripts/get-onnxruntime --gpu
	@cmake --build --preset release --target vcuda
	@cmake --install build/release --component vcuda --prefix dist >/dev/null
	@echo "built: dist/bin/with-cuda, dist/lib/vcuda; try: dist/bin/with-cuda dist/bin/iobind devices"

python: needs
	@echo "some minutes; a C compiler for systems with an older glibc: 94 MB to fetch, unless it is here"
	@scripts/install-packages python
	@scripts/build-python

java: needs dist
	@scripts/install-packages java
	@scripts/get-jdk --whole
	@scripts/build-java

site: needs
	@scripts/install-packages site
	@scripts/get-jdk --whole
	@scripts/get-python --site
	@scripts/build-site

# ---- make test ---------------------------------------------------------------------------------------------------------
test: no-results fetched check-format build-dev build-product test-dev test-product
	@scripts/summary $(results)

fetched:
	@echo "fetched, unless it is here: ONNX Runtime, its WebGPU plugin, models and a software Vulkan driver (95 MB);"
	@echo "Python packages (60 MB, 85 MB where Python is not 3.11); a JDK, if there is none of version 22 or newer (70 MB);"
	@echo "by Maven, unless its own folder has them: its plugins, the official Java package and Spark's interface (95 MB)"
	@scripts/install-packages build test python java
	@scripts/get-onnxruntime
	@scripts/get-onnxruntime --ep webgpu
	@scripts/get-onnxruntime-headers || echo "going on without ONNX Runtime's headers"
	@scripts/get-vulkan-driver
	@scripts/get-models
	@scripts/get-python --tests
	@scripts/get-jdk || echo "going on without a JDK"

no-results:
	@rm -rf $(results)
	@mkdir -p $(results)

check-format:
	@scripts/check-format

# Without the tool, the examples and the Python module: their tests have the label "product".
build-dev:
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev --target tests/all fuzz/all test_tool_figures

build-product:
	@cmake --preset release-tests >/dev/null
	@cmake --build --preset release-tests --target product_tests

test-dev: build-dev
	$(call run_tests,dev,dev) -LE '^(product|ci|vcuda|bench|long)$$' -j $(jobs)

test-product: build-product
	$(call run_tests,release-tests,product) -L '^product$$' -LE '^(ci|vcuda|bench|long)$$' -j $(jobs)

# ---- make test-ci ------------------------------------------------------------------------------------------------------
test-ci: no-results fetched fetched-ci analyze test-dev-ci test-versions test-tsan test-release test-wheel bench
	@scripts/summary $(results)

fetched-ci:
	@echo "fetched, unless it is here: other ONNX Runtimes (75 MB); ONNX Runtime with its CUDA provider (255 MB); the rest of a JDK (90 MB)"
	@scripts/install-packages ci
	@scripts/get-onnxruntime --version $(oldest_ort)
	@scripts/get-onnxruntime --version $(newest_ort)
	@scripts/get-onnxruntime --version $(too_old_ort)
	@scripts/get-onnxruntime --gpu
	@scripts/get-jdk --whole || echo "going on without a JDK"

build-dev-vcuda:
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev --target all vcuda_tests

test-dev-ci: build-dev-vcuda
	$(call run_tests,dev,dev-ci) -L '^(product|ci|vcuda)$$' -LE '^(bench|long)$$' -j $(jobs)

test-versions: build-dev
	$(call on_ort,$(oldest_ort)) $(call run_tests,dev,oldest-ort) -L '^versions$$' -LE '^long$$' -j $(jobs)
	$(call on_ort,$(newest_ort)) $(call run_tests,dev,newest-ort) -L '^versions$$' -LE '^long$$' -j $(jobs)

test-tsan:
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan --target all vcuda_tests
	$(call run_tests,tsan,tsan) -L '^tsan$$' -LE '^long$$' -j $(jobs)

build-release-tests:
	@cmake --preset release-tests >/dev/null
	@cmake --build --preset release-tests --target all vcuda_tests

test-release: build-release-tests
	$(call run_tests,release-tests,release) -L '^release$$' -LE '^long$$' -j $(jobs)

bench: build-release-tests
	@mkdir -p $(results)
	$(call run_tests,release-tests,bench) -L '^bench$$' -LE '^long$$' --verbose

# By this system's compiler: the portable wheels need one of 94 MB, and `make python` and `make test-all` build those.
wheel_arguments := --native
test-wheel:
	@scripts/build-python --test $(wheel_arguments)

# ---- make test-all -----------------------------------------------------------------------------------------------------
# Each stage is a target, so that make -k goes on behind one that failed.
test-all: wheel_arguments :=
test-all: no-results fetched fetched-ci ports-needs site-needs check-format analyze-whole dist test-tsan test-wheel test-spark test-valgrind \
    test-release-all test-oldest-ort test-newest-ort test-control-flow-ort test-dev-all $(older_gpu_orts:%=test-gpu-%)
	@scripts/summary $(results)

test-spark: dist
	@scripts/get-models
	@scripts/get-python --tests
	@scripts/get-jdk --whole
	@cmake --build --preset release --target iobind_python
	@tests/spark/run

ports-needs:
	@scripts/install-packages ports deb

# What the documentation's site is built with, and the browser that reads it in tests.
site-needs:
	@scripts/install-packages site
	@scripts/get-python --site || echo "going on without Sphinx"

test-release-all: build-release-tests
	@scripts/get-onnxruntime --ep ggml || echo "going on without an EP of another project"
	@scripts/get-onnxruntime --genai || echo "going on without onnxruntime-genai"
	@scripts/get-ort-crate || echo "going on without the Rust crate ort"
	$(call run_tests,release-tests,release) -L '^(product|release|bench)$$'

test-oldest-ort: build-dev
	$(call on_ort,$(oldest_ort)) $(call run_tests,dev,oldest-ort) -LE '^(long|vcuda|bench)$$' -j $(jobs)

test-newest-ort: build-dev
	$(call on_ort,$(newest_ort)) $(call run_tests,dev,newest-ort) -LE '^(long|vcuda|bench)$$' -j $(jobs)

test-control-flow-ort: build-dev
	@scripts/get-onnxruntime --version $(control_flow_ort)
	$(call on_ort,$(control_flow_ort)) $(call run_tests,dev,control-flow-ort) -L '^versions$$' -j $(jobs)

test-dev-all: build-dev-vcuda
	@scripts/get-python --tests --jax
	@scripts/get-onnx-testdata || echo "going on without ONNX's test cases as files"
	$(call run_tests,dev,dev) -j $(jobs)

test-gpu-%: build-dev-vcuda build-release-tests
	@echo "ONNX Runtime $* with its CUDA provider: 300 MB, unless it is here"
	@scripts/get-onnxruntime --gpu
	@scripts/get-onnxruntime --gpu --version $*
	$(call on_gpu_ort,$*) $(call run_tests,dev,gpu-$*) -L '^gpu-versions$$'
	$(call on_gpu_ort,$*) $(call run_tests,release-tests,gpu-$*-python) -L '^gpu-python$$'

# valgrind keeps books of all that is reserved, so a device reserves 64 MiB here and not 8 GiB. Under it the software Vulkan driver
# takes minutes and loses its device: without a driver, tests leave WebGPU out.
test-valgrind: build-release-tests
	IOBIND_REQUIRE= VK_DRIVER_FILES=none VDEV_RESERVE=67108864 \
	  ctest --test-dir build/release-tests --output-junit $(results)/valgrind.xml -T memcheck -L '^valgrind$$' -j $(jobs) --output-on-failure || \
	  { cat build/release-tests/Testing/Temporary/MemoryChecker.*.log; exit 1; }

# ---- the rest ----------------------------------------------------------------------------------------------------------
coverage: fetched fetched-ci
	@scripts/install-packages coverage
	@scripts/coverage

format:
	@scripts/check-format --fix

# All findings at once, not only the first. Nearly all of clang-tidy's time goes into paths through functions: it starts with those that
# reach new code, and `make analyze`, for the time of work, stops after 50,000 steps in a function, and leaves out what users do not get;
# `make test-all` follows 225,000, everywhere.
analyze analyze-whole:
	@cmake --preset $@ >/dev/null
	@cmake --build --preset $@ -- -k 0

clean:
	rm -rf build dist

distclean: clean
	rm -rf .runtime
