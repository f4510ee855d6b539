/* Wrapped memory of the caller. Each piece has its own page, which becomes inaccessible when its deleter runs: later accesses crash. */
#ifndef FUZZ_BINDING_PAGES_H
#define FUZZ_BINDING_PAGES_H

#include <stddef.h>

char *page_open(void);     /* NULL: all are in use */
void page_give_back(void); /* the page opened last, if it was not wrapped */
size_t page_bytes(void);

/* The deleter of a wrapped tensor; `context` is its page. */
void page_close(void *context, void *data);

/* End the process unless all pages have been closed; then make all available again. */
void pages_check(void);

#endif
