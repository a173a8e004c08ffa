/* The purchase document: what hardware would do for some jobs at what cost, as `motley buy` has searched it. Format
 * "motley-purchase", version 1.
 *
 *     struct mt_purchase *purchase;
 *     if ((st = mt_purchase_read("purchase.json", &purchase, err))) return st;
 *     ... purchase->rows[0].time_s, purchase->rows[0].price ...
 *     mt_purchase_free(purchase);
 *
 * An item of the catalogue is a node with its devices; what it costs, draws and occupies is of the whole node. A
 * configuration is what is owned and a number of nodes of each item. Money is in any one currency. A configuration's
 * cost is its price and what its hours cost until the last job has ended. Jobs run one after another, in their order.
 * Once checked the document is immutable. */
#ifndef MT_PLANNER_BUY_PURCHASE_H
#define MT_PLANNER_BUY_PURCHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "synth/job/job.h"

#define MT_PURCHASE_FORMAT "motley-purchase"
#define MT_PURCHASE_VERSION 1
/* Money, watts and seconds are at most this; so are tokens. */
#define MT_PURCHASE_MOST 1e18
enum {
    MT_PURCHASE_MOST_ITEMS = 64,
    MT_PURCHASE_MOST_JOBS = 16,
    MT_PURCHASE_MOST_ROWS = 10000,
    MT_PURCHASE_MOST_DEVICES = 4096, /* of a configuration */
};

/* Of the catalogue: what may be bought or rented. */
struct mt_purchase_item {
    const char *name;
    const char *based_on;     /* a row of hardware.def, or "": its rates are given */
    const char *device;       /* "NVIDIA H100 80GB HBM3": the name of its class */
    int devices;              /* of a node */
    int64_t memory_bytes;     /* of a device */
    const char *link;         /* within a node, "nvlink"; "" for one device */
    double link_Bps;          /* its rate, one way */
    double net_bps;           /* of a node's network, bits a second; 0: that of the network */
    double price;             /* to buy, once */
    double per_hour;          /* while jobs run */
    double power_W;           /* 0: not known */
    const char *power_source; /* where the figure is from; "" if it is not known */
    double rack_units;        /* 0: none, or not known */
    int most;                 /* nodes that can be had; 0: any number */
};

/* What the catalogue has and the search left out. */
struct mt_purchase_excluded {
    const char *name, *why;
};

/* What is owned already. nodes 0: nothing. */
struct mt_purchase_owned {
    const char *what;         /* the line or the file that says so; "" */
    const char *cluster_hash; /* of its cluster document; "" */
    int nodes, devices;
    double power_W; /* of its devices; 0: not known */
};

struct mt_purchase_job {
    const char *model;
    struct mt_job job; /* recomputation "none": planning may choose another, where none does not fit */
    double steps;      /* of training */
    double tokens;     /* in all: steps times batch times seq */
    double deadline_s; /* when it must have ended, from the start of the first job; 0: none */
};

/* What is not limited is 0. */
struct mt_purchase_limits {
    double budget;              /* to buy with */
    double budget_per_hour;     /* to rent with */
    double power_W, rack_units; /* of what is bought */
    int nodes;                  /* of what is bought */
    int devices;                /* of a configuration, with those that are owned */
};

/* A job on a configuration. */
struct mt_purchase_job_row {
    double step_s, error, error_below; /* the band, relative, as a plan's prediction has it */
    double time_s, end_s;              /* of all its steps; from the start of the first job */
    int idle;                          /* devices that its plan leaves out */
    int64_t headroom_bytes;            /* the least memory that a device has left */
    const char *headroom_of;           /* the class of that device; "": none has a limit */
    const char *program; /* how its plan divides it: "samples", "samples, weights gathered for each layer" */
    const char *binds;   /* what its step waits for most; "": not known */
    bool late;           /* it misses its deadline */
};

struct mt_purchase_row {
    const char *what;    /* "2 h100x8 + 4 l4x4", "what is owned" */
    const char *cluster; /* a line that describes it, as far as one can; "" */
    int64_t *counts;     /* [nitems]: nodes that are bought */
    int nodes, devices;  /* in all */
    double price, per_hour, cost;
    double power_W;                    /* of all; 0: not known of some */
    double rack_units;                 /* of what is bought */
    double time_s, error, error_below; /* until the last job has ended */
    /* The first row above whose time may as well be the shorter one, or -1: as mt_whatif_row's. */
    int tie;
    bool frontier;                    /* none that costs as much or less takes less time */
    bool late;                        /* some job misses its deadline */
    struct mt_purchase_job_row *jobs; /* [njobs] */
};

/* What a further sum would buy. */
struct mt_purchase_next {
    double money;               /* more than the budget: to buy with, or an hour where nothing is bought */
    double estimate_s;          /* of the best, if rates grow by the relaxation's dual value of money; 0: none */
    bool better;                /* something better is found with it, within the other limits */
    struct mt_purchase_row row; /* the best with it; its `tie` is -1, or 0: it may as well be no faster than rows[0] */
};

struct mt_purchase {
    struct mt_arena arena;
    char hash[33];         /* of the document without this field; filled by read and write */
    const char *made_by;   /* "motley 0.1.0" */
    const char *objective; /* what rows are in the order of: "time" or "cost"; rows that are late come last */
    const char *network;   /* what is assumed of it: "net=400G: 47 GB/s a node ..." */
    bool nominal;          /* some figures that times rest on were never measured */
    struct mt_purchase_owned owned;
    struct mt_purchase_limits limits;
    int nitems, nexcluded, njobs, nrows, nnext;
    struct mt_purchase_item *items;
    struct mt_purchase_excluded *excluded;
    struct mt_purchase_job *jobs;
    struct mt_purchase_row *rows; /* the best first; with all of the frontier */
    struct mt_purchase_next *next;
    double dual;       /* seconds that the relaxation saves by a unit of money at the budget; 0: money does not bind */
    const char *binds; /* which limit keeps the best from being better: "budget", "power", ...; "": none does */
    double configurations; /* within the limits, at most 1e18 */
    int64_t judged;        /* of them, with plans of their own */
    int64_t plans;         /* that were made */
};

/* An empty one: no rows, all strings "". mt_purchase_free frees all; it takes null. */
struct mt_purchase *mt_purchase_new(void);
void mt_purchase_free(struct mt_purchase *purchase);

/* Ranges, and what must agree: rows' counts with nodes, prices and power; times of jobs with rows'; ties and the
 * frontier. The message begins with the member's path. MT_EINPUT. */
enum mt_status mt_purchase_check(const struct mt_purchase *purchase, struct mt_err *err);

/* Read and check; the caller frees the purchase. MT_EINPUT also for unknown keys and a wrong hash. */
enum mt_status mt_purchase_read(const char *path, struct mt_purchase **purchase, struct mt_err *err);
enum mt_status mt_purchase_parse(const char *name, const char *text, size_t length, struct mt_purchase **purchase,
                                 struct mt_err *err);
/* Fill in the hash, and replace the file. mt_purchase_text: the text alone, the caller's to free. */
enum mt_status mt_purchase_write(struct mt_purchase *purchase, const char *path, struct mt_err *err);
char *mt_purchase_text(struct mt_purchase *purchase, size_t *length);
void mt_purchase_hash(const struct mt_purchase *purchase, char hash[33]);

#endif
