/* Lines for people on stderr. Rank 0 speaks; other ranks are quiet unless `mt_log_rank(-1)`. */
#ifndef MT_KERNELS_BASE_LOG_H
#define MT_KERNELS_BASE_LOG_H

enum mt_log_level { MT_LOG_WARN, MT_LOG_INFO, MT_LOG_DEBUG };

void mt_log_level(enum mt_log_level most);
void mt_log_rank(int rank); /* who this process is; others than 0 print warnings only, with their rank */
void mt_log(enum mt_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
