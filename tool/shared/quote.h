/** @file quote.h
 *  Words for a shell. */
#ifndef IOBIND_TOOL_QUOTE_H
#define IOBIND_TOOL_QUOTE_H

/** "'WORD'", which a POSIX shell reads as that one word whatever is in it. malloc'ed; NULL: no memory. */
char *quote_word(const char *word);

#endif
