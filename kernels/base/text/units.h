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

/* "47 B/s", "12.3 MB/s", "400 GB/s": three digits, powers of a thousand. Returns out. */
char *mt_units_Bps(double Bps, char out[MT_UNITS_TEXT]);

/* "0", "12.3 us", "4.50 ms", "1.20 s", "2.0 h", "12 d": time, negative as well. Returns out. */
char *mt_units_seconds(double seconds, char out[MT_UNITS_TEXT]);

/* The fewest digits that read back the same: "0.1", "1e+300". Returns out. */
#define MT_UNITS_EXACT 40
char *mt_units_exact(double value, char out[MT_UNITS_EXACT]);

/* A whole number, or a number, which must be the whole text. False when it is not one or is out of range. */
bool mt_units_parse_int(const char *text, int64_t *value);
bool mt_units_parse_real(const char *text, double *value); /* finite */

/* "4194304", "4096KiB", "4MiB", "1.5GiB", "1TiB", and by thousands "25GB": not negative, at most 2^62. "25G" is
 * refused, since it may be either. */
bool mt_units_parse_bytes(const char *text, int64_t *bytes);

/* "300G", "1.5T", "25": with K (or k), M, G or T, powers of a thousand; above 0. */
bool mt_units_parse_count(const char *text, double *value);

/* A link's rate, in bits a second or else in bytes: "400G" is in that unit; "400Gbps", "400Gb/s", "400Gbit/s" and
 * "400gbps" are bits, "50GB/s", "50GBps" and "50GB" are bytes. What may be both, as "50gb/s", is refused, and less than
 * 1 Mbit/s, as "400", which lacks its G: the hint says so, or how rates are written. */
bool mt_units_parse_rate(const char *text, bool bits, double *rate);
const char *mt_units_rate_hint(const char *text, bool bits);

/* Money: "250000", "250k", "1.5M"; "-1" as well, for those who refuse it by name. */
bool mt_units_parse_money(const char *text, double *money);

/* "5us", "1.5ms", "2s", "3min", "1h", "30d": not negative. */
bool mt_units_parse_seconds(const char *text, double *seconds);

#endif
