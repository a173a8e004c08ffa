/* Quantiles against values worked out by hand (linear between neighbours, as R's type 7). */
#include "kernels/base/number/stats.h"

#include "tests/check.h"

int main(void) {
    const double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2}, one[] = {7};
    CHECK_NEAR(mt_median(odd, 3), 5, 0);
    CHECK_NEAR(mt_median(even, 4), 2.5, 0);
    CHECK_NEAR(mt_median(one, 1), 7, 0);
    CHECK_NEAR(mt_quantile(even, 4, 0), 1, 0);
    CHECK_NEAR(mt_quantile(even, 4, 1), 4, 0);
    CHECK_NEAR(mt_quantile(even, 4, 0.9), 3.7, 1e-15);
    CHECK_NEAR(odd[0], 9, 0);
    CHECK(isnan(mt_median(odd, 0)), "none");
    return 0;
}
