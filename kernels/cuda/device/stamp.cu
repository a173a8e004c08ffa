/* One thread: when the stream came here, and how far the launch is, into the host's memory (capture.c). A launch's
 * number chooses the slot that its times go to. The nanoseconds are the GPU's; what matters are differences. There is
 * no fence, which would cost more than the rest: times are read when the launch is over, and the mark says nothing
 * about them. */
extern "C" __global__ void stamp(const u64 *launch, u64 *times, u64 slot_stride, u64 *mark, u64 passed) {
    u64 now, number = *launch;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    times[number % SLOTS * slot_stride] = now;
    *(volatile u64 *)mark = number << PASSED_BITS | passed;
}
