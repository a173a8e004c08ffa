/* The cluster document from what the probes of all ranks have measured.
 *
 *     if ((st = mt_profile_assemble(&profile, &cluster, err))) return st;    // rank 0: cluster is the caller's to free
 */
#ifndef MT_PROFILER_ASSEMBLE_ASSEMBLE_H
#define MT_PROFILER_ASSEMBLE_ASSEMBLE_H

#include "profiler/probes/probes.h"

/* The document, on rank 0, of what has been measured; null elsewhere. Collective. */
enum mt_status mt_profile_assemble(struct mt_profile *profile, struct mt_cluster **cluster, struct mt_err *err);

/* A rank's figures, except times of operators. */
struct mt_device_figures {
    struct mt_interval copy_Bps;
    double overhead_s, emulated;
    struct mt_load_report load;
    struct mt_device_health health; /* after the probes */
    int64_t free_bytes;
    double host_Bps[2];
};

struct mt_rank_ops {
    int nops;
    struct mt_op_times *ops;
};

/* Classes, their curves, and devices with their speeds. */
void mt_assemble_devices(const struct mt_profile *profile, const struct mt_device_figures *figures,
                         const struct mt_rank_ops *ops, struct mt_cluster *cluster);
/* "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", 4 threads: "xeon-platinum-8481c-4t". */
void mt_class_name(const char *model, int threads, char *name, size_t size);
/* The name in hardware.def, "h100"; a model that is not there is named like a CPU, "rtx-6000-ada-generation". With a
 * suffix if only some multiprocessors compute: "h100-66sm". */
void mt_class_name_gpu(const char *model, int multiprocessors, int computing, char *name, size_t size);

void mt_assemble_links(const struct mt_profile *profile, struct mt_cluster *cluster);
/* Groups and fits; times[ncolls]: of each group's first rank. */
void mt_assemble_groups(const struct mt_profile *profile, const struct mt_interval *times, struct mt_cluster *cluster);
/* Warnings about what made the figures unreliable. */
void mt_assemble_warnings(const struct mt_profile *profile, const struct mt_device_figures *figures,
                          struct mt_cluster *cluster);

#endif
