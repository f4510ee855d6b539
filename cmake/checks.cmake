# What the compilers are asked to check in everything that is built here.
add_compile_options(
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wformat=2 -Wcast-qual)
if(CMAKE_C_COMPILER_ID MATCHES Clang)
  add_compile_options(-Wno-sign-conversion) # gcc's -Wconversion sees to signs; clang's also refuses an enum as an int32_t
endif()

# What several targets compile is analyzed in one of them; this says that it is not here.
function(analyzed_elsewhere)
  set_target_properties(${ARGN} PROPERTIES C_CLANG_TIDY "")
endfunction()

if(WIN32)
  add_compile_options(-Wno-format -Wno-float-conversion) # gcc takes Microsoft's printf to be meant, and isnan to cut a double
endif()

if(IOBIND_SANITIZE)
  add_compile_options(-fsanitize=${IOBIND_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${IOBIND_SANITIZE})
  if(IOBIND_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined) # a finding is a failure, not a line in a log
  endif()
endif()
