/* Whether a job can run here: what every rank sees of its host, judged together at rank 0.
 *
 * doctor.c asks on every rank, gpu.c of GPUs; network.c tries every pair's connections; judge.c
 * (and judge_gpu.c) has a function a finding, in the order of its table. A new check is a member of struct
 * mt_doctor_rank, where it is asked, and a row.
 */
#ifndef MT_LAUNCHER_DOCTOR_DOCTOR_H
#define MT_LAUNCHER_DOCTOR_DOCTOR_H

#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/text/json.h"
#include "kernels/device/gpu.h"
#include "planner/plan/plan.h"

struct mt_doctor_options {
    const char *plan, *data, *out; /* what the job is given; each may be null */
    const char *device;            /* "cpu", "cuda" */
    bool json;
};

enum { MT_DOCTOR_TEXT = 256, MT_DOCTOR_MOST_UNREACHED = 8 };

struct mt_doctor_rank {
    char host[64];
    char motley[32], mpi[64];
    char onednn[MT_DOCTOR_TEXT], glpk[MT_DOCTOR_TEXT]; /* why they cannot be used; "": they can */
    cpu_set_t mask;
    int cores, host_cores; /* of the mask, of the host */
    int omp_threads;       /* OMP_NUM_THREADS; 0: not set */
    int64_t room_bytes;    /* memory that can be had */
    int64_t shared_bytes;  /* free in /dev/shm; -1: there is none */
    int64_t files;         /* that may be open */
    double clock_s;        /* ahead of rank 0's; within error_s */
    double clock_error_s;
    double grace_s;        /* between SIGTERM and SIGKILL of mpirun; -1: not under mpirun */
    bool slurm;            /* in a job of Slurm's */
    struct mt_doctor_gpu { /* asked for where the job is to run on GPUs */
        struct mt_gpus gpus;
        int index;                    /* its own; -1: none */
        char missing[MT_DOCTOR_TEXT]; /* why there are no GPUs, or it gets none; "": it has one */
        int64_t free_bytes;           /* of its memory, now that this process has begun to use it; -1: it cannot */
        char interfaces[MT_DOCTOR_TEXT], socket[64]; /* of the network, that NCCL would use; NCCL_SOCKET_IFNAME */
        bool infiniband;
        int64_t locked_bytes; /* that may be locked in memory */
    } gpu;
    char plan[MT_DOCTOR_TEXT]; /* its hash, or why it cannot be read */
    char data[MT_DOCTOR_TEXT]; /* likewise */
    bool plan_read, data_read; /* whether they can */
    bool sees_out;             /* what rank 0 has just written to the folder */
    int nunreached;            /* ranks that did not answer on any address */
    int unreached[MT_DOCTOR_MOST_UNREACHED];
};

struct mt_doctor_out {            /* the folder, as rank 0 sees it */
    char refused[MT_DOCTOR_TEXT]; /* why it cannot be written; "": it can */
    char lock[MT_DOCTOR_TEXT];    /* why it cannot be locked, likewise */
    int64_t free_bytes;
    double write_Bps; /* a few MiB, with fsync */
};

struct mt_doctor {
    const struct mt_doctor_options *options;
    int nranks;
    struct mt_doctor_rank *ranks; /* [nranks] */
    struct mt_plan *plan;         /* or null */
    struct mt_doctor_out out;
    struct mt_json_out *json; /* null: lines for people */
    int warnings, failures;
};

/* Collective, after MPI_Init: look, and print what was found at rank 0. `failures`: on all ranks. */
enum mt_status mt_doctor_run(const struct mt_doctor_options *options, int *failures, struct mt_err *err);

/* Collective: who can be reached by whom. Fills in ranks' `unreached` of this process. */
enum mt_status mt_doctor_network(MPI_Comm comm, struct mt_doctor_rank *mine, struct mt_err *err);

/* At rank 0. */
void mt_doctor_judge(struct mt_doctor *doctor);

#endif
