# Windows, x86-64, compiled by Debian's mingw-w64 (scripts/install-packages ports), tested under Wine:
#   cmake --toolchain cmake/toolchains/win-x64.cmake -S . -B build/win-x64
# The tool's libraries come from scripts/get-port-libraries win-x64. The variant of gcc with POSIX threads is the one that is meant.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)

set(port_libraries ${CMAKE_CURRENT_LIST_DIR}/../../.runtime/ports/win-x64)
set(CMAKE_FIND_ROOT_PATH ${port_libraries} /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${port_libraries}/lib/pkgconfig:/usr/x86_64-w64-mingw32/lib/pkgconfig)

find_program(IOBIND_WINE NAMES wine64 wine PATHS /usr/lib/wine DOC "runs what was built here")
if(IOBIND_WINE)
  set(CMAKE_CROSSCOMPILING_EMULATOR
      ${CMAKE_COMMAND};-E;env;WINEPREFIX=${CMAKE_BINARY_DIR}/wine;WINEDEBUG=-all;DISPLAY=;${IOBIND_WINE})
endif()
