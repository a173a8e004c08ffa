/* Options of AddressSanitizer for all fuzzers: stacks of allocations are not kept, and little that was freed.
 * Executions of microseconds would otherwise take 5 to 25 times as long. ASAN_OPTIONS overrides them. */
const char *__asan_default_options(void);

const char *__asan_default_options(void) {
    return "malloc_context_size=0:quarantine_size_mb=4:detect_leaks=1";
}
