/* Inside the checker of lowered programs: the parts of the proof, and what they share.
 *
 *   lowered.c   the walk: values and boxes, inputs, states and reports; which instruction implements which; the order
 *               of collectives
 *   refuse.c    the current instruction by name, and refusals
 *   op.c        an operator computes what its sources say; fused kernels by their patterns
 *   flow.c      every read sees the bytes that its definition wrote, whatever the timing of the streams
 *   like.c      ranks that use memory alike, whose flow is proven once
 *   piece.c     pieces of tensors, copies, and whether two pieces are the same elements
 *   member.c    collectives, one rank's side: its problem is the group's; what is kept of it for the proof of the group
 *   arrays.c    collectives that may run on tensors without a message: a rank's pieces match the first member's
 *   group.c     collectives, all ranks: the groups' schedules are run; groups that are alike are proven once
 *   message.c   every element arrives where it should
 *   overlap.c   overlapped instructions: one rank's problem, and all ranks' schedules
 *   exchange.c  AllToAll: of the old parts that go to a new one
 *   schedule.c  the schedules of a group, run symbolically on sets of contributions
 *
 * Ranks come one after another, so that only one lowered program is in memory. Each is proven in full. Of its
 * collectives is kept what the proof of the groups reads; lists that are equal to another member's are kept once, and
 * what is proven of them once. */
#ifndef MT_SYNTH_CHECK_LOWERED_INTERNAL_H
#define MT_SYNTH_CHECK_LOWERED_INTERNAL_H

#include "synth/lower/lower.h"

struct mt_lmember;
struct mt_loverlapped;
struct mt_lcollective { /* or an overlapped instruction; in the order in which rank 0 runs them */
    enum mt_block_kind block;
    int source; /* of the program's block */
    int instr;  /* of rank 0 */
    struct mt_message_chunk chunk;
    const char *name;                  /* on rank 0 */
    struct mt_lmember *members;        /* [nranks] */
    struct mt_loverlapped *overlapped; /* [nranks]: then it is overlapped; else null */
};

struct mt_lchecker {
    const struct mt_program *program;
    const struct mt_lower_options *options; /* how much scratch a call needs */
    FILE *proof;
    struct mt_err *err;
    struct mt_arena arena;
    int *lowered_as; /* [instructions of the program, by blocks]: the current rank's that implements it, or -1 */
    int *first;      /* [MT_NBLOCKS + 1]: where a block's instructions begin in lowered_as */
    struct mt_lcollective *collectives;
    int ncollectives;
    struct mt_lpiece *pieces; /* scratch of member.c */
    int pieces_capacity;
    const struct mt_linstr **kept; /* [ncollectives]: the current rank's that are kept already */
    struct mt_lflow *flows;        /* of like.c: of the last ranks whose flow is proven */
    int nflows;
    struct mt_lproof *proofs; /* of lowered.c */
    struct mt_lrun *runs;     /* of group.c: of the last groups */
    int nruns;
    struct mt_lproven *proven; /* of group.c: the last groups that are proven */
    int nproven;
    int *continues; /* [pvalues]: of BODY's running sums, the accumulator that they continue; else -1 */
    /* The current rank and instruction; instr -1: the program as a whole. */
    int rank, instr;
    const struct mt_lowered *low; /* null: `collective`, of which only members[rank] is left */
    const struct mt_lcollective *collective;
    int (*old)[MT_MAX_OUT]; /* [low->ninstrs]: per output the value that it adds to in place, or -1 */
};

/* Refuse the current instruction; MT_EPROOF. */
enum mt_status mt_lchecker_refuse(const struct mt_lchecker *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline const struct mt_linstr *mt_lchecker_instr(const struct mt_lchecker *c) {
    return &c->low->instrs[c->instr];
}
enum mt_block_kind mt_lchecker_block(const struct mt_lchecker *c);
/* Source s of the current instruction. */
const struct mt_instr *mt_lchecker_source(const struct mt_lchecker *c, int s);
const char *mt_lchecker_name(const struct mt_lchecker *c, int lvalue);
static inline const struct mt_layout *mt_lchecker_layout(const struct mt_lchecker *c, int pvalue) {
    return &c->program->layouts.items[c->program->values[pvalue].layout];
}

/* The current instruction is an operator: prove that it computes its sources. Fills c->old. */
enum mt_status mt_lchecker_op(struct mt_lchecker *c);
/* The current instruction is a gather: prove that it computes its sources but `collective`, if its GEMM is given
 * `gathered`, what that makes. */
enum mt_status mt_lchecker_gemm(struct mt_lchecker *c, int gathered, int collective);
/* The current instruction is an overlapped sum with a bias, whose sources 0 and 1 make `summed`: prove that it computes
 * the other one. */
enum mt_status mt_lchecker_biased_sum(struct mt_lchecker *c, int summed);
/* The current instruction is a copy or an alias. */
enum mt_status mt_lchecker_copy(struct mt_lchecker *c);
/* The current instruction is overlapped; the same as for collectives below. */
enum mt_status mt_lchecker_overlap(struct mt_lchecker *c);
enum mt_status mt_lchecker_keep_overlap(struct mt_lchecker *c, int k);
enum mt_status mt_lchecker_overlapped(struct mt_lchecker *c, int k);
/* All instructions of the current rank; run_flow: even if those of another rank are the same to it (like.c). */
enum mt_status mt_lchecker_flow(struct mt_lchecker *c);
enum mt_status mt_lchecker_run_flow(struct mt_lchecker *c);
void mt_lchecker_forget_flows(struct mt_lchecker *c);
/* The current instruction is the k-th collective: prove what concerns this rank alone, and that its problem is that of
 * the group's first member, and keep it. */
enum mt_status mt_lchecker_keep(struct mt_lchecker *c, int k);
/* The k-th collective, of which all members are kept. */
enum mt_status mt_lchecker_message(struct mt_lchecker *c, int k);
void mt_lchecker_forget_runs(struct mt_lchecker *c);

/* ---- pieces ---- */

/* A box of a value at elements [at, at + count) of a message buffer, row-major. */
struct mt_lpiece {
    int operand; /* a place in the collective's `in`, if it is packed; in `out`, if it is unpacked */
    int buffer;
    int64_t at, count;
    enum mt_reduce reduce;
    int naxes;
    struct mt_box box;
};

/* Read a piece of the current instruction's operand `values[operand]`. A piece without elements has count 0. */
enum mt_status mt_lchecker_piece(const struct mt_lchecker *c, const struct mt_piece *piece, const int *values,
                                 int operand, struct mt_lpiece *out);
/* The whole of this rank's box. */
struct mt_lpiece mt_lchecker_whole(const struct mt_lchecker *c, const int *values, int operand, int buffer);
/* Whether places [x, x + count) of the message in piece a are the elements that [y, y + count) are in piece b. */
bool mt_lpiece_same(const struct mt_lpiece *a, int64_t x, const struct mt_lpiece *b, int64_t y, int64_t count);
/* Whether the pieces are disjoint boxes that together are `box`. */
bool mt_lpieces_tile(const struct mt_lpiece *const *pieces, int count, const struct mt_box *box, int naxes);

/* ---- members of collectives ---- */

struct mt_lside { /* by place in the message, but for an AllToAll's unpacked ones, whose order counts */
    struct mt_lpiece *pieces;
    int count;
};

struct mt_lrange { /* of the message */
    int64_t lo, hi;
};
/* The pieces of a message as arrays: those of all blocks, and those of this rank's block. */
struct mt_lranges {
    struct mt_lrange *all, *own;
    int nall, nown;
    bool hollow; /* a piece has no elements */
};

/* Boxes that arrive by an AllToAll, each of one old part, in order: mostly a piece each. */
struct mt_larrival {
    int operand, part; /* part -1: zeros */
    enum mt_reduce reduce;
    struct mt_box box;
};
struct mt_larrived {
    struct mt_larrival *items; /* in the checker's arena */
    int count, capacity;
};

struct mt_lmember {
    int instr; /* of its lowered program */
    const char *name;
    struct mt_coll problem;               /* me: this rank; the vectors are the first member's */
    struct mt_lranges *ranges;            /* of the first member, where it runs on arrays */
    const struct mt_lside *pack, *unpack; /* equal ones of two members are one */
    struct mt_larrived arrived;           /* of an AllToAll */
    int64_t message_count[2];
    bool zero, sends;
    const struct mt_coll_algorithm *algorithm;
    const struct mt_schedule *schedule; /* null: that of the algorithm for the problem */
};

/* Whether two members have the same problem but for the place. */
bool mt_lmember_same_problem(const struct mt_lmember *a, const struct mt_lmember *b);
/* Whether the current instruction's pieces match those of the group's first member as arrays. */
enum mt_status mt_lchecker_arrays(struct mt_lchecker *c, const struct mt_lmember *first, struct mt_arena *arena);
struct mt_lranges mt_lranges_of(const struct mt_linstr *instr, struct mt_arena *arena);

/* Of an AllToAll, that every element of a rank's new box is made of the old parts that go there. `arrivals` are all of
 * the operand's. */
enum mt_status mt_lchecker_parts(const struct mt_lchecker *c, const struct mt_instr *source, int operand, int rank,
                                 const struct mt_larrival *arrivals, int count);

/* ---- schedules ---- */

/* A range of a buffer that holds one expression of the members' contributions: place x holds that expression of place
 * x + shift of the members' own messages. */
struct mt_segment {
    int64_t lo, hi, shift;
    int expr;
};
struct mt_segments { /* in order, without gaps */
    struct mt_segment *items;
    int count, capacity;
};

/* Expressions by id; equal ids are equal bits. */
enum { MT_EXPR_GARBAGE, MT_EXPR_NEUTRAL, MT_EXPR_FIRST /* + place: that member's own */ };

struct mt_expr;
struct mt_lrun {
    const struct mt_lcollective *of; /* group.c: the collective and the first rank of the group */
    int first_rank;
    struct mt_arena arena;
    int n, words; /* members; 64-bit words of a set of members */
    bool rounds;  /* the wire is narrower than the sums */
    enum mt_reduce reduce;
    const struct mt_schedule **schedule; /* [n]; null: nothing is sent */
    struct mt_segments (*buffer)[3];     /* [n] */
    struct mt_expr *exprs;
    int nexprs, exprs_capacity, *slots, nslots;
};
/* Buffers of `counts` elements, all garbage. */
void mt_lrun_init(struct mt_lrun *run, int n, const struct mt_coll *problem);
void mt_lrun_buffer(struct mt_lrun *run, int place, int buffer, int64_t count, int expr);
void mt_lrun_set(struct mt_lrun *run, int place, int buffer, int64_t lo, int64_t hi, int expr);
/* Run all members' schedules; a send is a rendezvous with its receiver. */
enum mt_status mt_lrun_schedules(struct mt_lrun *run, const struct mt_lchecker *c);
int mt_lrun_contributors(const struct mt_lrun *run, int expr);    /* how many */
bool mt_lrun_has(const struct mt_lrun *run, int expr, int place); /* whether it has the member's contribution */
void mt_lrun_release(struct mt_lrun *run);

/* ---- groups of collectives ---- */

/* The ranks that take part in one collective together. */
struct mt_lgroup {
    struct mt_lchecker *c;
    struct mt_arena arena;
    const struct mt_instr *source;
    const struct mt_lcollective *of; /* a chunk of the source: values [first, end) */
    int first, end;
    int n;
    int *ranks; /* [n] */
    const struct mt_lmember **members;
    bool same_pack;            /* all members pack the same */
    bool *same_from;           /* [operands]: all members hold the same box before */
    const struct mt_lrun *run; /* to the end */
};

/* Make a member's instruction the current one. */
static inline void mt_lgroup_select(const struct mt_lgroup *g, int place) {
    g->c->rank = g->ranks[place];
    g->c->instr = g->members[place]->instr;
}
static inline bool mt_lgroup_exchanges(const struct mt_lgroup *g) {
    return g->source->coll == MT_ALL_TO_ALL;
}
static inline bool mt_lgroup_reduces(const struct mt_lgroup *g) {
    return mt_coll_reduces(g->source->coll);
}
/* Once the schedules are run: what each member unpacks is what it should. */
enum mt_status mt_lgroup_results(const struct mt_lgroup *group);
/* Once that holds for all parts of the collective: each member's new boxes are whole. */
enum mt_status mt_lgroup_values(struct mt_lgroup *group);

#endif
