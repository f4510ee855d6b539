#include "kernels/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kernel_words[KERNEL_OUTCOMES] = {
    [KERNEL_RIGHT] = "right",     [KERNEL_WRONG] = "wrong", [KERNEL_ON_CPU] = "on the CPU",
    [KERNEL_REFUSED] = "refused", [KERNEL_FATAL] = "fatal", [KERNEL_UNKNOWN] = "unknown"};

/* The row of a kernel; NULL: no memory. */
static kernel_row *find_row(kernel_table *all, const survey_entry *entry) {
  const size_t length = strcspn(entry->text, " ");
  for (size_t i = 0; i < all->row_count; i++) {
    kernel_row *each = &all->rows[i];
    if (each->dtype == entry->dtype && each->rank == entry->rank && strlen(each->op_type) == length &&
        memcmp(each->op_type, entry->text, length) == 0) {
      return each;
    }
  }
  kernel_row *rows = realloc(all->rows, (all->row_count + 1) * sizeof *rows);
  if (rows == NULL) return NULL;
  all->rows = rows;
  kernel_row *made = &rows[all->row_count++];
  *made = (kernel_row){.dtype = entry->dtype, .rank = entry->rank};
  snprintf(made->op_type, sizeof made->op_type, "%.*s", (int)length, entry->text);
  return made;
}

static bool add(kernel_row *self, const survey_entry *entry) {
  self->counts[entry->found.outcome]++;
  if (entry->found.outcome == KERNEL_RIGHT) return true;
  const survey_entry **findings = realloc(self->findings, (self->finding_count + 1) * sizeof *findings);
  if (findings == NULL) return false;
  self->findings = findings;
  findings[self->finding_count++] = entry;
  return true;
}

bool kernel_collect(const survey *tried, kernel_table *all) {
  for (size_t i = 0; i < survey_count(tried); i++) {
    const survey_entry *entry = survey_get(tried, i);
    kernel_row *self = find_row(all, entry);
    if (self == NULL || !add(self, entry)) return false;
    all->counts[entry->found.outcome]++;
  }
  return true;
}

void kernel_free_table(kernel_table *all) {
  for (size_t i = 0; i < all->row_count; i++) free(all->rows[i].findings);
  free(all->rows);
}

void kernel_summarize(const size_t *counts, char *text, size_t size) {
  size_t length = 0;
  for (int i = KERNEL_RIGHT; i < KERNEL_OUTCOMES; i++) {
    if (i != KERNEL_RIGHT && counts[i] == 0) continue;
    length += (size_t)snprintf(text + length, size - length, "%s%zu %s", length == 0 ? "" : ", ", counts[i], kernel_words[i]);
  }
}
