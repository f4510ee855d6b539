#define _POSIX_C_SOURCE 200809L /* fseeko */
#define _FILE_OFFSET_BITS 64
#include "support/needed.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "support/system.h"
#include "support/text.h"

/* No library has more; a file that declares more is damaged. */
enum { MOST_NAMES = 256, LONGEST_NAME = 255, MOST_ENTRIES = 4096, MOST_PARTS = 96 };

/* A part of the file that is loaded at an address: a segment or a section. */
typedef struct part {
  uint64_t address, offset, size;
} part;

typedef struct image {
  FILE *file;
  part parts[MOST_PARTS];
  size_t part_count;
  char **names;
  size_t count;
  bool out_of_memory;
} image;

static bool seek(image *self, uint64_t offset) {
  return offset <= INT64_MAX && fseeko(self->file, (off_t)offset, SEEK_SET) == 0;
}

static bool read_at(image *self, uint64_t offset, void *bytes, size_t size) {
  return seek(self, offset) && fread(bytes, 1, size, self->file) == size;
}

static uint64_t number(const unsigned char *bytes, size_t size) {
  uint64_t value = 0;
  while (size > 0) {
    value = value << 8 | bytes[--size];
  }
  return value;
}

/* Where in the file an address is; false: nowhere. */
static bool offset_of(const image *self, uint64_t address, uint64_t *offset) {
  for (size_t i = 0; i < self->part_count; i++) {
    const part *one = &self->parts[i];
    if (address >= one->address && address - one->address < one->size) {
      *offset = one->offset + (address - one->address);
      return true;
    }
  }
  return false;
}

static void add_part(image *self, uint64_t address, uint64_t offset, uint64_t size) {
  if (self->part_count < MOST_PARTS) {
    self->parts[self->part_count++] = (part){address, offset, size};
  }
}

static bool add_name(image *self, uint64_t address) {
  char name[LONGEST_NAME + 1] = "";
  uint64_t offset;
  if (self->count == MOST_NAMES || !offset_of(self, address, &offset) || !seek(self, offset)) {
    return false;
  }
  size_t length = fread(name, 1, LONGEST_NAME, self->file);
  if (memchr(name, '\0', length) == NULL || name[0] == '\0') {
    return false;
  }
  self->names[self->count] = iobind__string_copy(name);
  self->out_of_memory = self->names[self->count] == NULL;
  self->count += !self->out_of_memory;
  return !self->out_of_memory;
}

enum { ELF_LOAD = 1, ELF_DYNAMIC = 2, ELF_NEEDED = 1, ELF_STRINGS = 5, ELF_HEADER = 64, ELF_SEGMENT = 56, ELF_ENTRY = 16 };

static bool read_dynamic(image *self, uint64_t offset, uint64_t size) {
  unsigned char entry[ELF_ENTRY];
  uint64_t needed[MOST_NAMES];
  uint64_t strings = 0;
  size_t count = 0;
  for (uint64_t i = 0; i < size / ELF_ENTRY && i < MOST_ENTRIES; i++) {
    if (!read_at(self, offset + i * ELF_ENTRY, entry, sizeof entry)) {
      return false;
    }
    uint64_t tag = number(entry, 8);
    if (tag == 0) {
      break;
    }
    if (tag == ELF_NEEDED && count < MOST_NAMES) {
      needed[count++] = number(entry + 8, 8);
    } else if (tag == ELF_STRINGS) {
      strings = number(entry + 8, 8);
    }
  }
  for (size_t i = 0; i < count; i++) {
    if (!add_name(self, strings + needed[i])) {
      return false;
    }
  }
  return true;
}

static bool read_elf(image *self, const unsigned char *header) {
  uint64_t table = number(header + 32, 8);
  size_t entry_size = (size_t)number(header + 54, 2);
  size_t count = (size_t)number(header + 56, 2);
  uint64_t dynamic = 0;
  uint64_t dynamic_size = 0;
  if (header[4] != 2 || header[5] != 1 || entry_size < ELF_SEGMENT) { /* 64 bits, little-endian */
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    unsigned char segment[ELF_SEGMENT];
    if (!read_at(self, table + i * entry_size, segment, sizeof segment)) {
      return false;
    }
    uint64_t type = number(segment, 4);
    if (type == ELF_LOAD) {
      add_part(self, number(segment + 16, 8), number(segment + 8, 8), number(segment + 32, 8));
    } else if (type == ELF_DYNAMIC) {
      dynamic = number(segment + 8, 8);
      dynamic_size = number(segment + 32, 8);
    }
  }
  return dynamic_size > 0 && read_dynamic(self, dynamic, dynamic_size);
}

enum { PE_HEADER = 24, PE_OPTIONAL = 128, PE_SECTION = 40, PE_IMPORT = 20 };

static bool read_pe(image *self, const unsigned char *dos) {
  unsigned char header[PE_HEADER];
  unsigned char optional[PE_OPTIONAL];
  uint64_t start = number(dos + 60, 4);
  if (!read_at(self, start, header, sizeof header) || memcmp(header, "PE\0", 4) != 0 ||
      !read_at(self, start + PE_HEADER, optional, sizeof optional) || number(optional, 2) != 0x20b) { /* 64 bits */
    return false;
  }
  uint64_t sections = start + PE_HEADER + number(header + 20, 2);
  for (size_t i = 0; i < number(header + 6, 2); i++) {
    unsigned char section[PE_SECTION];
    if (!read_at(self, sections + i * PE_SECTION, section, sizeof section)) {
      return false;
    }
    add_part(self, number(section + 12, 4), number(section + 20, 4), number(section + 16, 4));
  }
  uint64_t imports;
  if (!offset_of(self, number(optional + 120, 4), &imports)) {
    return number(optional + 120, 4) == 0; /* it needs none */
  }
  for (size_t i = 0; i < MOST_NAMES; i++) {
    unsigned char import[PE_IMPORT];
    if (!read_at(self, imports + i * PE_IMPORT, import, sizeof import)) {
      return false;
    }
    uint64_t name = number(import + 12, 4);
    if (name == 0) {
      return true;
    }
    if (!add_name(self, name)) {
      return false;
    }
  }
  return false;
}

bool iobind__needed_list(const char *path, char ***names) {
  image self = {.file = iobind__file_open(path)};
  unsigned char header[ELF_HEADER];
  *names = NULL;
  if (self.file == NULL) {
    return true;
  }
  self.names = calloc(MOST_NAMES + 1, sizeof *self.names);
  bool read = false;
  if (self.names == NULL) {
    self.out_of_memory = true;
  } else if (read_at(&self, 0, header, sizeof header)) {
    bool elf = memcmp(header, "\177ELF", 4) == 0;
    bool pe = memcmp(header, "MZ", 2) == 0;
    read = elf ? read_elf(&self, header) : pe && read_pe(&self, header);
  }
  fclose(self.file);
  if (read) {
    *names = self.names;
  } else {
    iobind__needed_free(self.names);
  }
  return !self.out_of_memory;
}

void iobind__needed_free(char **names) {
  for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
    free(names[i]);
  }
  free(names);
}
