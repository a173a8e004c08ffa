/* Log lines on stderr. Rank 0 prints all levels up to mt_log_level; other ranks print only warnings. */
#ifndef MT_KERNELS_BASE_LOG_H
#define MT_KERNELS_BASE_LOG_H

enum mt_log_level { MT_LOG_WARN, MT_LOG_INFO, MT_LOG_DEBUG };

void mt_log_level(enum mt_log_level most);
void mt_log_rank(int rank); /* this process's rank, 0 at first; others than 0 put it before their warnings */
void mt_log(enum mt_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
