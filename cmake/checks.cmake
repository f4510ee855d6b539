# What the compilers are asked to check in everything that is built here.
add_compile_options(
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wformat=2 -Wcast-qual)

if(IOBIND_SANITIZE)
  add_compile_options(-fsanitize=${IOBIND_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${IOBIND_SANITIZE})
  if(IOBIND_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined) # a finding is a failure, not a line in a log
  endif()
endif()
