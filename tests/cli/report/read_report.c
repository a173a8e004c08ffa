/* Read a report's pictures and tables back, and compare them with the documents that it was made from:
 *
 *     read_report REPORT.html [cluster=FILE] [plan=FILE] [trace=FILE] [run=FILE] [metrics=FILE] [whatif=FILE]
 *         [purchase=FILE]
 *
 * It ends with 0 if all agree, else with 1 and what does not. With "mutants" as the last word it also alters numbers of
 * the page, one at a time, and ends with 1 if one of them is not noticed. */
#include "tests/cli/report/check.h"

static const struct {
    const char *name;
    void (*check)(const json_t *document);
    const char *pictures[6];
} kinds[] = {{"cluster", check_cluster, {"topology-wide", "roofline-0-wide", "roofline-1-wide"}},
             {"plan", check_plan, {"holders-wide", "memory-wide", "alternatives-wide", "timeline-wide"}},
             {"run", check_run, {"run-ranks-wide", "steps-wide", "tokens-wide"}},
             {"whatif", check_whatif, {"alternatives-rates-wide"}},
             {"purchase", check_purchase, {"purchases-wide"}}};
enum { NKINDS = sizeof kinds / sizeof *kinds };
static json_t *documents[NKINDS];

static int check_all(void) {
    differences = 0;
    for (int k = 0; k < NKINDS; k++)
        if (documents[k]) kinds[k].check(documents[k]);
    return differences;
}

/* The page with the number at `at` larger by `by` and a tenth; the caller frees it. */
static char *altered(const char *whole, size_t at, double by) {
    char *end, *copy = malloc(strlen(whole) + 64);
    double value = strtod(whole + at, &end);
    if (!copy) abort();
    int n = sprintf(copy, "%.*s%.2f", (int)at, whole, value + by + 0.1 * fabs(value));
    strcpy(copy + n, end);
    return copy;
}

/* The number of a path that is the height of its second point. */
static size_t second_height(const char *whole, size_t path) {
    const char *second = strpbrk(whole + path, "L\"");
    return second && *second == 'L' ? (size_t)(strchr(second, ' ') + 1 - whole) : 0;
}

/* What is altered of an element: the place of a dot, a point of a line, the length of a bar; of a topology, where boxes
 * are as large as they come, the thickness of a line and numbers of texts. 0: nothing. */
static size_t number_in(const char *whole, const struct element *e, const char *id) {
    bool legend = e->height == 12 && e->width == 12;
    const char *colon = strstr(e->text, ": ");
    if (e->at_cx) return e->at_cx;
    if (!strcmp(e->name, "path")) return has_class(e, "line") ? second_height(whole, e->at_path) : 0;
    if (strncmp(id, "topology", 8) != 0) return legend || has_class(e, "ground") ? 0 : e->at_width;
    if (has_class(e, "link")) return colon ? e->at_height : e->at_width;
    if (strcmp(e->name, "text") != 0) return 0;
    if (colon) return e->at_text + (size_t)(colon + 2 - e->text);
    return isdigit((unsigned char)e->text[0]) ? e->at_text : 0;
}

/* Alter numbers of pictures, of timelines some. */
static int try_mutants(const char *whole, int *missed) {
    int tried = 0, seen = 0;
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; documents[k] && kinds[k].pictures[i]; i++) {
            const char *id = kinds[k].pictures[i];
            struct picture p;
            if (!find_picture(whole, id, &p)) continue;
            for (int e = 0; e < p.n; e++) {
                size_t at = number_in(whole, &p.elements[e], id);
                if (!at || (!strncmp(id, "timeline", 8) && seen++ % 7)) continue;
                char *copy = altered(whole, at, 4);
                page = copy;
                tried++;
                if (!check_all()) {
                    (*missed)++;
                    fprintf(stderr, "not noticed: %.20s of %s, %s \"%s\"\n", whole + at, id, p.elements[e].class,
                            p.elements[e].text);
                }
                page = whole;
                free(copy);
            }
            free(p.elements);
        }
    return tried;
}

int main(int argc, char **argv) {
    json_error_t error;
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    static char whole[8 << 20];
    if (!file || fread(whole, 1, sizeof whole - 1, file) < 100) return fprintf(stderr, "no report\n"), 2;
    fclose(file);
    page = whole;
    bool mutants = argc > 2 && !strcmp(argv[argc - 1], "mutants");
    for (int i = 2; i < argc - mutants; i++) {
        char *is = strchr(argv[i], '=');
        if (is && !strncmp(argv[i], "metrics=", 8)) {
            if (!read_metrics(is + 1)) return fprintf(stderr, "%s: no rows\n", argv[i]), 2;
            continue;
        }
        json_t *document = is ? json_load_file(is + 1, 0, &error) : NULL;
        if (!document) return fprintf(stderr, "%s: %s\n", argv[i], is ? error.text : "what is it?"), 2;
        if (!strncmp(argv[i], "trace=", 6)) {
            read_trace(document);
            json_decref(document);
            continue;
        }
        for (int k = 0; k < NKINDS; k++)
            if (!strncmp(argv[i], kinds[k].name, (size_t)(is - argv[i]))) documents[k] = document;
    }
    int missed = 0, tried = 0, wrong = check_all();
    if (wrong) return fprintf(stderr, "%d differences\n", wrong), 1;
    quiet = true;
    if (mutants) tried = try_mutants(whole, &missed);
    printf("all agrees; %d of %d altered numbers were noticed\n", tried - missed, tried);
    return missed > 0 || (mutants && !tried);
}
