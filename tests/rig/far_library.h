/* A library whose content begins at an offset of its file that 32 bits cannot hold. */
#ifndef IOBIND_TESTS_FAR_LIBRARY_H
#define IOBIND_TESTS_FAR_LIBRARY_H

#include <elf.h>
#include <stdbool.h>
#include <unistd.h>

#define FAR_NEEDED "libfar.so.1" /* the only library that it needs */

/* Write it into an empty file, which takes only a few pages of the disk. */
static inline bool far_library_write(int file) {
  static const off_t far = (off_t)5 << 30;
  const struct {
    Elf64_Phdr segments[2];
    Elf64_Dyn entries[3];
    char names[sizeof FAR_NEEDED + 1];
  } content = {.segments = {{.p_type = PT_LOAD, .p_offset = (Elf64_Off)far, .p_filesz = sizeof content},
                            {.p_type = PT_DYNAMIC,
                             .p_offset = (Elf64_Off)far + sizeof content.segments,
                             .p_filesz = sizeof content.entries}},
               .entries = {{DT_NEEDED, {1}}, {DT_STRTAB, {sizeof content.segments + sizeof content.entries}}, {DT_NULL, {0}}},
               .names = "\0" FAR_NEEDED};
  const Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_phoff = (Elf64_Off)far,
                             .e_phentsize = sizeof content.segments[0],
                             .e_phnum = 2};
  return pwrite(file, &header, sizeof header, 0) == sizeof header &&
         pwrite(file, &content, sizeof content, far) == sizeof content;
}

#endif
