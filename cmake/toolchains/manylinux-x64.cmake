# Linux on x86-64 with glibc 2.28 or newer, what wheels for Python are for, compiled by what scripts/get-port-libraries manylinux-x64 fetches:
#   cmake --toolchain cmake/toolchains/manylinux-x64.cmake -S . -B build/manylinux-x64
# What comes out runs here, too. The tool's libraries are static.
set(port_libraries ${CMAKE_CURRENT_LIST_DIR}/../../.runtime/ports/manylinux-x64)
set(CMAKE_C_COMPILER ${port_libraries}/bin/cc)
set(ENV{PKG_CONFIG_LIBDIR} ${port_libraries}/lib/pkgconfig)
