# Linux on arm64 with glibc 2.28 or newer, what the packages for Python and Java are for, compiled by what scripts/get-port-libraries
# manylinux-arm64 fetches:
#   cmake --toolchain cmake/toolchains/manylinux-arm64.cmake -S . -B build/portable/linux-arm64
# The tool's libraries are static.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(port_libraries ${CMAKE_CURRENT_LIST_DIR}/../../.runtime/ports/manylinux-arm64)
set(CMAKE_C_COMPILER ${port_libraries}/bin/cc)
set(CMAKE_AR ${port_libraries}/bin/ar)
set(CMAKE_RANLIB ${port_libraries}/bin/ranlib)
set(CMAKE_FIND_ROOT_PATH ${port_libraries})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${port_libraries}/lib/pkgconfig)
