#define _POSIX_C_SOURCE 200809L /* strdup, fseeko */
#define _FILE_OFFSET_BITS 64

#include "formats/needed.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* A file that has more is damaged. */
enum { NAMES = 256, NAME_BYTES = 256, TAGS = 4096, SECTIONS = 96 };

/* A piece of the file that has an address once it is loaded. */
typedef struct section {
  uint64_t address, offset, bytes;
} section;

typedef struct library {
  FILE *file;
  section sections[SECTIONS];
  size_t section_count;
  char **names;
  size_t count;
} library;

static bool seek(library *self, uint64_t offset) {
  return offset <= INT64_MAX && fseeko(self->file, (off_t)offset, SEEK_SET) == 0;
}

static bool get(library *self, uint64_t offset, void *bytes, size_t count) {
  return seek(self, offset) && fread(bytes, 1, count, self->file) == count;
}

/* A number of 2, 4 or 8 bytes, little-endian. */
static uint64_t number(const unsigned char *bytes, int count) {
  uint64_t value = 0;
  for (int i = count; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

static void add_section(library *self, uint64_t address, uint64_t offset, uint64_t bytes) {
  if (self->section_count < SECTIONS) self->sections[self->section_count++] = (section){address, offset, bytes};
}

static bool find(const library *self, uint64_t address, uint64_t *offset) {
  for (size_t i = 0; i < self->section_count; i++) {
    const section *one = &self->sections[i];
    *offset = one->offset + (address - one->address);
    if (address >= one->address && address - one->address < one->bytes) return true;
  }
  return false;
}

static bool add_name(library *self, uint64_t address) {
  char name[NAME_BYTES] = "";
  uint64_t offset;
  if (self->count == NAMES || !find(self, address, &offset) || !seek(self, offset)) return false;
  size_t length = fread(name, 1, sizeof name, self->file);
  if (name[0] == 0 || memchr(name, 0, length) == NULL) return false;
  self->names[self->count] = strdup(name);
  return self->names[self->count++] != NULL;
}

/* The dynamic section: tag 1 is a name, as an offset in the strings, whose address is tag 5; 0 ends it. */
static bool read_dynamic(library *self, uint64_t offset, uint64_t bytes) {
  unsigned char entry[16];
  uint64_t names[NAMES];
  uint64_t strings = 0;
  size_t count = 0;
  for (uint64_t i = 0; i < bytes / sizeof entry && i < TAGS; i++) {
    if (!get(self, offset + i * sizeof entry, entry, sizeof entry)) return false;
    uint64_t tag = number(entry, 8);
    if (tag == 0) break;
    if (tag == 1 && count < NAMES) names[count++] = number(entry + 8, 8);
    if (tag == 5) strings = number(entry + 8, 8);
  }
  for (size_t i = 0; i < count; i++) {
    if (!add_name(self, strings + names[i])) return false;
  }
  return true;
}

/* Program headers: type 1 is loaded, type 2 is the dynamic section. */
static bool read_elf(library *self) {
  unsigned char header[64];
  unsigned char segment[56];
  uint64_t offset = 0, bytes = 0;
  if (!get(self, 0, header, sizeof header) || header[4] != 2 || header[5] != 1) return false; /* 64 bits, little-endian */
  uint64_t step = number(header + 54, 2);
  for (uint64_t i = 0; i < number(header + 56, 2); i++) {
    if (!get(self, number(header + 32, 8) + i * step, segment, sizeof segment)) return false;
    uint64_t type = number(segment, 4);
    if (type == 1) add_section(self, number(segment + 16, 8), number(segment + 8, 8), number(segment + 32, 8));
    if (type == 2) {
      offset = number(segment + 8, 8);
      bytes = number(segment + 32, 8);
    }
  }
  return bytes > 0 && read_dynamic(self, offset, bytes);
}

/* The import directory: 20 bytes for each library, with the address of its name at 12; 0 ends it. */
static bool read_imports(library *self, uint64_t offset) {
  unsigned char import[20];
  for (size_t i = 0; i <= NAMES; i++) {
    if (!get(self, offset + i * sizeof import, import, sizeof import)) return false;
    uint64_t name = number(import + 12, 4);
    if (name == 0) return true;
    if (!add_name(self, name)) return false;
  }
  return false;
}

static bool read_pe(library *self) {
  unsigned char dos[64];
  unsigned char header[24];
  unsigned char optional[128];
  unsigned char table[40];
  if (!get(self, 0, dos, sizeof dos)) return false;
  uint64_t start = number(dos + 60, 4);
  if (!get(self, start, header, sizeof header) || memcmp(header, "PE\0", 4) != 0) return false;
  if (!get(self, start + 24, optional, sizeof optional) || number(optional, 2) != 0x20b) return false; /* 64 bits */
  uint64_t sections = start + 24 + number(header + 20, 2);
  for (uint64_t i = 0; i < number(header + 6, 2); i++) {
    if (!get(self, sections + i * sizeof table, table, sizeof table)) return false;
    add_section(self, number(table + 12, 4), number(table + 20, 4), number(table + 16, 4));
  }
  uint64_t imports = number(optional + 120, 4);
  uint64_t offset;
  return imports == 0 || (find(self, imports, &offset) && read_imports(self, offset));
}

char **needed_read(const char *path) {
  library self = {.file = fopen(path, "rb")};
  unsigned char magic[4];
  if (self.file == NULL) return NULL;
  self.names = calloc(NAMES + 1, sizeof *self.names);
  bool done = false;
  if (self.names != NULL && get(&self, 0, magic, sizeof magic)) {
    done = memcmp(magic, "\177ELF", 4) == 0 ? read_elf(&self) : memcmp(magic, "MZ", 2) == 0 && read_pe(&self);
  }
  fclose(self.file);
  if (done) return self.names;
  needed_free(self.names);
  return NULL;
}

void needed_free(char **names) {
  for (size_t i = 0; names != NULL && names[i] != NULL; i++) free(names[i]);
  free(names);
}
