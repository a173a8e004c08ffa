/* The pages of what-ifs and purchases. */
#include "tests/cli/report/check.h"

void check_whatif(const json_t *whatif) {
    const json_t *rows = json_object_get(json_array_get(json_object_get(whatif, "models"), 0), "rows"), *row;
    struct picture p = picture_of("alternatives-rates-wide");
    struct scale x = {0};
    size_t k;
    int dots = 0;
    if (!find_scale(&p, true, &x)) differ("rates: no scale");
    json_array_foreach(rows, k, row) {
        if (json_object_get(row, "refused")) continue;
        int found = 0;
        for (int i = 0; i < p.n; i++)
            if (!strcmp(p.elements[i].name, "circle") && !strcmp(p.elements[i].text, text_at(row, "what")))
                found++, same(p.elements[i].text, at_pixel(&x, p.elements[i].cx), real_at(row, "tokens_per_s"), 0,
                              0.02 * pixel_of(&x));
        if (!found) differ("rates: no dot of \"%s\"", text_at(row, "what"));
        dots++;
    }
    if (dots < 2) differ("rates: %d dots", dots);
    free(p.elements);
}

void check_purchase(const json_t *purchase) {
    const json_t *rows = json_object_get(purchase, "rows"), *row;
    struct picture p = picture_of("purchases-wide");
    struct scale x = {0}, y = {0};
    size_t k;
    int dots = 0;
    if (!find_scale(&p, true, &x) || !find_scale(&p, false, &y)) differ("purchases: no scale");
    for (int i = 0; i < p.n; i++) dots += !strcmp(p.elements[i].name, "circle");
    if (dots != (int)json_array_size(rows)) differ("purchases: %d dots, %zu rows", dots, json_array_size(rows));
    json_array_foreach(rows, k, row) {
        double cost = real_at(row, "cost"), time_s = real_at(row, "time_s");
        bool found = false;
        for (int i = 0; i < p.n; i++) {
            const struct element *e = &p.elements[i];
            double slack = y.log ? 0.02 * pixel_of(&y) * time_s : 0.02 * pixel_of(&y);
            found |= !strcmp(e->name, "circle") && fabs(at_pixel(&x, e->cx) - cost) <= 0.02 * pixel_of(&x) &&
                     fabs(at_pixel(&y, e->cy) - time_s) <= slack;
        }
        if (!found) differ("purchases: no dot for a cost of %g and %g s", cost, time_s);
    }
    free(p.elements);
}
