/* Findings about GPUs, their libraries, and the connections between them. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/text/units.h"
#include "kernels/device/facts.h"
#include "launcher/doctor/internal.h"

static const struct mt_doctor_gpu *gpu_of(const struct mt_doctor *d, int r) {
    return &d->ranks[r].gpu;
}

/* The rank's own GPU; null where it has none. */
static const struct mt_gpu *own(const struct mt_doctor *d, int r) {
    const struct mt_doctor_gpu *g = gpu_of(d, r);
    return g->index < 0 ? NULL : &g->gpus.gpus[g->index];
}

/* Whether any rank has a GPU; if not, adds that to the finding. */
static bool any(const struct mt_doctor *d, struct doctor_finding *f) {
    for (int r = 0; r < d->nranks; r++)
        if (own(d, r)) return true;
    mt_doctor_say(f, DOCTOR_OK, NULL, "no rank has a GPU");
    return false;
}

/* ---- driver and libraries ---- */

void mt_doctor_judge_driver(const struct mt_doctor *d, struct doctor_finding *f) {
    int first = -1;
    for (int r = 0; r < d->nranks; r++) {
        const struct mt_gpus *here = &gpu_of(d, r)->gpus, *there = first < 0 ? here : &gpu_of(d, first)->gpus;
        if (doctor_is_idle(d, r)) continue;
        if (!here->cuda[0]) {
            if (mt_doctor_is_first(d, r))
                mt_doctor_say(
                    f, DOCTOR_FAILURE,
                    "`nvidia-smi` must work there; in a container, start it with GPUs (--gpus all); the module "
                    "takes CUDA and NCCL: see MOTLEY_MODULES, LD_LIBRARY_PATH",
                    "%s: %s", d->ranks[r].host, gpu_of(d, r)->missing);
            continue;
        }
        if (first < 0) first = r;
        if (strcmp(here->driver, there->driver) || strcmp(here->cuda, there->cuda))
            mt_doctor_say(f, DOCTOR_WARNING, "install one driver version on all hosts",
                          "%s has driver %s (CUDA %s), %s has %s (CUDA %s)", d->ranks[r].host, here->driver, here->cuda,
                          d->ranks[first].host, there->driver, there->cuda);
    }
    if (first >= 0)
        mt_doctor_say(f, DOCTOR_OK, NULL, "%s%sfor CUDA %s, on all hosts", gpu_of(d, first)->gpus.driver,
                      gpu_of(d, first)->gpus.driver[0] ? ", " : "", gpu_of(d, first)->gpus.cuda);
}

/* "NCCL 2.28.9 (/usr/lib/libnccl.so.2)" */
static const char *library_text(const struct mt_gpu_library *library, char *text, size_t size) {
    snprintf(text, size, "%s %s (%.120s)", library->name, library->version, library->path);
    return text;
}

static bool loaded(const struct mt_doctor *d, int r) {
    return gpu_of(d, r)->gpus.libraries[0].name[0] && !doctor_is_idle(d, r);
}

void mt_doctor_judge_libraries(const struct mt_doctor *d, struct doctor_finding *f) {
    int first = 0;
    char text[400], other[400];
    while (first < d->nranks && !loaded(d, first)) first++;
    for (int i = 0; i < MT_GPU_LIBRARIES && first < d->nranks; i++) {
        const struct mt_gpu_library *there = &gpu_of(d, first)->gpus.libraries[i];
        bool nccl = !strcmp(there->name, "NCCL");
        for (int r = first + 1; r < d->nranks; r++) {
            const struct mt_gpu_library *here = &gpu_of(d, r)->gpus.libraries[i];
            if (!loaded(d, r) || !strcmp(here->version, there->version)) continue;
            mt_doctor_say(
                f, nccl ? DOCTOR_FAILURE : DOCTOR_WARNING,
                "install one version on all hosts, or set LD_LIBRARY_PATH to the same (mpirun -x LD_LIBRARY_PATH)",
                "rank %d on %s has %s, rank %d on %s %s", r, d->ranks[r].host, library_text(here, text, sizeof text),
                first, d->ranks[first].host, library_text(there, other, sizeof other));
        }
        if (there->version[0])
            mt_doctor_say(f, DOCTOR_OK, NULL, "%s", library_text(there, text, sizeof text));
        else
            mt_doctor_say(f, DOCTOR_OK, NULL, "no %s, which is optional", there->name);
    }
    if (first == d->nranks) mt_doctor_say(f, DOCTOR_FAILURE, "see the driver above", "no rank could load them");
}

/* ---- GPUs ---- */

void mt_doctor_judge_gpus(const struct mt_doctor *d, struct doctor_finding *f) {
    for (int r = 0; r < d->nranks; r++) {
        const struct mt_doctor_gpu *g = gpu_of(d, r);
        int n = mt_doctor_count_on_host(d, r);
        if (doctor_is_idle(d, r)) continue;
        if (g->missing[0])
            mt_doctor_say(
                f, DOCTOR_FAILURE,
                "start as many ranks as there are GPUs, with a plan for as many; check CUDA_VISIBLE_DEVICES, which "
                "mpirun -x passes on",
                "rank %d on %s: %s", r, d->ranks[r].host, g->missing);
        else if (g->gpus.count > n && mt_doctor_is_first(d, r))
            mt_doctor_say(f, DOCTOR_OK, NULL, "%s: %d of %d GPUs are used", d->ranks[r].host, n, g->gpus.count);
        if (own(d, r)) mt_doctor_say(f, DOCTOR_OK, NULL, "rank %d: %s at %s", r, own(d, r)->name, own(d, r)->address);
    }
}

void mt_doctor_judge_precision(const struct mt_doctor *d, struct doctor_finding *f) {
    if (!any(d, f)) return;
    bool bf16 = d->plan && d->plan->job.precision == MT_BF16, f64 = d->plan && d->plan->job.precision == MT_F64;
    if (f64)
        mt_doctor_say(f, DOCTOR_FAILURE, "plan with --precision f32, or bf16; or train with --device cpu",
                      "the plan computes in f64, which runs on CPUs only");
    for (int r = 0; r < d->nranks; r++)
        if (own(d, r) && !doctor_is_idle(d, r) && own(d, r)->sm < MT_CAPABILITY_BF16 && bf16)
            mt_doctor_say(f, DOCTOR_FAILURE, "plan with --precision f32, or without that GPU",
                          "rank %d on %s: %s has compute capability %d.%d, and bf16 needs 8.0", r, d->ranks[r].host,
                          own(d, r)->name, own(d, r)->sm / 10, own(d, r)->sm % 10);
    mt_doctor_say(f, DOCTOR_OK, NULL,
                  d->plan ? "every GPU computes in the plan's %s" : "without a plan the job's precision is not known%s",
                  d->plan ? mt_type_name(d->plan->job.precision) : "");
}

void mt_doctor_judge_gpu_memory(const struct mt_doctor *d, struct doctor_finding *f) {
    const int64_t own_bytes = INT64_C(1500) << 20; /* more than one process takes for itself */
    if (!any(d, f)) return;
    bool planned = d->plan_rank;
    char has[MT_UNITS_TEXT], needs[MT_UNITS_TEXT], held[MT_UNITS_TEXT];
    for (int r = 0; r < d->nranks; r++) {
        const struct mt_gpu *g = own(d, r);
        if (!g || gpu_of(d, r)->free_bytes < 0) continue;
        int64_t free_bytes = gpu_of(d, r)->free_bytes, taken = g->memory_bytes - free_bytes;
        int64_t wants = planned ? mt_plan_needs_bytes(d->plan, d->plan_rank[r]) : 0;
        mt_units_bytes((double)free_bytes, has);
        mt_units_bytes((double)wants, needs);
        mt_units_bytes((double)taken, held);
        if (wants > free_bytes)
            mt_doctor_say(
                f, DOCTOR_FAILURE,
                "plan with a smaller --micro or --batch, or with --storage split; see `nvidia-smi` for who else is "
                "there",
                "rank %d on %s needs %s, and %s of its GPU's memory are free", r, d->ranks[r].host, needs, has);
        else if (taken > own_bytes)
            mt_doctor_say(f, DOCTOR_WARNING, "`nvidia-smi` lists the processes on the GPU: they slow each other down",
                          "rank %d on %s: %s of its GPU's memory are used already", r, d->ranks[r].host, held);
        else
            mt_doctor_say(f, DOCTOR_OK, NULL,
                          planned ? "rank %d: %s are free, the plan needs %s" : "rank %d: %s are free", r, has, needs);
    }
    mt_doctor_say(f, DOCTOR_OK, NULL, "no memory is used by others");
}

/* ---- connections ---- */

/* Whether rank a's GPU has peer access to rank b's. *sees: whether a's process sees b's GPU. */
static bool reaches(const struct mt_doctor *d, int a, int b, bool *sees) {
    const struct mt_gpus *gpus = &gpu_of(d, a)->gpus;
    *sees = false;
    for (int g = 0; g < gpus->count && g < MT_MOST_GPUS; g++)
        if (!memcmp(gpus->gpus[g].identity, own(d, b)->identity, sizeof own(d, b)->identity)) {
            *sees = true;
            return own(d, a)->reaches >> g & 1;
        }
    return false;
}

void mt_doctor_judge_peers(const struct mt_doctor *d, struct doctor_finding *f) {
    int pairs = 0, unseen = 0;
    if (!any(d, f)) return;
    for (int a = 0; a < d->nranks; a++)
        for (int b = 0; b < d->nranks; b++) {
            bool sees;
            if (a == b || !own(d, a) || !own(d, b) || strcmp(d->ranks[a].host, d->ranks[b].host)) continue;
            bool can = reaches(d, a, b, &sees);
            pairs++, unseen += !sees;
            if (sees && !can)
                mt_doctor_say(f, DOCTOR_WARNING,
                              "`nvidia-smi topo -p2p r` says why (other root complexes, IOMMU, ACS, virtual machines); "
                              "messages go through the host's memory, several times slower",
                              "%s: the GPU of rank %d has no peer access to that of rank %d", d->ranks[a].host, a, b);
        }
    if (unseen)
        mt_doctor_say(f, DOCTOR_OK, NULL, "%d of %d pairs see only their own GPU, so that peer access is not known",
                      unseen, pairs);
    mt_doctor_say(f, DOCTOR_OK, NULL, pairs ? "GPUs of a host have peer access" : "one GPU on each host");
}

void mt_doctor_judge_interfaces(const struct mt_doctor *d, struct doctor_finding *f) {
    const int64_t least_locked = 1 << 30;
    bool several = mt_doctor_count_hosts(d) > 1;
    char may[MT_UNITS_TEXT];
    for (int r = 0; r < d->nranks; r++) {
        const struct mt_doctor_gpu *g = gpu_of(d, r);
        if (!mt_doctor_is_first(d, r)) continue;
        if (!g->interfaces[0] && g->socket[0])
            mt_doctor_say(f, DOCTOR_FAILURE,
                          "name an interface that `ip link` shows there, or unset NCCL_SOCKET_IFNAME",
                          "%s: NCCL_SOCKET_IFNAME is \"%s\", and no interface that is up has such a name",
                          d->ranks[r].host, g->socket);
        else if (!g->interfaces[0])
            mt_doctor_say(f, DOCTOR_FAILURE, "bring up an interface, the loopback at least: `ip link set lo up`",
                          "%s has no network interface", d->ranks[r].host);
        if (several && g->infiniband && g->locked_bytes < least_locked)
            mt_doctor_say(f, DOCTOR_WARNING, "ulimit -l unlimited (and in limits.conf, or LimitMEMLOCK of the service)",
                          "%s has InfiniBand, but only %s may be locked in memory", d->ranks[r].host,
                          mt_units_bytes((double)g->locked_bytes, may));
        mt_doctor_say(f, DOCTOR_OK, NULL, "%s: NCCL connects over %s%s%s%s", d->ranks[r].host, g->interfaces,
                      g->socket[0] ? ", by NCCL_SOCKET_IFNAME" : "", g->infiniband ? "; it has InfiniBand" : "",
                      several ? "" : "; one host, where data goes over NVLink, PCIe or shared memory");
    }
}
