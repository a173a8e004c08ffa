/* Checks that print both values and abort: a failing rank must not leave its peers in a collective. */
#ifndef MT_TESTS_CHECK_H
#define MT_TESTS_CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s", __FILE__, __LINE__, #condition);                                    \
            fprintf(stderr, "  " __VA_ARGS__);                                                                         \
            fputc('\n', stderr);                                                                                       \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHECK_EQ(got, want)                                                                                            \
    do {                                                                                                               \
        long long got_ = (long long)(got), want_ = (long long)(want);                                                  \
        if (got_ != want_) {                                                                                           \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, want_);                   \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHECK_NEAR(got, want, tolerance)                                                                               \
    do {                                                                                                               \
        double got_ = (double)(got), want_ = (double)(want), tolerance_ = (double)(tolerance);                         \
        if (!(fabs(got_ - want_) <= tolerance_)) {                                                                     \
            fprintf(stderr, "%s:%d: %s is %.17g, not %.17g +- %g\n", __FILE__, __LINE__, #got, got_, want_,            \
                    tolerance_);                                                                                       \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHECK_TEXT(got, want)                                                                                          \
    do {                                                                                                               \
        const char *got_ = (got), *want_ = (want);                                                                     \
        if (strcmp(got_, want_)) {                                                                                     \
            fprintf(stderr, "%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #got, got_, want_);               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A status that must be MT_OK; prints the error. */
#define CHECK_OK(status, err)                                                                                          \
    do {                                                                                                               \
        if ((status) != MT_OK) {                                                                                       \
            fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #status, (err).text);                        \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
