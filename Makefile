# The front door: each target is a few lines that call CMake or a script, which can be called by hand as well.
#   make build      the library and the tool, with an ONNX Runtime to run on, in dist/
#   make demo       a real model on the processor and on a virtual GPU: a table and a picture
#   make install    library, tool and virtual accelerator to PREFIX (/usr/local), under DESTDIR if that is given
#   make package    an archive, and a package for Debian, in build/packages/
#   make test       everything that must hold before a change is taken
#   make vcuda      NVIDIA's runtime libraries in software, and the ONNX Runtime with CUDA's provider to run on them (255 MB)
#   make python     the Python package: a wheel, vcuda's wheel and a source distribution, in dist/
#   make java       the Java package: jars with sources and javadoc, in dist/
#   make test-all   the same, with the tests that take long, the oldest ONNX Runtime, and valgrind
#   make test-spark the Python and Java packages on a cluster of Spark's (520 MB to fetch)
#   make coverage   which lines of src/ the tests run
#   make format     lay the sources out as .clang-format says
#   make clean      remove what was built (what was fetched stays)
#   make distclean  remove what was fetched, too
# Tests carry labels. Three decide where a test runs, besides the debug build: "tsan" in the build that checks for data races;
# "release" in the build that users get, as "bench" and "soak" do, whose figures need it; "valgrind" under valgrind (make test-all).
# "long" keeps a test out of `make test`; "versions" runs it on other ONNX Runtimes too.

export ORT_DISABLE_TELEMETRY := 1
jobs := $(shell nproc)
oldest_ort := 1.24.4
too_old_ort := 1.23.2
control_flow_ort := 1.27.0
older_gpu_orts := 1.24.4 1.25.1 1.26.0 1.27.0 1.28.0 1.29.0 1.30.0
on_ort = ORT_NATIVE_LIB_PATH=$(CURDIR)/.runtime/packages/onnxruntime-$(1)-linux-x64
on_gpu_ort = $(call on_ort,gpu-$(1))
# ctest as the presets have it, with its results kept for scripts/skipped: $(call run_tests,PRESET,NAME OF THE RUN)
results := $(CURDIR)/build/results
run_tests = ctest --preset $(1) --output-junit $(results)/$(2).xml
release_labels := ^(release|bench|soak)$$

.NOTPARALLEL:
.PHONY: build demo vcuda python java install package test test-all coverage format check-format analyze analyze-whole clean distclean
.PHONY: needs dist fetched no-results ports-needs build-dev test-release-all test-oldest-ort test-control-flow-ort test-dev-all
.PHONY: test-dev test-tsan test-release test-java test-python test-valgrind test-spark

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
	@cmake --install build/release --prefix $(PREFIX)

package:
	@scripts/package

demo: build
	@scripts/install-packages demo
	@scripts/get-onnxruntime --ep webgpu
	@scripts/get-vulkan-driver
	@scripts/get-models
	@scripts/demo

vcuda: build
	@echo "ONNX Runtime with its CUDA provider: 255 MB to fetch, unless it is here"
	@scripts/get-onnxruntime --gpu
	@cmake --install build/release --component vcuda --prefix dist >/dev/null
	@echo "built: dist/bin/with-cuda, dist/lib/vcuda; try: dist/bin/with-cuda dist/bin/iobind devices"

python: needs
	@echo "a C compiler for systems with an older glibc: 94 MB to fetch, unless it is here"
	@scripts/install-packages python
	@scripts/build-python

java: needs dist
	@scripts/install-packages java
	@scripts/get-jdk --whole
	@scripts/build-java

# A whole JDK also tells whether the sources keep to what Java 22 has. Who requires Java has it fetched; a newcomer compiles without.
whole_jdk = $(findstring java,$(IOBIND_REQUIRE))
fetched:
	@echo "fetched, unless it is here: ONNX Runtime, its WebGPU plugin, models and a software Vulkan driver (95 MB);"
	@echo "older ONNX Runtimes and Python packages (100 MB, 125 MB where Python is not 3.11); a JDK, if there is none of version 22 or newer ($(if $(whole_jdk),160,70) MB);"
	@echo "by Maven, unless its own folder has them: its plugins, the official Java package and Spark's interface (95 MB)"
	@case ,$$IOBIND_REQUIRE, in *,vcuda,*) echo "ONNX Runtime with its CUDA provider (255 MB)" ;; esac
	@scripts/install-packages build test python java
	@scripts/get-onnxruntime
	@scripts/get-onnxruntime --ep webgpu
	@scripts/get-onnxruntime --version $(oldest_ort)
	@scripts/get-onnxruntime --version $(too_old_ort)
	@scripts/get-onnxruntime-headers || echo "going on without ONNX Runtime's headers"
	@scripts/get-vulkan-driver
	@scripts/get-models
	@scripts/get-python --tests
	@case ,$$IOBIND_REQUIRE, in *,vcuda,*) scripts/get-onnxruntime --gpu ;; esac
	@scripts/get-jdk $(if $(whole_jdk),--whole) || echo "going on without a JDK"

no-results:
	@rm -rf $(results)
	@mkdir -p $(results)

# The whole suite comes last, so that its summary is what is read last; behind it stands what was skipped, and why.
test: python_arguments := --native
test: no-results fetched check-format analyze dist test-release test-tsan test-java test-python test-dev
	@scripts/skipped $(results)

build-dev:
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev

test-dev: build-dev
	$(call on_ort,$(oldest_ort)) $(call run_tests,dev,oldest-ort) -L '^versions$$' -LE '^long$$' -j $(jobs)
	$(call run_tests,dev,dev) -LE '^(long|soak)$$' -j $(jobs)

test-tsan:
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan
	$(call run_tests,tsan,tsan) -L '^tsan$$' -LE '^long$$' -j $(jobs)

# The portable wheels need a compiler of 94 MB: make python and test-all build those.
test-python:
	@scripts/build-python --test $(python_arguments)

test-java: dist
	@scripts/build-java --test $(java_arguments)

test-spark: dist
	@scripts/get-models
	@scripts/get-python --tests
	@scripts/get-jdk --whole
	@tests/spark/run

test-release: dist
	$(call run_tests,release,release) -L '$(release_labels)' -LE '^long$$' -j $(jobs)

ports-needs:
	@scripts/install-packages ports

# Each stage is a target, so that make -k goes on behind one that failed.
test-all: java_arguments := -Diobind.excluded=
test-all: whole_jdk := yes
test-all: no-results fetched ports-needs check-format analyze-whole dist test-tsan test-java test-python test-spark test-valgrind \
    test-release-all test-oldest-ort test-control-flow-ort test-dev-all $(older_gpu_orts:%=test-gpu-%)
	@scripts/skipped $(results)

test-release-all: dist
	$(call run_tests,release,release) -L '$(release_labels)'

test-oldest-ort: build-dev
	$(call on_ort,$(oldest_ort)) $(call run_tests,dev,oldest-ort) -LE '^(long|vcuda)$$' -j $(jobs)

test-control-flow-ort: build-dev
	@scripts/get-onnxruntime --version $(control_flow_ort)
	$(call on_ort,$(control_flow_ort)) $(call run_tests,dev,control-flow-ort) -L '^versions$$' -j $(jobs)

test-dev-all: build-dev
	@scripts/get-python --tests --jax
	$(call run_tests,dev,dev) -j $(jobs)

test-gpu-%: build-dev dist
	@echo "ONNX Runtime $* with its CUDA provider: 300 MB, unless it is here"
	@scripts/get-onnxruntime --gpu
	@scripts/get-onnxruntime --gpu --version $*
	$(call on_gpu_ort,$*) $(call run_tests,dev,gpu-$*) -L '^gpu-versions$$'
	$(call on_gpu_ort,$*) $(call run_tests,release,gpu-$*-python) -L '^gpu-python$$'

# valgrind keeps books of all that is reserved, so a device reserves 64 MiB here and not 8 GiB. Under it the software Vulkan driver
# takes minutes and loses its device: without a driver, tests leave WebGPU out.
test-valgrind: dist
	IOBIND_REQUIRE= VK_DRIVER_FILES=none VDEV_RESERVE=67108864 \
	  ctest --test-dir build/release --output-junit $(results)/valgrind.xml -T memcheck -L '^valgrind$$' -j $(jobs) --output-on-failure || \
	  { cat build/release/Testing/Temporary/MemoryChecker.*.log; exit 1; }

coverage: fetched
	@scripts/install-packages coverage
	@scripts/coverage

check-format:
	@scripts/check-format

format:
	@scripts/check-format --fix

# All findings at once, not only the first. Nearly all of clang-tidy's time goes into paths through functions: it starts with those that
# reach new code, and `make test` stops after 50,000 steps in a function, and leaves clang-tidy out for what users do not get; `make test-all`
# follows 225,000, everywhere.
analyze analyze-whole:
	@cmake --preset $@ >/dev/null
	@cmake --build --preset $@ -- -k 0

clean:
	rm -rf build dist

distclean: clean
	rm -rf .runtime
