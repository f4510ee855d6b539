/* A number for messages, with a point in every locale. */
#ifndef IOBIND_SUPPORT_DECIMAL_H
#define IOBIND_SUPPORT_DECIMAL_H

#include <stdint.h>

enum { IOBIND__DECIMAL_TEXT = 48, IOBIND__DECIMAL_DIGITS = 15 };

/* With at most `digits` significant digits, 1 .. IOBIND__DECIMAL_DIGITS: "0.1", "-12.5", "1.5e-12", "inf", "nan". */
void iobind__decimal_text(double number, int digits, char out[IOBIND__DECIMAL_TEXT]);

#endif
