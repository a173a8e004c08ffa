/* Log lines on stderr. One rank leads and prints all levels up to mt_log_level; others print only warnings. */
#ifndef MT_KERNELS_BASE_LOG_H
#define MT_KERNELS_BASE_LOG_H

#include <stdbool.h>

enum mt_log_level { MT_LOG_WARN, MT_LOG_INFO, MT_LOG_DEBUG };

void mt_log_level(enum mt_log_level most);
/* This process's rank, 0 at first; and whether it leads, as rank 0 does at first. Others put their rank before their
 * warnings. */
void mt_log_rank(int rank, bool leads);
void mt_log(enum mt_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
