/* What the kernel tells of the driver. */
#include "kernels/cuda/facts.h"

#include <stdio.h>
#include <string.h>

void cuda_driver_version(char *text, size_t size) {
    char line[256];
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    *text = 0;
    if (!file) return;
    char *rest = fgets(line, sizeof line, file), *word;
    while (rest && (word = strtok_r(rest, " \t\n", &rest)))
        if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.')) {
            snprintf(text, size, "%s", word);
            break;
        }
    fclose(file);
}
