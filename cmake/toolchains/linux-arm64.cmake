# Linux, arm64, compiled by Debian's cross compiler (scripts/install-packages ports), tested under qemu's user mode:
#   cmake --toolchain cmake/toolchains/linux-arm64.cmake -S . -B build/linux-arm64
# The tool's libraries, and the C library that qemu runs programs on, come from scripts/get-port-libraries linux-arm64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

# by its real path: pkg-config does not take a sysroot with a space, which a clone may have
get_filename_component(port_libraries ${CMAKE_CURRENT_LIST_DIR}/../../.runtime/ports/linux-arm64 REALPATH)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${port_libraries} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${port_libraries}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${port_libraries})
# What those libraries need themselves.
set(needed "${port_libraries}/usr/lib/aarch64-linux-gnu:${port_libraries}/lib/aarch64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Xlinker -rpath-link -Xlinker \"${needed}\"")

find_program(IOBIND_QEMU NAMES qemu-aarch64 qemu-aarch64-static DOC "runs what was built here")
if(IOBIND_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${IOBIND_QEMU};-L;${port_libraries})
endif()
