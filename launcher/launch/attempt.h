/* One attempt: mpirun is started, watched, passed on signals, and ended.
 *
 *     struct mt_attempt attempt = {.script = "launch/mpirun.sh", .run = "run/run.json", .start_s = 300, .end_s = 60};
 *     mt_attempt_prepare(&attempt);                          // once a process: signals are taken from now on
 *     if ((st = mt_attempt_run(&attempt, err))) ...           // MT_ESYSTEM: it could not be started
 *     ... attempt.code, attempt.died ... */
#ifndef MT_LAUNCHER_LAUNCH_ATTEMPT_H
#define MT_LAUNCHER_LAUNCH_ATTEMPT_H

#include <stdbool.h>
#include <sys/types.h>

#include "kernels/base/err.h"

/* The variable that the job's processes have: by it rank 0 says on standard error that it has started. */
#define MT_ATTEMPT_VARIABLE "MOTLEY_LAUNCHED"
void mt_attempt_say_started(void);

struct mt_attempt {
    const char *script; /* run by sh; its exec is mpirun */
    const char *run;    /* the run's document, which says how it ended; null: there is none */
    double end_s;       /* what mpirun gets to end when its job has: Open MPI 4.1 may hang then */
    double start_s;     /* and until a rank has started */
    /* Who keeps it from starting, while it still runs: a text, "" if that is not known. */
    const char *(*unstarted)(void *context, pid_t mpirun);
    void *context;
    /* How it ended: */
    int code;       /* train's exit code; a process that was killed, and mpirun's own death, are a lost rank's */
    bool died;      /* a rank was lost or stalled, or mpirun died: not an end that train chose */
    bool asked;     /* it was asked to stop */
    bool overdue;   /* mpirun had to be killed */
    bool hurried;   /* because it was asked twice */
    bool started;   /* a rank has, or something else was said of one */
    int lost_rank;  /* the rank that was named first; -1: none was */
    char lost[256]; /* what was said of it: "rank 1 on b has exited without a message: was it killed?" */
};

/* SIGINT, SIGTERM, SIGHUP (unless it is ignored, as under nohup) and SIGUSR2 ask the job to write a checkpoint and
 * stop, SIGUSR1 to write one; a second SIGINT ends it at once. Signals that came before the attempt began are answered
 * when it has. If this process is killed, mpirun is ended. */
enum mt_status mt_attempt_prepare(struct mt_err *err);
enum mt_status mt_attempt_run(struct mt_attempt *attempt, struct mt_err *err);

/* Whether it was asked to stop, since the process began; and whether by SIGUSR2 alone, as schedulers ask at the end of
 * a job's time, and not by what means that it should not go on. */
bool mt_attempt_asked(void);
bool mt_attempt_out_of_time(void);

/* While nothing runs that could be asked to stop: Ctrl-C ends this process, as if nothing had been prepared. */
void mt_attempt_idle(bool idle);

#endif
