/* One thread writes the GPU's time and the progress of the launch into the host's memory (capture.c). A launch's number
 * selects the slot of its times. Times are nanoseconds of the GPU's clock, of which only differences matter. There is
 * no fence, which would cost more than the rest: times are read when the launch is over, and the mark does not vouch
 * for them. */
extern "C" __global__ void timestamp(const u64 *launch, u64 *times, u64 slot_stride, u64 *mark, u64 passed) {
    u64 now, number = *launch;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    times[number % SLOTS * slot_stride] = now;
    *(volatile u64 *)mark = number << PASSED_BITS | passed;
}
