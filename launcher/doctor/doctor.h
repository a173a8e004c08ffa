/* motley doctor: checks whether a job can run here, by what every rank observes of its host, evaluated together at rank
 * 0.
 *
 * doctor.c and gpu.c observe on every rank, network.c tests every pair's connections; judge.c and judge_gpu.c have one
 * function per finding, in the order of the table in judge.c. A new check is a member of struct mt_doctor_rank, the
 * code that fills it, and a row. */
#ifndef MT_LAUNCHER_DOCTOR_DOCTOR_H
#define MT_LAUNCHER_DOCTOR_DOCTOR_H

#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/device/gpu.h"
#include "launcher/data/data.h"
#include "launcher/flags/output.h"
#include "launcher/tune/alike.h"
#include "planner/plan/plan.h"

struct mt_doctor_options {
    const char *plan, *out; /* as the job gets them; each may be null. out null: train makes one in this folder */
    const struct mt_data_files *data;
    const char *device; /* "cpu", "cuda" */
    struct mt_output output;
};

enum { MT_DOCTOR_TEXT = 256, MT_DOCTOR_MOST_UNREACHED = 8 };

struct mt_doctor_rank {
    char host[64];
    char motley[32], mpi[64];
    char device[MT_ALIKE_TEXT];                        /* what decides the bits of its results (alike.h); "": none */
    char onednn[MT_DOCTOR_TEXT], glpk[MT_DOCTOR_TEXT]; /* why the module cannot be used; "" if it can */
    cpu_set_t mask;
    int cores, host_cores; /* of the mask, of the host */
    int omp_threads;       /* OMP_NUM_THREADS; 0: not set */
    int64_t room_bytes;    /* free memory */
    int64_t shared_bytes;  /* free in /dev/shm; -1: no /dev/shm */
    int64_t files;         /* limit of open files */
    double clock_s;        /* ahead of rank 0's, with an error of clock_error_s */
    double clock_error_s;
    double grace_s;        /* from mpirun's SIGTERM to its SIGKILL; -1: not under mpirun */
    bool slurm;            /* in a Slurm job */
    struct mt_doctor_gpu { /* filled if the job is to run on GPUs */
        struct mt_gpus gpus;
        int index;                                   /* the rank's own; -1: none */
        char missing[MT_DOCTOR_TEXT];                /* why the rank has no GPU; "" if it has one */
        int64_t free_bytes;                          /* free memory once this process uses the GPU; -1: not known */
        char interfaces[MT_DOCTOR_TEXT], socket[64]; /* network interfaces that NCCL would use; NCCL_SOCKET_IFNAME */
        bool infiniband;
        int64_t locked_bytes; /* limit of locked memory */
    } gpu;
    struct mt_doctor_file {
        bool read;                 /* whether it can be read */
        char text[MT_DOCTOR_TEXT]; /* its hash, or why it cannot be read */
    } plan, data;
    bool sees_out;  /* the file that rank 0 has written to the folder */
    int nunreached; /* number of ranks that did not answer on any address */
    int unreached[MT_DOCTOR_MOST_UNREACHED];
};

struct mt_doctor_out {         /* the folder, as the rank that writes sees it */
    int refused;               /* why it cannot be written, as errno; 0 if it can */
    char lock[MT_DOCTOR_TEXT]; /* why it cannot be locked; "" if it can */
    int64_t free_bytes;
    double write_Bps; /* a few MiB, with fsync */
};

struct mt_doctor {
    const struct mt_doctor_options *options;
    int nranks;
    struct mt_doctor_rank *ranks; /* [nranks] */
    struct mt_plan *plan;         /* or null */
    int *plan_rank;               /* [nranks]: the plan's rank of each process; null: none, or it does not fit */
    int leader;                   /* the process that writes files: the first that takes part */
    struct mt_doctor_out out;
    int warnings, failures;
};

/* Collective, after MPI_Init: observe, judge, and print the findings at rank 0. *failures is set on all ranks. */
enum mt_status mt_doctor_run(const struct mt_doctor_options *options, int *failures, struct mt_err *err);

/* Collective: test which ranks this rank can connect to; fills its `unreached`. */
enum mt_status mt_doctor_network(MPI_Comm comm, struct mt_doctor_rank *mine, struct mt_err *err);

/* At rank 0: judge; the findings become lines, and the table "findings". */
void mt_doctor_judge(struct mt_doctor *doctor, struct mt_tables *out);

#endif
