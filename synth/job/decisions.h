/* Decisions of a plan: what a person may fix, what the search chooses, and what the builder of programs carries out.
 *
 *   rule row       how operators with samples run, by a pattern of their names
 *   storage row    where parameters and their optimizer state live, by a pattern of the parameter's name (sharding)
 *   algorithm row  which algorithm carries a kind's messages, by their size
 *   sync           how the sums of sharded gradients are formed
 *   bucket         gradients, or gathered weights, that share one message
 *   start          when the collective of a full bucket starts
 *   gather         when weights that are stored in shares are gathered
 *   reduced        when sums of gradients over micro-batches are reduced to shares
 *   wire type      the type in which gradients are sent
 *   overlap row    how overlapped GEMMs of one shape run (kernels/overlap/choice.h)
 *   recompute      which results of the forward pass are recomputed in the backward pass (a part of mt_job: the graph
 *                  depends on it)
 *
 * Words and flags are rows of decisions.def. */
#ifndef MT_SYNTH_JOB_DECISIONS_H
#define MT_SYNTH_JOB_DECISIONS_H

#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/base/number/type.h"
#include "kernels/coll/coll.h"
#include "kernels/overlap/choice.h"

#define VALUE(NAME, value, text) MT_##NAME##_##value,
#define WORDS(NAME, name, values)                                                                                      \
    enum mt_##name{MT_##NAME##_UNSET = -1, values MT_N##NAME};                                                         \
    extern const char *const mt_##name##_names[MT_N##NAME];
#include "synth/job/decisions.def"

/* How a row divides over the mesh (synth/layout/mesh.h): its split, over all ranks, hosts or the devices of each; and
 * with `inner` what each host then divides over its devices. */
struct mt_row_levels {
    int ninner;               /* 0: there is no second level; 1: of all hosts; else of each, in order of first rank */
    const char *const *inner; /* splits over devices, of one label or another; "": the host's ranks do the same */
    /* Which of the axes that have the split's label, from 1, of those that can be divided; 0 is 1. */
    int occurrence, inner_occurrence;
};

/* In the place of a split of a rule row: the level's members compute different terms of a sum (MT_RULE_LINEAR), of the
 * operator's linear set number `occurrence`. */
#define MT_ROW_LINEAR "linear"

/* The first row whose pattern (glob: * and ?) matches the operator's name and, for a split, whose splits' labels the
 * operator has. Operators without samples follow the storage of their parameter. */
struct mt_rule_row {
    const char *pattern;
    enum mt_operators operators;
    const char *split; /* the split's name; "" with MT_OPERATORS_REPLICATE, or, with inner: the hosts do the same */
    struct mt_row_levels levels;
};

/* The first row whose pattern matches the parameter's name; no row: replicated. MT_STATE_SPLIT: in shares of `split`,
 * of which the parameter must have the label; null, or "" without inner: of the storage split of its storage axis's
 * label. */
struct mt_storage_row {
    const char *pattern;
    enum mt_state state;
    const char *split;
    struct mt_row_levels levels;
};

/* Of a kind's rows the first that is for messages of that size. Sizes rise, and a kind's last row is for any size. */
struct mt_algorithm_row {
    enum mt_coll_kind kind;
    const char *algorithm; /* or "auto" */
    int64_t up_to_bytes;   /* of messages of at most so many bytes (mt_message_bytes); 0: of any size */
};

/* Rows and strings belong to the caller's arena. */
struct mt_decisions {
    int nrules, nstorage, nalgorithms, noverlaps;
    struct mt_rule_row *rules;
    struct mt_storage_row *storage;
    struct mt_algorithm_row *algorithms;
    struct mt_overlap_choice *overlaps; /* a row a shape; shapes without a row run as devices do by themselves */
#define DECISION(NAME, name, omitted, flag, what, help) enum mt_##name name;
#include "synth/job/decisions.def"
    int64_t bucket_bytes; /* 0: each gradient is a message of its own; -1: unset */
    /* A rank's messages of one collective at a time, at most; 0: see mt_program.staging_bytes. */
    int64_t staging_bytes;
    /* Of sums of gradients; they are accumulated in the job's accumulation type. MT_NTYPES: unset, which means that
     * type. Few and small sums that decide something are sent in the accumulation type, all else in its own. */
    enum mt_type gradient_wire;
};

/* Nothing is decided. */
#define DECISION(NAME, name, omitted, flag, what, help) .name = MT_##NAME##_UNSET,
static const struct mt_decisions mt_decisions_unset = {
#include "synth/job/decisions.def"
    .bucket_bytes = -1, .gradient_wire = MT_NTYPES};

enum mt_decision_id {
#define DECISION(NAME, name, omitted, flag, what, help) MT_DECISION_##NAME,
#include "synth/job/decisions.def"
    MT_NDECISIONS
};

/* The rows of decisions.def that are members, and one of them read and set by its number. */
extern const struct mt_decision {
    const char *name, *flag, *what;
    const char *const *words;
    int nwords, omitted;
} mt_decision_table[MT_NDECISIONS];
int mt_decision_get(const struct mt_decisions *d, enum mt_decision_id which);
void mt_decision_set(struct mt_decisions *d, enum mt_decision_id which, int value);
/* The value of enum mt_overlapped that a text names: one of its words, or forms joined by + in any order; -1: none. */
int mt_overlapped_parse(const char *text);

/* Whether nobody has decided anything; algorithms that are "auto" are not decided. */
bool mt_decisions_are_unset(const struct mt_decisions *d);

/* That nothing is unset which a plan must decide, and that the algorithm rows are complete and name algorithms that
 * there are. The message begins with the member's path, "gradients.sync: ...", "collectives[0].kind: ...". */
enum mt_status mt_decisions_check(const struct mt_decisions *d, struct mt_err *err);

/* With rows and strings of its own. */
struct mt_decisions mt_decisions_copy(const struct mt_decisions *from, struct mt_arena *arena);

/* What is there where nobody decides: operators split by "batch"; parameters that no row catches are replicated; a
 * decision that the plan may omit has its `omitted` value. Other decisions stay unset. */
void mt_decisions_complete(struct mt_decisions *d, struct mt_arena *arena);

/* Whether the row itself says which split divides the parameter. */
bool mt_storage_row_names_split(const struct mt_storage_row *row);

/* Whether some storage row is MT_STATE_SPLIT. */
bool mt_decisions_shard_state(const struct mt_decisions *d);

/* Whether ranks exchange weights or gradients in every micro-batch, so that all must have as many. */
bool mt_decisions_in_step(const struct mt_decisions *d);

/* The value of `from` for each decision of decisions.def that is unset in `fixed`. */
void mt_decisions_take(struct mt_decisions *d, const struct mt_decisions *from, const struct mt_decisions *fixed);

/* The same values of all decisions of decisions.def. */
bool mt_decisions_same_values(const struct mt_decisions *a, const struct mt_decisions *b);

/* The same rule rows, storage rows and sync. */
bool mt_decisions_same_rows(const struct mt_decisions *a, const struct mt_decisions *b);

#define MT_LEAST_STAGING_BYTES ((int64_t)64 << 10)

/* For a message of a kind with so many bytes on the wire (mt_message_bytes); "auto" if no row says. */
const char *mt_decisions_algorithm(const struct mt_decisions *d, enum mt_coll_kind kind, int64_t bytes);
bool mt_algorithm_is_auto(const char *name);

#endif
