/** @file script.h
 *  The steps that scripts are made of. README.md has the words. */
#ifndef TESTS_CONFORMANCE_SCRIPT_H
#define TESTS_CONFORMANCE_SCRIPT_H

#include "world.h"

/** A word that starts a step, and what it does. */
typedef struct keyword {
  const char *word;
  void (*run)(world *w, const step *s);
} keyword;

/** The keywords by subject; each list ends with a NULL word. */
extern const keyword tensor_keywords[];
extern const keyword binding_keywords[];
extern const keyword stream_keywords[];
extern const keyword pipeline_keywords[];
extern const keyword state_keywords[];

/** Take back what the step `fault` asked a virtual device for. */
void script_forget_faults(const world *w);

/** Run a script in a world; w->failure says whether and why it failed.
 *  @param progress  WORLD_TEXT bytes; always has the step that runs */
void script_run(world *w, const char *steps, char *progress);

#endif
