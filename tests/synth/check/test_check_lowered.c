/* Mutants of lowered programs: one rank's (or every rank's) damaged in every way we can think of, at every instruction.
 * The checker may accept a mutant only if it still computes the same numbers, in fp64, whichever stream runs ahead. */
#include "kernels/overlap/chunk.h"
#include "tests/synth/check/message_mutations.h"

static const struct {
    const char *name;
    mutation *apply;
    int variants;
} mutations[] = {
    {"wait dropped", drop_wait, 3},
    {"wait for an earlier one", wait_earlier, 3},
    {"wait for another", wait_for_another, 2},
    {"another stream", other_stream, 2},
    {"two change places", swap_next, 3},
    {"two collectives change places", swap_collectives, 1},
    {"left out", leave_out, 1},
    {"left out on all ranks", leave_out_everywhere, 1},
    {"runs nothing", run_nothing, 1},
    {"memory reused", reuse_memory, 12},
    {"one value moved", move_one_value, 4},
    {"misaligned", misalign, 2},
    {"another attribute", other_attribute, 17},
    {"another kind", other_kind, 3},
    {"source dropped", drop_source, 1},
    {"another source", other_source, 2},
    {"another operand", other_operand, 16},
    {"operands swapped", swap_operands, 3},
    {"operand dropped", drop_operand, 2},
    {"another tensor", other_tensor, 4},
    {"other samples", other_samples, 4},
    {"another problem", other_problem, 14},
    {"another block in place", other_block, 20},
    {"a block in place", block_in_place, 4},
    {"overlap", overlap_before, 4},
    {"another piece", other_piece, 11},
    {"another message", other_message, 6},
    {"another step", other_step, 10},
    {"added twice", add_twice, 1},
    {"another algorithm", other_algorithm, 3},
    {"another rank's schedule", another_ranks_schedule, 1},
    {"other scratch", other_scratch, 2},
    {"another chunk", other_chunk, 8},
    {"a chunk dropped", drop_chunk, 1},
    {"another overlapped GEMM", other_overlap, OVERLAP_PROBLEM_CHANGES},
    {"another epilogue", other_epilogue, OVERLAP_EPILOGUE_CHANGES},
    {"other tiles", other_tiles, 2 * OVERLAP_SCHEDULE_CHANGES},
    {"waits for peers at once", overlap_at_once, 1},
};

static void mutate_instr(int rank, int instr) {
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++)
        for (int variant = 0; variant < mutations[i].variants; variant++) {
            mutations[i].apply(truth.lowered[rank], linstr(rank, instr), instr, variant);
            expect_verdict(mutations[i].name, rank, instr);
            while (nother_schedules) mt_schedule_release(&other_schedules[--nother_schedules]);
        }
}

/* ---- what belongs to no instruction ---- */

static void mutate_rank(int rank) {
    struct mt_lowered *m = truth.lowered[rank];
    const struct mt_graph *g = truth.program->graph;
    for (int v = 0; v < truth.program->nvalues; v++) {
        if (!truth.program->values[v].input) continue;
        for (int variant = 0; variant < 3; variant++) {
            move_memory(m, v, variant);
            expect_verdict("state or input moved", rank, -1);
        }
    }
    for (int v = 0; v < g->nvalues; v++) {
        if (m->state_at[v] >= 0) SET(m->state_at[v], -1);
        expect_verdict("state forgotten", rank, -1);
        if (m->output_at[v] >= 0) SET(m->output_at[v], m->output_at[v] - 1);
        expect_verdict("another report", rank, -1);
    }
    for (int i = 0; i < m->ninputs; i++) {
        struct mt_linput *input = &m->inputs[i];
        if (input->nrows) SET(input->rows[0], input->rows[0] + 1);
        expect_verdict("another sample fed", rank, -1);
        if (input->nrows) SET(input->nrows, input->nrows - 1);
        expect_verdict("a sample not fed", rank, -1);
    }
    SET(m->ninputs, m->ninputs - 1);
    expect_verdict("an input not fed", rank, -1);
    SET(m->body_count, m->body_count + 1);
    expect_verdict("one iteration more", rank, -1);
    SET(m->body_barrier, !m->body_barrier);
    expect_verdict("barrier", rank, -1);
    SET(m->arena_bytes, m->arena_bytes - 64);
    expect_verdict("a smaller arena", rank, -1);
    for (int b = 1; b < MT_NBLOCKS; b++) {
        SET(m->block_begin[b], m->block_begin[b] + 1);
        expect_verdict("a block that begins later", rank, -1);
    }
    int next = (rank + 1) % truth.program->nranks;
    if (next != rank) {
        struct mt_lowered *a = truth.lowered[rank], *b = truth.lowered[next];
        SET(truth.lowered[rank], b);
        SET(truth.lowered[next], a);
    }
    expect_verdict("ranks swapped", rank, -1);
}

/* Scratch that an operator needs: none, one byte too few, or without memory. How many are refused for that. */
static int reduce_scratch(int rank) {
    struct mt_lowered *m = truth.lowered[rank];
    int refused = 0;
    for (int i = 0; i < m->ninstrs; i++)
        for (int variant = 0; variant < 3 && m->instrs[i].scratch >= 0; variant++) {
            struct mt_err err = MT_ERR_INIT;
            struct mt_linstr *l = &m->instrs[i];
            struct mt_lvalue *scratch = &m->values[l->scratch];
            if (variant == 0) SET(l->scratch, -1);
            if (variant == 1) SET(scratch->size_bytes, scratch->size_bytes - 1);
            if (variant == 2) SET(scratch->offset_bytes, -1);
            CHECK(!is_accepted(&err), "rank %d, instruction %d, variant %d", rank, i, variant);
            CHECK(strstr(err.text, "bytes of scratch, but has "), "%s", err.text);
            refused++;
            take_back();
        }
    return refused;
}

/* Epilogues of overlapped GEMMs, each changed in every way: all are refused. Counts epilogues of each form by their
 * operators, and changes. */
static void change_epilogues(int rank, int there[MT_OVERLAP_NFORMS][MT_NOPS], int refused[OVERLAP_EPILOGUE_CHANGES]) {
    struct mt_lowered *m = truth.lowered[rank];
    for (int i = 0; i < m->ninstrs; i++) {
        struct mt_linstr *l = &m->instrs[i];
        if (l->what != MT_LOWERED_OVERLAP || !l->attr.epilogue) continue;
        there[l->overlap->problem.form][l->attr.epilogue]++;
        for (int variant = 0; variant < OVERLAP_EPILOGUE_CHANGES; variant++) {
            struct mt_err err = MT_ERR_INIT;
            if (!change_overlap_epilogue(m, l, variant)) continue;
            CHECK(!is_accepted(&err), "rank %d, instruction %d, variant %d", rank, i, variant);
            CHECK_EQ(err.status, MT_EPROOF);
            refused[variant]++;
            take_back();
        }
    }
}

/* Tensors of an AllReduce that change places: by a message it would do, on a wire that takes them as they are it does
 * not. How many are refused for that. */
static int swap_outputs(int rank) {
    struct mt_lowered *m = truth.lowered[rank];
    int swapped = 0;
    for (int i = 0; i < m->ninstrs; i++)
        for (int k = 1; k < m->instrs[i].nout; k++) {
            struct mt_err err = MT_ERR_INIT;
            const struct mt_linstr *l = &m->instrs[i];
            int a = l->out[k - 1], b = l->out[k];
            int64_t at[2] = {m->values[a].offset_bytes, m->values[b].offset_bytes};
            if (l->what != MT_LOWERED_COLLECTIVE || !l->npack || !mt_coll_takes_arrays(&l->problem)) continue;
            if (!has_memory(m, a) || m->values[a].size_bytes != m->values[b].size_bytes) continue;
            if (m->values[l->in[k]].offset_bytes != at[1]) continue;
            move_value(m, a, at[1]), move_value(m, b, at[0]);
            CHECK(!is_accepted(&err), "rank %d, instruction %d", rank, i);
            swapped += !!strstr(err.text, "share memory while both are used"); /* else slices of them are misplaced */
            take_back();
        }
    return swapped;
}

static void swap_pieces(struct mt_piece *pieces, int *values, int i) {
    struct mt_piece piece = pieces[i];
    int value = values[i];
    SET(pieces[i], pieces[i + 1]);
    SET(values[i], values[i + 1]);
    SET(pieces[i + 1], piece);
    SET(values[i + 1], value);
}

/* Pieces in another order than other ranks': by a message it would do, as arrays they would not meet. The same where
 * one rank alone would take arrays, or a message. How many collectives of either kind are refused. */
static void reorder_pieces(int rank, int refused[MT_NCOLLS]) {
    struct mt_lowered *m = truth.lowered[rank];
    for (int i = 0; i < m->ninstrs; i++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_linstr *l = &m->instrs[i];
        bool sides = l->npack > 0 && l->nunpack > 0;
        if (l->what != MT_LOWERED_COLLECTIVE || !l->problem.same_pieces || l->problem.n < 2) continue;
        SET(l->problem.same_pieces, false);
        CHECK(!is_accepted(&err), "rank %d, instruction %d", rank, i);
        CHECK(strstr(err.text, "runs on arrays"), "%s", err.text);
        take_back();
        for (int side = 0; side < 2 && sides; side++) {
            int n = side ? l->nunpack : l->npack, at = n > 2 ? 1 : 0;
            struct mt_piece *pieces = side ? l->unpack : l->pack;
            if (n < 2 || pieces[at].extent[0] == 0 || pieces[at + 1].extent[0] == 0) continue;
            err = (struct mt_err)MT_ERR_INIT;
            swap_pieces(pieces, side ? l->unpack_of : l->pack_of, at);
            CHECK(!is_accepted(&err), "rank %d, instruction %d, side %d", rank, i, side);
            CHECK(strstr(err.text, "pieces"), "%s", err.text);
            refused[l->problem.kind]++;
            take_back();
        }
    }
}

/* ---- programs ---- */

/* Two flags of one rank change places, in one instruction, on all ranks: right by itself, but not in turns with
 * another instruction of its region, whose puts raise the same counters as they were. */
static void swap_flags(int instr, int to, int a, int b) {
    for (int r = 0; r < truth.program->nranks; r++) {
        const struct mt_linstr *l = linstr(r, instr);
        struct mt_overlap_schedule *s = l->overlap->schedule;
        for (int j = 0; j < s->nputs; j++) {
            int *flag = &s->puts[j].flag;
            if (l->group[s->puts[j].peer] == to && (*flag == a || *flag == b)) SET(*flag, a + b - *flag);
        }
        for (int w = 0; w < s->nwaits && r == to; w++) {
            int *flag = &s->waits[w].flag;
            if (*flag == a || *flag == b) SET(*flag, a + b - *flag);
        }
    }
}

/* One of two instructions of one problem whose operands lie otherwise moves to the other's region, on all ranks:
 * devices may run both by implementations that leave other flags. Returns how many. */
static int test_turns_of_operands(const struct mt_program *p) {
    struct mt_err err = MT_ERR_INIT;
    int moved = 0;
    lower_all(p, lower_options(true, 0));
    for (int i = 0; i < truth.lowered[0]->ninstrs; i++)
        for (int k = 0; k < i; k++) {
            if (linstr(0, i)->what != MT_LOWERED_OVERLAP || linstr(0, k)->what != MT_LOWERED_OVERLAP) continue;
            const struct mt_loverlap *a = linstr(0, i)->overlap, *b = linstr(0, k)->overlap;
            bool alike = a->trans_a == b->trans_a && a->trans_b == b->trans_b && a->trans_out == b->trans_out;
            if (alike || a->region == b->region || !mt_overlap_equal(&a->problem, &b->problem)) continue;
            for (int r = 0; r < p->nranks; r++) {
                const struct mt_loverlap *to = linstr(r, k)->overlap;
                struct mt_loverlap *o = linstr(r, i)->overlap;
                SET(o->region, to->region);
                SET(o->window_at, to->window_at);
            }
            CHECK(!is_accepted(&err), "operands that lie otherwise, in one region");
            CHECK(strstr(err.text, "part of the window"), "%s", err.text);
            moved += strstr(err.text, "whose operands lie otherwise") != NULL;
            take_back();
        }
    free_all();
    return moved;
}

/* Schedules of one region take turns in its memory. */
static void test_turns_of_schedules(const struct mt_program *p, int counts[2]) {
    struct mt_err err = MT_ERR_INIT;
    lower_all(p, lower_options(true, 0));
    for (int i = 0; i < truth.lowered[0]->ninstrs; i++) {
        const struct mt_linstr *l = linstr(0, i);
        if (l->what != MT_LOWERED_OVERLAP) continue;
        int others = 0;
        for (int k = 0; k < truth.lowered[0]->ninstrs; k++)
            others += k != i && linstr(0, k)->what == MT_LOWERED_OVERLAP &&
                      linstr(0, k)->overlap->region == l->overlap->region;
        const struct mt_overlap_schedule *s = l->overlap->schedule;
        int a = 0, b = 1; /* waits for two flags */
        while (b < s->nwaits && s->waits[b].flag == s->waits[a].flag) b++;
        if (b >= s->nwaits) continue;
        swap_flags(i, 0, s->waits[a].flag, s->waits[b].flag);
        CHECK_EQ(is_accepted(&err), !others);
        CHECK(!others || strstr(err.text, "another schedule of the problem"), "%s", err.text);
        counts[others > 0]++;
        take_back();
    }
    free_all();
}

/* Scratch of overlapped instructions that run by chunks, and by tiles: what the one needs is not the other's. */
static void test_scratch_of_chunks(const struct mt_program *p) {
    struct mt_err err = MT_ERR_INIT;
    int noverlaps = 0, unlike[2] = {0};
    for (int chunks = 0; chunks < 2; chunks++) {
        struct mt_lower_options options = lower_options(true, 0);
        options.chunks = chunks;
        lower_all(p, options);
        CHECK(is_accepted(&err), "by chunks %d: %s", chunks, err.text);
        for (int r = 0; r < p->nranks; r++) {
            CHECK(reduce_scratch(r) > 0, "rank %d", r);
            for (int i = 0; i < truth.lowered[r]->ninstrs; i++) {
                const struct mt_linstr *l = linstr(r, i);
                if (l->what != MT_LOWERED_OVERLAP) continue;
                const struct mt_overlap *problem = &l->overlap->problem;
                int me = l->overlap->me;
                int64_t by[2] = {
                    mt_overlap_scratch_bytes(problem, me, l->attr.epilogue, replay_scratch_bytes, NULL),
                    mt_overlap_chunks_scratch_bytes(problem, me, l->attr.epilogue, replay_scratch_bytes, NULL)};
                CHECK(l->scratch >= 0 && truth.lowered[r]->values[l->scratch].size_bytes >= by[chunks]);
                noverlaps++;
                unlike[chunks] += truth.lowered[r]->values[l->scratch].size_bytes < by[!chunks];
            }
        }
        truth.options.chunks = !chunks;
        CHECK_EQ(!is_accepted(&err), unlike[chunks] > 0);
        free_all();
    }
    CHECK(noverlaps > 0 && unlike[0] + unlike[1] > 0, "%d overlapped, %d and %d unlike", noverlaps, unlike[0],
          unlike[1]);
}

static int epilogues[MT_OVERLAP_NFORMS][MT_NOPS], changed_epilogues[OVERLAP_EPILOGUE_CHANGES];
static int schedule_turns[2], noverlapped[MT_OVERLAP_NFORMS], swapped_outputs, reduced_scratch, reordered[MT_NCOLLS];
static int operand_turns;

static void test_program(const char *name, const struct mt_program *p, bool fuse) {
    struct mt_err err = MT_ERR_INIT;
    truth.name = name;
    truth.made = truth.refused = truth.right = 0;
    lower_all(p, lower_options(fuse, fuse ? 0 : 2));
    CHECK(is_accepted(&err), "%s: %s", name, err.text);
    for (int timing = 0; timing < NTIMINGS; timing++) {
        double worst = replay_difference(p, truth.lowered, (enum timing)timing, truth.want, truth.loss, truth.begin);
        CHECK(worst <= 1e-9, "%s is right: %g", name, worst);
    }
    for (int i = 0; i < truth.lowered[0]->ninstrs; i++) {
        int rank = i % p->nranks;
        bool overlapped = linstr(0, i)->what == MT_LOWERED_OVERLAP;
        int form = overlapped ? (int)linstr(0, i)->overlap->problem.form : 0;
        noverlapped[form] += overlapped;
        bool chosen = overlapped ? noverlapped[form] % EVERY_OVERLAPPED == 0 : i % EVERY_LOWERED == 0;
        if (i < truth.lowered[rank]->ninstrs && chosen) mutate_instr(rank, i);
    }
    for (int r = 0; r < p->nranks; r++) {
        if (r < RANKS_LOWERED) mutate_rank(r);
        swapped_outputs += swap_outputs(r);
        reduced_scratch += reduce_scratch(r);
        change_epilogues(r, epilogues, changed_epilogues);
        reorder_pieces(r, reordered);
    }
    printf("%-18s %-8s %6d mutants: %6d refused, %5d accepted and right\n", name, fuse ? "fused" : "unfused",
           truth.made, truth.refused, truth.right);
    CHECK(truth.refused > truth.made / 2, "most mutants are wrong");
    free_all();
}

static void note_states(const struct mt_graph *g, const struct mt_program *p) {
    struct mt_interp *interp = mt_interp_new(p);
    mt_interp_init_states(interp, SEED);
    truth.begin = calloc((size_t)g->nvalues, sizeof *truth.begin);
    for (int v = 0; v < g->nvalues; v++) {
        double spread;
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        truth.begin[v] = malloc((size_t)mt_value_count(g, v) * sizeof(double));
        mt_interp_get(interp, v, truth.begin[v], &spread);
    }
    mt_interp_free(interp);
}

/* Every algorithm has its turn. */
static void choose_algorithms(enum style style, struct mt_choice *choice) {
    static const char *const names[][MT_NCOLLS] = {
        [ALL_REDUCE] = {"direct", "ring", "ring", "binomial", "direct"},
        [SHARDED] = {"tree", "direct", "bruck", "chain", "pairwise"},
        [MICRO] = {"recursive_doubling", "ring", "direct", "scatter_gather", "direct"},
        [TENSOR] = {"hierarchical", "hierarchical_pipeline", "hierarchical", "hierarchical_chain", "direct"},
        [WILD] = {"auto", "recursive_halving", "auto", "auto", "auto"},
        [LAYERS] = {"auto", "hierarchical", "ring", "auto", "auto"},
        [OVERLAPPED] = {"auto", "auto", "auto", "auto", "auto"},
        [OVERLAPPED_SUMS] = {"auto", "auto", "auto", "auto", "auto"},
        [OVERLAPPED_REPLICAS] = {"auto", "auto", "auto", "auto", "auto"},
    };
    static struct mt_algorithm_row rows[MT_NCOLLS];
    for (int k = 0; k < MT_NCOLLS; k++)
        rows[k] = (struct mt_algorithm_row){.kind = (enum mt_coll_kind)k, .algorithm = names[style][k]};
    static const int node[] = {0, 1, 0}; /* of three ranks */
    if (style != WILD) choice->node = node;
    choice->decisions.algorithms = rows;
    choice->decisions.nalgorithms = MT_NCOLLS;
}

/* Mutants of one model's programs, in the styles [first, last]. */
static void test_styles(double dropout, enum style first, enum style last) {
    static const char *const names[] = {"all-reduce", "sharded",    "micro-batches",   "tensor-parallel", "any rules",
                                        "by layer",   "overlapped", "overlapped sums", "replicas"};
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = training_graph("gpt2:layers=1,heads=2,embed=4,context=3,vocab=5,bias=1,tied=1", 5, dropout);
    struct mt_choice one = {
        .nranks = 1, .decisions.gradient_wire = MT_F64, .rules = mt_new(&arena, struct mt_rule, g->nops)};
    struct mt_program alone;
    CHECK_OK(mt_build(g, &one, &alone, &err), err);
    CHECK((truth.want = run_program(&alone, &truth.loss, &err)), "one rank runs");
    note_states(g, &alone);
    for (int style = (int)first; style <= (int)last; style++) {
        struct mt_choice choice;
        struct mt_program program;
        make_choice(&arena, g, (enum style)style, &choice);
        choose_algorithms((enum style)style, &choice);
        CHECK_OK(mt_build(g, &choice, &program, &err), err);
        test_program(names[style], &program, true);
        if (style >= OVERLAPPED) test_scratch_of_chunks(&program);
        if (dropout > 0 && (style == MICRO || style == WILD)) test_program(names[style], &program, false);
        if (dropout > 0 && (style == SHARDED || style == WILD)) {
            program.staging_bytes = 256;
            test_program("in chunks", &program, true);
            program.staging_bytes = 0;
        }
        if (style == SHARDED) {
            add_recomputation(&program);
            test_program("recomputation", &program, true);
        }
        mt_program_release(&program);
    }
    for (int v = 0; v < g->nvalues; v++) free(truth.begin[v]);
    free(truth.begin);
    mt_interp_free(truth.want);
    mt_program_release(&alone);
    mt_arena_release(&arena);
    mt_graph_free(g);
}

/* Of two layers, whose instructions share regions. */
static void test_turns(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = training_graph("gpt2:layers=2,heads=2,embed=4,context=3,vocab=5,bias=1,tied=1", 5, 0);
    for (int style = OVERLAPPED; style <= OVERLAPPED_REPLICAS; style++) {
        struct mt_choice choice;
        struct mt_program program;
        make_choice(&arena, g, (enum style)style, &choice);
        choose_algorithms((enum style)style, &choice);
        CHECK_OK(mt_build(g, &choice, &program, &err), err);
        test_turns_of_schedules(&program, schedule_turns);
        operand_turns += test_turns_of_operands(&program);
        mt_program_release(&program);
    }
    mt_arena_release(&arena);
    mt_graph_free(g);
    printf("flags exchanged: %d alone in their regions, %d in turns with others\n", schedule_turns[0],
           schedule_turns[1]);
    printf("moved to a region of operands that lie otherwise: %d\n", operand_turns);
    CHECK(schedule_turns[1] > 0 && operand_turns > 0, "none in turns");
}

int main(void) {
    printf("seed %d\n", SEED);
    test_turns();
    test_styles(0.1, ALL_REDUCE, OVERLAPPED_REPLICAS);
    test_styles(0, MICRO, MICRO); /* norms' gradients are biases' as well, and are summed where they are made */
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
        printf("%s: %d\n", mt_overlap_name((enum mt_overlap_form)form), noverlapped[form]);
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
        CHECK(noverlapped[form] > 0, "%s", mt_overlap_name((enum mt_overlap_form)form));
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
        for (int e = 0; e < MT_NOPS; e++)
            if (epilogues[form][e])
                printf("%s with %s: %d\n", mt_overlap_name((enum mt_overlap_form)form), mt_op_info[e].name,
                       epilogues[form][e]);
    const int *gathers = epilogues[MT_OVERLAP_GATHER];
    CHECK(gathers[MT_OP_add] && gathers[MT_OP_gelu] && gathers[MT_OP_gelu_grad], "each epilogue of a GPT");
    CHECK(epilogues[MT_OVERLAP_SCATTER][MT_OP_add] && epilogues[MT_OVERLAP_REDUCE][MT_OP_add], "sums with a bias");
    for (int variant = 0; variant < OVERLAP_EPILOGUE_CHANGES; variant++)
        CHECK(changed_epilogues[variant] > 0, "change %d of epilogues", variant);
    CHECK(at_once > 0, "no two wait for peers at once");
    CHECK(reduced_scratch > 0, "no operator needs scratch");
    CHECK(swapped_outputs > 0, "no AllReduce of two tensors of one size");
    for (int kind = MT_ALL_REDUCE; kind <= MT_ALL_GATHER; kind++)
        CHECK(reordered[kind] > 0, "no %s of two pieces", mt_coll_name((enum mt_coll_kind)kind));
    return 0;
}
