/* Options of execution providers, as data: the keys of an EP, their valid values, and which exclude each other. */
#ifndef IOBIND_EP_OPTION_H
#define IOBIND_EP_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum iobind__option_kind {
  IOBIND__OPTION_FLAG,    /* 0 or 1; in a table with `spelled` also true, True, false, False */
  IOBIND__OPTION_WHOLE,   /* a whole number, lowest .. highest */
  IOBIND__OPTION_DECIMAL, /* 0 or more, with a decimal point */
  IOBIND__OPTION_WORD,    /* one of `words` */
  IOBIND__OPTION_ADDRESS, /* 0x and hexadecimal digits as %p prints it, or decimal digits */
  IOBIND__OPTION_TEXT,    /* anything */
} iobind__option_kind;

typedef struct iobind__option {
  const char *key;
  iobind__option_kind kind;
  int64_t lowest;
  uint64_t highest;
  const char *words;  /* separated by '|' */
  const char *preset; /* the value if the key is not given; NULL: unknown */
  const char
      *since; /* the first release that has it, in terms of the table's `releases`; NULL: older than all that iobind knows */
  const char *text;     /* what it does */
  const char *unused;   /* why any value but the preset is refused; NULL: it is not */
  const char *brings;   /* the key of a flag that must be 1 with it, and is set to that where it is not given */
  const char *needs;    /* a key without which it has no effect */
  bool of_device;       /* set by the device: another value would mean another device */
  bool captures;        /* makes the EP capture graphs */
  bool excludes_stream; /* with another value than the preset, the EP cannot compute on a stream of iobind */
} iobind__option;

/* Two options that exclude each other. An option that is not given has its preset. NULL means any value except the preset. */
typedef struct iobind__option_pair {
  const char *key;
  const char *value;
  const char *other;
  const char *other_value;
  const char *reason;
} iobind__option_pair;

typedef struct iobind__option_table {
  const iobind__option *options;
  size_t count;
  const iobind__option_pair *pairs;
  size_t pair_count;
  const char *releases; /* of what `since` counts: "ONNX Runtime", "plugin" */
  const char *source;   /* how these are known */
  bool spelled;         /* flags may be words */
} iobind__option_table;

/* Values of a flag that is spelled out, and reasons for `unused`, which several tables share. */
#define IOBIND__SPELLED_FLAG "true|True|false|False"
extern const char iobind__graph_limit_instead[];
extern const char iobind__graphs_unguarded[];

const iobind__option *iobind__option_find(const iobind__option_table *table, const char *key); /* NULL: no such key */

/* May the option have this value? */
bool iobind__option_takes(const iobind__option_table *table, const iobind__option *option, const char *value);

/* Are two values equivalent for the option? */
bool iobind__option_same(const iobind__option *option, const char *a, const char *b);

/* Parse an address. False: it is not one. */
bool iobind__option_address(const char *value, uint64_t *address);

/* Parse a value that an option WHOLE accepts, if it fits an int64_t. */
int64_t iobind__option_whole(const char *value);

enum { IOBIND__OPTION_RANGE = 160 };

/* Describe the valid values, for a message or a table. */
void iobind__option_range(const iobind__option_table *table, const iobind__option *option, char out[IOBIND__OPTION_RANGE]);

/* The first pair of options in a list that exclude each other; NULL: none. */
const iobind__option_pair *iobind__option_meet(const iobind__option_table *table, const char *const *keys,
                                               const char *const *values, size_t count);

#endif
