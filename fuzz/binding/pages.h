/* The caller's memory that is wrapped. Each piece has a page of its own, which becomes inaccessible when its deleter has run: no access is allowed then. */
#ifndef FUZZ_BINDING_PAGES_H
#define FUZZ_BINDING_PAGES_H

#include <stddef.h>

char *page_open(void);     /* NULL: all are in use */
void page_give_back(void); /* the one that was opened last: it was not wrapped */
size_t page_bytes(void);

/* The deleter of a wrapped tensor; `context` is its page. */
void page_close(void *context, void *data);

/* Ends the process unless all have been closed; then all are free again. */
void pages_check(void);

#endif
