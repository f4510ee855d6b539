# What users get: hardened against the usual ways to turn a bug into an attack, and the same bytes wherever it is built.
# Debug builds are left as they are: a debugger finds their sources, and the sanitizers see more than these flags do. With None the
# level of optimization is the packager's, who says it in the flags of the compiler.
set(released "$<NOT:$<CONFIG:Debug>>")
add_compile_definitions("$<${released}:NDEBUG>")
if(NOT WIN32 AND NOT IOBIND_SANITIZE)
  set(hardening -fstack-protector-strong -fstack-clash-protection)
  string(TOUPPER "CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}" flags_of_type)
  if(CMAKE_CONFIGURATION_TYPES OR "${CMAKE_C_FLAGS} ${${flags_of_type}}" MATCHES "-O[^0]")
    list(APPEND hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3) # libc refuses it where nothing is optimized
  endif()
  set(resolved -Wl,-z,relro,-z,now,-z,noexecstack)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND hardening -fcf-protection=full)
    # Said by hand, because Debian's crti.o does not say it. "ibt" is not: the code is ready for it, that of crti.o is not.
    include(CheckLinkerFlag) # Zig's linker does not know it
    check_linker_flag(C -Wl,-z,shstk IOBIND_LINKER_SAYS_SHSTK)
    if(IOBIND_LINKER_SAYS_SHSTK)
      string(APPEND resolved ,-z,shstk)
    endif()
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(APPEND hardening -mbranch-protection=standard)
  endif()
  add_compile_options("$<${released}:${hardening}>")
  if(NOT APPLE)
    # The loader resolves everything at the start and then makes the tables read-only.
    add_link_options("$<${released}:${resolved}>")
  endif()
  include(CheckPIESupported)
  check_pie_supported()
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()

# The folders of sources and build are in no file: not in debug information, and not where __FILE__ says them. What is said instead is
# where a distribution puts sources for debuggers. Of two that match, the compiler takes the later one.
set(sources_said /usr/src/iobind-${PROJECT_VERSION})
add_compile_options("$<${released}:-ffile-prefix-map=${PROJECT_SOURCE_DIR}=${sources_said}>"
                    "$<${released}:-ffile-prefix-map=${PROJECT_BINARY_DIR}=${sources_said}/build>")
