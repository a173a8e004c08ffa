/* Quantities in the form that people read and write.
 *
 *     char text[MT_UNITS_TEXT];
 *     puts(mt_units_bytes(12.9e6, text));                  // "12.3 MiB"
 *     if (!mt_units_parse_bytes("4MiB", &bytes)) ... */
#ifndef MT_KERNELS_BASE_TEXT_UNITS_H
#define MT_KERNELS_BASE_TEXT_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#define MT_UNITS_TEXT 16

/* "512 B", "1.50 KiB", "12.3 MiB", "140 GiB": three digits. Returns out. */
char *mt_units_bytes(double bytes, char out[MT_UNITS_TEXT]);

/* "950", "12.3 k", "124 M", "1.56 G": three digits, powers of a thousand. Returns out. */
char *mt_units_count(double count, char out[MT_UNITS_TEXT]);

/* "0", "12.3 us", "4.50 ms", "1.20 s", "2.0 h", "12 d": time, negative as well. Returns out. */
char *mt_units_seconds(double seconds, char out[MT_UNITS_TEXT]);

/* The fewest digits that read back the same: "0.1", "1e+300". Returns out. */
#define MT_UNITS_EXACT 40
char *mt_units_exact(double value, char out[MT_UNITS_EXACT]);

/* A whole number, or a number, which must be the whole text. False when it is not one or is out of range. */
bool mt_units_parse_int(const char *text, int64_t *value);
bool mt_units_parse_real(const char *text, double *value); /* finite */

/* "4194304", "4096KiB", "4MiB", "1.5GiB", "1TiB": not negative, at most 2^62. */
bool mt_units_parse_bytes(const char *text, int64_t *bytes);

/* "300G", "1.5T", "25": with K, M, G or T, powers of a thousand; above 0. */
bool mt_units_parse_count(const char *text, double *value);

/* "5us", "1.5ms", "2s", "3min", "1h": not negative. */
bool mt_units_parse_seconds(const char *text, double *seconds);

#endif
