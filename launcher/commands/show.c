/* motley show: a document as tables, a plan's program, or a graph. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/nearest.h"
#include "kernels/base/text/ranks.h"
#include "launcher/commands/command.h"
#include "launcher/flags/flags.h"
#include "launcher/flags/job_flags.h"
#include "launcher/flags/output.h"
#include "planner/plan/planned.h"
#include "launcher/show/show.h"

enum { KEY_RANK = 'r', KEY_MODEL = 'm', KEY_LOWERED = 0x2000, KEY_JSON };

enum subject { PROGRAM, LAYOUTS, GRAPH, DOCUMENT };
static const char *const subjects[] = {"program", "layouts", "graph"};

struct show_flags {
    struct mt_err *err;
    struct mt_job_flags job;
    struct mt_output output;
    enum subject subject;
    const char *path, *model;
    int64_t rank; /* -1: all */
    bool rank_given, lowered;
};

static const struct argp_option flag_table[] = {
    {"rank", KEY_RANK, "R", 0, "show program: only that of rank R", 1},
    {"lowered", KEY_LOWERED, 0, 0, "show program: lowered for the device, with addresses, streams and events", 1},
    {"model", KEY_MODEL, "TEXT", 0, "show graph: that of a model instead of a plan's: " MT_MODEL_HELP, 1},
    MT_OPTION_JSON(KEY_JSON, 1),
    {0}};

static error_t take_operand(struct show_flags *f, const char *word, int at) {
    struct mt_nearest near = mt_nearest_to(at ? f->path ? f->path : "" : word);
    int which = mt_nearest_find(&near, subjects, DOCUMENT);
    if (!at && which >= 0) return f->subject = (enum subject)which, 0;
    if (!mt_flag_operand("file", word, &f->path, f->err)) return 0;
    if (near.best[0]) mt_nearest_hint(&near, f->err, "%s is no subject: %s", f->path, near.list);
    return EINVAL;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct show_flags *f = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &f->job; return 0;
    case KEY_RANK:
        f->rank_given = true;
        return mt_flag_int("--rank", text, 0, MT_PLAN_MOST_RANKS - 1, &f->rank, f->err) ? EINVAL : 0;
    case KEY_LOWERED: f->lowered = true; return 0;
    case KEY_JSON: return mt_output_flag(text, state, NULL, &f->output, f->err) ? EINVAL : 0;
    case KEY_MODEL: return mt_job_flags_model(&f->job, text, &f->model) ? EINVAL : 0;
    case ARGP_KEY_ARG: return take_operand(f, text, (int)state->arg_num);
    }
    return ARGP_ERR_UNKNOWN;
}

static enum mt_status resolve(struct show_flags *f) {
    if (f->subject != PROGRAM && (f->rank_given || f->lowered))
        return mt_fail(f->err, MT_EINPUT, "--rank and --lowered are for `motley show program FILE`");
    if ((f->output.json || f->output.path) && (f->subject == PROGRAM || f->subject == GRAPH))
        return mt_fail(f->err, MT_EINPUT,
                       "--json is for documents and `show layouts`: programs and graphs are no tables");
    if (f->subject != GRAPH && (f->model || f->job.given))
        return mt_fail(f->err, MT_EINPUT, "--model and the job's flags are for `motley show graph`");
    if (f->path && f->model) return mt_fail(f->err, MT_EINPUT, "show graph: of %s, or of --model?", f->path);
    if (f->path && f->job.given)
        return mt_fail(f->err, MT_EINPUT, "show graph: the job is that of %s; its flags are for --model", f->path);
    if (f->subject == GRAPH && !f->path && !f->model)
        return mt_fail(f->err, MT_EINPUT, "show the graph of what? Name a plan, or a model with --model");
    if (!f->path && !f->model) return mt_fail(f->err, MT_EINPUT, "show what? Name a file");
    return f->subject == GRAPH ? mt_job_flags_resolve(&f->job, f->err)
                               : mt_output_check(&f->output, &f->path, 1, f->err);
}

/* The rank, or those of the class of which it is the first. */
static void print_heading(const int *first_of, int rank, int last) {
    struct mt_arena arena = MT_ARENA_INIT;
    int *ranks = mt_new(&arena, int, last + 1), n = 0;
    for (int r = rank; r <= last; r++)
        if (first_of[r] == rank) ranks[n++] = r;
    if (n == 1)
        printf("rank %d: ", rank);
    else
        printf("%d ranks, %s, whose values have the same sizes; addresses are those of rank %d: ", n,
               mt_ranks_text(ranks, n, MT_RANKS_RANGES, &arena), rank);
    mt_arena_release(&arena);
}

/* Of more than MT_TEXT_RANKS ranks, one of each class. */
static enum mt_status print_lowered(const struct mt_plan *plan, const struct mt_program *program, int first, int last,
                                    struct mt_err *err) {
    struct mt_device *device;
    struct mt_lower_options options;
    enum mt_status st = mt_planned_options_for(plan->device, &device, &options, err);
    if (st) return st;
    int *first_of = mt_malloc((size_t)program->nranks * sizeof *first_of);
    mt_lower_fold(program, NULL, first_of);
    if (last - first < MT_TEXT_RANKS)
        for (int r = first; r <= last; r++) first_of[r] = r;
    for (int r = first; r <= last && !st; r++) {
        struct mt_lowered *lowered;
        if (first_of[r] < r) continue;
        if ((st = mt_lower(program, r, &options, &lowered, err))) break;
        print_heading(first_of, r, last);
        mt_lowered_print(lowered, stdout);
        mt_lowered_free(lowered);
    }
    free(first_of);
    mt_device_close(device);
    return st;
}

/* Ranks of a program are places of the plan's order. Neighbours that are neighbours in both are one entry. */
static void print_places(const struct mt_plan *plan, int first, int last, FILE *file) {
    if (mt_plan_in_order(plan)) return;
    for (int i = first, end; i <= last; i = end) {
        for (end = i + 1; end <= last && plan->order[end] == plan->order[end - 1] + 1;) end++;
        if (i > first) fputs("; ", file);
        if (end - i > 1)
            fprintf(file, "ranks %d-%d of the program are ranks %d-%d of the plan", i, end - 1, plan->order[i],
                    plan->order[end - 1]);
        else
            fprintf(file, "rank %d of the program is rank %d of the plan", i, plan->order[i]);
    }
    fputc('\n', file);
}

static enum mt_status show_layouts(const struct show_flags *f, const struct mt_plan *plan,
                                   const struct mt_program *program, struct mt_err *err) {
    struct mt_tables doc = MT_TABLES_INIT;
    print_places(plan, 0, plan->nplaces - 1, mt_tables_say_begin(&doc));
    mt_tables_say_end(&doc);
    mt_layouts_tables(program, &doc);
    enum mt_status st = mt_output_end(&f->output, &doc, err);
    mt_tables_release(&doc);
    return st;
}

static enum mt_status show_document(const struct show_flags *f, bool *outliers, struct mt_err *err) {
    struct mt_tables doc = MT_TABLES_INIT;
    enum mt_status st = mt_show(f->path, &doc, outliers, err);
    if (!st) st = mt_output_end(&f->output, &doc, err);
    mt_tables_release(&doc);
    return st;
}

static enum mt_status show_program(const struct show_flags *f, struct mt_err *err) {
    struct mt_plan *plan;
    struct mt_planned planned;
    enum mt_status st = mt_plan_read(f->path, &plan, err);
    if (st) return st;
    if (f->rank >= plan->nranks) {
        st = mt_fail(err, MT_EINPUT, "--rank: is %lld, but the plan's ranks are 0 to %d", (long long)f->rank,
                     plan->nranks - 1);
        goto out;
    }
    if ((st = mt_planned_open(plan, &planned, err))) {
        mt_err_context(err, "%s", f->path);
        goto out;
    }
    int place = f->rank_given ? mt_plan_place(plan, (int)f->rank) : 0;
    int first = place, last = f->rank_given ? place : plan->nplaces - 1;
    if (place < 0) {
        st = mt_fail(err, MT_EINPUT, "--rank: rank %lld is idle in %s: it has no program", (long long)f->rank, f->path);
        mt_err_hint(err, "ranks in its \"order\" have one");
    } else {
        if (f->subject != LAYOUTS) print_places(plan, first, last, stdout);
        if (f->subject == LAYOUTS)
            st = show_layouts(f, plan, &planned.program, err);
        else if (f->lowered)
            st = print_lowered(plan, &planned.program, first, last, err);
        else
            mt_program_print(&planned.program, f->rank_given ? first : -1, stdout);
    }
    mt_planned_release(&planned);
out:
    mt_plan_free(plan);
    return st;
}

static enum mt_status show_graph(const struct show_flags *f, struct mt_err *err) {
    struct mt_plan *plan;
    struct mt_planned planned;
    enum mt_status st;
    if (f->path) {
        if ((st = mt_plan_read(f->path, &plan, err))) return st;
    } else {
        plan = mt_plan_new(1);
        plan->model = f->model;
        plan->job = f->job.job;
    }
    if (!(st = mt_planned_graph(plan, &planned, err))) mt_graph_print(planned.graph, stdout);
    mt_planned_release(&planned);
    mt_plan_free(plan);
    return st;
}

int mt_command_show(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    struct show_flags f = {.err = &err, .subject = DOCUMENT, .rank = -1};
    mt_job_flags_init(&f.job, &err);
    struct argp_child children[] = {{mt_job_argp(), 0, "show graph --model: of this job", 2}, {0}};
    bool outliers = false;
    const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .args_doc = "FILE\nlayouts PLAN\nprogram PLAN\ngraph [PLAN]",
        .doc = "Print a document as tables, a plan's layouts by kind of layer, its program, or a training graph.\v"
               "Exits with 6 when a cluster has outliers: a device slower than its class, a bad link, a neighbour that "
               "takes processor time. They are listed below its tables.",
        .children = children};
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    if (!st) st = resolve(&f);
    if (!st) {
        mt_job_flags_say(&f.job);
        switch (f.subject) {
        case DOCUMENT: st = show_document(&f, &outliers, &err); break;
        case PROGRAM:
        case LAYOUTS: st = show_program(&f, &err); break;
        case GRAPH: st = show_graph(&f, &err); break;
        }
    }
    mt_job_flags_release(&f.job);
    if (!st) st = mt_output_flush(&err);
    if (st) return mt_command_fail(&err);
    return outliers ? MT_EXIT_OUTLIERS : MT_EXIT_OK;
}
