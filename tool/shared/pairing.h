/** @file pairing.h
 *  Which output may be the next run's input, by their names. */
#ifndef IOBIND_TOOL_PAIRING_H
#define IOBIND_TOOL_PAIRING_H

#include <stdbool.h>

/** Are the names the same but for the part that says to which run they belong, as in `past_key_values.0.key` and `present.0.key`, or `state` and `stateN`? */
bool pairing_matches(const char *output, const char *input);

#endif
