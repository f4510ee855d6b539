/** @file quote.h
 *  Words for a shell. */
#ifndef IOBIND_TOOL_QUOTE_H
#define IOBIND_TOOL_QUOTE_H

/** "'WORD'", which a POSIX shell reads as exactly that word. malloc'ed; NULL: out of memory. */
char *quote_word(const char *word);

#endif
